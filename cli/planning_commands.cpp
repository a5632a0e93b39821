#include "cli/planning_commands.hpp"

#include <CLI/CLI.hpp>

#include "cli/settings_options.hpp"

namespace lockstep {

void PlanningCommands::add_to(CLI::App& app, std::function<int()>& command) {
  const auto runs = [&](CLI::App* sub, auto run) {
    sub->final_callback([&command, run] { command = run; });
  };
  CLI::App* sub =
      app.add_subcommand("recommend", "the fastest layout, next to four published rules of thumb");
  add_recommend(sub);
  runs(sub, [this] { return recommend_command(recommend_, console_); });
  sub = app.add_subcommand("search", "the fastest layouts of a scenario's cluster");
  add_search(sub);
  runs(sub, [this] { return search_command(search_, console_); });
  sub = app.add_subcommand("campaign", "a training of weeks on machines that fail");
  add_campaign(sub);
  runs(sub, [this] { return campaign_command(campaign_, console_); });
}

void PlanningCommands::add_search(CLI::App* sub) {
  sub->add_option("scenario", search_.scenario, "a scenario (TOML)")->required()->type_name("FILE");
  add_settings(sub, search_.set);
  sub->add_option("--top", search_.top, "layouts to show")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  sub->add_option("--seconds", search_.seconds, "try no further layouts after so long")
      ->check(CLI::Range(1e-3, 1e9))
      ->capture_default_str();
  sub->add_option("--threads", search_.threads, "threads that simulate; 0: one for each core")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  sub->add_option("--finalists", search_.finalists, "layouts to simulate in full")
      ->check(CLI::Range(1, 1000))
      ->type_name("N");
  sub->add_option("--objective", search_.objective, "what decides")
      ->check(CLI::IsMember({"time", "throughput", "money", "energy", "memory"}))
      ->capture_default_str();
  sub->add_flag("--sensitivity", search_.sensitivity, "say what the choice depends on");
  sub->add_option("--only", search_.only, "a degree that layouts must have, such as tp=8")
      ->type_name("KEY=N");
  sub->add_option("--max-memory", search_.max_memory_gb, "the most a rank may need, in GB");
  const auto several = [&](const char* name, std::vector<int>& list, const char* text) {
    sub->add_option(name, list, text)->delimiter(',')->check(CLI::Range(1, 1 << 20));
  };
  several("--nodes", search_.nodes, "sizes of the cluster to compare, such as 8,16,32");
  several("--batch", search_.batches, "global batches to compare, such as 512,1024");
  sub->add_option("--dtype", search_.types, "types of products to compare, such as bfloat16,fp8")
      ->delimiter(',')
      ->check(CLI::IsMember(search_types()));
  sub->add_flag("--keep-schedule", search_.keep_schedule, "only the scenario's schedule");
  sub->add_flag("--offload", search_.offload, "also with states in host memory");
  sub->add_flag("--exhaustive", search_.exhaustive, "simulate every layout in full");
  sub->add_option("--write", search_.write, "write the fastest as a scenario")->type_name("FILE");
  sub->add_flag("--json", search_.json, "print all that fit as JSON instead of a table");
  sub->add_flag("--quiet", search_.quiet, "no progress");
  sub->add_flag("--verbose", search_.verbose, "say why layouts were left out, and how many");
}

void PlanningCommands::add_campaign(CLI::App* sub) {
  sub->add_option("scenario", campaign_.scenario, "a scenario with [campaign] (TOML)")
      ->required()
      ->type_name("FILE");
  add_settings(sub, campaign_.set);
  sub->add_option("--runs", campaign_.runs, "campaigns to simulate")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  sub->add_option("--seed", campaign_.seed, "of the failures of the first; the others follow")
      ->capture_default_str();
  sub->add_flag("--json", campaign_.json, "print the answers as JSON");
}

void PlanningCommands::add_recommend(CLI::App* sub) {
  sub->add_option("--model", recommend_.model, "a preset, or a Hugging Face folder or config.json");
  sub->add_option("--cluster", recommend_.cluster, "a preset, or a profile (.toml)");
  sub->add_option("--nodes", recommend_.nodes, "of the cluster")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  sub->add_option("--batch", recommend_.batch, "sequences of a step (16,384 tokens per GPU)")
      ->check(CLI::Range(1, 1 << 30))
      ->type_name("N");
  sub->add_option("--seq-len", recommend_.seq_len, "tokens of a sequence (the model's, to 8192)")
      ->check(CLI::Range(1, 1 << 30))
      ->type_name("N");
  sub->add_flag("--offload", recommend_.offload, "also layouts with states in host memory");
  sub->add_option("--lora", recommend_.lora, "train adapters of this rank alone")
      ->check(CLI::Range(1, 1 << 16))
      ->type_name("RANK");
  sub->add_option("--params", recommend_.params, "instead of a model: 125M, 7B, 1.3e9");
  sub->add_option("--gpu-mem", recommend_.gpu_mem, "instead of a cluster: memory of a GPU")
      ->type_name("GB")
      ->check(CLI::PositiveNumber);
  sub->add_option("--gpus", recommend_.gpus, "instead of a cluster: number of GPUs")
      ->check(CLI::Range(1, 10000000));
  sub->add_option("--interconnect", recommend_.interconnect, "nvlink, infiniband or pcie")
      ->capture_default_str();
  sub->add_option("--seconds", recommend_.seconds, "try no further layouts after so long")
      ->check(CLI::Range(1e-3, 1e9))
      ->capture_default_str();
  sub->add_option("--threads", recommend_.threads, "threads that search; 0: one for each core")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  sub->add_option("--framework", recommend_.framework,
                  "as this software runs it (lockstep list frameworks)")
      ->type_name("NAME");
  sub->add_flag("--json", recommend_.json, "print the answers as JSON");
}

}  // namespace lockstep
