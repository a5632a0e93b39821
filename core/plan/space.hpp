// Space: the layouts that a cluster allows for a model and a batch, as points that are cheap to
// list, and constraints on them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/plan/layouts.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

inline constexpr int kLargestMicrobatch = 16;  // in sequences
inline constexpr int kMostImagesAtOnce = 256;  // the same, in images, which are smaller

/// Among how many ranks a layout divides the model: all that the cluster has room for. Where ranks
/// share a device, more of them make nothing faster, so there it is as many as `base` has, unless
/// that is one.
int ranks_to_divide(const Scenario& base);
/// Tensor parallelism inside a node, context parallelism in pieces of 4,096 tokens or more, at
/// least a block for each rank of a pipeline.
DegreeLimits degree_limits(const Scenario& base);
/// Gives a strategy the pipeline, with equal stages and actions as the schedule generates them.
void set_pipeline(StrategySpec& strategy, int degree, PipelineSchedule schedule, int chunks);
/// Cuts a global batch into microbatches of `size` sequences for the scenario's strategy. False,
/// and nothing is changed, if it cannot be divided so.
bool set_microbatches(Scenario& scenario, int batch, int size);

/// What blocks compute again in the backward pass.
enum class Recomputation : std::uint8_t { None, Norms, Attention, EveryOther, Blocks };
std::string_view to_string(Recomputation what);
ActivationCheckpointSpec checkpoint_of(Recomputation what);

/// A layout of the ranks of a cluster. Everything else is as in the scenario that is searched.
struct LayoutPoint {
  int tensor = 1, context = 1, pipeline = 1;
  int replicate = 1, shard = 1;  // data-parallel ranks: those with copies of states, those without
  int expert = 1;
  bool folding = false;   // experts are divided over the ranks of tensor and context parallelism
  int expert_tensor = 1;  // ranks of tensor parallelism that divide each expert
  int zero = 0;
  PipelineSchedule schedule = PipelineSchedule::OneFOneB;
  int chunks = 1;      // virtual stages of a rank
  int microbatch = 1;  // in sequences
  Recomputation recomputation = Recomputation::None;
  Offload offload = Offload::None;
  bool operator==(const LayoutPoint&) const = default;
};

/// Which points are wanted.
struct LayoutConstraints {
  /// "tp", "cp", "pp", "dp", "ep", "etp", "zero", "v" or "microbatch", and its value.
  struct Only {
    std::string what;
    int value = 0;
    auto operator<=>(const Only&) const = default;
  };
  std::vector<Only> only;
  bool keep_schedule = false;  // the scenario's pipeline schedule alone
  bool keep_recomputation = false;
  bool offload = false;  // also what may be in host memory: states, and parameters with ZeRO 3
  std::function<bool(const LayoutPoint&)> wanted;  // empty: any
  bool allows(const LayoutPoint& point, const Scenario& base) const;
};
/// Each kind of degree with the point's value: every `only` of one kind that allows it.
std::vector<LayoutConstraints::Only> degrees_of(const LayoutPoint& point);
/// Reads "tp=8". Error InvalidSpec names the kinds of degrees there are.
Result<LayoutConstraints::Only> parse_only(const std::string& text);

/// Every way to divide the ranks of the scenario's cluster:
/// - tensor parallelism inside a node, with sequence parallelism;
/// - context parallelism in pieces of 4,096 tokens or more;
/// - pipelines as 1F1B, interleaved with every number of chunks that gives all stages equally many
///   blocks, or the first and the last one fewer, ZB-H1 and ZBVZeroBubble;
/// - data parallelism with states whole, sharded by ZeRO 1, 2 or 3, or sharded inside a node with
///   copies on others (HSDP); ZeRO 3 only with so many chunks as stay gathered
///   (fsdp_max_active_stages), because more are gathered again for every microbatch;
/// - experts divided over the shards, whole or each divided by tensor parallelism, and over the
///   ranks of tensor parallelism, too;
/// - microbatches of 1, 2, 4, 8 and 16 sequences;
/// - recomputation of nothing, norms and activations, attention, every other block, or all blocks;
/// - states where the scenario has them, and with LayoutConstraints::offload also in host memory.
/// Points may still be refused by validate(layout_of(point)).
std::vector<LayoutPoint> layout_space(const Scenario& base, const LayoutConstraints& constraints);

/// A point with a pipeline, with the schedules that layout_space() leaves out and any
/// recomputation: ZB-H2, InterleavedZeroBubble, DualPipeV, ZB-1p, ZB-2p, ZB-V, V-Half and V-Min.
/// Some of them need more memory for a smaller bubble, and some less. (GPipe and LoopedBFS need
/// more than 1F1B for the same bubble; DualPipe has two copies of the model, and PipeDream trains
/// another one.)
std::vector<LayoutPoint> other_schedules(const LayoutPoint& point, const Scenario& base,
                                         const LayoutConstraints& constraints);

/// Sets the degree of tensor parallelism, with sequence parallelism where the model has it. Rows
/// are gathered in so many chunks then (StrategySpec::tensor_parallel_chunks).
void divide_tensors(StrategySpec& strategy, const LayoutPoint& point, const ModelSpec& model,
                    int chunks);

/// Sets the degrees of expert parallelism.
void divide_experts(StrategySpec& strategy, const LayoutPoint& point);

/// The point as a scenario. Nothing if the batch cannot be divided so, or it does not validate.
std::optional<Scenario> layout_of(const Scenario& base, const LayoutPoint& point);
/// The same, or why it is none.
Result<Scenario> layout_or_why(const Scenario& base, const LayoutPoint& point);

}  // namespace lockstep
