// Muon: the update of a unit that consists of matrices (Jordan et al. 2024). Momentum makes a
// direction of the gradient, Newton-Schulz iterations make its matrices orthogonal, and the weights
// move by them.
//
// For that a matrix must be whole. Where data-parallel ranks share the states of a unit, they
// gather their shards of the direction; where ranks divide a matrix, they gather its parts. Every
// rank then orthogonalizes all matrices of its unit ("duplicated", as NVIDIA's Megatron calls it),
// and keeps what it updates. Experts are whole wherever they are. Momentum and weights stay
// divided.
#include "core/lower/update/muon.hpp"

#include <algorithm>
#include <memory>
#include <string>

#include "core/lower/draft/gradients.hpp"
#include "core/lower/update/newton_schulz.hpp"
#include "core/lower/update/update_rule.hpp"

namespace lockstep {

std::vector<HeldMatrix> matrices_of(const Program& program, const OptimizerSpec& optimizer,
                                    const UnitLayout& layout, const Unit& unit) {
  std::vector<HeldMatrix> matrices;
  const int parts = split_parts(program, unit);
  for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
    const Parameter& parameter = layout.parameters[i];
    const bool experts = parameter.shape.size() == 3;
    const bool divided = !experts && parameter.split_dim >= 0 && parts > 1;
    const std::int64_t cols = parameter.shape[parameter.shape.size() - 1];
    std::int64_t offset = layout.offsets[i];
    const std::int64_t count =
        !experts ? 1 : parameter.shape[0] / (parameter.split_dim == 0 ? parts : 1);
    for (std::int64_t expert = 0; expert < count; ++expert) {
      const std::vector<std::int64_t>& sections = layout.matrix_rows[i];
      for (std::size_t s = 0; s < sections.size(); ++s) {
        if (!layout.sections[i].holds(s)) continue;
        HeldMatrix matrix{offset, sections[s], cols};
        matrix.factor = optimizer.adjustment(sections[s], cols);
        if (divided) {
          matrix.parts = parts;
          matrix.by_columns = parameter.split_dim == 1;
          std::int64_t& side = matrix.by_columns ? matrix.cols : matrix.rows;
          side = ceil_div(side, parts);
        }
        offset += matrix.elements();
        matrices.push_back(matrix);
      }
    }
  }
  return matrices;
}

namespace {

class MuonStep {
 public:
  explicit MuonStep(UnitUpdate& u)
      : u_(u), type_(type_of(u.optimizer().ns_dtype, u.training().dtype)) {}

  /// Makes the direction of the unit, and gathers it if ranks share its states.
  void begin() {
    const OptimizerSpec& o = u_.optimizer();
    const std::int64_t elements = u_.elements();
    const BufferId moment = u_.state(StateKind::Moment1);
    const BufferId direction = workspace("direction", elements);
    std::vector<BufferId> args = u_.gradient_and_coefficient_args();
    args.insert(args.end(), {moment, direction});
    u_.call(one_kernel("momentum." + std::to_string(elements),
                       kernel(KernelKind::Momentum, {o.momentum, o.nesterov ? 1.0 : 0.0}),
                       u_.gradient_and_coefficient(),
                       {{"m", u_.dtype_of(moment)}, {"direction", type_}}),
            args);
    direction_ = direction;
    if (!gathers()) return;
    const int shards =
        group_size(u_.draft.program.mesh, u_.draft.program.group(u_.unit().shard_group));
    direction_ = workspace("directions", elements * shards);
    u_.communicate(OpKind::AllGather, Stream::Gather, u_.unit().shard_group,
                   {direction, direction_});
  }

  /// Orthogonalizes the direction and moves the rank's shard of the weights by it.
  void finish() {
    zero_padding();
    orthogonalize_all();
    const OptimizerSpec& o = u_.optimizer();
    std::vector<BufferId> args = u_.gradient_and_coefficient_args();
    args[0] = gathers() ? add_piece(u_.role, direction_, u_.unit().shard_group,
                                    Bytes{u_.elements() * size_of(type_)})
                        : direction_;
    args.push_back(u_.weights());
    const Kernel move = kernel(KernelKind::Muon, {o.muon_lr_factor(), o.weight_decay});
    std::vector<NamedOperand> in = u_.gradient_and_coefficient();
    in[0] = {"direction", type_};
    u_.call(one_kernel("muon." + std::to_string(u_.elements()), move, in, {{"w", move.dtype}}),
            args);
  }

