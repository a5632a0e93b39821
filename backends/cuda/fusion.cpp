#include "backends/cuda/fusion.hpp"

#include <algorithm>
#include <cstdint>

namespace lockstep::cuda {
namespace {

/// Bytes [begin, end) of a buffer.
struct Range {
  std::int32_t buffer = -1;
  std::int64_t begin = 0, end = 0;
  bool overlaps(const Range& other) const {
    return buffer == other.buffer && begin < other.end && other.begin < end;
  }
  bool covers(const Range& other) const {
    return buffer == other.buffer && begin <= other.begin && other.end <= end;
  }
};

class OpKernels {
 public:
  OpKernels(const Program& program, const Role& role, const Op& op)
      : role_(role), op_(op), kernels_(program.function(op.function()).kernels) {}

  const std::vector<Kernel>& kernels() const { return kernels_; }
  Range input(const Kernel& kernel, std::size_t i) const {
    return range(kernel.in[i], input_elements(kernel, i));
  }
  Range output(const Kernel& kernel, std::size_t i) const {
    return range(kernel.out[i], output_elements(kernel, i));
  }

  /// Whether kernel j can run in the epilogue of kernel i, as far as these two are concerned.
  bool fits(std::size_t i, std::size_t j) const {
    const Kernel& product = kernels_[i];
    const Kernel& next = kernels_[j];
    const bool forward = next.kind == KernelKind::GeluForward;
    if (product.kind != KernelKind::Gemm || product.accumulate) return false;
    if (!forward && next.kind != KernelKind::GeluBackward) return false;
    if (product.in.size() > 3 && product.in[3].present()) return false;  // it has a residual
    const Range c = output(product, 0), y = output(next, 0);
    if (!(next.in[0] == product.out[0]) || next.dtype != product.dtype ||
        product.out[0].dtype != product.dtype ||
        next.dims[0] != product.dims[0] * product.dims[1]) {
      return false;
    }
    // The product must not read what the epilogue writes.
    for (std::size_t k = 0; k < product.in.size(); ++k) {
      if (product.in[k].present() && input(product, k).overlaps(y)) return false;
    }
    if (forward) return !c.overlaps(y);
    if (product.in.size() > 2 && product.in[2].present()) return false;  // it has a bias
    const Range x = input(next, 1);
    return !x.overlaps(c) && !x.overlaps(y);
  }

  /// Whether kernel j may be moved up to directly after kernel i.
  bool moves_up(std::size_t i, std::size_t j) const {
    const Range c = output(kernels_[i], 0), y = output(kernels_[j], 0);
    for (std::size_t k = i + 1; k < j; ++k) {
      for (std::size_t o = 0; o < kernels_[k].in.size(); ++o) {
        if (kernels_[k].in[o].present() && input(kernels_[k], o).overlaps(y)) return false;
      }
      for (std::size_t o = 0; o < kernels_[k].out.size(); ++o) {
        if (!kernels_[k].out[o].present()) continue;
        const Range written = output(kernels_[k], o);
        if (written.overlaps(y) || written.overlaps(c)) return false;
        for (std::size_t n = 0; n < kernels_[j].in.size(); ++n) {
          if (kernels_[j].in[n].present() && input(kernels_[j], n).overlaps(written)) return false;
        }
      }
    }
    return true;
  }

  /// Whether any kernel from `first` on, except `except`, reads what is in `range`. Sets
  /// `rewritten` if the range is overwritten here, so that no later op can read it.
  bool reads(std::size_t first, std::size_t except, const Range& range, bool& rewritten) const {
    for (std::size_t i = first; i < kernels_.size() && !rewritten; ++i) {
      if (i == except) continue;
      const Kernel& kernel = kernels_[i];
      for (std::size_t k = 0; k < kernel.in.size(); ++k) {
        if (kernel.in[k].present() && input(kernel, k).overlaps(range)) return true;
      }
      for (std::size_t k = 0; k < kernel.out.size(); ++k) {
        if (!kernel.out[k].present()) continue;
        const Range written = output(kernel, k);
        if (output_is_read(kernel, k) && written.overlaps(range)) return true;
        rewritten |= written.covers(range);
      }
    }
    return false;
  }

 private:
  Range range(const Operand& operand, std::int64_t elements) const {
    const BufferId id = role_.args_of(op_)[to_size(operand.formal)];
    const BufferId root = role_.root(id);
    const std::int64_t begin = role_.arena_offset(id) - role_.arena_offset(root) + operand.offset;
    return {root.v, begin, begin + elements * size_of(operand.dtype)};
  }

  const Role& role_;
  const Op& op_;
  const std::vector<Kernel>& kernels_;
};

/// The last op that may use a buffer; invalid if the buffer lives beyond the step.
OpId end_of(const Role& role, std::int32_t buffer) { return role.buffer({buffer}).last(); }

/// Whether anything except kernel j of op `id` reads `range` after kernel i of that op and before
/// the range is written again.
bool is_read(const Program& program, const Role& role, OpId id, std::size_t i, std::size_t j,
             const Range& range) {
  bool rewritten = false;
  if (OpKernels(program, role, role.op(id)).reads(i + 1, j, range, rewritten)) return true;
  const OpId last = end_of(role, range.buffer);
  if (!last.valid()) return !rewritten;
  for (std::int32_t at = id.v + 1; at <= last.v && !rewritten; ++at) {
    const Op& op = role.op({at});
    const auto args = role.args_of(op);
    const bool uses = std::any_of(args.begin(), args.end(),
                                  [&](BufferId arg) { return role.root(arg).v == range.buffer; });
    if (!uses) continue;
    if (op.kind != OpKind::Call || op.stream != role.op(id).stream) return true;
    const OpKernels kernels(program, role, op);
    if (kernels.reads(0, kernels.kernels().size(), range, rewritten)) return true;
  }
  return false;
}

}  // namespace

std::vector<int> epilogues(const Program& program, const Role& role, OpId id) {
  const OpKernels own(program, role, role.op(id));
  const std::vector<Kernel>& kernels = own.kernels();
  std::vector<int> taken(kernels.size(), -1);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i].kind != KernelKind::Gemm) continue;
    std::size_t j = i + 1;
    while (j < kernels.size() && !own.fits(i, j)) ++j;
    if (j == kernels.size() || !own.moves_up(i, j)) continue;
    const Range c = own.output(kernels[i], 0);
    const bool leaves_it =
        kernels[j].kind == KernelKind::GeluForward || own.output(kernels[j], 0).covers(c);
    if (leaves_it || !is_read(program, role, id, i, j, c)) taken[i] = static_cast<int>(j);
  }
  return taken;
}

}  // namespace lockstep::cuda
