// Builds decoder transformers like GPT-2 (Radford et al. 2019) and Llama (Touvron et al. 2023) from
// their layers.
#include <algorithm>
#include <array>
#include <map>

#include "core/model/transformer_layers.hpp"

namespace lockstep {
namespace {

/// The flops of the steps, without the products for places of experts that no token can take.
Flops needed_flops(const std::vector<LayerStep>& steps, const ModelSpec& spec,
                   const LayerShape& shape) {
  Flops total = work(steps).flops;
  if (spec.experts == 0) return total;
  const double places = double(spec.experts) * double(spec.expert_capacity(shape.rows()));
  const double taken = double(shape.rows()) * double(spec.experts_per_token);
  const double empty = 1 - std::min(1.0, taken / places);
  for (const LayerStep& step : steps) {
    const auto* function = std::get_if<Function>(&step);
    if (function == nullptr) continue;
    for (const Kernel& kernel : function->kernels) {
      if (kernel.kind == KernelKind::GroupedGemm) total.v -= empty * work(kernel).flops.v;
    }
  }
  return total;
}

}  // namespace

Model build_transformer(const ModelSpec& spec, const LayerShape& shape) {
  Model model;
  struct Cost {
    Flops all, needed;
  };
  std::map<int, Cost> forward;  // by kind
  const auto add_layer = [&](const std::string& name, int kind, std::vector<LayerUnit> units) {
    Layer layer;
    layer.name = name;
    layer.kind = kind;
    layer.units = std::move(units);
    layer.output_bytes = shape.own_rows() * spec.hidden * size_of(shape.dtype);
    if (!forward.contains(kind)) {
      const auto steps = model.kinds[kind].functions.forward();
      forward[kind] = {work(steps).flops, needed_flops(steps, spec, shape)};
    }
    layer.forward_flops = forward[kind].needed;
    layer.balance = forward[kind].all.v;
    model.layers.push_back(std::move(layer));
  };

  std::vector<LayerUnit> tied;
  if (spec.tied_embeddings) {
    auto shared = LayerDeclaration::of_end(model, shape, "embed");
    declare_table(shared, spec, "wte");
    model.tied_unit = shared.units().front().unit;
    model.units.back().name = "tied";
    tied = {{model.tied_unit, "_tied"}};
  }
  auto embed = LayerDeclaration::of_end(model, shape, "embed");
  if (!spec.tied_embeddings) declare_table(embed, spec, "wte");
  const bool over_stages = shape.vocabulary_stages > 1;
  if (!over_stages) declare_positions(embed, spec);
  std::vector<LayerUnit> units = embed.units();
  units.insert(units.end(), tied.begin(), tied.end());
  model.kinds.push_back(embedding_kind(spec, shape, model, units));
  add_layer("embed", 0, units);
  if (over_stages && is_gpt2(spec)) {
    auto positions = LayerDeclaration::of_end(model, shape, "embed");
    declare_positions(positions, spec);
    model.kinds.push_back(positions_kind(spec, shape, model, positions.units()));
    add_layer("positions", 1, positions.units());
  }

  std::array<int, 4> kinds;  // of blocks: with experts or without, with recomputation or without
  kinds.fill(-1);
  for (std::int64_t i = 0; i < spec.layers; ++i) {
    const std::string name = "blocks." + std::to_string(i);
    LayerDeclaration block(model, shape, name);
    const bool experts = spec.has_experts(i);
    declare_block(block, spec, experts);
    const Recompute recompute = shape.checkpoint.of_block(i).value_or(Recompute{});
    int& kind = kinds[2 * std::size_t{experts} + std::size_t{recompute.any()}];
    if (kind < 0) {  // blocks of one kind share functions
      kind = static_cast<int>(model.kinds.size());
      model.kinds.push_back(
          block_kind(spec, shape, model, name, block.units(), experts, recompute));
    }
    add_layer(name, kind, block.units());
  }

  auto norm = LayerDeclaration::of_end(model, shape, "head");
  if (over_stages) {
    declare_norm(norm, spec, "norm");
    model.kinds.push_back(norm_kind(spec, shape, model, norm.units()));
    add_layer("norm", static_cast<int>(model.kinds.size()) - 1, norm.units());
  }
  auto head = LayerDeclaration::of_end(model, shape, "head");
  if (!over_stages) declare_norm(head, spec, "norm");
  if (!spec.tied_embeddings) declare_table(head, spec, "lm_head");
  units = head.units();
  units.insert(units.end(), tied.begin(), tied.end());
  model.kinds.push_back(head_kind(spec, shape, model, units));
  add_layer("head", static_cast<int>(model.kinds.size()) - 1, units);
  return model;
}

}  // namespace lockstep
