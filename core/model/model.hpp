// Model: the layer library applied to one model and shape. Each kind of layer is written once, with
// its parameters, its kernels and the tensors it saves; everything else here follows from that.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/program.hpp"
#include "core/model/function_builder.hpp"
#include "core/model/products.hpp"
#include "core/spec/activation_checkpoint.hpp"
#include "core/spec/model.hpp"

namespace lockstep {

/// What the functions of a layer depend on, beside the model.
struct LayerShape {
  std::int64_t batch = 1;             // sequences (images) of a microbatch
  std::int64_t seq = 1;               // own tokens of a sequence; 1 for an image, patches or not
  DType dtype = DType::F32;           // of parameters and activations
  DType gradient_dtype = DType::F32;  // of parameters' gradients
  DType buffer_dtype = DType::F32;    // of running statistics
  ActivationCheckpointSpec checkpoint;
  Float8Factors float8;                        // of the linear layers of blocks,
  std::int64_t wide_first = 0, wide_last = 0;  // but of so many first and last blocks
  double mean_document = 0;  // tokens of the documents to which attention is confined; 0: none are
  bool local = false;        // whether the block's attention has a window (ModelSpec::window_of),
  std::int64_t window = 0;   // and its tokens; 0 if it covers the sequence
  double adapter_dropout = 0;     // of the inputs of adapters
  double residual_dropout = 0;    // of what the branches of a block add
  double embedding_dropout = 0;   // of the embeddings' sum
  double attention_dropout = 0;   // of attention's probabilities
  bool resets_positions = false;  // positions count from where a document begins
  double loss_scale = 1;          // 1 / tokens of the global batch, so that gradients can be summed
  double target_share = 1;        // of the tokens, those that have a target
  int loss_chunks = 1;            // parts of the rows for which logits exist at a time
  bool scales_loss = false;       // gradients are also multiplied by the step's HostData::LossScale
  std::int64_t shard_count = 1;   // units are padded to a multiple of this many elements
  std::int64_t shard_multiple = 1;  // UnitLayout::shard_multiple, beside blocks
  std::int64_t state_block = 1;     // UnitLayout::state_block; of experts the most
  bool plain_apart =
      false;  // parameters of one dimension, norms and biases, have units of their own
  bool matrices_apart = false;     // so has all in a block that is no matrix (Muon)
  int norm_ranks = 1;              // data-parallel ranks that share the statistics of batch norm
  int context_parallel = 1;        // ranks that hold equally many tokens of the same sequences
  int head_ranks = 1;              // of these, neighbours that exchange tokens for heads
  bool gathers_keys = false;       // the others gather keys and values; otherwise they
  bool passes_keys = false;        // pass them on, from each to the next
  int tensor_parallel = 1;         // ranks that share every layer
  int vocabulary_stages = 1;       // pipeline ranks that divide the vocabulary, beside these
  bool sequence_parallel = false;  // they also share the rows between its linear layers
  int tensor_parallel_chunks = 1;  // parts in which these are gathered and scattered
  int kv_replicas = 1;             // of these, ranks that hold the same key and value heads
  int expert_parallel = 1;         // ranks that divide the experts
  bool experts_over_tp = false;    // ranks of tensor_parallel are among them
  int expert_tensor_parallel = 1;  // neighbours of tensor_parallel that divide each expert
  int score_bytes = 0;  // that another framework's attention keeps of every score (FrameworkSpec)
  int logit_bytes = 0;  // that another framework keeps of every logit beside the logit itself
  bool overlaps_weight_gradients = true;  // as in FrameworkSpec, and so is the next one
  bool recomputes_all = false;
  std::int64_t expert_shard_count = 1;  // shard_count for units that hold experts
  bool ends_with_logits = false;  // the output layer has forward alone, with the tensor "logits"
  /// The axis of the ranks that divide each expert.
  std::string expert_axis() const {
    return expert_tensor_parallel < tensor_parallel ? "etp" : "tp";
  }
  std::int64_t rows() const { return batch * seq; }
  /// Groups of head_ranks, each with its part of the sequence.
  int key_ranks() const { return context_parallel / head_ranks; }
  int vocabulary_parts() const { return vocabulary_stages * tensor_parallel; }
  /// Rows of "x", "y", "dx" and "dy": all of them, or this rank's share.
  std::int64_t own_rows() const { return sequence_parallel ? rows() / tensor_parallel : rows(); }
};

/// The inputs of a kernel in which gradients begin: the last one is the step's loss scale, if the
/// loss is scaled.
std::vector<TensorId> with_loss_scale(FunctionBuilder& f, const LayerShape& shape,
                                      std::vector<TensorId> inputs);

/// What moves the parameters of a unit. What stands in the place of a gradient is measured in the
/// step unless it is the optimizer; then every rank holds the unit whole.
enum class MovedBy {
  Optimizer,
  RouterBias,    // one parameter, the bias of a router, by the load of its experts
  DelayedScale,  // scales of factors in 8 bits, by the largest magnitudes of earlier steps
};

/// An FSDP unit: parameters that are laid out flat, and gathered, reduced and updated together.
struct UnitLayout {
  std::string name;
  std::vector<Parameter> parameters;
  std::vector<SectionRange> sections;  // of each parameter, those that the unit holds
  std::vector<std::int64_t> offsets;   // in elements
  std::int64_t elements = 0;           // those of a rank, before data parallelism shards them
  std::int64_t shard_count = 1;        // number of data-parallel shards
  std::int64_t shard_multiple = 1;  // if there are several, each has a multiple of so many elements
  /// Elements that share a scale, where moments are in 8 bits. Of experts it divides each expert's
  /// part of every parameter, so that blocks are the same wherever experts lie.
  std::int64_t state_block = 1;
  /// The ranks that divide its parameters, by the name of their axis: "tp"; "vocabulary", where
  /// those of "pp" do, too; "kv", where fewer of these divide keys and values; or "ep", of the data
  /// axes, of which the rest shards the unit; or "ep_tp", if those of "tp" divide each expert, too,
  /// and "ep_etp", if groups of them do. Empty if none do.
  std::string split_axis;
  std::vector<std::string> partial_axes;  // axes over which gradients are summed beside data axes
  bool decays = true;                     // whether weight decay is for its parameters
  bool frozen = false;                    // whether its parameters are not trained
  MovedBy moved_by = MovedBy::Optimizer;
  /// Whether its gradient is that of the loss, and counts in the norm.
  bool has_gradient() const { return moved_by == MovedBy::Optimizer; }
  /// Whether Muon updates it: its parameters are matrices of a block, and no others.
  bool orthogonalizes = false;
  /// Of each parameter, the rows of the matrices that stand in it one above the other, such as
  /// queries, keys and values. Of a parameter of experts, those of one expert.
  std::vector<std::vector<std::int64_t>> matrix_rows;
  /// Elements of one of its shards.
  std::int64_t shard_elements() const {
    return shard_count == 1 ? elements : round_up(ceil_div(elements, shard_count), shard_multiple);
  }
  std::int64_t padded() const { return shard_elements() * shard_count; }
};

/// Whether the ranks along a split axis divide the experts.
inline bool divides_experts(std::string_view axis) {
  return axis == "ep" || axis == "ep_tp" || axis == "ep_etp";
}

/// A unit that a layer uses. The layer's functions name it "w" and "gw", each followed by `suffix`.
struct LayerUnit {
  int unit = -1;       // index into Model::units
  std::string suffix;  // "", "_kv", "_tied", "_replicated", "_heads", "_adapters", "_experts",
                       // "_balance" or "_scales"; then "_plain" or "_frozen"
};

/// A kind of layer. Layers of the same kind share functions.
struct LayerKind {
  FunctionBuilder functions;
  bool has_input = false;   // whether it has "x" and "dx", hidden states from the layer before
  bool has_output = false;  // whether it has "y" and "dy"
};

struct Layer {
  std::string name;               // "embed", "blocks.3", "head", "stage.2"
  int kind = 0;                   // index into Model::kinds
  int keeping_kind = 0;           // the same layer where nothing is recomputed; often `kind`
  std::vector<LayerUnit> units;   // empty if it has no parameters
  int statistics = -1;            // index into Model::statistics; -1: none
  std::int64_t output_bytes = 0;  // of "y" and of "dy", which are "x" and "dx" of the next layer
  Flops forward_flops;  // per microbatch; for experts, what tokens need, not what there is room for
  Flops frozen_flops;   // of forward_flops, those of products with frozen weights
  double balance = 1;   // cost for the partition into stages: forward flops, or the given time
  bool is_block() const { return name.starts_with("blocks."); }
};

struct Model {
  IndexVector<int, Layer> layers;  // in forward order
  IndexVector<int, LayerKind> kinds;
  IndexVector<int, UnitLayout> units;
  /// Statistics of layers, which the forward pass updates, and no gradient or optimizer.
  IndexVector<int, UnitLayout> statistics;
  int tied_unit = -1;  // the embedding that the first and the last layer share
  Flops forward_flops() const;
  /// Of forward and backward pass. The backward pass counts as twice the forward pass, which is the
  /// convention of every published MFU, but products with frozen weights have one gradient only.
  Flops training_flops() const;
  std::int64_t parameter_count() const;  // without statistics
  std::int64_t trained_count() const;    // of these, those that are not frozen
  /// The parameters that are used for a token: of experts, only those that it chooses.
  std::int64_t active_parameter_count(const ModelSpec& spec) const;
};

/// Layers of a transformer: embedding, blocks, head. Of one for images LayerShape::seq means
/// nothing: its tokens are all patches of an image. Requires validated sizes.
Model build_transformer(const ModelSpec& spec, const LayerShape& shape);

/// Layers of a residual network: stem, blocks, head. Requires validated sizes.
Model build_resnet(const ModelSpec& spec, const LayerShape& shape);

/// Calls the one of the two that the model's architecture needs.
Model build_layers(const ModelSpec& spec, const LayerShape& shape);

/// What build_layers(spec, shape).forward_flops() returns, without making every block.
Flops forward_flops(const ModelSpec& spec, const LayerShape& shape);

/// The synthetic model: one layer with given times for each virtual stage.
Model build_synthetic(const CostsSpec& costs, int num_stages);

}  // namespace lockstep
