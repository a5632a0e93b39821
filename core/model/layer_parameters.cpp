#include "core/model/layer_parameters.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lockstep {
namespace {

constexpr std::string_view kPlain = "_plain", kFrozen = "_frozen";
// Of units whose parameters all ranks hold whole, each with a term of their gradients.
constexpr std::string_view kHeads = "_heads", kAdapters = "_adapters";
constexpr std::string_view kBalance = "_balance", kScales = "_scales";

Parameter parameter_of(std::string name, std::vector<std::int64_t> shape, InitKind init,
                       double scale) {
  Parameter parameter;
  parameter.name = std::move(name);
  parameter.shape = std::move(shape);
  parameter.init = init;
  parameter.init_scale = scale;
  return parameter;
}

/// Whether a layer is one of the blocks, and neither embedding nor head.
bool in_block(std::string_view layer) { return layer.starts_with("blocks."); }

/// Whether a parameter consists of matrices that multiply hidden states. Of experts, each has one.
bool is_hidden_matrix(std::string_view layer, std::string_view suffix, const Parameter& parameter) {
  return in_block(layer) && parameter.shape.size() == (suffix == "_experts" ? 3U : 2U);
}

/// The largest block of at most `most` elements that divides what each expert has of every
/// parameter.
std::int64_t block_of_experts(const std::vector<Parameter>& parameters, std::int64_t most) {
  std::int64_t common = 0;
  for (const Parameter& p : parameters) {
    common = std::gcd(common, p.elements() / p.shape.front());
  }
  std::int64_t block = std::max<std::int64_t>(1, std::min(most, common));
  while (common % block != 0) --block;
  return block;
}

/// A unit's suffix without what tells it from the one beside it.
std::string_view base_of(std::string_view suffix) {
  return suffix.substr(0, std::min(suffix.find(kPlain), suffix.find(kFrozen)));
}

}  // namespace

LayerDeclaration::LayerDeclaration(Model& model, const ModelSpec& spec, const LayerShape& shape,
                                   std::string layer_name)
    : model_(model),
      spec_(spec),
      shape_(shape),
      layer_name_(std::move(layer_name)),
      ranks_(shape.tensor_parallel) {}

LayerDeclaration LayerDeclaration::of_end(Model& model, const ModelSpec& spec,
                                          const LayerShape& shape, std::string layer_name) {
  LayerDeclaration layer(model, spec, shape, std::move(layer_name));
  layer.ranks_ = shape.vocabulary_parts();
  return layer;
}

UnitLayout& LayerDeclaration::unit(const std::string& suffix, const Parameter& parameter) {
  const bool frozen = suffix != kScales && !spec_.trains(parameter.name);
  const MovedBy moved_by = frozen               ? MovedBy::Optimizer
                           : suffix == kBalance ? MovedBy::RouterBias
                           : suffix == kScales  ? MovedBy::DelayedScale
                                                : MovedBy::Optimizer;
  const bool measured = moved_by != MovedBy::Optimizer;
  const bool vector = parameter.shape.size() == 1;
  const bool orthogonalizes =
      shape_.matrices_apart && is_hidden_matrix(layer_name_, suffix, parameter);
  const bool apart = (shape_.plain_apart && vector) ||
                     (shape_.matrices_apart && in_block(layer_name_) && !orthogonalizes);
  const bool plain = !frozen && !measured && apart;
  const std::string name = suffix + std::string(frozen  ? kFrozen
                                                : plain ? kPlain
                                                        : std::string_view());
  for (const LayerUnit& known : units_) {
    if (known.suffix == name) return model_.units[known.unit];
  }
  units_.push_back({static_cast<int>(model_.units.size()), name});
  UnitLayout& fresh = model_.units.emplace_back();
  fresh.name = name.empty() ? layer_name_ : layer_name_ + "." + name.substr(1);
  fresh.decays = !(plain && shape_.plain_apart && vector);
  fresh.orthogonalizes = orthogonalizes && !frozen && !measured;
  fresh.state_block = shape_.state_block;
  fresh.shard_multiple = std::lcm(shape_.shard_multiple, shape_.state_block);
  fresh.frozen = frozen;
  fresh.moved_by = moved_by;
  if (suffix == "_experts") {
    fresh.shard_count = shape_.expert_shard_count;
    if (shape_.expert_parallel > 1) fresh.split_axis = "ep";
    if (shape_.expert_tensor_parallel > 1) {
      fresh.split_axis = (shape_.expert_parallel > 1 ? "ep_" : "") + shape_.expert_axis();
    }
  } else {
    fresh.shard_count = suffix == kBalance || suffix == kScales ? 1 : shape_.shard_count;
    if (ranks_ > 1 && suffix.empty()) {
      fresh.split_axis = ranks_ > shape_.tensor_parallel ? "vocabulary" : "tp";
    }
    if (suffix == "_kv" && shape_.tensor_parallel > shape_.kv_replicas) fresh.split_axis = "kv";
  }
  const bool divided_by_tp = shape_.experts_over_tp || shape_.expert_tensor_parallel > 1;
  const bool each_part_once = suffix.empty() || (suffix == "_experts" && divided_by_tp);
  const bool own_features = suffix == kHeads || suffix == kAdapters || suffix == kScales;
  const bool own_rows = shape_.sequence_parallel && !each_part_once;
  if (suffix == "_kv") {  // each rank has seen its own queries only
    fresh.partial_axes = {"kv_replicate"};
  } else if ((own_features && ranks_ > 1) || own_rows) {
    fresh.partial_axes = {"tp"};
  }
  return fresh;
}

