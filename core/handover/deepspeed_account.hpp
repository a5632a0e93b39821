// DeepSpeedAccount: the settings of DeepSpeed's JSON, and which of them have been accounted for.
// Internal to core/handover.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/handover/json_settings.hpp"
#include "core/handover/plan_writer.hpp"

namespace lockstep {

class DeepSpeedAccount {
 public:
  /// `config` must outlive it.
  explicit DeepSpeedAccount(const JsonSettings& config);

 protected:
  struct Setting {
    std::string name;  // dotted
    nlohmann::ordered_json value;
  };
  /// The name that a setting of stage 3 has beside its own, without "stage3_".
  static std::string_view short_name(std::string_view name);
  static std::string shown(const Setting& setting);  // "name = value"
  std::string_view name_of(std::string_view key) const { return name_for(Trainer::DeepSpeed, key); }

  /// "auto": Hugging Face's Trainer puts in what its arguments and the model say. Notes that the
  /// setting is known; what stands for it is for the reader to assume.
  bool is_auto(const Setting& setting);

  /// These read a setting and note that it is known; null, or `otherwise`, if it is not given. One
  /// that has a value of another type is refused.
  const Setting* find(std::string_view name);
  /// Numbers may stand in quotes.
  const Setting* number_at(std::string_view name, double& value);
  /// A number of things, of which there is at least one.
  const Setting* count_at(std::string_view name, double& value);
  double number(std::string_view name, double otherwise);
  bool flag(std::string_view name, bool otherwise);
  std::string word(std::string_view name);  // empty if it is not given
  /// Sets our key to the value of its setting, if that is given.
  void take(std::string_view key);
  void take_whole(std::string_view key);

  /// Whether a value is a list of two numbers, of which torch.optim allows null.
  bool is_pair(const Setting& setting);
  /// Notes that a value is none of those that its setting can have.
  void refuse(const Setting& setting, const std::string& expected);
  /// The first in the file that was refused.
  const std::optional<Error>& fault() const { return fault_; }
  /// Notes that settings that begin so have no effect, and why.
  void ignore_all(std::string_view begin, const std::string& why);
  /// Names in the plan what has not been accounted for.
  void account_for_rest();

  PlanWriter plan_;

 private:
  void flatten(const nlohmann::ordered_json& object, const std::string& path);

  const std::map<std::string, SourceSpan, std::less<>>& places_;
  std::optional<Error> fault_;
  std::vector<std::string> switched_off_;
  std::vector<Setting> settings_;
  std::set<std::string, std::less<>> used_;
};

}  // namespace lockstep
