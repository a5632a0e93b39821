#include "cli/cli.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <new>
#include <optional>
#include <sstream>
#include <system_error>

#include "backends/backends.hpp"
#include "backends/version.hpp"
#include "cli/commands.hpp"
#include "cli/completion.hpp"
#include "cli/help.hpp"
#include "cli/key_options.hpp"
#include "cli/man_page.hpp"
#include "cli/measured_commands.hpp"
#include "cli/model_commands.hpp"
#include "cli/planning_commands.hpp"
#include "cli/settings_options.hpp"
#include "core/base/file_fault.hpp"
#include "core/base/nearest.hpp"
#include "core/format/format.hpp"
#include "core/session/program_file.hpp"

namespace lockstep {
namespace {

constexpr int kUsageError = 2;
constexpr int kOurBug = 70;

/// Parses the subcommands of `lockstep` and their arguments, and remembers what to do.
class Parser {
 public:
  Parser(const Console& console, const std::vector<std::string>& arguments)
      : console_(console), given_(arguments) {
    configure_console();
    app_.formatter_fn([this](const CLI::App* app, const std::string&, CLI::AppFormatMode mode) {
      const Screen screen{console_.width, console_.out_color};
      return mode == CLI::AppFormatMode::All ? whole_help_text(*app, screen)
                                             : help_text(*app, screen);
    });
    app_.require_subcommand(1);
    app_.set_help_flag("-h,--help", "this help");
    app_.set_help_all_flag("--help-all", "the help of every command");
    app_.set_version_flag("--version", version_text("lockstep"), "what this binary is");
    add_run();
    add_report();
    add_compare();
    add_show();
    add_verify();
    add_lesson();
    planning_.add_to(app_, command_);
    add_calibrate();
    measured_.add_to(app_, command_);
    models_.add_to(app_, command_);
    add_list();
    refuse_empty_values();
    add_for_shells();  // to which the word that is being typed may be empty
    add_of_every_command(app_);
    for (CLI::App* const sub : app_.get_subcommands({})) add_of_every_command(*sub);
  }

  /// What is wrong with the arguments; nothing if they name a command that can run.
  std::optional<Error> parse() {
    std::vector<std::string> arguments = given_;
    if (!arguments.empty() && arguments.front() == "help" &&
        (arguments.size() == 1 || !arguments[1].starts_with("-"))) {  // "help run" is "run --help"
      arguments.erase(arguments.begin());
      arguments.insert(arguments.begin() + (arguments.empty() ? 0 : 1), "--help");
    }
    if (const std::string unknown = unknown_command(arguments); !unknown.empty()) {
      return invalid(unknown);
    }
    const CLI::App* const sub = command_in(arguments);
    if (sub != nullptr && sub->get_option_no_throw("--set") != nullptr) {
      arguments = with_key_options(arguments);
    }
    run_.command = arguments;
    try {
      std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
      app_.parse(std::move(reversed));  // CLI11 expects the last argument first
    } catch (const CLI::Success& e) {   // thrown by --help and --version
      std::ostringstream text, nowhere;
      app_.exit(e, text, nowhere);
      command_ = [this, said = text.str()] { return print(said); };
    } catch (const CLI::ExtrasError&) {
      return invalid(unexpected(arguments));
    } catch (const CLI::ParseError& e) {
      const std::string of = sub == nullptr ? "" : sub->get_name() + " ";
      return invalid(fault_of(e, sub) + "\nlockstep " + of + "--help says what it takes");
    }
    return std::nullopt;
  }

  int parse_and_run() {
    if (given_.empty()) {
      console_.out << app_.help();
      return kUsageError;
    }
    if (const std::optional<Error> fault = parse()) return report_error(console_, *fault);
    return command_();
  }

 private:
  /// Looks for what every command takes, because errors of other arguments depend on it.
  void configure_console() {
    for (auto argument = given_.begin(); argument != given_.end() && *argument != "--";
         ++argument) {
      console_.json = console_.json || *argument == "--json";
      console_.wide = console_.wide || *argument == "--wide";
      const bool next = *argument == "--color" && argument + 1 != given_.end();
      const std::string when = next                                ? *(argument + 1)
                               : argument->starts_with("--color=") ? argument->substr(8)
                                                                   : "";
      if (when == "always") set_color(console_, Color::Always);
      if (when == "never") set_color(console_, Color::Never);
    }
  }

