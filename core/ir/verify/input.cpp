// Input: checks that samples and tables agree with the mesh, and copies from the host with them.
#include <algorithm>

#include "core/ir/verify/internal.hpp"

namespace lockstep::verification {
namespace {

bool dims_exist(const Program& program, const std::vector<int>& dims) {
  IndexVector<int, bool> seen(program.mesh.dims.size());
  for (const int dim : dims) {
    if (!in_table(dim, program.mesh.dims) || seen[dim]) return false;
    seen[dim] = true;
  }
  return true;
}

/// How many elements a buffer holds: ids, which have 4 bytes, or elements of its own type.
std::int64_t elements(const Buffer& buffer, bool ids) {
  return buffer.bytes.v / (ids ? 4 : size_of(buffer.dtype));
}

class InputCheck {
 public:
  InputCheck(const Program& program, Faults& faults) : program_(program), faults_(faults) {}

  void run() {
    // A program without samples can only be simulated, and nobody reads what its copies bring.
    if (!samples() || !tables() || in().kind == SampleKind::None) return;
    IndexVector<FunctionId, bool> begins;  // whether gradients may begin in the function
    for (const Function& function : program_.functions) {
      const auto& kernels = function.kernels;
      begins.push_back(std::any_of(kernels.begin(), kernels.end(), begins_gradients));
    }
    for (const Role& role : program_.roles) {
      IndexVector<BufferId, bool> targets(role.buffers.size());  // roots that hold targets
      for (const OpId id : role.ops.ids()) {
        const Op& op = role.op(id);
        if (op.kind == OpKind::Call && begins[op.function()]) {
          losses(role, id, targets);
          scaled(role, id);
        }
        if (op.kind == OpKind::Call && op.layer < 0) drops(role, id);
        if (op.kind != OpKind::HostToDevice || op.moves_memory()) continue;
        copy(role, id);
        if (op.host() != HostData::Targets) continue;
        targets[role.root(role.args_of(op)[0])] = true;
      }
    }
  }

 private:
  const Samples& in() const { return program_.input.samples; }

  static bool is_loss(const Kernel& kernel) {
    return kernel.kind == KernelKind::CrossEntropy ||
           kernel.kind == KernelKind::CrossEntropyParallel;
  }
  static bool begins_gradients(const Kernel& kernel) {
    const bool balance =
        kernel.kind == KernelKind::RouteBackward || kernel.kind == KernelKind::RouteBalance;
    return is_loss(kernel) || (balance && kernel.scalars[0] != 0);
  }

  bool samples() {
    if (in().kind == SampleKind::None) return true;
    if (!dims_exist(program_, in().over)) {
      faults_.add("samples: the dimensions that divide them are not different ones of the mesh");
      return false;
    }
    const std::int64_t shares = size_over(program_.mesh, in().over);
    if (in().length < 1 || in().classes < 1 || in().microbatch < 1 ||
        in().per_step % (shares * in().microbatch) != 0) {
      faults_.add("samples: " + number(in().per_step) + " of a step do not divide into " +
                  number(shares) + " shares of microbatches of " + number(in().microbatch));
      return false;
    }
    if (program_.tokens_per_step != in().per_step * in().targets()) {
      faults_.add("samples: " + number(in().per_step) + " of " + number(in().targets()) +
                  " targets each are not tokens_per_step " + number(program_.tokens_per_step));
    }
    return true;
  }

  bool tables() {
    for (const IndexTable& table : program_.input.tables) {
      const std::string name = "table " + std::string(to_string(table.kind));
      if (!dims_exist(program_, table.dims)) {
        faults_.add(name + ": its dimensions are not different ones of the mesh");
        return false;
      }
      const std::int64_t wanted = size_over(program_.mesh, table.dims);
      if (static_cast<std::int64_t>(table.lists.size()) != wanted) {
        faults_.add(name + " has " + number(static_cast<std::int64_t>(table.lists.size())) +
                    " lists; its dimensions have " + number(wanted) + " coordinates");
        return false;
      }
      for (const IndexList& list : table.lists) {
        if (!sound(name, table.kind, list)) return false;
      }
    }
    return true;
  }

