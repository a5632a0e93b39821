// Unit: parameters of a model that are gathered, reduced and updated together, and its states.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.hpp"
#include "core/base/index_vector.hpp"
#include "core/ir/state.hpp"

namespace lockstep {

enum class InitKind : std::uint8_t { Zeros, Ones, Normal };

/// A parameter of the model, which all ranks know by its name. Its initial values are a function of
/// (seed, name, element index) alone, never of the rank.
struct Parameter {
  std::string name;                      // "blocks.3.attn.wqkv"
  IndexVector<int, std::int64_t> shape;  // of the whole parameter, before it is split or sharded
  InitKind init = InitKind::Normal;
  double init_scale = 0.02;  // standard deviation
  int split_dim = -1;        // the dimension that units with a split group divide; -1: none
  /// Sections of that dimension (such as q, k, v), each of which is divided; their sum is its size.
  std::vector<std::int64_t> sections = {};
  /// Of experts, which are the first dimension: how many of the parts divide these. The others
  /// divide each of them along split_dim, which then is not the first, or without one hold the
  /// same; the members of a split group come in the order (experts, parts of one).
  int first_parts = 1;
  std::int64_t elements() const;
  bool operator==(const Parameter&) const = default;
};
// What the names of adapters end with (LoRA): those of "x" are "x.lora_a" and "x.lora_b".
inline constexpr std::string_view kAdapterDown = ".lora_a", kAdapterUp = ".lora_b";
// What the names of Adafactor's second moments begin with: the means of squares of the rows of "x"
// are "adafactor_rows.x", and those of its columns "adafactor_columns.x".
inline constexpr std::string_view kFactorRows = "adafactor_rows.",
                                  kFactorColumns = "adafactor_columns.";
/// The name of the unit that has the factors of another.
std::string factors_of(const std::string& unit);
/// Whether a parameter belongs to an adapter.
inline bool is_adapter(const Parameter& parameter) {
  return parameter.name.ends_with(kAdapterDown) || parameter.name.ends_with(kAdapterUp);
}
// What the names of the biases end with that balance a router's choices.
inline constexpr std::string_view kRouterBias = ".router_bias";
// And of the scales of a linear layer's factors that follow from earlier steps.
inline constexpr std::string_view kFactorScales = ".fp8_scale";
/// Whether a training adds the parameter to a model which was trained without it, so that a state
/// may lack it.
inline bool may_begin_anew(const Parameter& parameter) {
  return is_adapter(parameter) || parameter.name.ends_with(kRouterBias) ||
         parameter.name.ends_with(kFactorScales) || parameter.name.starts_with(kFactorRows) ||
         parameter.name.starts_with(kFactorColumns);
}

/// Sections [first, end) of a parameter; all of them if `end` is 0. A unit holds some sections only
/// where others are divided over fewer ranks: keys and values of fewer heads than tensor-parallel
/// ranks lie in another unit than the queries.
struct SectionRange {
  int first = 0, end = 0;
  bool all() const { return end == 0; }
  bool holds(std::size_t section) const {
    const auto s = static_cast<std::int64_t>(section);
    return all() || (s >= first && s < end);
  }
  bool operator==(const SectionRange&) const = default;
};

/// How many elements one of `parts` ranks holds of a split parameter: ceil(section / parts) of
/// every section in the range, one after the other. If a section cannot be divided evenly, the last
/// ranks have fewer, then padding. With one part, or without a split, it is all elements.
std::int64_t held_elements(const Parameter& parameter, int parts, SectionRange sections = {});

/// As which matrix a gradient becomes a low-rank product: the parameter's first dimension by all
/// others, as PyTorch's powerSGD_hook takes it.
struct MatrixShape {
  std::int64_t rows = 0, cols = 0;
};
MatrixShape matrix_shape(const Parameter& parameter);

struct UnitParameter {
  ParameterId parameter;
  std::int64_t offset = 0;  // in elements that a rank holds, from the start of the unit
  SectionRange sections{};  // those that the unit holds
  /// If not 0, ranks sum its gradient as a product of so low a rank (PowerSGD, Vogels et al. 2019).
  int low_rank = 0;
  bool operator==(const UnitParameter&) const = default;
};

/// An FSDP unit: parameters that are gathered, reduced and updated together (as a wrapped module),
/// laid out flat.
/// - A unit may be split, by tensor or expert parallelism: member i of `split_group` holds part i
///   of each parameter with a split dimension, as if it were a smaller parameter.
/// - It may be sharded: member i of `shard_group` owns elements [i, i+1) × shard_elements. With
///   `whole_param` a member keeps the moments of its shard only, but the parameters of all members
///   (ZeRO-1 and ZeRO-2).
struct Unit {
  std::string name;
  std::vector<UnitParameter> parameters;
  std::int64_t elements = 0;        // without padding
  std::int64_t shard_elements = 0;  // times the group's size, at least `elements`
  GroupId split_group;              // invalid if it is not split
  GroupId shard_group;              // invalid if it is not sharded
  /// By kind, the persistent buffers of its states; invalid: it has no such state.
  IndexArray<StateKind, BufferId, kNumStateKinds> states;
  GroupId feedback_group;  // the ranks whose gradients are summed; invalid if there is one
  /// If not 0, the moments are quantized states (core/base/quantized_state.hpp) of blocks of so
  /// many elements, which do not go beyond a shard.
  std::int64_t state_block = 0;
  /// The optimizer keeps second moments by rows and columns (Adafactor). They are parameters of
  /// another unit without moments, which is called "<name>.factors" (factors_of()).
  bool factored = false;
  /// If not 0, its first moment holds so many values of each element, one beside the other: what
  /// was measured in the last steps, the newest first (delayed_scale).
  std::int64_t history = 0;
  bool whole_param = false;
  /// With whole_param: a step ends when a rank's own piece is updated, and the next step begins
  /// with an all-gather of the others.
  bool gathered_late = false;
  bool tied_copy = false;  // a second copy of a tied parameter, which is not counted in norms
  bool frozen = false;     // its parameters are only read: it has neither gradients nor states
  bool has(StateKind kind) const { return states[kind].valid(); }
  BufferId param() const { return states[StateKind::Param]; }
  /// The buffer that the optimizer updates.
  BufferId updated() const { return has(StateKind::Master) ? states[StateKind::Master] : param(); }
  /// Calls visit(row, buffer) for every state that it has, in the order of the table.
  template <class Visit>
  void each_state(Visit&& visit) const {
    for (const StateRow& row : kStates) {
      if (has(row.kind)) visit(row, states[row.kind]);
    }
  }
  /// Whether an optimizer updates it: running statistics and factors are updated otherwise.
  bool trained() const { return has(StateKind::Moment1) || factored; }
  bool operator==(const Unit&) const = default;
};

}  // namespace lockstep
