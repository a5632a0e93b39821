#include "cli/show_json.hpp"

#include "core/memory/device_memory.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

Json op_json(const Program& program, const Role& role, OpId id) {
  const Op& op = role.op(id);
  Json json = {{"op", id.v},
               {"name", describe(program, role, id)},
               {"kind", to_string(op.kind)},
               {"stream", to_string(op.stream)}};
  if (op.phase != Phase::None) json["phase"] = to_string(op.phase);
  if (op.stage >= 0) json["stage"] = op.stage;
  if (op.microbatch >= 0) json["microbatch"] = op.microbatch;
  if (op.layer >= 0) json["layer"] = op.layer;
  if (op.kind == OpKind::Call) json["function"] = program.function(op.function()).name.text();
  if (is_collective(op.kind)) json["group"] = program.group(op.group()).name;
  if (is_p2p(op.kind)) json["pp"] = op.peer();
  if (const Bytes bytes = payload_bytes(program, role, op); bytes.v > 0) json["bytes"] = bytes.v;
  Json after = Json::array();
  for (const OpId earlier : role.after_of(op)) after.push_back(earlier.v);
  json["after"] = std::move(after);
  return json;
}

Json arena_json(const Program& program, const Role& role, Tier tier) {
  const OpId at = fullest_op(role, tier);
  IndexArray<BufferKind, std::int64_t, kNumBufferKinds> by_kind{};
  for (const Buffer& b : role.buffers) {
    if (!b.is_view() && b.tier == tier && is_alive(b, at)) by_kind[b.kind] += b.bytes.v;
  }
  Json kinds = Json::object();
  for (const BufferKind kind : by_kind.ids()) {
    if (by_kind[kind] > 0) kinds[std::string(to_string(kind))] = by_kind[kind];
  }
  Json json = {{"arena_bytes", role.arena_of(tier).v}};
  if (!role.ops.empty()) {
    json["most_alive_bytes"] = most_alive(role, tier).v;
    json["most_alive_at"] = describe(program, role, at);
  }
  json["by_kind"] = std::move(kinds);
  return json;
}

template <class Make>
Json of_roles(const Program& program, std::optional<Rank> rank, const Make& make) {
  Json roles = Json::array();
  for (const RoleId id : program.roles.ids()) {
    if (rank && program.role_of_rank[*rank] != id) continue;
    roles.push_back(make(program.roles[id]));
  }
  return roles;
}

}  // namespace

std::vector<PipelineAction> actions_of(const Role& role) {
  std::vector<PipelineAction> actions;
  for (const Op& op : role.ops) {
    if (op.kind != OpKind::Call || op.stream != Stream::Compute || op.microbatch < 0) continue;
    if (op.phase == Phase::O || op.phase == Phase::R || op.phase == Phase::None) continue;
    const PipelineAction action{op.stage, op.phase, op.microbatch};
    if (actions.empty() || actions.back() != action) actions.push_back(action);
  }
  return actions;
}

Json program_json(const Program& program, std::optional<Rank> rank) {
  Json mesh = Json::object(), groups = Json::array(), functions = Json::array();
  for (const MeshDim& dim : program.mesh.dims) mesh[dim.name] = dim.size;
  for (const Group& group : program.groups) {
    Json dims = Json::array();
    for (const int dim : group.dims) dims.push_back(program.mesh.dims[dim].name);
    groups.push_back({{"name", group.name}, {"dims", std::move(dims)}, {"only", group.only}});
  }
  for (const Function& function : program.functions) {
    const Work done = work(function);
    functions.push_back({{"name", function.name.text()},
                         {"kernels", function.kernels.size()},
                         {"flops", done.flops.v},
                         {"memory_bytes", done.bytes.v}});
  }
  return {{"ranks", program.mesh.world_size()},
          {"mesh", std::move(mesh)},
          {"groups", std::move(groups)},
          {"functions", std::move(functions)},
          {"roles", of_roles(program, rank, [&](const Role& role) {
             Json ops = Json::array();
             for (const OpId id : role.ops.ids()) ops.push_back(op_json(program, role, id));
             return Json{{"ranks", role.ranks},
                         {"arena_bytes", role.arena.v},
                         {"host_arena_bytes", role.host_arena.v},
                         {"drive_arena_bytes", role.drive_arena.v},
                         {"ops", std::move(ops)}};
           })}};
}

