// TorchtitanAccount: the settings of a TOML file of torchtitan, by the names of version 0.2, and
// which of them have been accounted for. Internal to core/handover.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/handover/plan_writer.hpp"
#include "core/scenario/document.hpp"

namespace lockstep {

class TorchtitanAccount {
 public:
  /// `root` must outlive it. Of a setting that stands under its old and its new name the latter
  /// counts, and the plan says so.
  explicit TorchtitanAccount(const Node& root);

 protected:
  /// Whether the file has names of versions before 0.2.
  bool is_old() const { return is_old_; }

  /// These read a setting and note that it is known; null if it is not there.
  const Node* find(std::string_view name);
  /// A value of another kind is named in the plan, and `otherwise` stands for it.
  std::string word(std::string_view name, std::string_view otherwise);
  double number(std::string_view name, double otherwise);
  std::int64_t whole(std::string_view name, std::int64_t otherwise);
  bool flag(std::string_view name);
  /// Takes what has the same meaning, or torchtitan's default, as TOML.
  void take(std::string_view key, const std::string& otherwise);

  /// "training.batch_size = 8", as the file says it.
  std::string shown(std::string_view name, const Node& node) const;
  /// Names in the plan what has not been accounted for.
  void account_for_rest();

  PlanWriter plan_;

 private:
  struct Setting {
    std::string name;  // as version 0.2 calls it
    std::string said;  // as the file does
    const Node* node;
  };
  void flatten(const Node& table, const std::string& path);
  const Node* find_as(std::string_view name, Node::Kind kind);

  std::vector<Setting> settings_;
  std::set<std::string, std::less<>> used_;
  bool is_old_ = false;
};

}  // namespace lockstep
