#include "cli/cli.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <new>
#include <system_error>

#include "backends/backends.hpp"
#include "backends/version.hpp"
#include "cli/commands.hpp"
#include "cli/completion.hpp"
#include "cli/man_page.hpp"
#include "cli/model_commands.hpp"
#include "core/base/file_fault.hpp"
#include "core/base/nearest.hpp"
#include "core/fit/constants.hpp"
#include "core/format/format.hpp"

namespace lockstep {
namespace {

constexpr int kUsageError = 2;
constexpr const char* kExamples = R"(Try:
  lockstep run scenarios/schedules/1f1b-p4-m8.toml --timeline   simulate a pipeline, draw its bubble
  lockstep recommend --model llama2-7b --cluster a100-80        how to train a 7B on eight A100s
  lockstep run scenarios/quickstart.toml --backend cpu --out out/first   train a small GPT here)";
constexpr int kOurBug = 70;

/// Parses the subcommands of `lockstep` and their arguments, and remembers what to do.
class Parser {
 public:
  explicit Parser(const Console& console) : console_(console) {
    app_.require_subcommand(1);
    app_.set_help_all_flag("--help-all", "help of every command");
    app_.set_version_flag("--version", version_text("lockstep"));
    app_.get_formatter()->column_width(34);
    app_.footer(kExamples);
    add_run();
    add_report();
    add_compare();
    add_show();
    add_verify();
    add_lesson();
    add_recommend();
    add_search();
    add_calibrate();
    add_validate();
    add_collective();
    add_fit();
    models_.add_to(app_, command_);
    add_list();
    refuse_empty_values();
    add_for_shells();  // to which the word that is being typed may be empty
  }

  int parse_and_run(std::vector<std::string> arguments) {
    const std::vector<std::string> given = arguments;
    run_.command = given;
    if (given.empty()) {
      console_.out << app_.help();
      return kUsageError;
    }
    const std::string unknown = unknown_command(given);
    if (!unknown.empty()) {
      console_.err << "error: " << unknown << "\n";
      return kUsageError;
    }
    try {
      std::reverse(arguments.begin(), arguments.end());  // CLI11 expects the last argument first
      app_.parse(std::move(arguments));
    } catch (const CLI::Success& e) {  // thrown by --help and --version
      return app_.exit(e, console_.out, console_.err);
    } catch (const CLI::ExtrasError&) {
      console_.err << "error: " << unexpected(given) << "\n";
      return kUsageError;
    } catch (const CLI::ParseError& e) {
      console_.err << "error: " << e.what() << "\nlockstep --help says what there is\n";
      return kUsageError;
    }
    return command_();
  }

 private:
  /// An empty value is a variable of the shell that is not set, which must not count as an option
  /// that is not given: a training would be written nowhere, or begin again. A prompt may be empty,
  /// and so is the word that a shell asks to complete. "nan" is no number.
  void refuse_empty_values() {
    const CLI::Validator given(
        [](const std::string& value) {
          return std::string(value.empty() ? "its value is empty" : "");
        },
        "");
    // No comparison with a range is true of it, so that every range would let it through.
    const CLI::Validator is_number(
        [](const std::string& value) {
          return std::string(std::isnan(std::strtod(value.c_str(), nullptr)) ? "it is no number"
                                                                             : "");
        },
        "");
    for (CLI::App* const sub : app_.get_subcommands({})) {
      if (sub->get_name() == "complete") continue;
      for (CLI::Option* const option : sub->get_options()) {
        if (option->get_type_name().starts_with("FLOAT")) option->check(is_number);
        const bool flag = option->get_items_expected_max() == 0;
        if (!flag && option->get_name() != "--prompt") option->check(given);
      }
    }
  }

  std::string unknown_command(const std::vector<std::string>& arguments) const {
    if (arguments.empty() || arguments.front().starts_with("-")) return "";
    std::vector<std::string> names;
    for (const CLI::App* sub : app_.get_subcommands({})) names.push_back(sub->get_name());
    const std::string& name = arguments.front();
    if (std::find(names.begin(), names.end(), name) != names.end()) return "";
    const std::string near = nearest(name, names);
    return "unknown command '" + name + "'" +
           (near.empty() ? "; there are " + joined(names) : "; did you mean '" + near + "'?");
  }