  bool sound(const std::string& name, TableKind kind, const IndexList& list) {
    std::int32_t largest = 0;
    for (const IndexRange& range : list.ranges) {
      if (range.first < 0 || range.last < range.first) {
        faults_.add(name + ": a range does not go up from an integer that is not negative");
        return false;
      }
      largest = std::max(largest, range.last);
    }
    const std::int64_t size = list.size(), own = program_.input.table(kind)->lists[0].size();
    const bool single = kind == TableKind::Shift;
    if (size == 0 || (single && size != 1)) {
      faults_.add(name + ": a list of " + number(size) + " integers");
      return false;
    }
    if (kind == TableKind::Rows && size != own) {
      faults_.add(name + ": a rank holds rows in as many places as every other");
      return false;
    }
    if (kind == TableKind::Heads && size != own) {
      faults_.add(name + ": a rank attends with as many heads as every other");
      return false;
    }
    if (kind != TableKind::Order && kind != TableKind::Queries) return true;
    if (size != own || size > in().length || largest >= in().length) {
      faults_.add(name + ": a rank takes equally many tokens of a sample's " + number(in().length) +
                  ", and no other");
      return false;
    }
    return true;
  }

  void copy(const Role& role, OpId id) {
    const Op& op = role.op(id);
    const Buffer& buffer = role.buffer(role.args_of(op)[0]);
    const auto fault = [&](const std::string& what) {
      faults_.add(op_at(program_, role, id) + ": " + what);
    };
    const auto wants = [&](TableKind kind) {
      if (program_.input.table(kind) == nullptr) {
        fault("there is no table " + std::string(to_string(kind)));
      }
    };
    switch (op.host()) {
      case HostData::Tokens:
      case HostData::Targets:
      case HostData::Images:
      case HostData::Documents:
      case HostData::DocumentSpans:
      case HostData::DocumentPositions:
      case HostData::Windows:
        return batch(op, buffer, fault);
      case HostData::DropoutKeys:
      case HostData::AllDropoutKeys:
        return keys(op, buffer, fault);
      case HostData::AttentionDropout:
        return attention_dropout(op, buffer, fault);
      case HostData::Positions:
        return wants(TableKind::Positions);
      case HostData::Starts:
        return wants(TableKind::Starts);
      case HostData::Columns:
        return wants(TableKind::Columns);
      case HostData::Part:
        return wants(TableKind::Parts);
      case HostData::Shards:
        return wants(TableKind::Shards);
      case HostData::LossScale:
        if (!program_.training.loss_scaling) return fault("the training has no loss scale");
        if (buffer.dtype != DType::F32 || buffer.bytes.v != size_of(DType::F32)) {
          fault("a loss scale is one float32");
        }
        return;
      default:
        return fault("only the other way");  // loss and norm go to the host
    }
  }

  /// Faults an op without a layer if its function has dropout, whose random bits depend on it.
  void drops(const Role& role, OpId id) {
    const Op& op = role.op(id);
    for (const Kernel& kernel : program_.function(op.function()).kernels) {
      const bool attends = kernel.kind == KernelKind::AttentionForward ||
                           kernel.kind == KernelKind::AttentionBackward;
      if (kernel.kind != KernelKind::Dropout && !(attends && kernel.scalars[0] > 0)) continue;
      return faults_.add(op_at(program_, role, id) + ": dropout in an op that has no layer");
    }
  }

  /// Checks that logits have a column for every target. Logits that are divided over ranks need
  /// not: a rank has some of their columns, and another kernel reads them.
  void losses(const Role& role, OpId id, const IndexVector<BufferId, bool>& targets) {
    const Op& op = role.op(id);
    for (const Kernel& kernel : program_.function(op.function()).kernels) {
      if (kernel.kind != KernelKind::CrossEntropy || kernel.dims[1] >= in().classes) continue;
      const std::int32_t formal = kernel.in[1].formal;
      const BufferId root = role.root(role.args_of(op)[to_size(formal)]);
      if (!targets[root]) continue;
      faults_.add(op_at(program_, role, id) + ": targets are below " + number(in().classes) +
                  ", its cross_entropy has " + number(kernel.dims[1]) + " columns");
    }
  }

  /// Checks that where gradients begin they are multiplied by the loss scale, or nowhere. That they
  /// are divided by it before they are used is a part of their meaning (update_calls.cpp).
  void scaled(const Role& role, OpId id) {
    for (const Kernel& kernel : program_.function(role.op(id).function()).kernels) {
      if (!begins_gradients(kernel)) continue;
      const std::vector<OperandRow>& rows = info(kernel.kind).in;
      const auto scale = std::find_if(
          rows.begin(), rows.end(), [](const OperandRow& row) { return row.name == "loss_scale"; });
      const std::size_t at = to_size(scale - rows.begin());
      const bool given = at < kernel.in.size() && kernel.in[at].present();
      if (given == program_.training.loss_scaling.has_value()) continue;
      faults_.add(op_at(program_, role, id) + ": " + std::string(info(kernel.kind).name) +
                  (given ? " reads a loss scale, which the training does not have"
                         : " does not multiply its gradient by the loss scale"));
    }
  }

