// Model: the layer library applied to one model and shape. Each layer kind is written once: its
// parameters, its kernels, the tensors it saves; everything else here follows from that.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/ir/program.hpp"
#include "core/model/function_builder.hpp"
#include "core/spec/activation_checkpoint.hpp"
#include "core/spec/model.hpp"

namespace lockstep {

/// What the functions of a layer depend on beside the model.
struct LayerShape {
  std::int64_t batch = 1;             // sequences (images) of a microbatch
  std::int64_t seq = 1;               // own tokens of a sequence; of an image 1
  DType dtype = DType::F32;           // of parameters and activations
  DType gradient_dtype = DType::F32;  // of parameters' gradients
  DType buffer_dtype = DType::F32;    // of running statistics
  ActivationCheckpointSpec checkpoint;
  double loss_scale = 1;           // 1 / tokens of the global batch: gradients then add up
  std::int64_t shard_count = 1;    // units are padded to a multiple of this many elements
  int norm_ranks = 1;              // data-parallel ranks that share the statistics of batch norm
  int context_parallel = 1;        // ranks that hold as many tokens of the same sequences
  bool gathers_keys = false;       // and gather keys and values instead of exchanging heads
  int tensor_parallel = 1;         // ranks that share every layer
  bool sequence_parallel = false;  // and, between its linear layers, the rows
  int expert_parallel = 1;         // ranks that divide the experts
  std::int64_t expert_shard_count = 1;  // shard_count of units that hold experts
  std::int64_t rows() const { return batch * seq; }
  /// Rows of "x", "y", "dx", "dy": all, or this rank's share.
  std::int64_t own_rows() const { return sequence_parallel ? rows() / tensor_parallel : rows(); }
};

/// Parameters laid out flat: gathered, reduced and updated together.
struct UnitLayout {
  std::string name;
  std::vector<Parameter> parameters;
  std::vector<std::int64_t> offsets;  // elements
  std::int64_t elements = 0;          // that a rank holds before data parallelism shards them
  std::int64_t shard_count = 1;       // data-parallel shards
  std::string split_axis;             // mesh axis that divides its parameters; empty: none does.
                                      // "ep" is a part of the data axes: those left shard it
  std::vector<std::string> partial_axes;  // gradients are summed over these beside data axes
  std::int64_t padded() const { return round_up(elements, shard_count); }
};

/// A unit that a layer uses: its functions name it "w" and "gw" with `suffix` behind.
struct LayerUnit {
  int unit = -1;       // into Model::units
  std::string suffix;  // "", "_tied", "_replicated"
};

/// A layer kind: layers of the same kind share functions.
struct LayerKind {
  FunctionBuilder functions;
  bool has_input = false;   // "x" and "dx": hidden states from the layer before
  bool has_output = false;  // "y" and "dy"
};

struct Layer {
  std::string name;               // "embed", "blocks.3", "head", "stage.2"
  int kind = 0;                   // into Model::kinds
  std::vector<LayerUnit> units;   // none: no parameters
  int statistics = -1;            // into Model::statistics; -1: none
  std::int64_t output_bytes = 0;  // "y" and "dy" of a microbatch; of the next layer "x" and "dx"
  Flops forward_flops;  // per microbatch; of experts, what tokens need, not the room for them
  double balance = 1;   // cost for the partition into stages: forward flops, or given time
};

struct Model {
  IndexVector<int, Layer> layers;  // in forward order
  IndexVector<int, LayerKind> kinds;
  IndexVector<int, UnitLayout> units;
  IndexVector<int, UnitLayout> statistics;  // "statistics" of a layer: its forward updates them, no
                                            // gradient and no optimizer does
  int tied_unit = -1;                       // the embedding that the first and the last layer share
  Flops forward_flops() const;
  std::int64_t parameter_count() const;  // without statistics
  /// Those that a token meets: of experts, as many as it chooses.
  std::int64_t active_parameter_count(const ModelSpec& spec) const;
};

/// Layers of a transformer: embedding, blocks, head. Requires validated sizes.
Model build_transformer(const ModelSpec& spec, const LayerShape& shape);

/// Layers of a residual network: stem, blocks, head. Requires validated sizes.
Model build_resnet(const ModelSpec& spec, const LayerShape& shape);

/// The one of the two that the model's architecture asks for.
Model build_layers(const ModelSpec& spec, const LayerShape& shape);

/// One layer of given times per virtual stage.
Model build_synthetic(const CostsSpec& costs, int num_stages);

}  // namespace lockstep
