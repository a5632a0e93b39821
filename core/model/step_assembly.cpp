// StepAssembly: makes the steps of one part of a layer from its kernels and communications. Tensors
// get their places, kernels are cut into segments at the communications, and formals get their
// access.
#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "core/base/free_list.hpp"
#include "core/base/index_vector.hpp"
#include "core/ir/parts.hpp"
#include "core/model/function_builder.hpp"

namespace lockstep {
namespace {

// The order of formals in every function, so that programs read alike. A unit with a suffix follows
// the one without ("w_tied" after "w"); communicated tensors come before "ws".
constexpr std::array<std::string_view, 21> kFormalOrder = {
    "w",          "tokens", "images", "positions", "starts",      "targets",    "columns",
    "loss_scale", "x",      "dy",     "saved",     "saved_input", "recomputed", "recomputed_input",
    "stash",      "y",      "dx",     "loss",      "gw",          "statistics", "communicated"};

std::size_t formal_rank(std::string_view name) {
  name = part_of(name).tensor;
  if (name == "ws") return kFormalOrder.size();
  for (const std::string_view unit : {"w", "gw"}) {
    if (name.size() > unit.size() && name.starts_with(unit) && name[unit.size()] == '_')
      name = unit;
  }
  const auto found = std::find(kFormalOrder.begin(), kFormalOrder.end(), name);
  return std::min(to_size(found - kFormalOrder.begin()), kFormalOrder.size() - 1);
}

}  // namespace

class StepAssembly {
 public:
  StepAssembly(const FunctionBuilder& builder, Part parts, bool split,
               const std::vector<std::string>& accumulate, bool again = false)
      : builder_(builder), accumulate_(accumulate) {
    place_tensors(parts, split, again);
    collect(parts);
    if (again) keep_needed();
    place_scratch((bits(parts) & bits(Part::Backward)) != 0);
  }

  std::vector<LayerStep> run(const std::string& name) {
    cut();
    std::vector<LayerStep> steps;
    int segment = 0;
    for (const Cut& cut : cuts_) {
      if (cut.communication) {
        steps.emplace_back(communication(*cut.communication));
      } else {
        steps.emplace_back(
            function(segment == 0 ? name : name + "." + std::to_string(segment), cut.kernels));
        ++segment;
      }
    }
    note_exchanges(steps);
    return steps;
  }

 private:
  using Emitted = FunctionBuilder::Emitted;
  using TensorInfo = FunctionBuilder::TensorInfo;
  enum Home { OwnFormal, Saved, SavedInput, Recomputed, RecomputedInput, Stash, Scratch };

  struct Entry {
    Kernel kernel;  // without operands; not used by a communication
    std::vector<TensorId> in, out;
    const Emitted* communication = nullptr;
    ForwardPart part = ForwardPart::Rest;
  };
  /// A communication, or the kernels of a segment.
  struct Cut {
    std::optional<std::size_t> communication;  // index into entries_
    std::vector<std::size_t> kernels;          // indices into entries_
  };
  struct Use {
    std::string name;
    std::int64_t bytes = 0;
    bool reads = false;
    bool writes = false;
  };

  /// Functions say which communications follow them: what a program must do between them.
  static void note_exchanges(std::vector<LayerStep>& steps) {
    Function* last = nullptr;
    std::vector<Exchange> ahead;  // of the first function
    for (LayerStep& step : steps) {
      if (auto* function = std::get_if<Function>(&step)) {
        if (last == nullptr) function->exchanges = ahead;
        last = function;
      } else {
        const auto& c = std::get<Communication>(step);
        const Exchange whole{c.kind, c.axis, std::string(part_of(c.in.name).tensor),
                             std::string(part_of(c.out.name).tensor)};
        // All parts of a tensor go the same way.
        const bool known = part_of(c.in.name).index > 0;
        if (!known) (last == nullptr ? ahead : last->exchanges).push_back(whole);
      }
    }
  }

