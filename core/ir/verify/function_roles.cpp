#include <algorithm>

#include "core/ir/parts.hpp"
#include "core/ir/verify/values.hpp"

namespace lockstep::verification {

/// Finds out from the functions of a role's layers whether they are the user's, and how the layers
/// communicate.
void Values::read_layers(RoleRun& run) {
  using Functions = IndexVector<FunctionId, bool>;
  IndexVector<int, Functions> seen(run.layers, Functions(program_.functions.size()));
  for (const Op& op : run.role.ops) {
    if (op.kind != OpKind::Call || op.layer < 0) continue;
    const Function& function = program_.function(op.function());
    if (function.emitted == 0) run.own_layers[op.layer] = true;
    if (function.exchanges.empty()) continue;
    if (seen[op.layer][op.function()]) continue;
    seen[op.layer][op.function()] = true;
    const std::vector<NamedExchange>& named = exchanges_[op.function()];
    run.exchanges[op.layer].insert(run.exchanges[op.layer].end(), named.begin(), named.end());
  }
}

std::int32_t Values::name(std::string_view text) {
  const auto found = name_ids_.find(text);
  if (found != name_ids_.end()) return found->second;
  const std::int32_t id = names_.next();
  names_.emplace_back(text);
  name_ids_.emplace(text, id);
  return id;
}

void Values::read_names() {
  name("y");
  name("dx");
  for (const Function& function : program_.functions) {
    functions_.push_back(role_of(function));
    std::vector<NamedExchange>& exchanges = exchanges_.emplace_back();
    for (const Exchange& e : function.exchanges) {
      NamedExchange& named =
          exchanges.emplace_back(NamedExchange{e.kind,
                                               {FormalRole::Tensor, name(e.in), -1, {}, 0},
                                               {FormalRole::Tensor, name(e.out), -1, {}, 0}});
      if (e.in == "x") named.in.what = FormalRole::X;
      if (e.in == "dy") named.in.what = FormalRole::Dy;
    }
  }
  for (const std::string& label : program_.names) labels_.push_back(name(label));
  segment_counts_.assign(names_.size(), ByPhase{});
  for (const FunctionRole& f : functions_) {
    if (f.kind < 0) continue;
    int& count = segment_counts_[f.kind][f.phase];
    count = std::max(count, f.segment + 1);
  }
}

IndexVector<int, FormalRole::What> what_formals_are(const Function& function) {
  IndexVector<int, FormalRole::What> all;
  for (std::size_t f = 0; f < function.formals.size(); ++f) {
    const std::string_view formal = part_of(function.formals[f].name).tensor;
    const auto is_unit = [&](std::string_view prefix) {
      return formal.starts_with(prefix) &&
             (formal.size() == prefix.size() || formal[prefix.size()] == '_');
    };
    bool only_output = function.formals[f].access != Access::Read, loss = false;
    for (const Kernel& k : function.kernels) {
      for (const Operand& in : k.in) only_output = only_output && in.formal != static_cast<int>(f);
      const bool entropy =
          k.kind == KernelKind::CrossEntropy || k.kind == KernelKind::CrossEntropyParallel;
      loss = loss || (entropy && k.out.size() > 1 && k.out[1].formal == static_cast<int>(f));
    }
    all.push_back(is_unit("gw") && only_output            ? FormalRole::Gradient
                  : is_unit("w")                          ? FormalRole::Weights
                  : loss && only_output                   ? FormalRole::Loss
                  : formal == "statistics" && only_output ? FormalRole::Statistics
                  : formal == "x"                         ? FormalRole::X
                  : formal == "dy"                        ? FormalRole::Dy
                  : host_data_of(formal)                  ? FormalRole::Data
                                                          : FormalRole::Tensor);
  }
  return all;
}

/// What a function stands for, with its names as numbers.
FunctionRole Values::role_of(const Function& function) {
  FunctionRole role;
  role.own = function.emitted == 0;
  if (!function.name.layer().empty()) role.kind = name(function.name.layer());
  role.phase = function.name.phase();
  role.segment = function.name.segment();
  const IndexVector<int, FormalRole::What> what = what_formals_are(function);
  for (const int f : what.ids()) {
    const TensorPart part = part_of(function.formals[f].name);
    const std::string_view formal = part.tensor;
    FormalRole& r = role.formals.emplace_back();
    r.what = what[f];
    r.name = name(formal);
    r.begin = part.begin(function.formals[f].bytes.v);
    if (r.what == FormalRole::Gradient) r.suffix = name(formal.substr(2));
    if (r.what == FormalRole::Weights) r.suffix = name(formal.substr(1));
    if (r.what == FormalRole::Data) r.data = *host_data_of(formal);
  }
  return role;
}

}  // namespace lockstep::verification
