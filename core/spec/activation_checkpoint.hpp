// ActivationCheckpointSpec: what a transformer block computes a second time, in the backward pass,
// instead of keeping it (Chen et al. 2016). Names are torchtitan's and Megatron Core's.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

enum class ActivationCheckpoint { None, Selective, Full };

/// What the forward pass of a block is made of. Of dense products, in the order in which they run.
enum class ForwardPart : std::uint8_t {
  Rest,             // sums with residuals, dropout, and what rotates or moves heads and keys
  Norm,             // before or behind attention and the feed-forward network
  InnerNorm,        // of heads' queries and keys, and of latents
  QueryKeyValue,    // the product that makes all three
  QueryDown,        // of latent attention: products that narrow and widen queries,
  QueryUp,          //   or the one that makes them
  KeyDown,          //   and those of keys and values,
  KeyUp,            //   with what joins them with the queries
  CoreAttention,    // scores, softmax and what they weight
  AttentionOutput,  // the product behind it, and its sum with the residual
  Up,               // of a dense network
  Activation,
  Down,
  Router,    // logits, choices, and how many rows go where
  Dispatch,  // rows on their way to experts
  ExpertUp,
  ExpertActivation,
  ExpertDown,
  Combine,   // rows on their way back, and their sum
  SharedUp,  // of the network that every token takes beside its experts
  SharedActivation,
  SharedDown,
  SharedGate,
};

/// A set of parts of a block.
class ForwardParts {
 public:
  constexpr ForwardParts() = default;
  constexpr ForwardParts(std::initializer_list<ForwardPart> parts) {
    for (const ForwardPart part : parts) bits_ |= bit(part);
  }
  static constexpr ForwardParts all() {
    ForwardParts parts;
    parts.bits_ = 2 * bit(ForwardPart::SharedGate) - 1;
    return parts;
  }
  constexpr bool has(ForwardPart part) const { return (bits_ & bit(part)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  friend constexpr ForwardParts operator|(ForwardParts a, ForwardParts b) {
    a.bits_ |= b.bits_;
    return a;
  }
  friend constexpr ForwardParts operator-(ForwardParts a, ForwardParts b) {
    a.bits_ &= ~b.bits_;
    return a;
  }
  constexpr bool operator==(const ForwardParts&) const = default;

 private:
  static constexpr std::uint32_t bit(ForwardPart part) { return 1U << static_cast<unsigned>(part); }
  std::uint32_t bits_ = 0;
};

/// Which results of a block's forward pass are computed again for the backward pass.
struct Recompute {
  ForwardParts parts;
  /// Of `parts`, those that software which runs what it repeats to the end (FrameworkSpec::
  /// recomputes_all) computes again even where nobody needs the result.
  ForwardParts to_end = {};
  /// Of dense products, every second one beside `parts`, in the order in which they run. The router
  /// does not count; a product that is three in torchtitan (queries, keys, values), or two (the
  /// gate and what it multiplies), counts as so many and goes by its first.
  bool second_products = false;
  /// Whether results of all-to-alls and reduce-scatters are kept although their part is not.
  bool keeps_exchanges = false;
  bool any() const { return !parts.empty() || second_products; }
  bool operator==(const Recompute&) const = default;
};

/// A name for what is recomputed: of ours, of torchtitan, or a module of Megatron Core.
struct RecomputePolicy {
  std::string_view name;
  Recompute what;
  bool is_module = false;  // of Megatron Core's --recompute-modules
};

namespace forward_parts {
constexpr ForwardParts kNorms = {ForwardPart::Norm, ForwardPart::InnerNorm};
constexpr ForwardParts kActivations = {ForwardPart::Activation, ForwardPart::ExpertActivation,
                                       ForwardPart::SharedActivation};
constexpr ForwardParts kDense = {ForwardPart::Up, ForwardPart::Activation, ForwardPart::Down};
constexpr ForwardParts kShared = {ForwardPart::SharedUp, ForwardPart::SharedActivation,
                                  ForwardPart::SharedDown, ForwardPart::SharedGate};
constexpr ForwardParts kExperts =
    ForwardParts{ForwardPart::Router,           ForwardPart::Dispatch,   ForwardPart::ExpertUp,
                 ForwardPart::ExpertActivation, ForwardPart::ExpertDown, ForwardPart::Combine} |
    kShared;
constexpr ForwardParts kDenseProducts = {ForwardPart::QueryKeyValue,
                                         ForwardPart::QueryDown,
                                         ForwardPart::QueryUp,
                                         ForwardPart::KeyDown,
                                         ForwardPart::KeyUp,
                                         ForwardPart::AttentionOutput,
                                         ForwardPart::Up,
                                         ForwardPart::Down,
                                         ForwardPart::SharedUp,
                                         ForwardPart::SharedDown};
}  // namespace forward_parts

/// Every policy that has a name. Several that are named together recompute what any of them does.
inline constexpr std::array kRecomputePolicies = {
    // Ours: what is cheap.
    RecomputePolicy{"op", {forward_parts::kNorms | forward_parts::kActivations}},
    RecomputePolicy{"norm", {forward_parts::kNorms}},
    RecomputePolicy{"activation", {forward_parts::kActivations}},
    // Korthikanti et al. 2022, Reducing Activation Recomputation in Large Transformer Models.
    RecomputePolicy{"attention", {{ForwardPart::CoreAttention}}},
    // torchtitan's own "op" (v0.2.2, torchtitan/distributed/activation_checkpoint.py and the lists
    // of its models): results of attention, of all-to-alls and reduce-scatters, and of every second
    // product are saved. Grouped products of experts are none of these.
    RecomputePolicy{"torchtitan",
                    {ForwardParts::all() - ForwardParts{ForwardPart::CoreAttention} -
                         forward_parts::kDenseProducts,
                     {},
                     true,
                     true}},
    // Megatron Core's modules (megatron/core/transformer, recompute_modules of
    // transformer_config.py). Of a module that is called again as a whole everything runs; of the
    // others what is lost is the result alone.
    RecomputePolicy{"core_attn", {{ForwardPart::CoreAttention}}, true},
    RecomputePolicy{"layernorm", {{ForwardPart::Norm}}, true},
    RecomputePolicy{"mla_up_proj", {{ForwardPart::QueryUp, ForwardPart::KeyUp}}, true},
    RecomputePolicy{"mlp", {forward_parts::kDense, forward_parts::kDense}, true},
    RecomputePolicy{"moe_act", {{ForwardPart::ExpertActivation}}, true},
    RecomputePolicy{"moe", {forward_parts::kExperts, forward_parts::kExperts}, true},
    RecomputePolicy{"shared_experts", {forward_parts::kShared, forward_parts::kShared}, true},
};

struct ActivationCheckpointSpec {
  ActivationCheckpoint mode = ActivationCheckpoint::None;
  /// In selective mode: a number k, for everything in every k-th block; or names of
  /// kRecomputePolicies, with commas between them.
  std::string selective_ac_option = "2";
  /// By virtual stage: so many of its first blocks do what `mode` says, and the others keep
  /// everything. Empty: all blocks of all stages do what `mode` says.
  std::vector<int> recomputed_layers_per_stage;
  /// What the block recomputes; nullopt if the option is not valid.
  std::optional<Recompute> of_block(std::int64_t block) const;
  /// The names in the option; empty if it is a number or does not count.
  std::vector<std::string> policies() const;
  bool operator==(const ActivationCheckpointSpec&) const = default;
};

/// The policy of that name; nullptr if there is none.
const RecomputePolicy* find_recompute_policy(std::string_view name);

}  // namespace lockstep
