// The parameters of a layer under construction: declared into units of the model, then handed out
// by name as tensors of the layer's functions.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/model.hpp"

namespace lockstep {

/// How tensor parallelism divides a parameter: see Parameter. No dimension: every rank holds all.
struct Split {
  int dim = -1;
  std::vector<std::int64_t> sections;
};

/// Weights of a linear layer and their gradients; invalid: it has no bias.
struct LinearTensors {
  TensorId w, b, gw, gb;
};

/// Declares parameters of one layer; names are prefixed with the layer's.
class LayerDeclaration {
 public:
  LayerDeclaration(Model& model, const LayerShape& shape, std::string layer_name);
  /// Into the unit without suffix; under tensor parallelism those that are not divided have a unit
  /// of their own, "_replicated".
  void add(const std::string& name, std::vector<std::int64_t> shape, InitKind init,
           double scale = 0, const Split& split = {});
  /// Of all experts, which are its first dimension: into a unit of their own, "_experts", divided
  /// over the ranks of "ep".
  void add_expert(const std::string& name, std::vector<std::int64_t> shape, InitKind init,
                  double scale = 0);
  /// The units declared so far.
  const std::vector<LayerUnit>& units() const { return units_; }

 private:
  UnitLayout& unit(const std::string& suffix);
  static void append(UnitLayout& layout, Parameter parameter, int parts);
  Model& model_;
  const LayerShape& shape_;
  std::string layer_name_;
  std::vector<LayerUnit> units_;
};

/// Weights and gradients of a layer's units in "w" and "gw" (with the unit's suffix), by name
/// without the layer's prefix: "attn.wqkv"; of other layers' parameters by full name: "embed.wte".
class LayerTensors {
 public:
  LayerTensors(FunctionBuilder& f, const Model& model, const std::string& layer_name,
               const std::vector<LayerUnit>& units);
  TensorId w(std::string_view name) const { return at(name).w; }  // invalid: no such parameter
  TensorId g(std::string_view name) const { return at(name).g; }
  LinearTensors linear(std::string_view weight, std::string_view bias) const {
    return {w(weight), w(bias), g(weight), g(bias)};
  }
  /// Lets backward zero what follows the last parameter of each unit; of the unit with no suffix,
  /// what follows its first `used` elements.
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