  /// The message for arguments that are left over, with the nearest valid name, which CLI11 does
  /// not say.
  std::string unexpected(const std::vector<std::string>& arguments) const {
    const CLI::App* sub = app_.get_subcommand(arguments.front());
    std::vector<std::string> names;
    for (const CLI::Option* option : sub->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    for (const std::string& argument : arguments) {
      const std::string name = argument.substr(0, argument.find('='));
      if (!name.starts_with("--") || std::find(names.begin(), names.end(), name) != names.end()) {
        continue;
      }
      const std::string near = nearest(name, names);
      return "lockstep " + arguments.front() + " has no option '" + name + "'" +
             (near.empty() ? ": it has " + joined(names) : "; did you mean '" + near + "'?");
    }
    return "lockstep " + arguments.front() + " was given more than it takes";
  }

  static void add_scenario(CLI::App* sub, std::string& scenario, std::vector<std::string>& set,
                           const char* what = "scenario file (TOML)") {
    sub->add_option("scenario", scenario, what)->required()->type_name("FILE");
    sub->add_option("--set", set, "override a key of the scenario, several times")
        ->type_name("SECTION.KEY=VALUE")
        ->take_all()
        ->expected(1);
  }

  void add_run() {
    CLI::App* sub =
        app_.add_subcommand("run", "simulate a scenario or a program's text, or train with it");
    add_scenario(sub, run_.scenario, run_.set, "scenario (TOML), or program as show prints it");
    sub->add_option("--cluster", run_.cluster,
                    "of a program: a preset's name, a profile, or a scenario whose cluster it is")
        ->type_name("PRESET");
    sub->add_option("--data", run_.data,
                    "of a program: what it trains on, as training.dataset of a scenario")
        ->type_name("PATH");
    sub->add_option("--nvme-path", run_.nvme_path,
                    "of a program: a folder on a drive, where its ranks keep states while they run")
        ->type_name("DIR");
    sub->add_option("--checkpoint-every", run_.checkpoint_every,
                    "of a program: steps between checkpoints in --out")
        ->check(CLI::Range(1, 1000000000));
    sub->add_option("--backend", run_.backend,
                    "one of " + joined(backend_names()) +
                        "; reference computes every kernel by its definition, slowly")
        ->capture_default_str();
    sub->add_option("--steps", run_.steps,
                    "steps to run now, with --resume auto in all; otherwise one (sim) or the rest")
        ->check(CLI::Range(1, 1000000000));
    sub->add_option("--resume", run_.resume,
                    "continue from a run folder or a checkpoint folder; auto: start, or go on with "
                    "the newest checkpoint in --out")
        ->type_name("DIR|auto");
    sub->add_option("--accept", run_.accept,
                    "go on although this setting differs from the checkpoint's, several times")
        ->type_name("SECTION.KEY")
        ->take_all()
        ->expected(1);
    sub->add_option("--nproc", run_.processes, "start so many processes on this machine")
        ->check(CLI::Range(1, 4096));
    sub->add_option("--restarts", run_.restarts,
                    "with --nproc: start them again so many times, from the newest checkpoint")
        ->check(CLI::Range(0, 1000000));
    sub->add_option("--bind", run_.bind,
                    "with --nproc: the address at which they listen (default 127.0.0.1)")
        ->type_name("ADDRESS");
    sub->add_option("--out", run_.out, "write the run folder: scenario, program, trace, report")
        ->type_name("DIR");
    sub->add_flag("--tensorboard", run_.tensorboard,
                  "with --out: the metrics of every step for TensorBoard, too, in DIR/tb")
        ->needs("--out");
    sub->add_flag("--json", run_.json, "print report.json instead of tables");
    sub->add_flag("--timeline", run_.timeline, "draw the step: ranks against time");
    sub->add_option("--picture", run_.picture, "draw it as a picture (SVG)")->type_name("FILE");
    sub->add_option("--communicator", run_.communicator,
                    "backend cuda: nccl (a GPU for every rank) or local (all ranks on one)")
        ->check(CLI::IsMember({"nccl", "local"}));
    sub->add_flag("--cuda-graphs", run_.cuda_graphs,
                  "backend cuda: record a step once, then launch it as one graph");
    sub->add_flag("--cudnn", run_.cudnn,
                  "backend cuda: attention and convolutions by cuDNN instead of own kernels");
    sub->add_option("--threads", run_.threads, "threads that compute for each rank (cpu)")
        ->check(CLI::Range(1, 4096))
        ->capture_default_str();
    sub->add_flag("--quiet", run_.quiet, "no progress");
    sub->add_option("--trace-from", run_.trace_from, "first step to trace, counted from this run's")
        ->check(CLI::NonNegativeNumber);
    sub->add_option("--trace-steps", run_.trace_steps, "steps to trace")
        ->check(CLI::Range(1, 1000000));
    sub->final_callback([this] { command_ = [this] { return run_command(run_, console_); }; });
  }

  void add_report() {
    CLI::App* sub = app_.add_subcommand("report", "the figures of a run folder or of a trace");
    sub->add_option("RUN", report_.run,
                    "run folder, trace, or folder of Kineto traces, one per rank")
        ->required()
        ->type_name("PATH");
    sub->add_flag("--json", report_.json, "print report.json instead of tables");
    sub->add_flag("--timeline", report_.timeline, "draw the first step: ranks against time");
    sub->add_option("--picture", report_.picture, "draw it as a picture (SVG)")->type_name("FILE");
    sub->add_option("--names", report_.names,
                    "list so many kernels and calls with the most time of their own")
        ->check(CLI::Range(1, 1000000));
    sub->final_callback(
        [this] { command_ = [this] { return report_command(report_, console_); }; });
  }

  void add_compare() {
    CLI::App* sub = app_.add_subcommand("compare", "lay two runs or traces side by side");
    sub->add_option("A", compare_.a, "as report takes it, or a scenario (.toml) to simulate")
        ->required()
        ->type_name("PATH");
    sub->add_option("B", compare_.b, "as report takes it, or a scenario (.toml) to simulate")
        ->required()
        ->type_name("PATH");
    sub->add_flag("--json", compare_.json, "print JSON instead of tables");
    sub->final_callback(
        [this] { command_ = [this] { return compare_command(compare_, console_); }; });
  }

  void add_show() {
    CLI::App* sub = app_.add_subcommand("show", "what a scenario means, without running it");
    sub->add_option("what", show_.what, "program, schedule, memory or model")->required();
    add_scenario(sub, show_.scenario, show_.set);
    sub->add_option("--rank", show_.rank, "this rank only");
    sub->add_flag("--csv", show_.csv, "of a schedule: as PyTorch's schedule file");
    sub->add_flag("--communication", show_.communication,
                  "with --csv: its second level, with SEND_F, RECV_B, UNSHARD, REDUCE_GRAD, ...");
    sub->add_option("--after", show_.after, "the program as it is after a lowering pass")
        ->type_name("PASS");
    sub->add_flag("--json", show_.json, "print JSON instead of text");
    sub->final_callback([this] { command_ = [this] { return show_command(show_, console_); }; });
  }

  void add_verify() {
    CLI::App* sub = app_.add_subcommand("verify", "what is wrong with a program's text");
    sub->add_option("program", verify_.program, "program text, as show program prints it")
        ->required()
        ->type_name("FILE");
    sub->add_flag("--json", verify_.json, "print JSON: the faults, and what there is of it");
    sub->final_callback(
        [this] { command_ = [this] { return verify_command(verify_, console_); }; });
  }

  void add_lesson() {
    CLI::App* sub = app_.add_subcommand("lesson", "a page of the course, its figures simulated");
    sub->add_option("page", lesson_.page, "page, a file of scenarios/course")
        ->required()
        ->type_name("FILE");
    sub->add_option("--picture", lesson_.picture, "the page's picture, as the page links to it")
        ->type_name("PATH");
    sub->add_flag("--json", lesson_.json, "print JSON: the page's parts and questions");
    sub->final_callback(
        [this] { command_ = [this] { return lesson_command(lesson_, console_); }; });
  }

  void add_search() {
    CLI::App* sub = app_.add_subcommand("search", "the fastest layouts of a scenario's cluster");
    add_scenario(sub, search_.scenario, search_.set);
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
    sub->final_callback(
        [this] { command_ = [this] { return search_command(search_, console_); }; });
  }

  void add_recommend() {
    CLI::App* sub =
        app_.add_subcommand("recommend", "the fastest layout, beside the usual rules of thumb");
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
    sub->add_flag("--json", recommend_.json, "print the answers as JSON");
    sub->final_callback(
        [this] { command_ = [this] { return recommend_command(recommend_, console_); }; });
  }

  void add_calibrate() {
    CLI::App* sub = app_.add_subcommand("calibrate", "measure this machine into a profile for sim");
    sub->add_option("--backend", calibrate_.backend, "cpu or cuda")->required();
    sub->add_option("--out", calibrate_.out, "profile to write (TOML)")
        ->required()
        ->type_name("FILE");
    sub->add_flag("--quick", calibrate_.quick, "fewer sizes and repetitions");
    sub->add_flag("--json", calibrate_.json, "print JSON instead of a table");
    sub->add_option("--dtype", calibrate_.dtype, "of kernels on a GPU (default bfloat16)")
        ->check(CLI::IsMember({"float32", "float64", "bfloat16"}));
    sub->final_callback(
        [this] { command_ = [this] { return calibrate_command(calibrate_, console_); }; });
  }

  void add_validate() {
    CLI::App* sub =
        app_.add_subcommand("validate", "published runs, simulated beside their measurements");
    sub->add_option("file", validate_.file, "rows of training runs or collectives (CSV)")
        ->required()
        ->type_name("FILE");
    sub->add_option("--source", validate_.source, "rows of these sources only: 'zb-*'")
        ->type_name("PATTERN");
    sub->add_option("--row", validate_.row, "this row only")->type_name("ID");
    sub->add_option("--set", validate_.set, "override a key of every scenario, several times")
        ->type_name("SECTION.KEY=VALUE")
        ->take_all()
        ->expected(1);
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
    sub->final_callback(
        [this] { command_ = [this] { return validate_command(validate_, console_); }; });
  }

  void add_collective() {
    CLI::App* sub = app_.add_subcommand("collective", "time and bandwidth of one collective");
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
    sub->final_callback(
        [this] { command_ = [this] { return collective_command(collective_, console_); }; });
  }

  void add_fit() {
    CLI::App* sub = app_.add_subcommand("fit", "constants of a machine from measured times");
    sub->add_option("inputs", fit_.inputs,
                    "CSV of step times, run folders, Kineto traces with shapes or folders of these")
        ->required()
        ->type_name("PATH");
    sub->add_option("--fit", fit_.fit,
                    "constants to fit (docs/fit.md); default: those that the rows can tell")
        ->type_name("KEY[@PROFILE][=START],...");
    sub->add_option("--cluster", fit_.cluster, "of traces: a preset's name, or a profile")
        ->type_name("PRESET");
    sub->add_option("--set", fit_.set, "override a key of every scenario, several times")
        ->type_name("SECTION.KEY=VALUE")
        ->take_all()
        ->expected(1);
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
    sub->final_callback([this] { command_ = [this] { return fit_command(fit_, console_); }; });
  }

  void add_list() {
    CLI::App* sub = app_.add_subcommand("list", "the names that scenarios and commands take");
    sub->add_option("what", list_.what, joined(kLists))->required()->check(CLI::IsMember(kLists));
    sub->add_flag("--json", list_.json, "print JSON instead of a table");
    sub->final_callback([this] { command_ = [this] { return list_command(list_, console_); }; });
  }

  void add_for_shells() {
    CLI::App* script = app_.add_subcommand("completion", "what a shell reads to complete commands");
    script->add_option("shell", shell_, joined(kShells))->required()->check(CLI::IsMember(kShells));
    script->final_callback(
        [this] { command_ = [this] { return print(completion_script(shell_)); }; });
    CLI::App* page = app_.add_subcommand("man", "this program's manual page, for man -l -");
    page->final_callback([this] { command_ = [this] { return print(man_page(app_)); }; });
    CLI::App* words = app_.add_subcommand("complete", "")->group("");  // what the scripts ask
    words->add_option("words", words_)->allow_extra_args();
    words->final_callback([this] {
      command_ = [this] { return print(joined(completions(app_, words_), "\n") + "\n"); };
    });
  }

  int print(const std::string& text) {
    console_.out << text;
    return 0;
  }

  const Console& console_;
  CLI::App app_{
      "See a distributed training step before paying for it, run it for real, and lay "
      "the two side by side.",
      "lockstep"};
  RunArguments run_;
  ReportArguments report_;
  CompareArguments compare_;
  ShowArguments show_;
  VerifyArguments verify_;
  LessonArguments lesson_;
  RecommendArguments recommend_;
  SearchArguments search_;
  CalibrateArguments calibrate_;
  ValidateArguments validate_;
  CollectiveArguments collective_;
  FitArguments fit_;
  ModelCommands models_{console_};
  ListArguments list_;
  std::string shell_;
  std::vector<std::string> words_;
  std::function<int()> command_;
};

}  // namespace

int run_cli(const std::vector<std::string>& arguments, const Console& console) {
  try {
    const int code = Parser(console).parse_and_run(arguments);
    console.out.flush();
    if (console.out || code != 0) return code;
    return report_error(
        console, {ErrorKind::Device, "the output could not be written whole: is the disk full?",
                  std::nullopt});
  } catch (const std::filesystem::filesystem_error& e) {  // of a path that was given
    return report_error(console, {kind_of_file_fault(e.code().value()),
                                  e.path1().string() + ": " + e.code().message(), std::nullopt});
  } catch (const std::bad_alloc&) {
    return report_error(console,
                        {ErrorKind::OutOfMemory,
                         "this machine has no memory left, or none that this process may use "
                         "(ulimit -v): give it more, or a smaller scenario",
                         std::nullopt});
  } catch (const std::system_error& e) {
    if (e.code() != std::errc::resource_unavailable_try_again) {
      console.err << "internal error: " << e.what() << "\n";
      return kOurBug;
    }
    return report_error(console,
                        {ErrorKind::Device,
                         "the system starts no more threads for this process: give it more "
                         "memory (ulimit -v) or processes (ulimit -u), or fewer --threads",
                         std::nullopt});
  } catch (const std::exception& e) {
    console.err << "internal error: " << e.what() << "\n";
    return kOurBug;
  }
}

}  // namespace lockstep