Json schedule_json(const Program& program, std::optional<Rank> rank) {
  const int pp = program.mesh.index_of("pp");
  Json ranks = Json::array();
  int next = 0;  // the next pipeline coordinate; its ranks share one order
  for (Rank r = 0; r < program.mesh.world_size(); ++r) {
    const int coordinate = pp < 0 ? 0 : program.mesh.coordinate(r, pp);
    if (rank ? r != *rank : coordinate != next) continue;
    Json actions = Json::array();
    for (const PipelineAction& a : actions_of(program.role_of(r))) {
      actions.push_back(
          {{"stage", a.stage}, {"phase", to_string(a.phase)}, {"microbatch", a.microbatch}});
    }
    ranks.push_back({{"pp", coordinate}, {"actions", std::move(actions)}});
    ++next;
  }
  return {{"schedule", std::move(ranks)}};
}

Json memory_json(const Scenario& scenario, const Program& program, std::optional<Rank> rank) {
  return {{"roles", of_roles(program, rank,
                             [&](const Role& role) {
                               const DeviceMemory memory =
                                   device_memory(program, role, scenario.cluster);
                               Json json = {{"ranks", role.ranks},
                                            {"device", arena_json(program, role, Tier::Device)}};
                               for (const Tier tier : {Tier::Host, Tier::Drive}) {
                                 if (role.arena_of(tier).v == 0) continue;
                                 json[std::string(to_string(tier))] =
                                     arena_json(program, role, tier);
                               }
                               Json terms = Json::array();
                               for (const MemoryTerm& term : memory.terms) {
                                 terms.push_back({{"name", term.name},
                                                  {"formula", term.formula},
                                                  {"bytes", term.bytes.v},
                                                  {"given_back", term.given_back}});
                               }
                               const MemoryFigures sums = memory.figures();
                               json["beside_arena"] = std::move(terms);
                               json["max_allocated_bytes"] = sums.allocated.v;
                               json["process_bytes"] = sums.process.v;
                               json["needed_bytes"] = sums.needed.v;
                               return json;
                             })},
          {"device_bytes", memory_per_rank(scenario.cluster, program.mesh.world_size()).v}};
}

Model layers_of(const Scenario& scenario) {
  LayerShape shape;
  shape.seq = scenario.training.seq_len;
  shape.dtype = scenario.training.param_dtype();
  return build_layers(scenario.model, shape);
}

double elements_of(const Model& model, const Layer& layer, std::set<int>& counted) {
  double elements = 0;
  for (const LayerUnit& used : layer.units) {
    if (!counted.insert(used.unit).second) continue;
    for (const Parameter& p : model.units[used.unit].parameters) {
      elements += static_cast<double>(p.elements());
    }
  }
  return elements;
}

Json model_json(const Scenario& scenario, const Program& program) {
  const ModelSpec& spec = scenario.model;
  Json json = {{"name", spec.name}};
  if (spec.architecture == Architecture::Synthetic) {
    json["stages"] = scenario.strategy.num_stages();
    return json;
  }
  const Model model = layers_of(scenario);
  const auto seq = static_cast<double>(scenario.training.seq_len);
  json["parameters"] = model.parameter_count();
  if (spec.experts > 0) json["active_parameters"] = model.active_parameter_count(spec);
  json[spec.is_vision() ? "forward_flops_per_image" : "forward_flops_per_token"] =
      model.forward_flops().v / seq;
  Json layers = Json::array(), parameters = Json::array();
  std::set<int> counted;
  for (const Layer& layer : model.layers) {
    layers.push_back({{"name", layer.name},
                      {"parameters", elements_of(model, layer, counted)},
                      {"forward_flops", layer.forward_flops.v / seq}});
  }
  for (const Parameter& p : program.parameters) {
    Json shape = Json::array();
    for (const std::int64_t extent : p.shape) shape.push_back(extent);
    parameters.push_back(
        {{"name", p.name}, {"shape", std::move(shape)}, {"elements", p.elements()}});
  }
  json["layers"] = std::move(layers);
  json["tensors"] = std::move(parameters);
  return json;
}

}  // namespace lockstep