  bool gathers() const { return u_.unit().shard_group.valid(); }

 private:
  Kernel kernel(KernelKind kind, std::array<double, 4> scalars) const {
    return bare_kernel(kind, u_.draft.dtype_of(BufferKind::Master), {u_.elements()}, scalars);
  }
  BufferId workspace(const char* name, std::int64_t elements) const {
    return u_.buffer(BufferKind::Workspace, name, elements, type_);
  }

  void zero_padding() {
    const std::int64_t size = size_of(type_), elements = u_.unit().elements;
    const std::int64_t padding = u_.role.buffer(direction_).bytes.v / size - elements;
    if (padding == 0) return;
    u_.call(one_kernel("zero_direction." + std::to_string(padding),
                       bare_kernel(KernelKind::Fill, type_, {padding}), {}, {{"direction", type_}}),
            {add_view(u_.role, direction_, elements * size, Bytes{padding * size})});
  }

  /// Gathers each matrix that ranks divide while the one before it is computed.
  void orthogonalize_all() {
    const std::int64_t size = size_of(type_);
    const std::vector<HeldMatrix> matrices =
        matrices_of(u_.draft.program, u_.optimizer(), u_.layout(), u_.unit());
    const GroupId group = u_.unit().split_group;
    std::vector<BufferId> own, whole;  // by matrix: what the rank holds, and all parts of it
    const auto bring = [&](std::size_t k) {
      const HeldMatrix& matrix = matrices[k];
      own.push_back(
          add_view(u_.role, direction_, matrix.offset * size, Bytes{matrix.elements() * size}));
      whole.push_back(own[k]);
      if (matrix.parts == 1) return;
      whole[k] = workspace("matrix", matrix.elements() * matrix.parts);
      u_.communicate(OpKind::AllGather, Stream::Layer, group, {own[k], whole[k]});
    };
    bring(0);
    for (std::size_t k = 0; k < matrices.size(); ++k) {
      if (k + 1 < matrices.size()) bring(k + 1);
      const HeldMatrix& matrix = matrices[k];
      orthogonalize(matrix, whole[k]);
      if (matrix.parts == 1) continue;
      const BufferId part = add_piece(u_.role, whole[k], group, Bytes{matrix.elements() * size});
      u_.call(copy_function(u_.draft, matrix.elements(), type_, type_, false), {part, own[k]});
    }
  }

  void orthogonalize(const HeldMatrix& matrix, BufferId whole) {
    NewtonSchulz what;
    what.rows = matrix.rows * (matrix.by_columns ? 1 : matrix.parts);
    what.cols = matrix.cols * (matrix.by_columns ? matrix.parts : 1);
    what.column_parts = matrix.by_columns ? matrix.parts : 1;
    what.dtype = type_;
    what.tf32 = type_ == DType::F32 && u_.draft.scenario.cluster.device.tf32_rate.v > 0 &&
                u_.training().float32_matmul == Float32Products::Tf32;
    what.steps = u_.optimizer().ns_steps;
    what.factor = matrix.factor;
    const std::int64_t n = std::min(what.rows, what.cols);
    const BufferId other = workspace("other", what.rows * what.cols);
    const BufferId product = workspace("product", n * n);
    const BufferId polynomial = workspace("polynomial", n * n);
    const BufferId norm = u_.buffer(BufferKind::Workspace, "norm", 1, sum_type(type_));
    u_.call(newton_schulz(what), {whole, other, product, polynomial, norm});
  }

  UnitUpdate& u_;
  const DType type_;    // in which matrices are orthogonalized
  BufferId direction_;  // of all shards of the unit
};

std::vector<UpdatePart> muon_parts(UnitUpdate& update) {
  const auto step = std::make_shared<MuonStep>(update);
  return {{step->gathers() ? Lead::OneUnit : Lead::None, [step] { step->begin(); }},
          {Lead::None, [step] { step->finish(); }}};
}

}  // namespace

const UpdateRule update_rules::kMuon{
    .keeps = keeps_one_moment,
    .parts = muon_parts,
};

}  // namespace lockstep
