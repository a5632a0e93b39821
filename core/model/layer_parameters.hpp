// Layer parameters: the parameters of a layer under construction. They are declared into FSDP units
// of the model, and then given by name as tensors of the layer's functions.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/model.hpp"

namespace lockstep {

/// How tensor parallelism divides a parameter (see Parameter). Without a dimension every rank holds
/// the whole.
struct Split {
  int dim = -1;
  std::vector<std::int64_t> sections;
  bool heads = false;  // the sections after the first are key and value heads
  /// Not empty: every rank holds the whole, and has only a term of its gradient, because it uses it
  /// for its own heads or features alone. It is the suffix of the unit for such parameters.
  std::string_view summed = {};
};

/// The low-rank adapter of a linear layer (LoraSpec), and its gradients; invalid without one.
struct AdapterTensors {
  TensorId a, b, ga, gb;
};

/// Weight and bias of a linear layer, and their gradients. Those of the bias are invalid if it has
/// none, and gradients are invalid if they are not trained.
struct LinearTensors {
  TensorId w, b, gw, gb;
  AdapterTensors adapter = {};
  /// With scales that follow from earlier steps: those of x, w and dy, and this step's largest
  /// magnitudes. Otherwise invalid.
  TensorId scales = {}, largest = {};
};

/// Declares the parameters of one layer. Names get the layer's name as a prefix.
class LayerDeclaration {
 public:
  LayerDeclaration(Model& model, const ModelSpec& spec, const LayerShape& shape,
                   std::string layer_name);
  /// For embedding and output layer, which the pipeline ranks divide, too, where they divide the
  /// vocabulary.
  static LayerDeclaration of_end(Model& model, const ModelSpec& spec, const LayerShape& shape,
                                 std::string layer_name);
  /// Adds a parameter to the unit without a suffix. Under tensor parallelism, parameters that are
  /// not divided go into a unit of their own, "_replicated", or "_heads" if every rank uses them
  /// for its own heads; and key and value heads of which there are fewer than ranks into "_kv". Its
  /// ranks with equal heads sum their gradients, as the ranks that share a head do with
  /// ReplicateKVHeadsParallel in Hugging Face's transformers. (Megatron Core divides single heads,
  /// and gathers queries, keys and values of all heads.) With LayerShape::plain_apart, those of one
  /// dimension go into a unit beside, with "_plain" behind its suffix, and with
  /// LayerShape::matrices_apart all of a block that are no matrices; and so do those that are not
  /// trained, with "_frozen".
  void add(const std::string& name, std::vector<std::int64_t> shape, InitKind init,
           double scale = 0, const Split& split = {});
  /// Adds the adapter of the linear layer `weight` [out, in], which is divided as `split` says. Of
  /// a layer whose outputs are divided, B is divided likewise and A is whole; of one whose inputs
  /// are, A is divided and B is whole. (PEFT and Megatron divide them so.) Ranks sum the gradients
  /// of what is whole once in a step, and nothing is communicated for an adapter beside.
  void add_adapter(const std::string& weight, std::int64_t out, std::int64_t in,
                   const Split& split);
  /// Adds a parameter of all experts, which are its first dimension, to a unit of their own,
  /// "_experts", which is divided over the ranks of "ep". With expert tensor parallelism those of
  /// "tp" divide each of them as `split` says, whose dimension is of the parameter. `matrix_rows`
  /// as in UnitLayout; empty: one matrix.
  void add_expert(const std::string& name, std::vector<std::int64_t> shape, InitKind init,
                  double scale = 0, std::vector<std::int64_t> matrix_rows = {},
                  const Split& split = {});
  /// Adds the adapter of a linear layer of every expert, `weight` [experts, out, in]: A [experts,
  /// rank, in] and B [experts, out, rank], beside the experts' weights. Requires that no ranks
  /// divide an expert.
  void add_expert_adapter(const std::string& weight, std::int64_t experts, std::int64_t out,
                          std::int64_t in);
  /// Adds the bias by which a router balances its choices, one for each expert, to a unit of its
  /// own, "_balance" (MovedBy::RouterBias).
  void add_router_bias(const std::string& name, std::int64_t experts);
  /// Adds the scales of the factors x, w and dy of the linear layer `weight` to a unit of their
  /// own, "_scales" (MovedBy::DelayedScale), if they follow from earlier steps.
  void add_scales(const std::string& weight);
  /// The units declared so far.
  const std::vector<LayerUnit>& units() const { return units_; }

 private:
  /// The unit for `parameter` among those of a suffix.
  UnitLayout& unit(const std::string& suffix, const Parameter& parameter);
  static void append(UnitLayout& layout, Parameter parameter, int parts,
                     std::vector<std::int64_t> matrix_rows, SectionRange sections = {});
  Model& model_;
  const ModelSpec& spec_;
  const LayerShape& shape_;
  std::string layer_name_;
  int ranks_;  // that divide the layer
  std::vector<LayerUnit> units_;
};

/// The weights and gradients of a layer's units, which lie in "w" and "gw" with the unit's suffix.
/// They are found by name without the layer's prefix ("attn.wqkv"), and parameters of other layers
/// by full name ("embed.wte"). The last sections of a parameter that lies in two units have the
/// second unit's suffix ("attn.wqkv_kv").
class LayerTensors {
 public:
  LayerTensors(FunctionBuilder& f, const Model& model, const std::string& layer_name,
               const std::vector<LayerUnit>& units);
  TensorId w(std::string_view name) const { return at(name).w; }  // invalid if there is none
  TensorId g(std::string_view name) const { return at(name).g; }  // if it is not trained, too
  /// The first `elements` of a parameter that no rank divides, and of its gradient. The backward
  /// pass zeroes the rest of the gradient, which nothing else may write.
  struct First {
    TensorId w, g;
  };
  First first(FunctionBuilder& f, std::string_view name, std::int64_t elements) const;
  /// Those of a linear layer; with a suffix, those of its last sections.
  LinearTensors linear(const std::string& weight, const std::string& bias,
                       const std::string& suffix = {}) const;
  /// Makes the backward pass zero what follows the last parameter of each unit; in the unit without
  /// a suffix, what follows its first `used` elements, if that is given.
  void pad(FunctionBuilder& f, std::int64_t used = -1) const;

 private:
  struct Tensors {
    TensorId w, g;
  };
  Tensors at(std::string_view name) const;
  const Model& model_;
  const std::vector<LayerUnit>& units_;
  std::map<std::string, Tensors, std::less<>> tensors_;
};

}  // namespace lockstep