  const TensorInfo& info_of(TensorId t) const { return builder_.tensors_[t]; }
  /// Where a tensor is placed: a part is where its whole is.
  std::size_t whole_of(std::size_t t) const {
    return to_size(builder_.whole_of({static_cast<int>(t)}));
  }
  std::int64_t offset_in_home(std::size_t t) const {
    const TensorInfo& tensor = builder_.tensors_[t];
    return offset_[whole_of(t)] + tensor.index * bytes_of(tensor);
  }
  static std::int64_t bytes_of(const TensorInfo& t) { return t.elements * size_of(t.dtype); }
  /// The type in which an entry computes: the layer's, or that of its operands if none of them has
  /// the layer's, as where statistics are combined. Codes stand for values of the layer's type.
  DType arithmetic_type(const Entry& entry) const {
    std::optional<DType> type;
    each_tensor(entry, [&](std::size_t t) {
      const DType own = builder_.tensors_[t].dtype;
      if (own == DType::I32) return;
      if (own == DType::U8) type = builder_.dtype_;
      if (!type || own == builder_.dtype_) type = own;
    });
    return type.value_or(builder_.dtype_);
  }
  bool accumulates(const std::string& formal) const {
    return std::find(accumulate_.begin(), accumulate_.end(), formal) != accumulate_.end();
  }
  /// Calls visit(tensor) for all that an entry touches, a part of which it may be.
  template <class Visit>
  void each_tensor(const Entry& entry, Visit&& visit) const {
    for (const auto* list : {&entry.in, &entry.out}) {
      for (TensorId t : *list) {
        if (t.valid()) visit(whole_of(to_size(t)));
      }
    }
  }

  /// Gives each tensor its place. `again` means that forward is repeated for the backward pass.
  void place_tensors(Part parts, bool split, bool again) {
    const std::size_t count = builder_.tensors_.size();
    home_.assign(count, OwnFormal);
    offset_.assign(count, 0);
    const bool both = parts == Part::Backward && !split;
    for (std::size_t t = 0; t < count; ++t) {
      const TensorInfo& tensor = builder_.tensors_[t];
      if (!tensor.formal.empty()) {
        // Nobody has room for what a block that is computed again to its end gives its successor.
        if (again && (tensor.produced_in & bits(Part::Forward)) != 0) home_[t] = Scratch;
        offset_[t] = tensor.offset * size_of(tensor.dtype);
        continue;
      }
      if (tensor.communicated || tensor.whole.valid()) continue;
      const TensorInfo& life = tensor.beside.valid() ? info_of(tensor.beside) : tensor;
      // Parts that use it without writing it first get it from an earlier part.
      const unsigned given = life.used_in & ~life.produced_in;
      const bool from_forward = (life.produced_in & bits(Part::Forward)) != 0;
      if (from_forward && (given & bits(Part::Backward)) != 0) {
        const bool ends_early = builder_.split_ && (given & bits(Part::WeightGrad)) == 0;
        if (!life.dropped) {
          home_[t] = ends_early ? SavedInput : Saved;
        } else if (parts == Part::Forward && !again) {
          home_[t] = Scratch;
          continue;
        } else {
          home_[t] = ends_early ? RecomputedInput : Recomputed;
        }
      } else if (!both && given == bits(Part::WeightGrad)) {
        home_[t] = Stash;
      } else {
        home_[t] = Scratch;
        continue;
      }
      std::int64_t& end = bytes_[home_[t]];
      offset_[t] = end;
      end += round_up(bytes_of(tensor), FreeList::kAlignment);
    }
  }

