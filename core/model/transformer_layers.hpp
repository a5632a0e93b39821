// Transformer layers: the parameters and functions of each layer of a transformer. Weights are
// stored [out, in], as in torch.nn.Linear. The query, key and value projections are one matrix, and
// so are the gate and up projections.
#pragma once

#include <string>
#include <vector>

#include "core/model/layer_parameters.hpp"
#include "core/model/model.hpp"

namespace lockstep {

/// If `experts`, the block has a mixture of experts in place of the feed-forward network.
void declare_block(LayerDeclaration& layer, const ModelSpec& spec, bool experts);
/// The functions of blocks like the one of that name, called `kind`.
LayerKind block_kind(const ModelSpec& spec, const LayerShape& shape, const Model& model,
                     const std::string& kind, const std::string& name,
                     const std::vector<LayerUnit>& units, bool experts, const Recompute& recompute);

/// The table of tokens. If embeddings are tied, it is also that of the output layer.
void declare_table(LayerDeclaration& layer, const ModelSpec& spec, const std::string& name);
/// The table of positions, if the model has one.
void declare_positions(LayerDeclaration& layer, const ModelSpec& spec);
/// What follows the sum of a token's rows, if the model has it: that of its segment, and a norm.
void declare_embedding_end(LayerDeclaration& layer, const ModelSpec& spec);
/// What stands before the output layer, if the model has it: BERT's linear layer, or a norm; and
/// the bias of the logits.
void declare_head_begin(LayerDeclaration& layer, const ModelSpec& spec);
LayerKind embedding_kind(const ModelSpec& spec, const LayerShape& shape, const Model& model,
                         const std::vector<LayerUnit>& units);

/// The two that are layers of their own where pipeline ranks divide the vocabulary: they lie on the
/// first and the last stage alone, beside the part of embedding and output layer that all have.
LayerKind positions_kind(const ModelSpec& spec, const LayerShape& shape, const Model& model,
                         const std::vector<LayerUnit>& units);
LayerKind norm_kind(const ModelSpec& spec, const LayerShape& shape, const Model& model,
                    const std::vector<LayerUnit>& units);

/// The ends of a vision transformer: patches and their positions, and the classifier.
void declare_patches(LayerDeclaration& layer, const ModelSpec& spec);
LayerKind patches_kind(const ModelSpec& spec, const LayerShape& shape, const Model& model,
                       const std::vector<LayerUnit>& units);
void declare_classifier(LayerDeclaration& layer, const ModelSpec& spec);
LayerKind classifier_kind(const ModelSpec& spec, const LayerShape& shape, const Model& model,
                          const std::vector<LayerUnit>& units);

/// The parameters of a norm over rows of `width`.
void declare_norm(LayerDeclaration& layer, const ModelSpec& spec, const std::string& name,
                  std::int64_t width);
LayerKind head_kind(const ModelSpec& spec, const LayerShape& shape, const Model& model,
                    const std::vector<LayerUnit>& units);

/// A norm over rows of `width`. The constructor emits forward; backward() is called when the
/// gradient of its output is known.
class Norm {
 public:
  Norm(FunctionBuilder& f, const ModelSpec& spec, DType dtype, std::int64_t rows,
       std::int64_t width, const LayerTensors& p, const std::string& name, TensorId x, TensorId y);
  /// dx = residual, if there is one, + gradient through the norm, which is computed in `part`.
  void backward(TensorId dy, TensorId residual, TensorId dx, Part part = Part::InputGrad);

 private:
  FunctionBuilder& f_;
  std::vector<std::int64_t> dims_;
  TensorId x_, w_, b_, gw_, gb_, stats_;
  bool layer_norm_;
};

}  // namespace lockstep