void LayerDeclaration::add(const std::string& name, std::vector<std::int64_t> shape, InitKind init,
                           double scale, const Split& split) {
  const bool divided = split.dim >= 0 && ranks_ > 1;
  const auto rows = split.dim == 0 ? split.sections : std::vector<std::int64_t>{shape[0]};
  Parameter parameter = parameter_of(layer_name_ + "." + name, std::move(shape), init, scale);
  if (divided) {
    parameter.split_dim = split.dim;
    parameter.sections = split.sections;
  }
  const std::string beside(split.summed.empty() ? "_replicated" : split.summed);
  UnitLayout& layout = unit(divided || ranks_ == 1 ? "" : beside, parameter);
  if (!split.heads || shape_.kv_replicas == 1) {
    return append(layout, std::move(parameter), ranks_, rows);
  }
  append(layout, parameter, ranks_, rows, {0, 1});
  append(unit("_kv", parameter), parameter, ranks_ / shape_.kv_replicas, rows,
         {1, static_cast<int>(split.sections.size())});
}

void LayerDeclaration::add_expert(const std::string& name, std::vector<std::int64_t> shape,
                                  InitKind init, double scale,
                                  std::vector<std::int64_t> matrix_rows, const Split& split) {
  Parameter parameter = parameter_of(layer_name_ + "." + name, std::move(shape), init, scale);
  if (matrix_rows.empty()) matrix_rows = {parameter.shape[1]};
  if (shape_.expert_parallel > 1) {
    parameter.split_dim = 0;
    parameter.sections = {parameter.shape[0]};
  }
  if (shape_.expert_tensor_parallel > 1) {
    parameter.split_dim = split.dim;
    parameter.sections = split.sections;
    parameter.first_parts = shape_.expert_parallel;
  }
  UnitLayout& layout = unit("_experts", parameter);
  append(layout, std::move(parameter), shape_.expert_parallel * shape_.expert_tensor_parallel,
         std::move(matrix_rows));
  layout.state_block = block_of_experts(layout.parameters, shape_.state_block);
  layout.shard_multiple = std::lcm(shape_.shard_multiple, layout.state_block);
}

void LayerDeclaration::add_router_bias(const std::string& name, std::int64_t experts) {
  Parameter parameter = parameter_of(layer_name_ + "." + name, {experts}, InitKind::Zeros, 0);
  UnitLayout& layout = unit(std::string(kBalance), parameter);
  append(layout, std::move(parameter), 1, {experts});
}

void LayerDeclaration::add_scales(const std::string& weight) {
  if (!shape_.float8.delayed()) return;
  Parameter parameter =
      parameter_of(layer_name_ + "." + weight + std::string(kFactorScales), {3}, InitKind::Ones, 0);
  UnitLayout& layout = unit(std::string(kScales), parameter);
  append(layout, std::move(parameter), 1, {3});
}