  void add_of_every_command(CLI::App& app) {
    app.add_option("--color", color_, "when to colour (NO_COLOR is honoured)")
        ->check(CLI::IsMember({"auto", "always", "never"}))
        ->default_str("auto");
    app.add_flag("--wide", wide_, "tables as wide as they are, whatever COLUMNS says");
  }

  const CLI::App* command_in(const std::vector<std::string>& arguments) const {
    for (const CLI::App* sub : app_.get_subcommands({})) {
      if (sub->get_name() == first_word(arguments)) return sub;
    }
    return nullptr;
  }

  /// The first argument that is neither an option of the program nor its value.
  static std::string first_word(const std::vector<std::string>& arguments) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i] == "--color") {
        ++i;
      } else if (!arguments[i].starts_with("-")) {
        return arguments[i];
      }
    }
    return "";
  }

  /// What CLI11 found, in the words of the help.
  static std::string fault_of(const CLI::ParseError& e, const CLI::App* sub) {
    std::string said = e.what();
    if (sub == nullptr) return said;
    for (const CLI::Option* option : sub->get_options()) {
      const std::string name = option->get_name(), value = value_name(*option);
      const bool absent = dynamic_cast<const CLI::RequiredError*>(&e) != nullptr &&
                          option->get_required() && option->count() == 0;
      if (absent) {
        return "lockstep " + sub->get_name() + " needs " +
               (option->get_positional() ? "" : name + " " + value + ": ") +
               option->get_description();
      }
      if (dynamic_cast<const CLI::ArgumentMismatch*>(&e) != nullptr && said.starts_with(name)) {
        return name + " needs a value: " + value + ", " + option->get_description();
      }
    }
    return said;
  }

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
    const std::string name = first_word(arguments);
    if (name.empty()) return "";
    std::vector<std::string> names;
    for (const CLI::App* sub : app_.get_subcommands({})) names.push_back(sub->get_name());
    if (std::find(names.begin(), names.end(), name) != names.end()) return "";
    const std::string near = nearest(name, names);
    return "unknown command '" + name + "'" +
           (near.empty() ? "; the commands are " + joined(names)
                         : "; did you mean '" + near + "'?");
  }

  /// The message for arguments that are left over, with the nearest valid name, which CLI11 does
  /// not say.
  std::string unexpected(const std::vector<std::string>& arguments) const {
    const CLI::App* sub = command_in(arguments);
    if (sub == nullptr) return "lockstep was given more than it takes";
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
      return "lockstep " + sub->get_name() + " has no option '" + name + "'" +
             (near.empty() ? ": it has " + joined(names) : "; did you mean '" + near + "'?");
    }
    return "lockstep " + sub->get_name() + " was given more than it takes";
  }

  static void add_scenario(CLI::App* sub, std::string& scenario, std::vector<std::string>& set,
                           const char* what = "a scenario (TOML)") {
    sub->add_option("scenario", scenario, what)->required()->type_name("FILE");
    add_settings(sub, set);
  }

  static void add_allow(CLI::App* sub, std::vector<std::string>& allow) {
    sub->add_option("--allow", allow,
                    "leave this of a program unproven; replicas: that those which train apart come "
                    "to have the same weights")
        ->check(CLI::IsMember({std::string(kAllowReplicas)}))
        ->expected(1);
  }

  void add_run() {
    CLI::App* sub =
        app_.add_subcommand("run", "simulate a scenario or a program's text, or train with it");
    add_scenario(sub, run_.scenario, run_.set,
                 "a scenario (TOML), or a program as show program prints it");
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
    add_allow(sub, run_.allow);
    sub->add_option("--nproc", run_.processes, "start so many processes on this machine")
        ->check(CLI::Range(1, 4096));
    sub->add_option("--restarts", run_.restarts,
                    "with --nproc: start them again so many times, from the newest checkpoint")
        ->check(CLI::Range(0, 1000000));
    sub->add_option("--bind", run_.bind,
                    "with --nproc: the address at which they listen (default 127.0.0.1)")
        ->type_name("ADDRESS");
    sub->add_flag("--insecure", run_.insecure,
                  "do not warn when other hosts can join a run that has no LOCKSTEP_SECRET");
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
                    "a run folder, a trace, or a folder of Kineto traces, one per rank")
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
    sub->add_option("A", compare_.a, "a first run as report takes it, or a scenario to simulate")
        ->required()
        ->type_name("PATH");
    sub->add_option("B", compare_.b, "a second run as report takes it, or a scenario to simulate")
        ->required()
        ->type_name("PATH");
    sub->add_flag("--json", compare_.json, "print JSON instead of tables");
    sub->final_callback(
        [this] { command_ = [this] { return compare_command(compare_, console_); }; });
  }

  void add_show() {
    CLI::App* sub = app_.add_subcommand("show", "what a scenario means, without running it");
    sub->add_option("what", show_.what, "what to show: program, schedule, memory or model")
        ->required();
    add_scenario(sub, show_.scenario, show_.set);
    sub->get_option("scenario")->required(false);  // show_command() says which is missing
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
    sub->add_option("program", verify_.program, "a program's text, as show program prints it")
        ->required()
        ->type_name("FILE");
    add_allow(sub, verify_.allow);
    sub->add_flag("--json", verify_.json, "print JSON: the faults, and what there is of it");
    sub->final_callback(
        [this] { command_ = [this] { return verify_command(verify_, console_); }; });
  }

  void add_lesson() {
    CLI::App* sub = app_.add_subcommand("lesson", "a page of the course, its figures simulated");
    sub->add_option("page", lesson_.page, "a page's number or file; without one: which there are")
        ->type_name("FILE");
    sub->add_option("--picture", lesson_.picture, "the page's picture, as the page links to it")
        ->type_name("PATH");
    sub->add_flag("--json", lesson_.json, "print JSON: the page's parts and questions");
    sub->final_callback(
        [this] { command_ = [this] { return lesson_command(lesson_, console_); }; });
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

  void add_list() {
    CLI::App* sub = app_.add_subcommand("list", "the names that scenarios and commands take");
    sub->add_option("what", list_.what, joined(kLists) + "; without one: which there are")
        ->check(CLI::IsMember(kLists));
    sub->add_option("word", list_.matches,
                    "of keys: explain the one of this name, or all that have the word in their "
                    "name or meaning");
    sub->add_flag("--json", list_.json, "print JSON instead of a table");
    sub->final_callback([this] { command_ = [this] { return list_command(list_, console_); }; });
  }

  void add_for_shells() {
    CLI::App* script = app_.add_subcommand("completion", "what a shell reads to complete commands");
    script->add_option("shell", shell_, joined(kShells))->required()->check(CLI::IsMember(kShells));
    script->final_callback(
        [this] { command_ = [this] { return print(completion_script(shell_)); }; });
    CLI::App* help = app_.add_subcommand("help", "the help of the program or of a command");
    help->add_option("command", help_of_, "a command")->type_name("COMMAND");
    CLI::App* version = app_.add_subcommand("version", "what this binary is");
    version->final_callback(
        [this] { command_ = [this] { return print(version_text("lockstep") + "\n"); }; });
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

  Console console_;
  const std::vector<std::string> given_;
  CLI::App app_{
      "Predicts the speed and memory of distributed transformer training before GPUs are rented, "
      "and runs the same plan on a CPU.",
      "lockstep"};
  RunArguments run_;
  ReportArguments report_;
  CompareArguments compare_;
  ShowArguments show_;
  VerifyArguments verify_;
  LessonArguments lesson_;
  CalibrateArguments calibrate_;
  PlanningCommands planning_{console_};
  MeasuredCommands measured_{console_};
  ModelCommands models_{console_};
  ListArguments list_;
  std::string shell_, color_, help_of_;
  bool wide_ = false;
  std::vector<std::string> words_;
  std::function<int()> command_;
};

}  // namespace

std::string fault_in(const std::vector<std::string>& arguments) {
  std::ostringstream nowhere;
  const std::optional<Error> fault = Parser({nowhere, nowhere}, arguments).parse();
  return fault ? fault->message : "";
}

int run_cli(const std::vector<std::string>& arguments, const Console& console) {
  try {
    const int code = Parser(console, arguments).parse_and_run();
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