  void collect(Part parts) {
    for (const Emitted& emitted : builder_.emitted_) {
      if ((bits(parts) & bits(emitted.part)) == 0) continue;
      Entry entry;
      entry.in = emitted.call.in;
      entry.out = emitted.call.out;
      entry.part = emitted.forward_part;
      if (!emitted.axis.empty()) {
        entry.communication = &emitted;
        entries_.push_back(std::move(entry));
        continue;
      }
      Kernel& kernel = entry.kernel;
      kernel.kind = emitted.kind;
      kernel.dtype = arithmetic_type(entry);
      std::copy(emitted.call.dims.begin(), emitted.call.dims.end(), kernel.dims.begin());
      std::copy(emitted.call.scalars.begin(), emitted.call.scalars.end(), kernel.scalars.begin());
      kernel.accumulate = emitted.call.accumulate;
      if (emitted.part == Part::WeightGrad) {
        kernel.accumulate |= std::any_of(entry.out.begin(), entry.out.end(), [&](TensorId t) {
          return t.valid() && accumulates(info_of(t).formal);
        });
      }
      entries_.push_back(std::move(entry));
    }
    if ((bits(parts) & bits(Part::WeightGrad)) == 0) return;
    for (TensorId pad : builder_.padding_) {
      if (accumulates(info_of(pad).formal)) continue;
      Entry fill;
      fill.kernel.kind = KernelKind::Fill;
      fill.kernel.dtype = info_of(pad).dtype;
      fill.kernel.dims[0] = info_of(pad).elements;
      fill.out = {pad};
      // It comes after the last kernel that writes the formal, because which functions have the
      // formal must not depend on whether there is padding to fill.
      const auto writer = std::find_if(entries_.rbegin(), entries_.rend(), [&](const Entry& entry) {
        return std::any_of(entry.out.begin(), entry.out.end(), [&](TensorId t) {
          return t.valid() && info_of(t).formal == info_of(pad).formal;
        });
      });
      entries_.insert(writer.base(), std::move(fill));
    }
  }

  /// Drops the kernels and communications whose results the backward pass does not need, or has.
  void keep_needed() {
    IndexVector<TensorId, bool> needed(home_.size(), false);
    const auto missing = [&](std::size_t t) {
      const TensorInfo& tensor = builder_.tensors_[t];
      if (home_[t] != OwnFormal) return home_[t] != Saved && home_[t] != SavedInput;
      return tensor.communicated && (tensor.dropped || !builder_.outlives_part(tensor.name));
    };
    for (std::size_t t = 0; t < home_.size(); ++t) {
      const TensorInfo& tensor = builder_.tensors_[t];
      needed[t] = home_[t] == Recomputed || home_[t] == RecomputedInput ||
                  (tensor.communicated && tensor.dropped && builder_.outlives_part(tensor.name));
    }
    std::vector<Entry> kept;
    for (std::size_t e = entries_.size(); e-- > 0;) {
      Entry& entry = entries_[e];
      const bool wanted = builder_.to_end_.has(entry.part) ||
                          std::any_of(entry.out.begin(), entry.out.end(), [&](TensorId t) {
                            return t.valid() && needed[builder_.whole_of(t)];
                          });
      if (!wanted) continue;
      for (TensorId t : entry.in) {
        if (!t.valid()) continue;
        const TensorId whole = builder_.whole_of(t);
        if (missing(to_size(whole))) needed[whole] = true;
      }
      kept.push_back(std::move(entry));
    }
    entries_.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  }

  /// Gives tensors in scratch memory their offsets. It is reused between the kernels of the part,
  /// across its segments. In a backward pass so are tensors beside others.
  void place_scratch(bool with_those_beside) {
    std::vector<int> first(home_.size(), -1);
    std::vector<int> last(home_.size(), -1);
    std::vector<std::vector<std::size_t>> beside(home_.size());
    for (const TensorId t : builder_.tensors_.ids()) {
      const TensorId other = builder_.tensors_[t].beside;
      if (with_those_beside && other.valid())
        beside[whole_of(to_size(other))].push_back(to_size(t));
    }
    const auto each_placed = [&](const Entry& entry, const auto& visit) {
      each_tensor(entry, [&](std::size_t t) {
        visit(t);
        for (const std::size_t other : beside[t]) visit(other);
      });
    };
    for (std::size_t k = 0; k < entries_.size(); ++k) {
      each_placed(entries_[k], [&](std::size_t t) {
        if (first[t] < 0) first[t] = static_cast<int>(k);
        last[t] = static_cast<int>(k);
      });
    }
    FreeList scratch;
    std::vector<FreeList::Lot> lots(home_.size());
    for (std::size_t k = 0; k < entries_.size(); ++k) {
      each_placed(entries_[k], [&](std::size_t t) {
        if (home_[t] == Scratch && first[t] == static_cast<int>(k)) {
          lots[t] = scratch.take(bytes_of(builder_.tensors_[t]));
          offset_[t] = scratch.offset(lots[t]);
          first[t] = -2;  // marks it as placed, because an in-place operand is visited twice
        }
      });
      each_placed(entries_[k], [&](std::size_t t) {
        if (home_[t] == Scratch && last[t] == static_cast<int>(k)) {
          scratch.give_back(lots[t]);
          last[t] = -2;
        }
      });
    }
    bytes_[Scratch] = scratch.high_water();
  }

