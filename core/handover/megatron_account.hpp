// MegatronAccount: the arguments of Megatron-LM, and which of them have been accounted for.
// Internal to core/handover.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/handover/megatron_arguments.hpp"
#include "core/handover/plan_writer.hpp"

namespace lockstep {

/// Whether an argument changes neither what is computed nor where.
bool is_without_effect(std::string_view name);

class MegatronAccount {
 public:
  /// Of an argument that stands twice the last counts, and the plan says so.
  explicit MegatronAccount(const std::vector<MegatronArgument>& arguments);

 protected:
  bool given(const std::string& name) const { return given_.count(name) > 0; }
  /// Of all arguments, in their order.
  const std::vector<std::string>& names() const { return order_; }
  /// All words of an argument's value. Requires that it is given.
  const std::string& words(const std::string& name) const { return given_.at(name).value; }
  /// "--name value", for the plan's account. Requires that it is given.
  std::string from(const std::string& name) const;
  std::string from_if_given(const std::string& name) const {
    return given_.contains(name) ? from(name) : "";
  }

  /// These read an argument and note that it is known. The first word of its value; empty if it is
  /// not given.
  std::string word(const std::string& name);
  bool flag(const std::string& name);
  /// A number that is given and can be read; the plan names one that cannot.
  std::optional<double> number(const std::string& name);
  std::int64_t integer(const std::string& name, std::int64_t otherwise);
  /// Sets our key to the value of its argument, or to Megatron's default, and returns it.
  std::int64_t take(std::string_view key, std::int64_t otherwise);
  double take_real(std::string_view key, double otherwise);

  /// Notes that an argument is accounted for; all arguments that begin so.
  void know(const std::string& name) { known_.insert(name); }
  void know_all(std::string_view begin);
  /// Names in the plan what has not been accounted for.
  void account_for_rest();
  /// What decides the plan and is not known: the first argument of that kind, and how to say it.
  std::optional<Error> unknown_decision(const std::string& file) const;
  /// Every argument as the account's lists show it.
  std::vector<std::string> shown_arguments() const;

  PlanWriter plan_;

 private:
  std::map<std::string, MegatronArgument, std::less<>> given_;
  std::vector<std::string> order_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace lockstep
