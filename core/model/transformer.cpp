// Builds decoder transformers like GPT-2 (Radford et al. 2019) and Llama (Touvron et al. 2023),
// encoders like BERT (Devlin et al. 2018), and vision transformers (Dosovitskiy et al. 2020), from
// their layers.
#include <algorithm>
#include <map>
#include <set>

#include "core/model/transformer_layers.hpp"

namespace lockstep {
namespace {

/// The flops of the steps, without the products for places of experts that no token can take, and
/// without those for zeros beside the values of latent attention.
Flops needed_flops(const std::vector<LayerStep>& steps, const ModelSpec& spec,
                   const LayerShape& shape) {
  Flops total = work(steps).flops;
  if (spec.experts == 0 && !spec.is_latent()) return total;
  double empty = 0, zeros = 0;  // parts of the products by expert, and of attention
  const double taken = double(shape.rows()) * double(spec.experts_per_token);
  if (spec.experts > 0 && !spec.is_dropless()) {
    const double places =
        double(spec.experts) * double(spec.expert_capacity(shape.rows(), shape.expert_parallel));
    empty = 1 - std::min(1.0, taken / places);
  }
  if (spec.is_latent()) {  // of two products as wide as a query
    zeros = double(spec.head_dim - spec.latent.v_head_dim) / double(2 * spec.head_dim);
  }
  for (const LayerStep& step : steps) {
    const auto* function = std::get_if<Function>(&step);
    if (function == nullptr) continue;
    for (const Kernel& kernel : function->kernels) {
      const bool grouped = kernel.kind == KernelKind::GroupedGemm ||
                           (kernel.kind == KernelKind::ScaledGemm && kernel.dims[7] > 0);
      if (grouped) total.v -= empty * work(kernel).flops.v;
      // Of the busiest rank, more than those of the mean.
      if (kernel.kind == KernelKind::RaggedGemm || kernel.kind == KernelKind::RaggedScaledGemm) {
        const double own = taken * double(shape.own_rows()) / double(shape.rows()) *
                           double(shape.expert_tensor_parallel);
        total.v -= (1 - std::min(1.0, own / double(kernel.dims[3]))) * work(kernel).flops.v;
      }
      if (kernel.kind == KernelKind::AttentionForward) total.v -= zeros * work(kernel).flops.v;
    }
  }
  return total;
}

/// The flops of products with weights that are frozen.
Flops frozen_flops(const Model& model, const Layer& layer, const std::vector<LayerStep>& steps) {
  std::set<std::string> frozen;  // formals
  for (const LayerUnit& used : layer.units) {
    if (model.units[used.unit].frozen) frozen.insert("w" + used.suffix);
  }
  Flops total;
  std::set<std::pair<std::string, std::int64_t>> codes;  // those of frozen weights: formal, offset
  for (const LayerStep& step : steps) {
    const auto* function = std::get_if<Function>(&step);
    if (function == nullptr || frozen.empty()) continue;
    const auto place = [&](const Operand& operand) {
      return std::pair(function->formals[operand.formal].name, operand.offset);
    };
    for (const Kernel& kernel : function->kernels) {
      if (kernel.kind == KernelKind::Quantize && kernel.out[0].present()) {
        codes.erase(place(kernel.out[0]));
        if (frozen.contains(place(kernel.in[0]).first)) codes.insert(place(kernel.out[0]));
      }
      const bool narrow =
          kernel.kind == KernelKind::ScaledGemm || kernel.kind == KernelKind::RaggedScaledGemm;
      if (narrow && codes.contains(place(kernel.in[1]))) {
        total += work(kernel).flops;
      }
      const bool product =
          kernel.kind == KernelKind::Gemm || kernel.kind == KernelKind::GroupedGemm ||
          kernel.kind == KernelKind::RaggedGemm || kernel.kind == KernelKind::Conv2dForward;
      if (product && frozen.contains(function->formals[kernel.in[1].formal].name)) {
        total += work(kernel).flops;
      }
    }
  }
  return total;
}

/// The parameters of a block that are trained, by their names without the block's, as one text.
std::string trained_in(const Model& model, const std::vector<LayerUnit>& units,
                       std::size_t prefix) {
  std::string names;
  for (const LayerUnit& used : units) {
    const UnitLayout& unit = model.units[used.unit];
    if (unit.frozen) continue;
    for (const Parameter& parameter : unit.parameters) names += parameter.name.substr(prefix);
  }
  return names;
}

}  // namespace

Model build_transformer(const ModelSpec& spec, const LayerShape& given) {
  LayerShape shape = given;
  if (spec.is_vision()) shape.seq = spec.patches();  // an image is a sequence of patches
  Model model;
  struct Cost {
    Flops all, needed, frozen;
  };
  std::map<int, Cost> forward;  // by kind
  // A layer whose forward pass is part of its backward pass costs what `like` does.
  const auto add_layer = [&](const std::string& name, int kind, std::vector<LayerUnit> units,
                             const LayerKind* like = nullptr) {
    Layer layer;
    layer.name = name;
    layer.kind = layer.keeping_kind = kind;
    layer.units = std::move(units);
    layer.output_bytes = shape.own_rows() * spec.hidden * size_of(shape.dtype);
    if (!forward.contains(kind)) {
      const auto steps = (like != nullptr ? *like : model.kinds[kind]).functions.forward();
      forward[kind] = {work(steps).flops, needed_flops(steps, spec, shape),
                       frozen_flops(model, layer, steps)};
    }
    layer.forward_flops = forward[kind].needed;
    layer.frozen_flops = forward[kind].frozen;
    layer.balance = forward[kind].all.v;
    model.layers.push_back(std::move(layer));
  };

  std::vector<LayerUnit> tied;
  if (spec.tied_embeddings) {
    auto shared = LayerDeclaration::of_end(model, spec, shape, "embed");
    declare_table(shared, spec, "wte");
    model.tied_unit = shared.units().front().unit;
    model.units.back().name = "tied";
    tied = {{model.tied_unit, "_tied"}};
  }
  const bool over_stages = shape.vocabulary_stages > 1;
  if (spec.is_vision()) {
    LayerDeclaration patches(model, spec, shape, "embed");
    declare_patches(patches, spec);
    model.kinds.push_back(patches_kind(spec, shape, model, patches.units()));
    add_layer("embed", 0, patches.units());
  } else {
    auto embed = LayerDeclaration::of_end(model, spec, shape, "embed");
    if (!spec.tied_embeddings) declare_table(embed, spec, "wte");
    if (!over_stages) {
      declare_embedding_end(embed, spec);
      declare_positions(embed, spec);
    }
    std::vector<LayerUnit> units = embed.units();
    units.insert(units.end(), tied.begin(), tied.end());
    model.kinds.push_back(embedding_kind(spec, shape, model, units));
    add_layer("embed", 0, units);
    if (over_stages && spec.learns_positions()) {
      auto positions = LayerDeclaration::of_end(model, spec, shape, "embed");
      declare_positions(positions, spec);
      model.kinds.push_back(positions_kind(spec, shape, model, positions.units()));
      add_layer("positions", 1, positions.units());
    }
  }

  // Blocks of one kind share functions. They are alike in experts, in recomputation, and in which
  // of their parameters are trained.
  std::map<std::string, std::map<std::string, int>> kinds;  // by name, and by what is trained
  for (std::int64_t i = 0; i < spec.layers; ++i) {
    const std::string name = "blocks." + std::to_string(i);
    const bool experts = spec.has_experts(i);
    const bool wide =
        shape.float8.active() && (i < shape.wide_first || i >= spec.layers - shape.wide_last);
    LayerShape own = shape;
    if (wide) own.float8 = {};
    own.local = spec.window_of(i) > 0;
    own.window = spec.window_of(i) < shape.seq * shape.context_parallel ? spec.window_of(i) : 0;
    LayerDeclaration block(model, spec, own, name);
    declare_block(block, spec, experts);
    const auto kind_with = [&](const Recompute& recompute) {
      std::string kind = std::string(experts ? "moe_block" : "block") + (wide ? "_wide" : "") +
                         (own.local ? "_local" : "") + (recompute.any() ? "_r" : "");
      auto& alike = kinds[kind];
      const auto [known, fresh] = alike.try_emplace(trained_in(model, block.units(), name.size()),
                                                    static_cast<int>(model.kinds.size()));
      if (fresh) {
        if (alike.size() > 1) kind += "_" + std::to_string(alike.size());
        model.kinds.push_back(
            block_kind(spec, own, model, kind, name, block.units(), experts, recompute));
      }
      return known->second;
    };
    add_layer(name, kind_with(shape.checkpoint.of_block(i).value_or(Recompute{})), block.units());
    if (!shape.checkpoint.recomputed_layers_per_stage.empty()) {
      model.layers.back().keeping_kind = kind_with(Recompute{});
    }
  }

  if (spec.is_vision()) {
    LayerDeclaration classifier(model, spec, shape, "head");
    declare_classifier(classifier, spec);
    model.kinds.push_back(classifier_kind(spec, shape, model, classifier.units()));
    add_layer("head", static_cast<int>(model.kinds.size()) - 1, classifier.units());
    return model;
  }
  auto norm = LayerDeclaration::of_end(model, spec, shape, "head");
  if (over_stages) {
    declare_head_begin(norm, spec);
    model.kinds.push_back(norm_kind(spec, shape, model, norm.units()));
    add_layer("norm", static_cast<int>(model.kinds.size()) - 1, norm.units());
  }
  auto head = LayerDeclaration::of_end(model, spec, shape, "head");
  if (!over_stages) declare_head_begin(head, spec);
  if (!spec.tied_embeddings) declare_table(head, spec, "lm_head");
  std::vector<LayerUnit> units = head.units();
  units.insert(units.end(), tied.begin(), tied.end());
  model.kinds.push_back(head_kind(spec, shape, model, units));
  const int kind = static_cast<int>(model.kinds.size()) - 1;
  if (shape.loss_chunks == 1) {
    add_layer("head", kind, units);
  } else {
    LayerShape at_once = shape;
    at_once.loss_chunks = 1;
    const LayerKind like = head_kind(spec, at_once, model, units);
    add_layer("head", kind, units, &like);
  }
  return model;
}

}  // namespace lockstep