  /// Cuts the entries into segments. A communication ends the segment that made its input. A kernel
  /// that touches its result, or overwrites its input, begins a segment, so that the kernels before
  /// it do not wait for the communication.
  void cut() {
    std::vector<std::size_t> under_way;  // communications for which no kernel has waited yet
    bool open = false;
    for (std::size_t e = 0; e < entries_.size(); ++e) {
      if (entries_[e].communication != nullptr) {
        cuts_.push_back({e, {}});
        under_way.push_back(e);
        open = false;
        continue;
      }
      const auto waited = std::erase_if(
          under_way, [&](std::size_t c) { return waits_for(entries_[e], entries_[c]); });
      if (!open || waited > 0) cuts_.push_back({std::nullopt, {}});
      cuts_.back().kernels.push_back(e);
      open = true;
    }
  }
  bool waits_for(const Entry& kernel, const Entry& communication) const {
    const TensorId in = communication.in[0];
    const TensorId out = communication.out[0];
    const auto touches = [&](const std::vector<TensorId>& list, TensorId tensor) {
      const TensorId whole = builder_.whole_of(tensor);
      return std::any_of(list.begin(), list.end(), [&](TensorId t) {
        return t == tensor || t == whole ||
               (t.valid() && tensor == whole && builder_.whole_of(t) == whole);
      });
    };
    return touches(kernel.in, out) || touches(kernel.out, out) || touches(kernel.out, in);
  }

  std::string formal_of(std::size_t t) const {
    static constexpr std::array<const char*, 7> kHomes = {
        "", "saved", "saved_input", "recomputed", "recomputed_input", "stash", "ws"};
    const TensorInfo& tensor = builder_.tensors_[whole_of(t)];
    if (home_[whole_of(t)] != OwnFormal) return kHomes[home_[whole_of(t)]];
    const bool is_part = whole_of(t) != t;
    return part_name(tensor.formal.empty() ? tensor.name : tensor.formal,
                     builder_.tensors_[t].index,
                     is_part ? static_cast<int>(tensor.parts.size()) : 1);
  }
  std::int64_t formal_bytes(std::size_t t) const {
    const TensorInfo& tensor = builder_.tensors_[t];
    if (home_[whole_of(t)] != OwnFormal) return bytes_[home_[whole_of(t)]];
    return tensor.formal_elements * size_of(tensor.dtype);
  }

  Communication communication(std::size_t e) const {
    const Entry& entry = entries_[e];
    const auto formal = [&](TensorId id, Access access) {
      const std::size_t t = to_size(id);
      return Formal{formal_of(t), access, Bytes{formal_bytes(t)}};
    };
    const bool in_place = entry.in[0].v == entry.out[0].v;
    Communication made{entry.communication->collective, entry.communication->axis,
                       formal(entry.in[0], in_place ? Access::ReadWrite : Access::Read),
                       formal(entry.out[0], in_place ? Access::ReadWrite : Access::Write)};
    for (std::size_t i = 1; i < entry.in.size(); ++i) {
      made.counts.push_back(formal(entry.in[i], Access::Read));
    }
    if (!made.counts.empty()) {
      made.rows = {static_cast<std::int32_t>(entry.communication->rows),
                   static_cast<std::int32_t>(entry.communication->width *
                                             size_of(info_of(entry.in[0]).dtype))};
    }
    return made;
  }

