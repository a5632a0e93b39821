#include "core/handover/torchtitan_account.hpp"

#include <algorithm>
#include <utility>

#include "core/handover/torchtitan_names.hpp"

namespace lockstep {
namespace {

// Settings that change neither what is computed nor where, by their beginnings.
constexpr std::string_view kHarmless[] = {"job.",
                                          "profiling.",
                                          "metrics.",
                                          "comm.",
                                          "debug.",
                                          "experimental.custom_",
                                          "experimental.enable_compiled_autograd",
                                          "memory_estimation.",
                                          "checkpoint.",
                                          "validation.",
                                          "training.gc_",
                                          "training.dataloader.",
                                          "training.data_loader",
                                          "training.deterministic",
                                          "optimizer.implementation",
                                          "model.hf_assets_path",
                                          "model.tokenizer_path",
                                          "model.print_after_conversion",
                                          "model.norm_type",
                                          "training.data_parallel_type",
                                          "quantize.",
                                          "float8.",
                                          "mx.",
                                          "compile.",
                                          "activation_checkpoint.per_op_sac",
                                          "activation_checkpoint.early_stop",
                                          "activation_checkpoint.preserve_rng_state",
                                          "activation_checkpoint.determinism_check",
                                          "activation_checkpoint.debug",
                                          "activation_checkpoint.memory_budget",
                                          "activation_checkpoint.visualize",
                                          "parallelism.pipeline_parallel_first_stage_less_layers",
                                          "parallelism.pipeline_parallel_last_stage_less_layers",
                                          "parallelism.pipeline_parallel_layers_per_stage",
                                          "parallelism.context_parallel_load_balancer",
                                          "parallelism.disable_loss_parallel",
                                          "parallelism.expert_parallel_comm_backend",
                                          "parallelism.pipeline_parallel_expert_parallel_overlap",
                                          "fault_tolerance."};

/// The value as TOML; to_text() is for messages.
std::string toml(const Node& node) {
  return node.kind == Node::Kind::String ? quote(node.text) : to_text(node);
}

}  // namespace

TorchtitanAccount::TorchtitanAccount(const Node& root) : plan_(Trainer::Torchtitan) {
  flatten(root, "");
}

void TorchtitanAccount::flatten(const Node& table, const std::string& path) {
  for (const Node& child : table.children) {
    const std::string said = path + child.key;
    if (child.is_table()) {
      flatten(child, said + ".");
      continue;
    }
    const auto old = std::find_if(std::begin(kOldNames), std::end(kOldNames),
                                  [&](const OldName& row) { return row.old == said; });
    is_old_ |= old != std::end(kOldNames);
    const std::string name(old != std::end(kOldNames) ? old->now : std::string_view(said));
    const auto twice = std::find_if(settings_.begin(), settings_.end(),
                                    [&](const Setting& other) { return other.name == name; });
    if (twice != settings_.end()) {  // what has today's name counts
      Setting other{name, said, &child};
      if (twice->said != name) std::swap(*twice, other);
      plan_.lose(other.said + " = " + toml(*other.node) + ": " + twice->said +
                 " says the same, and counts");
      continue;
    }
    settings_.push_back({name, said, &child});
  }
}

const Node* TorchtitanAccount::find(std::string_view name) {
  for (const Setting& s : settings_) {
    if (s.name != name) continue;
    used_.insert(s.name);
    return s.node;
  }
  return nullptr;
}

const Node* TorchtitanAccount::find_as(std::string_view name, Node::Kind kind) {
  const Node* node = find(name);
  if (node == nullptr) return nullptr;
  const bool fits =
      kind == Node::Kind::Float ? node->is_number() : node->kind == kind;  // or a whole number
  if (fits) return node;
  plan_.lose(shown(name, *node) + ": " +
             std::string(kind == Node::Kind::Float ? "a number" : describe_kind(kind)) +
             " is expected, and its default stands here");
  return nullptr;
}

std::string TorchtitanAccount::word(std::string_view name, std::string_view otherwise) {
  const Node* node = find_as(name, Node::Kind::String);
  return node != nullptr ? node->text : std::string(otherwise);
}

double TorchtitanAccount::number(std::string_view name, double otherwise) {
  const Node* node = find_as(name, Node::Kind::Float);
  return node != nullptr ? node->number : otherwise;
}

std::int64_t TorchtitanAccount::whole(std::string_view name, std::int64_t otherwise) {
  return whole_number(number(name, static_cast<double>(otherwise)));
}

bool TorchtitanAccount::flag(std::string_view name) {
  const Node* node = find_as(name, Node::Kind::Boolean);
  return node != nullptr && node->boolean;
}

void TorchtitanAccount::take(std::string_view key, const std::string& otherwise) {
  const std::string_view name = name_for(Trainer::Torchtitan, key);
  const Node* node = find(name);
  plan_.set(key, node != nullptr ? toml(*node) : otherwise,
            node != nullptr ? shown(name, *node) : "");
}

std::string TorchtitanAccount::shown(std::string_view name, const Node& node) const {
  for (const Setting& s : settings_) {
    if (s.node == &node) name = s.said;
  }
  return std::string(name) + " = " + toml(node);
}

void TorchtitanAccount::account_for_rest() {
  for (const Setting& s : settings_) {
    if (used_.contains(s.name)) continue;
    const bool off = s.node->kind == Node::Kind::Boolean && !s.node->boolean;
    const bool harmless =
        off || std::any_of(std::begin(kHarmless), std::end(kHarmless),
                           [&](std::string_view begin) { return s.name.starts_with(begin); });
    if (harmless) {
      plan_.ignore(s.said);
    } else {
      plan_.lose_unknown(s.name, shown(s.name, *s.node));
    }
  }
  std::vector<std::string> names;
  for (const Setting& s : settings_) names.push_back(s.said);
  plan_.part(names);
}

}  // namespace lockstep
