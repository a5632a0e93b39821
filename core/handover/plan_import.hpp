// Plan import: what torchtitan, Megatron-LM or DeepSpeed trains, as the text of a scenario, with an
// account of every setting of the file: taken, without effect on a plan, or not expressible.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/spec/foreign_names.hpp"

namespace lockstep {

/// What such a file leaves to others.
struct PlanOptions {
  std::string model = {};        // a preset's name or the path of a config.json; empty: the file's
  std::string cluster = "h100";  // a preset's name or a profile's path
  int nodes = 0;                 // 0: what the file says, or as many as its degrees need
  int seq_len = 0;               // 0: what the file says
  int gpus = 0;                  // 0: what the file says, or as many as `nodes` have
  std::string dtype = {};        // "bfloat16", "float16", "float32"; empty: the file's
  std::string framework = {};    // [framework] preset; empty: what the file's trainer runs as
  /// Of a script: values of its variables, of its parameters by their numbers, and of arguments of
  /// the trainer that it does not name.
  std::map<std::string, std::string> arguments = {};
};

struct PlanImport {
  std::string text;                // the scenario, as TOML
  std::vector<std::string> taken;  // "tensor-model-parallel-size = 8 -> tensor_parallel_degree = 8"
  std::vector<std::string> derived;         // what is read beside others: names, and values
  std::vector<std::string> without_effect;  // names
  std::vector<std::string> of_others;       // options of other programs in a script
  std::vector<std::string> unknown;         // a sentence each: settings that are not known here
  std::vector<std::string> lost;     // a sentence each: what the file says and a scenario cannot
  std::vector<std::string> assumed;  // a sentence each: what the file does not say
  std::vector<std::string> names;    // in the file: of the run, the tokenizer, the model
  /// For each line of `text`, why it says what it says: the file's setting, or which one would have
  /// said it. Empty for lines without a key. An error in a line of the scenario is the user's to
  /// mend in the file, which these name.
  std::vector<std::string> reasons;
  std::vector<std::optional<SourceSpan>> places;  // likewise: where the file says it
};

/// Reads TOML of torchtitan 0.2.x (tested: 0.2.1, 0.2.2). `file` names the text in errors. Errors:
/// Parse; InvalidSpec if the file does not say the model and PlanOptions::model neither, or has a
/// value of another type than its setting's.
Result<PlanImport> from_torchtitan(std::string_view text, const std::string& file,
                                   const PlanOptions& options);
/// Reads arguments of Megatron-LM's pretrain_gpt.py: alone, in a shell script, or as the YAML of
/// its tests. A script is evaluated, and no command of it is run. Errors: InvalidSpec, with line
/// and what to give, where what decides the plan is not known.
Result<PlanImport> from_megatron(std::string_view text, const std::string& file,
                                 const PlanOptions& options);
/// Reads JSON of DeepSpeed, whose models are the script's, so that it needs PlanOptions::model.
Result<PlanImport> from_deepspeed(std::string_view text, const std::string& file,
                                  const PlanOptions& options);
/// The numbers of parameters that a name says: 7e9 for "llama-7b", 3e8 for "gpt-300M".
std::vector<double> counts_in(std::string_view name);
/// What can be read, by tool and version, a line each.
std::string readable_plans();
/// One of these. Errors, besides: InvalidSpec for a configuration of a tool that is not read, with
/// what to import instead.
Result<PlanImport> import_plan(Trainer trainer, std::string_view text, const std::string& file,
                               const PlanOptions& options);

/// The trainer whose plans are called that ("megatron"); nullopt if there is none.
std::optional<Trainer> trainer_named(std::string_view name);
/// The scenario and the account of it, as JSON with a final line end.
std::string plan_json(const PlanImport& plan);
/// Errors of the scenario that was made of a plan, as those of the plan's file `from`: what that
/// file says, or leaves out, is what the user can mend. `scenario_file` is where the scenario was
/// written; empty: nowhere.
std::vector<Error> errors_of_plan(const std::vector<Error>& errors, const PlanImport& plan,
                                  const std::string& from, const std::string& scenario_file);

/// Whose file this is, by its content, if it is none of ours.
std::optional<Trainer> recognize_plan(std::string_view text, const std::string& file);

}  // namespace lockstep