  /// The formals that kernels use, with what they do to them.
  std::vector<Use> uses_of(const std::vector<std::size_t>& kernels) const {
    std::vector<Use> uses;
    const auto use_of = [&](TensorId id) -> Use& {
      const std::size_t t = to_size(id);
      const std::string formal = formal_of(t);
      const auto found =
          std::find_if(uses.begin(), uses.end(), [&](const Use& u) { return u.name == formal; });
      if (found != uses.end()) return *found;
      uses.push_back({formal, formal_bytes(t)});
      return uses.back();
    };
    IndexVector<TensorId, bool> written(home_.size(), false);
    const auto is_written = [&](TensorId t) {
      const std::vector<TensorId>& parts = info_of(t).parts;
      return written[t] || written[builder_.whole_of(t)] ||
             (!parts.empty() &&
              std::all_of(parts.begin(), parts.end(), [&](TensorId p) { return written[p]; }));
    };
    for (std::size_t e : kernels) {
      for (TensorId t : entries_[e].in) {
        if (t.valid()) use_of(t).reads |= !is_written(t);
      }
      const Kernel& kernel = entries_[e].kernel;
      for (std::size_t i = 0; i < entries_[e].out.size(); ++i) {
        const TensorId t = entries_[e].out[i];
        if (!t.valid()) continue;
        Use& use = use_of(t);
        use.writes = true;
        const bool adds =
            kernel.accumulate && info(kernel.kind).out[i].effect == Effect::Accumulate;
        use.reads |= (adds || updates_in_place(kernel)) && !is_written(t);
        written[t] = true;
      }
    }
    std::stable_sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) {
      const std::size_t x = formal_rank(a.name);
      const std::size_t y = formal_rank(b.name);
      return x != y ? x < y : a.name < b.name;
    });
    return uses;
  }

  Function function(std::string name, const std::vector<std::size_t>& kernels) const {
    Function function;
    std::string added;
    for (const Use& use : uses_of(kernels)) {
      const Access access = !use.writes ? Access::Read
                            : use.reads ? Access::ReadWrite
                                        : Access::Write;
      function.formals.push_back({use.name, access, Bytes{use.bytes}});
      if (use.writes && accumulates(use.name)) added += (added.empty() ? "+" : ",") + use.name;
    }
    function.name = std::move(name) + added;
    const auto operand = [&](TensorId id) -> Operand {
      if (!id.valid()) return {};
      const std::size_t t = to_size(id);
      const std::string formal = formal_of(t);
      const auto found = std::find_if(function.formals.begin(), function.formals.end(),
                                      [&](const Formal& f) { return f.name == formal; });
      return {static_cast<std::int16_t>(found - function.formals.begin()),
              builder_.tensors_[t].dtype,
              home_[whole_of(t)] == OwnFormal ? offset_[t] : offset_in_home(t)};
    };
    for (std::size_t e : kernels) {
      Kernel kernel = entries_[e].kernel;
      if (kernel.kind != KernelKind::Delay) {  // a delay has no operands, only formals
        for (TensorId t : entries_[e].in) kernel.in.push_back(operand(t));
        for (TensorId t : entries_[e].out) kernel.out.push_back(operand(t));
      }
      function.kernels.push_back(std::move(kernel));
    }
    return function;
  }

  const FunctionBuilder& builder_;
  const std::vector<std::string>& accumulate_;
  std::vector<Home> home_;                         // by tensor
  std::vector<std::int64_t> offset_;               // by tensor, in bytes
  std::array<std::int64_t, Scratch + 1> bytes_{};  // by home
  std::vector<Entry> entries_;
  std::vector<Cut> cuts_;
};

std::vector<LayerStep> FunctionBuilder::forward() const {
  return StepAssembly(*this, Part::Forward, false, {}).run(layer_name_ + ".F");
}
std::vector<LayerStep> FunctionBuilder::recomputation() const {
  return StepAssembly(*this, Part::Forward, false, {}, true).run(layer_name_ + ".R");
}
std::vector<LayerStep> FunctionBuilder::backward(Part part,
                                                 const std::vector<std::string>& accumulate) const {
  return StepAssembly(*this, part, true, accumulate)
      .run(layer_name_ + (part == Part::InputGrad ? ".I" : ".W"));
}
std::vector<LayerStep> FunctionBuilder::backward(const std::vector<std::string>& accumulate) const {
  return StepAssembly(*this, Part::Backward, false, accumulate).run(layer_name_ + ".B");
}

}  // namespace lockstep
