// PlanWriter: collects the settings of a scenario and the account of where they come from. Internal
// to core/handover.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "core/handover/plan_import.hpp"
#include "core/spec/usual_framework.hpp"

namespace lockstep {

/// A number of a file as a whole one, at most 10^15, so that sums of them are in range.
std::int64_t whole_number(double value);
/// The product of degrees and counts, at most 2^30. What is below 1 counts as 1 here: the scenario
/// refuses it by its name.
std::int64_t product_of(std::initializer_list<std::int64_t> factors);

class PlanWriter {
 public:
  explicit PlanWriter(Trainer trainer) : trainer_(trainer) {}

  /// Sets our key to TOML text. `from` is what the file says: "num-layers 12"; empty: it does not
  /// say so in as many words, and nothing is noted.
  void set(std::string_view key, const std::string& value, const std::string& from = {});
  void set(std::string_view key, std::int64_t value, const std::string& from = {});
  void number(std::string_view key, double value, const std::string& from = {});
  void text(std::string_view key, std::string_view value, const std::string& from = {});
  void flag(std::string_view key, bool value, const std::string& from = {});
  bool has(std::string_view key) const;
  /// Where in the file `from` stands, as the functions above are given it.
  void locate(const std::string& from, SourceSpan where) { places_[from] = std::move(where); }

  /// Says that a setting has no counterpart, and which known one its name may have meant. `shown`
  /// is the setting as the file has it.
  void lose_unknown(const std::string& name, const std::string& shown);
  void ignore(std::string name) { plan_.without_effect.push_back(std::move(name)); }
  void lose(std::string sentence);  // once, however often it is said
  /// Says of a setting that it is not known, or that its value is not.
  void know_not(std::string sentence);
  void belongs_to_others(std::string option) { plan_.of_others.push_back(std::move(option)); }
  /// Leaves every setting in one list. `settings` are the names of all, as the account says them;
  /// of one that stands in several lists the loss counts, and then what is taken; one that stands
  /// in none is read beside others.
  void part(const std::vector<std::string>& settings);
  /// Notes a name that may say how many parameters the model has.
  void name(std::string name) { plan_.names.push_back(std::move(name)); }
  void assume(std::string sentence) { plan_.assumed.push_back(std::move(sentence)); }

  /// [model] from PlanOptions::model. False: it is empty.
  bool take_model(const PlanOptions& options);
  /// [cluster] with nodes for `ranks` ranks. `said` are the nodes that the file names; 0: none.
  void take_cluster(const PlanOptions& options, std::int64_t ranks, std::int64_t said);
  /// [framework], as which the plan is simulated: that of PlanOptions, or else the newest that
  /// usual_framework() has for a run. `from` is what the file says of it. Whether there is one:
  /// clusters of CPUs have none.
  bool take_framework(const PlanOptions& options, const KnownOfRun& run,
                      const std::string& from = {});
  /// How many ranks a node of the cluster has; 8 if the cluster is not known.
  static std::int64_t ranks_of_node(const PlanOptions& options);

  /// Whether something is assumed of a setting.
  bool assumes(const std::string& setting) const;
  /// The width of the model of PlanOptions::model; 0 if it is not known.
  static std::int64_t hidden_of(const PlanOptions& options);

  /// The scenario's text, headed by a line that says where it is from.
  PlanImport finish(const std::string& file);

 private:
  Trainer trainer_;
  PlanImport plan_;
  std::string reason_for(const std::string& key) const;

  std::map<std::string, std::map<std::string, std::string>, std::less<>> sections_;
  std::map<std::string, std::string, std::less<>> from_;   // what the file says, by our key
  std::map<std::string, SourceSpan, std::less<>> places_;  // by what the file says
};

}  // namespace lockstep
