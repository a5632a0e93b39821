#include "cli/measured_commands.hpp"

#include <CLI/CLI.hpp>

#include "cli/settings_options.hpp"
#include "core/fit/constants.hpp"

namespace lockstep {

void MeasuredCommands::add_to(CLI::App& app, std::function<int()>& command) {
  const auto runs = [&](CLI::App* sub, auto run) {
    sub->final_callback([&command, run] { command = run; });
  };
  CLI::App* sub =
      app.add_subcommand("validate", "published runs, simulated beside their measurements");
  add_validate(sub);
  runs(sub, [this] { return validate_command(validate_, console_); });
  sub = app.add_subcommand("collective", "time and bandwidth of one collective");
  add_collective(sub);
  runs(sub, [this] { return collective_command(collective_, console_); });
  sub = app.add_subcommand("fit", "constants of a machine from measured times");
  add_fit(sub);
  runs(sub, [this] { return fit_command(fit_, console_); });
}

void MeasuredCommands::add_validate(CLI::App* sub) {
  sub->add_option("file", validate_.file, "rows of training runs or collectives (CSV)")
      ->required()
      ->type_name("FILE");
  sub->add_option("--source", validate_.source, "rows of these sources only: 'zb-*'")
      ->type_name("PATTERN");
  sub->add_option("--row", validate_.row, "this row only")->type_name("ID");
  add_settings(sub, validate_.set, "every scenario");
  sub->add_flag("--rows", validate_.rows, "list every row, too");
  sub->add_flag("--scenario", validate_.scenario, "print the scenarios instead of running them");
  sub->add_flag("--json", validate_.json, "print JSON instead of tables");
  sub->add_flag("--markdown", validate_.markdown, "print the tables of docs/validation.md");
  sub->add_option("--svg", validate_.svg, "write a diagram: simulated against measured")
      ->type_name("FILE");
  sub->add_option("--threads", validate_.threads, "threads that simulate; 0: one for each core")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  sub->add_flag("--quiet", validate_.quiet, "no progress");
}

void MeasuredCommands::add_collective(CLI::App* sub) {
  sub->add_option("--kind", collective_.kind,
                  "all_reduce, all_gather, reduce_scatter, broadcast or all_to_all")
      ->capture_default_str();
  sub->add_option("--bytes", collective_.bytes, "the larger buffer of a rank, as nccl-tests says")
      ->type_name("SIZE")
      ->capture_default_str();
  sub->add_option("--cluster", collective_.cluster, "preset, or a profile's file")
      ->capture_default_str();
  sub->add_option("--nodes", collective_.nodes, "nodes")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  sub->add_option("--ranks", collective_.ranks, "ranks, the first of the nodes' (default: all)")
      ->check(CLI::Range(2, 10000000));
  sub->add_flag("--sweep", collective_.sweep, "8 B to 8 GiB, doubling, as nccl-tests does");
  sub->add_flag("--json", collective_.json, "print JSON instead of a table");
}

void MeasuredCommands::add_fit(CLI::App* sub) {
  sub->add_option("inputs", fit_.inputs,
                  "CSV of step times, run folders, Kineto traces with shapes or folders of these")
      ->required()
      ->type_name("PATH");
  sub->add_option("--fit", fit_.fit,
                  "constants to fit (docs/fit.md); default: those that the rows can tell")
      ->type_name("KEY[@PROFILE][=START],...");
  sub->add_option("--cluster", fit_.cluster, "of traces: a preset's name, or a profile")
      ->type_name("PRESET");
  add_settings(sub, fit_.set, "every scenario");
  sub->add_option("--source", fit_.source, "rows of these sources only: 'zb-*'")
      ->type_name("PATTERN");
  sub->add_option("--leave-out", fit_.leave_out,
                  "what is predicted without having been fitted to: each row, or source")
      ->check(CLI::IsMember({"row", "source"}))
      ->capture_default_str();
  sub->add_option("--out", fit_.out, "write the cluster's profile, for cluster.profile")
      ->type_name("FILE");
  sub->add_option("--framework-out", fit_.framework_out,
                  "write the framework's profile, for framework.profile")
      ->type_name("FILE");
  sub->add_flag("--rows", fit_.rows, "list every row, too");
  sub->add_flag("--json", fit_.json, "print JSON instead of tables");
  sub->add_option("--threads", fit_.threads, "threads that simulate; 0: one for each core")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  sub->add_flag("--quiet", fit_.quiet, "no progress");
  std::string constants = "KEY is one of";
  for (const FitConstant& c : fit_constants()) {
    constants += "\n  " + std::string(c.key) + ": " + std::string(c.what);
  }
  sub->footer(constants);
}

}  // namespace lockstep