/// A begins with the variance of PEFT's initial values, which are uniform in ±1/sqrt(in); B with
/// zeros, so that an adapter changes nothing at first.
void LayerDeclaration::add_adapter(const std::string& weight, std::int64_t out, std::int64_t in,
                                   const Split& split) {
  const std::int64_t rank = spec_.lora.rank;
  const Split whole{-1, {}, false, kAdapters};
  const bool by_inputs = split.dim == 1;
  add(weight + std::string(kAdapterDown), {rank, in}, InitKind::Normal,
      1 / std::sqrt(3.0 * static_cast<double>(in)), by_inputs ? split : whole);
  add(weight + std::string(kAdapterUp), {out, rank}, InitKind::Zeros, 0, by_inputs ? whole : split);
}

void LayerDeclaration::add_expert_adapter(const std::string& weight, std::int64_t experts,
                                          std::int64_t out, std::int64_t in) {
  const std::int64_t rank = spec_.lora.rank;
  add_expert(weight + std::string(kAdapterDown), {experts, rank, in}, InitKind::Normal,
             1 / std::sqrt(3.0 * static_cast<double>(in)));
  add_expert(weight + std::string(kAdapterUp), {experts, out, rank}, InitKind::Zeros);
}

void LayerDeclaration::append(UnitLayout& layout, Parameter parameter, int parts,
                              std::vector<std::int64_t> matrix_rows, SectionRange sections) {
  layout.offsets.push_back(layout.elements);
  layout.elements += held_elements(parameter, parts, sections);
  layout.sections.push_back(sections);
  layout.matrix_rows.push_back(std::move(matrix_rows));
  layout.parameters.push_back(std::move(parameter));
}

LayerTensors::LayerTensors(FunctionBuilder& f, const Model& model, const std::string& layer_name,
                           const std::vector<LayerUnit>& units)
    : model_(model), units_(units) {
  const std::string prefix = layer_name + ".";
  for (const LayerUnit& used : units) {
    const UnitLayout& unit = model.units[used.unit];
    for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
      const std::string full = unit.parameters[i].name +
                               std::string(unit.sections[i].first > 0 ? base_of(used.suffix) : "");
      const std::int64_t end = i + 1 < unit.offsets.size() ? unit.offsets[i + 1] : unit.elements;
      const std::int64_t elements = end - unit.offsets[i];
      tensors_[full.starts_with(prefix) ? full.substr(prefix.size()) : full] = {
          f.inside("w" + used.suffix, unit.offsets[i], elements, unit.elements,
                   unit.moved_by == MovedBy::DelayedScale ? sum_type(f.dtype()) : f.dtype()),
          unit.frozen ? TensorId{}
                      : f.inside("gw" + used.suffix, unit.offsets[i], elements, unit.padded())};
    }
  }
}

LayerTensors::Tensors LayerTensors::at(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? Tensors{} : found->second;
}

LayerTensors::First LayerTensors::first(FunctionBuilder& f, std::string_view name,
                                        std::int64_t elements) const {
  First first;
  for (const LayerUnit& used : units_) {
    const UnitLayout& unit = model_.units[used.unit];
    for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
      if (!unit.parameters[i].name.ends_with(name)) continue;
      const std::int64_t begin = unit.offsets[i];
      const std::int64_t rest = unit.parameters[i].elements() - elements;
      first.w = f.inside("w" + used.suffix, begin, elements, unit.elements, f.dtype());
      if (unit.frozen) continue;
      first.g = f.inside("gw" + used.suffix, begin, elements, unit.padded());
      f.set_padding("gw" + used.suffix, begin + elements, rest);
    }
  }
  return first;
}

LinearTensors LayerTensors::linear(const std::string& weight, const std::string& bias,
                                   const std::string& suffix) const {
  const std::string down = weight + std::string(kAdapterDown);
  const std::string up = weight + std::string(kAdapterUp) + suffix;
  return {w(weight + suffix),
          w(bias + suffix),
          g(weight + suffix),
          g(bias + suffix),
          {w(down), w(up), g(down), g(up)},
          w(weight + std::string(kFactorScales)),
          g(weight + std::string(kFactorScales))};
}

void LayerTensors::pad(FunctionBuilder& f, std::int64_t used) const {
  for (std::size_t i = units_.size(); i-- > 0;) {
    const UnitLayout& unit = model_.units[units_[i].unit];
    if (unit.frozen) continue;
    const std::int64_t end = used >= 0 && units_[i].suffix.empty() ? used : unit.elements;
    f.set_padding("gw" + units_[i].suffix, end, unit.padded() - end);
  }
}

}  // namespace lockstep
