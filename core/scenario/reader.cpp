#include "core/scenario/reader.hpp"

#include <algorithm>
#include <cctype>
#include <tuple>
#include <utility>

#include "core/base/nearest.hpp"
#include "core/spec/foreign_names.hpp"

namespace lockstep {
namespace {

/// Collects the keys of a section. It is the third visitor of describe(), after Reader and Writer.
class KeyLister {
 public:
  template <class T>
  void field(const char* key, T&, UnitPrefix = UnitPrefix::One) {
    keys.emplace_back(key);
  }
  template <class T>
  void table(const char* key, T&) {
    keys.emplace_back(key);
  }
  template <class T>
  void tables(const char* key, std::vector<T>&) {
    keys.emplace_back(key);
  }
  std::vector<std::string> keys;
};

template <class T>
bool section_has(std::string_view key) {
  KeyLister lister;
  T spec;
  describe(lister, spec);
  return std::find(lister.keys.begin(), lister.keys.end(), key) != lister.keys.end();
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

std::string section_of_key(std::string_view key) {
  std::string found;
  int count = 0;
  const auto note = [&](bool has, const char* section) {
    if (has) found = section, ++count;
  };
  note(section_has<ModelSpec>(key), "model");
  note(section_has<LoraSpec>(key), "lora");
  note(section_has<TrainingSpec>(key), "training");
  note(section_has<ActivationCheckpointSpec>(key), "activation_checkpoint");
  note(section_has<OptimizerSpec>(key), "optimizer");
  note(section_has<LrSchedulerSpec>(key), "lr_scheduler");
  note(section_has<LossScaling>(key), "loss_scale");
  note(section_has<StrategySpec>(key), "parallelism");
  note(section_has<LocalSgdSpec>(key), "local_sgd");
  note(section_has<PowerSgdSpec>(key), "power_sgd");
  note(section_has<CheckpointSpec>(key), "checkpoint");
  note(section_has<CampaignSpec>(key), "campaign");
  note(section_has<ClusterSpec>(key), "cluster");
  note(section_has<DeviceSpec>(key), "cluster.device");
  note(section_has<DataLoaderSpec>(key), "data_loader");
  note(section_has<CostsSpec>(key), "costs");
  note(section_has<WhatIfSpec>(key), "what_if");
  return count == 1 ? found : std::string();
}

void Diagnostics::note(std::vector<Note>& notes, const Location& at, std::string message,
                       ErrorKind kind) {
  if (at.from_override()) message += " (" + at.span.file + " " + at.override_text + ")";
  Note note{at.span, kind, std::move(message)};
  // What is wrong in all points of a sweep is found once for each of them, but noted once.
  if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(std::move(note));
}

void Diagnostics::add(const Location& at, std::string message, ErrorKind kind) {
  note(notes_, at, std::move(message), kind);
}

void Diagnostics::warn(const Location& at, std::string message) {
  note(warnings_, at, std::move(message), ErrorKind::InvalidSpec);
}

void Diagnostics::add_for_key(const std::string& key, const Location& at, std::string message,
                              ErrorKind kind) {
  keys_.push_back(key);
  add(at, std::move(message), kind);
}

bool Diagnostics::has_key(const std::string& key) const {
  return std::find(keys_.begin(), keys_.end(), key) != keys_.end();
}

std::vector<Error> Diagnostics::in_file_order(std::vector<Note> notes) {
  const auto order = [](const Note& n) {
    return std::make_tuple(n.where.line == 0, n.where.line, n.where.column);
  };
  std::stable_sort(notes.begin(), notes.end(),
                   [&](const Note& a, const Note& b) { return order(a) < order(b); });
  std::vector<Error> errors;
  for (Note& note : notes) {
    errors.push_back(Error{note.kind, std::move(note.message), std::move(note.where)});
  }
  return errors;
}

std::vector<Error> Diagnostics::take() {
  keys_.clear();
  return in_file_order(std::exchange(notes_, {}));
}

std::vector<Error> Diagnostics::take_warnings() {
  return in_file_order(std::exchange(warnings_, {}));
}

std::string suggest_and_list(std::string_view name, const std::vector<std::string>& valid) {
  const std::string near = nearest(name, valid);
  return (near.empty() ? "" : "; did you mean '" + near + "'?") +
         std::string(near.empty() ? "; valid: " : " valid: ") + join(valid);
}

Reader::Reader(const Node* table, std::string path, Diagnostics& diagnostics)
    : table_(table), path_(std::move(path)), diagnostics_(diagnostics) {}

void Reader::add(const Node& at, const std::string& key, std::string message) {
  diagnostics_.add_for_key(inner_path(key), at.at, std::move(message));
}

const Node* Reader::expect(const char* key, Node::Kind kind) {
  known_.emplace_back(key);
  const Node* found = node(key);
  if (!found || found->kind == kind) return found;
  add(*found, key,
      std::string(key) + " must be " + std::string(describe_kind(kind)) + ", got " +
          std::string(describe_kind(found->kind)));
  return nullptr;
}

bool Reader::same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

bool Reader::integer(const char* key, const Node& node, std::int64_t low, std::int64_t high,
                     std::int64_t& out) {
  if (node.kind != Node::Kind::Integer) {
    add(node, key,
        std::string(key) + " must be an integer, got " + std::string(describe_kind(node.kind)));
    return false;
  }
  if (node.integer < low || node.integer > high) {
    add(node, key, std::string(key) + "=" + std::to_string(node.integer) + " is out of range");
    return false;
  }
  out = node.integer;
  return true;
}

bool Reader::number(const char* key, const Node& node, double& out) {
  if (!node.is_number()) {
    add(node, key,
        std::string(key) + " must be a number, got " + std::string(describe_kind(node.kind)));
    return false;
  }
  if (!std::isfinite(node.number)) {
    add(node, key, std::string(key) + " must be finite");
    return false;
  }
  out = node.number;
  return true;
}

void Reader::field(const char* key, bool& out) {
  if (const Node* node = expect(key, Node::Kind::Boolean)) out = node->boolean;
}

void Reader::field(const char* key, int& out) {
  known_.emplace_back(key);
  std::int64_t value = 0;
  using Limits = std::numeric_limits<int>;
  if (const Node* n = node(key); n && integer(key, *n, Limits::min(), Limits::max(), value)) {
    out = static_cast<int>(value);
  }
}

void Reader::field(const char* key, std::int64_t& out) {
  known_.emplace_back(key);
  using Limits = std::numeric_limits<std::int64_t>;
  if (const Node* n = node(key)) integer(key, *n, Limits::min(), Limits::max(), out);
}

void Reader::field(const char* key, std::uint64_t& out) {
  // TOML has signed integers only; a negative seed stands for its two's complement.
  auto value = static_cast<std::int64_t>(out);
  field(key, value);
  out = static_cast<std::uint64_t>(value);
}

void Reader::field(const char* key, double& out, UnitPrefix prefix) {
  known_.emplace_back(key);
  double written = 0;
  const Node* n = node(key);
  if (!n || !number(key, *n, written)) return;
  const double si = to_si(prefix, written);
  if (std::isfinite(si)) {
    out = si;
  } else {
    add(*n, key, std::string(key) + " is out of range");
  }
}

void Reader::field(const char* key, std::string& out) {
  // For a string, the value of an override is its text: `--set training.dataset=2024` names a file.
  if (const Node* n = node(key); n && n->at.from_override() && !n->is_table()) {
    known_.emplace_back(key);
    out = n->text;
    return;
  }
  if (const Node* n = expect(key, Node::Kind::String)) out = n->text;
}

void Reader::field(const char* key, std::vector<int>& out) {
  const Node* list = expect(key, Node::Kind::Array);
  if (!list) return;
  out.clear();
  for (const Node& element : list->children) {
    std::int64_t value = 0;
    using Limits = std::numeric_limits<int>;
    if (integer(key, element, Limits::min(), Limits::max(), value)) {
      out.push_back(static_cast<int>(value));
    }
  }
}

void Reader::field(const char* key, std::vector<std::string>& out) {
  const Node* list = expect(key, Node::Kind::Array);
  if (!list) return;
  out.clear();
  for (const Node& element : list->children) {
    if (element.kind == Node::Kind::String) {
      out.push_back(element.text);
    } else {
      add(element, key, std::string(key) + " must be a list of strings");
    }
  }
}

void Reader::field(const char* key, std::vector<double>& out) {
  known_.emplace_back(key);
  const Node* found = node(key);
  if (!found) return;
  if (found->is_number()) {
    double value = 0;
    if (number(key, *found, value)) out = {value};
    return;
  }
  if (found->kind != Node::Kind::Array) {
    add(*found, key,
        std::string(key) + " must be a number or a list of numbers, got " +
            std::string(describe_kind(found->kind)));
    return;
  }
  out.clear();
  for (const Node& element : found->children) {
    double value = 0;
    if (number(key, element, value)) out.push_back(value);
  }
}

void Reader::field(const char* key, Bytes& out, UnitPrefix prefix) {
  double bytes = static_cast<double>(out.v);
  const double before = bytes;
  field(key, bytes, prefix);
  if (bytes == before) return;
  if (std::abs(bytes) < 9e15) {  // below it, a double is exact for every integer
    out.v = std::llround(bytes);
  } else {
    add(*node(key), key, std::string(key) + " is out of range");
  }
}

void Reader::field(const char* key, std::vector<PeakRate>& out) {
  const Node* table = expect(key, Node::Kind::Table);
  if (!table) return;
  out.clear();
  Reader inner(table, inner_path(key), diagnostics_);
  for (const auto& [name, dtype] : choices(DType{})) {
    const std::string type(name);
    FlopsPerSecond rate;
    inner.field(type.c_str(), rate, UnitPrefix::Tera);
    if (inner.given(type)) out.push_back({dtype, rate});
  }
  inner.finish();
}

void Reader::field(const char* key, std::vector<EfficiencyPoint>& out) {
  const Node* list = expect(key, Node::Kind::Array);
  if (!list) return;
  out.clear();
  for (const Node& element : list->children) {
    EfficiencyPoint point;
    if (element.kind != Node::Kind::Array || element.children.size() != 2) {
      add(element, key, "a point is [ideal seconds, efficiency]");
    } else if (number(key, element.children[0], point.ideal.v) &&
               number(key, element.children[1], point.efficiency)) {
      out.push_back(point);
    }
  }
}

void Reader::finish() {
  if (!table_) return;
  constexpr int kMostTold = 100;  // what each could have meant is looked for among all names
  int told = 0;
  for (const Node& child : table_->children) {
    if (std::find(known_.begin(), known_.end(), child.key) != known_.end()) continue;
    if (++told > kMostTold) {
      diagnostics_.add(child.key_at, "this and all further unknown keys of the table are left out");
      return;
    }
    std::string message = "unknown key '" + child.key + "'";
    if (!path_.empty()) message += " in [" + path_ + "]";
    const std::string elsewhere = path_.empty() ? "" : section_of_key(child.key);
    const bool nested = path_.find('.') != std::string::npos;  // "cluster.device"
    const auto foreign = nested ? std::nullopt : foreign_meaning(child.key);
    if (elsewhere.empty() && foreign) {
      message += "; " + std::string(spoken_name(foreign->trainer)) + "'s '" +
                 std::string(foreign->name) + "' is " + std::string(foreign->key) + " here";
    } else if (elsewhere.empty()) {
      message += suggest(child.key, known_);
    } else {
      message += "; it belongs in [" + elsewhere + "]";
    }
    diagnostics_.add(child.key_at, std::move(message));
  }
}

}  // namespace lockstep
