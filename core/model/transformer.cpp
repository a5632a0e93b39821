// Decoder transformers of the GPT-2 kind (Radford et al. 2019) and the Llama kind (Touvron et al.
// 2023), put together of their layers.
#include "core/model/transformer_layers.hpp"

namespace lockstep {

Model build_transformer(const ModelSpec& spec, const LayerShape& shape) {
  Model model;
  const auto add_layer = [&](const std::string& name, int kind, std::vector<LayerUnit> units) {
    Layer layer;
    layer.name = name;
    layer.kind = kind;
    layer.units = std::move(units);
    layer.output_bytes = shape.own_rows() * spec.hidden * size_of(shape.dtype);
    const bool known = !model.layers.empty() && model.layers.back().kind == kind;
    layer.forward_flops =
        known ? model.layers.back().forward_flops
              : work(model.kinds[static_cast<std::size_t>(kind)].functions.forward()).flops;
    layer.balance = layer.forward_flops.v;
    model.layers.push_back(std::move(layer));
  };

  std::vector<LayerUnit> tied;
  if (spec.tied_embeddings) {
    LayerDeclaration shared(model, shape, "embed");
    declare_table(shared, spec, "wte");
    model.tied_unit = shared.units().front().unit;
    model.units.back().name = "tied";
    tied = {{model.tied_unit, "_tied"}};
  }
  LayerDeclaration embed(model, shape, "embed");
  if (!spec.tied_embeddings) declare_table(embed, spec, "wte");
  declare_positions(embed, spec);
  std::vector<LayerUnit> units = embed.units();
  units.insert(units.end(), tied.begin(), tied.end());
  model.kinds.push_back(embedding_kind(spec, shape, model, units));
  add_layer("embed", 0, units);

  int plain = -1, recomputing = -1;  // kinds of blocks
  for (std::int64_t i = 0; i < spec.layers; ++i) {
    const std::string name = "blocks." + std::to_string(i);
    LayerDeclaration block(model, shape, name);
    declare_block(block, spec);
    const Recompute recompute = shape.checkpoint.of_block(i).value_or(Recompute{});
    int& kind = recompute.any() ? recomputing : plain;  // blocks of each sort share functions
    if (kind < 0) {
      kind = static_cast<int>(model.kinds.size());
      model.kinds.push_back(block_kind(spec, shape, model, name, block.units(), recompute));
    }
    add_layer(name, kind, block.units());
  }

  LayerDeclaration head(model, shape, "head");
  declare_norm(head, spec, "norm");
  if (!spec.tied_embeddings) declare_table(head, spec, "lm_head");
  units = head.units();
  units.insert(units.end(), tied.begin(), tied.end());
  model.kinds.push_back(head_kind(spec, shape, model, units));
  add_layer("head", static_cast<int>(model.kinds.size()) - 1, units);
  return model;
}

}  // namespace lockstep