  template <class Fault>
  void batch(const Op& op, const Buffer& buffer, const Fault& fault) {
    const bool images = op.host() == HostData::Images;
    const bool tokens = op.host() == HostData::Tokens;
    if ((images && in().kind != SampleKind::Images) ||
        (tokens && in().kind != SampleKind::Tokens)) {
      return fault("the program's samples are " + std::string(to_string(in().kind)));
    }
    const bool spans = op.host() == HostData::DocumentSpans;
    const bool windows = op.host() == HostData::Windows;
    const bool queries = spans || windows || op.host() == HostData::Documents;
    const bool documents = (queries && !windows) || op.host() == HostData::DocumentPositions;
    if (windows && in().window < 1) {
      return fault("the program's samples do not say how long a window is: they need window");
    }
    if (documents && in().document_end < 0) {
      return fault("the program's samples have no documents: they need document_end");
    }
    const IndexTable* const order =
        program_.input.table(queries ? TableKind::Queries : TableKind::Order);
    const std::int64_t row = images             ? in().inputs()
                             : order != nullptr ? order->lists[0].size()
                                                : in().targets();
    const std::int64_t wanted = in().microbatch * row * (spans ? 2 : 1);
    if (elements(buffer, !images) != wanted) {
      fault("its buffer has room for " + number(elements(buffer, !images)) +
            " elements, a microbatch has " + (spans ? "2 × " : "") + number(in().microbatch) +
            " × " + number(row));
    }
    microbatch(op, fault);
  }

  /// Checks that the rows whose keys are brought lie within a microbatch of the rank.
  template <class Fault>
  void keys(const Op& op, const Buffer& buffer, const Fault& fault) {
    if (in().kind != SampleKind::Tokens) return fault("the program's samples are not tokens");
    const IndexTable* const order = program_.input.table(TableKind::Order);
    const bool whole = op.host() == HostData::AllDropoutKeys;
    const IndexTable* const rows = whole ? nullptr : program_.input.table(TableKind::Rows);
    const std::int64_t all =
        in().microbatch * (order != nullptr ? order->lists[0].size() : in().targets());
    std::int64_t last = 0, places = 1;  // where rows begin
    if (rows != nullptr) {
      places = rows->lists[0].size();
      for (const IndexList& list : rows->lists) {
        for (const IndexRange& range : list.ranges) last = std::max<std::int64_t>(last, range.last);
      }
    }
    const std::int64_t room = elements(buffer, true);
    if (room % places != 0) {
      fault("its buffer has room for " + number(room) + " rows, which are not equally many from " +
            number(places) + " rows on");
    } else if (last + room / places > all) {
      fault("its buffer has room for " + number(room / places) + " rows from row " + number(last) +
            " on, a microbatch has " + number(all));
    }
    microbatch(op, fault);
  }

  /// Checks that there is a number for every head and a key for every token of a microbatch.
  template <class Fault>
  void attention_dropout(const Op& op, const Buffer& buffer, const Fault& fault) {
    if (in().kind != SampleKind::Tokens) return fault("the program's samples are not tokens");
    const IndexTable* const queries = program_.input.table(TableKind::Queries);
    const IndexTable* const heads = program_.input.table(TableKind::Heads);
    const std::int64_t rows =
        in().microbatch * (queries != nullptr ? queries->lists[0].size() : in().targets());
    const std::int64_t room = elements(buffer, true) - rows;
    if (heads != nullptr ? room != heads->lists[0].size() : room < 1) {
      fault("its buffer has room for " + number(elements(buffer, true)) +
            " elements, a microbatch has " + number(rows) + " tokens, and the rank " +
            (heads != nullptr ? number(heads->lists[0].size()) : "one or more") + " heads");
    }
    microbatch(op, fault);
  }

  template <class Fault>
  void microbatch(const Op& op, const Fault& fault) {
    const std::int64_t share = in().per_step / size_over(program_.mesh, in().over);
    if (std::max(op.microbatch, 0) >= share / in().microbatch) {
      fault("a rank's share of a step has " + number(share / in().microbatch) + " microbatches");
    }
  }

  const Program& program_;
  Faults& faults_;
};

}  // namespace

void check_input(const Program& program, Faults& faults) { InputCheck(program, faults).run(); }

}  // namespace lockstep::verification
