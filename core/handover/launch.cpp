#include "core/handover/launch.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

#include "core/handover/megatron_account.hpp"
#include "core/shell/shell.hpp"

namespace lockstep {
namespace {

using shell::Command;
using shell::Hole;
using shell::Script;
using Words = std::vector<std::string>;

std::string base_name(const std::string& word) { return word.substr(word.rfind('/') + 1); }

std::string dashed(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

Words split(const std::string& text) {
  std::istringstream in(text);
  Words words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::int64_t number_of(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && value > 0 ? value : 0;
}

/// What a program is started with. Short options that say numbers of nodes or processes are told by
/// the long ones.
struct Launcher {
  std::string_view name;   // the last part of its path
  std::string_view nodes;  // its options that say these; parted by blanks
  std::string_view per_node;
  std::string_view all;  // processes
};
constexpr Launcher kLaunchers[] = {
    {"torchrun", "--nnodes", "--nproc-per-node --nproc", ""},
    {"torch.distributed.run", "--nnodes", "--nproc-per-node", ""},
    {"torch.distributed.launch", "--nnodes", "--nproc-per-node", ""},
    {"deepspeed", "--num-nodes", "--num-gpus", ""},
    {"srun", "--nodes -N", "--ntasks-per-node", "--ntasks -n"},
    {"mpirun", "", "--npernode -npernode", "-np -n --np"},
    {"mpiexec", "", "", "-np -n --np"},
    {"accelerate", "--num-machines", "", "--num-processes"},
    {"sbatch", "--nodes -N", "--ntasks-per-node", "--ntasks -n"},
};

bool is_one_of(std::string_view word, std::string_view names) {
  while (!word.empty() && !names.empty()) {
    const std::size_t end = std::min(names.size(), names.find(' '));
    if (names.substr(0, end) == word) return true;
    names.remove_prefix(std::min(names.size(), end + 1));
  }
  return false;
}

bool is_option_of_training(std::string_view word) {
  return word.starts_with("--num-layers") || word.starts_with("--hidden-size") ||
         word.starts_with("--tensor-model-parallel-size") || word.starts_with("--micro-batch-size");
}

bool is_program(const std::string& word) {
  const std::string name = base_name(word);
  return name.starts_with("pretrain_") && name.ends_with(".py");
}

bool trains(const Command& command) {
  return std::any_of(command.words.begin(), command.words.end(), [](const std::string& word) {
    return is_program(word) || is_option_of_training(word);
  });
}

/// The variables that a condition names.
std::set<std::string> names_in(const std::string& condition) {
  std::set<std::string> names;
  for (std::size_t at = condition.find('$'); at != std::string::npos;
       at = condition.find('$', at + 1)) {
    std::size_t begin = at + 1;
    if (begin < condition.size() && condition[begin] == '{') ++begin;
    std::size_t end = begin;
    while (
        end < condition.size() &&
        (std::isalnum(static_cast<unsigned char>(condition[end])) != 0 || condition[end] == '_')) {
      ++end;
    }
    if (end > begin) names.insert(condition.substr(begin, end - begin));
  }
  return names;
}

class LaunchReader {
 public:
  LaunchReader(const Script& script, const std::string& file) : script_(script), file_(file) {}

  Result<Launch> read() {
    std::vector<const Command*> found;
    for (const Command& command : script_.commands) {
      if (trains(command)) found.push_back(&command);
    }
    if (found.empty()) {
      arguments(words_of_variables(), 1);
    } else {
      if (const auto two = several(found)) return *two;
      command(*found.back());
    }
    for (const std::string& sentence : script_.assumed) launch_.assumed.push_back(sentence);
    if (fault_) return *fault_;
    return std::move(launch_);
  }

 private:
  /// Arguments that a script sets and leaves to another to use.
  Words words_of_variables() const {
    Words all;
    for (const std::string& name : script_.order) {
      const auto values = script_.variables.find(name);
      if (values == script_.variables.end()) continue;
      const bool has = std::any_of(values->second.begin(), values->second.end(),
                                   [](const std::string& w) { return w.starts_with("--"); });
      for (const std::string& value : values->second) {
        if (!has && value.find(" --") == std::string::npos) continue;
        const Words words = values->second.size() == 1 ? split(value) : Words{value};
        all.insert(all.end(), words.begin(), words.end());
      }
    }
    return all;
  }

  /// The error if commands are other plans; conditions say which counts.
  std::optional<Error> several(const std::vector<const Command*>& found) {
    const Command& last = *found.back();
    if (!last.under.empty()) {
      const auto& step = last.under.back();
      launch_.assumed.push_back("line " + std::to_string(last.line) + " is run, which needs " +
                                step.condition);
    }
    for (const Command* other : found) {
      if (other->words == last.words) continue;
      const shell::Step* step = !other->under.empty() ? &other->under.back()
                                : !last.under.empty() ? &last.under.back()
                                                      : nullptr;
      std::string how = ": leave one of them in the file";
      if (step != nullptr) {
        how = ", as " + step->condition + " in line " + std::to_string(step->line) +
              " decides: choose with " + how_to_choose(step->condition, step->causes);
      }
      Error error = invalid("trainings are started in lines " + std::to_string(other->line) +
                            " and " + std::to_string(last.line) + how);
      error.where = SourceSpan{file_, other->line, 1};
      return error;
    }
    return std::nullopt;
  }

  std::string how_to_choose(const std::string& condition, const std::vector<int>& causes) const {
    std::set<std::string> names = names_in(condition);
    for (const int cause : causes) {
      const Hole& hole = script_.holes[static_cast<std::size_t>(cause)];
      if (hole.kind == Hole::Kind::Unset && hole.name != "@") names.insert(hole.name);
    }
    std::string text;
    for (const std::string& name : names) {
      text += (text.empty() ? "--arg " : " or --arg ") + name + "=VALUE";
    }
    return text.empty() ? "a file without the other way" : text;
  }

  /// What has to be known to say a word's value.
  std::string ask(const std::string& word) const {
    const Hole& hole = script_.holes[static_cast<std::size_t>(shell::holes_of(word).front())];
    if (hole.kind == Hole::Kind::Ways) {
      std::string text;
      for (const shell::Way& way : hole.ways) {
        std::string value;
        for (const std::string& part : way.words)
          value += (value.empty() ? "" : " ") + shell::spoken(part, script_);
        text += (text.empty() ? "" : ", ") + (value.empty() ? "nothing" : value) + " if " +
                way.condition + " (line " + std::to_string(way.line) + ")";
      }
      std::string condition;
      for (const shell::Way& way : hole.ways) condition += way.condition + " ";
      if (condition.starts_with("for ")) {
        return text + ": choose with --arg " + hole.name + "=VALUE";
      }
      return text + ": choose with " + how_to_choose(condition, hole.causes);
    }
    if (hole.kind == Hole::Kind::Unset) {
      return "nothing here sets $" + hole.name + ": give --arg " + hole.name + "=VALUE";
    }
    for (const int cause : hole.causes) {
      const Hole& other = script_.holes[static_cast<std::size_t>(cause)];
      if (other.kind == Hole::Kind::Unset) {
        return "nothing here sets $" + other.name + ": give --arg " + other.name + "=VALUE";
      }
    }
    if (hole.kind == Hole::Kind::Output) return "no command is run";
    const std::string how = how_to_choose(hole.name, {});
    return "it needs what no line here says" + (how.starts_with("--") ? ": give " + how : "");
  }

  void command(const Command& command) {
    launch_.launches = true;
    const Words& words = command.words;
    std::size_t program = words.size();
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words[i].ends_with(".py")) program = i;
      if (is_program(words[i])) break;
    }
    if (program == words.size()) {  // a program that is not told by its name
      program = 0;
      while (program < words.size() && !is_option_of_training(words[program])) ++program;
      if (program > 0) --program;
      while (program > 0 && words[program].starts_with("--")) --program;
    }
    if (program < words.size() && !words[program].starts_with("--")) {
      launch_.program = {base_name(shell::spoken(words[program], script_)), command.line};
    }
    launchers(Words(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(program)));
    const std::size_t first = words[program].starts_with("--") ? program : program + 1;
    arguments(Words(words.begin() + static_cast<std::ptrdiff_t>(std::min(first, words.size())),
                    words.end()),
              command.line);
  }

  /// The words before the program.
  void launchers(const Words& words) {
    const Launcher* launcher = nullptr;
    std::string command;
    bool starts_processes = false;
    std::int64_t per_node = 0;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string name = base_name(words[i]);
      const auto found = std::find_if(std::begin(kLaunchers), std::end(kLaunchers),
                                      [&](const Launcher& row) { return row.name == name; });
      if (found != std::end(kLaunchers)) {
        launcher = found;
        command = name;
        starts_processes |= name != "srun" && name != "sbatch";
        if (name.starts_with("torch")) {
          per_node = 1;
          if (launch_.nodes == 0) launch_.nodes = 1;
        }
        continue;
      }
      if (!words[i].starts_with("-")) {
        if (i == 0) command = name;
        continue;
      }
      const std::size_t equals = words[i].find('=');
      std::string option = words[i].substr(0, equals);
      if (option.starts_with("--")) option = dashed(option);
      const bool has_value =
          equals != std::string::npos || (i + 1 < words.size() && !words[i + 1].starts_with("-"));
      const std::string value = equals != std::string::npos ? words[i].substr(equals + 1)
                                : has_value                 ? words[i + 1]
                                                            : "";
      const std::string shown =
          command + " " + shell::spoken(words[i], script_) +
          (equals == std::string::npos && has_value ? " " + shell::spoken(value, script_) : "");
      const bool nodes = launcher != nullptr && is_one_of(option, launcher->nodes);
      const bool each = launcher != nullptr && is_one_of(option, launcher->per_node);
      const bool all = launcher != nullptr && is_one_of(option, launcher->all);
      if (!nodes && !each && !all) {
        launch_.of_others.push_back(shown);
        continue;
      }
      const std::int64_t number = number_of(value);
      if (number == 0 && launch_.unknown_gpus.empty()) {
        launch_.unknown_gpus = shown + (shell::has_hole(value) ? ": " + ask(value) : "");
      }
      if (nodes) launch_.nodes = number;
      if (each) per_node = number;
      if (all) launch_.ranks = number;
      launch_.from += (launch_.from.empty() ? "" : ", ") + shown;
    }
    if (per_node > 0 && launch_.nodes > 0 && launch_.unknown_gpus.empty()) {
      launch_.ranks = launch_.nodes * per_node;
    } else if (per_node > 0 && command == "deepspeed") {
      launch_.ranks = per_node;
      launch_.nodes = 1;
    }
    if (!starts_processes && launch_.from.empty()) launch_.ranks = 0;
  }

  struct Argument {
    std::string name, value;
    bool operator<(const Argument& other) const {
      return std::tie(name, value) < std::tie(other.name, other.value);
    }
  };
  std::vector<Argument> arguments_of(const Words& words) const {
    std::vector<Argument> all;
    for (const std::string& given : words) {
      for (const std::string& word :
           given.find(" --") != std::string::npos ? split(given) : Words{given}) {
        if (word.starts_with("--")) {
          const std::size_t equals = word.find('=');
          all.push_back({word.substr(2, equals == std::string::npos ? equals : equals - 2),
                         equals == std::string::npos ? "" : word.substr(equals + 1)});
        } else if (!all.empty()) {
          all.back().value += (all.back().value.empty() ? "" : " ") + word;
        }
      }
    }
    return all;
  }

  /// Options that only some ways have.
  void options_of_ways(const std::string& word, const Hole& hole, int line) {
    std::vector<std::set<Argument>> ways;
    std::set<std::string> differ;
    for (const shell::Way& way : hole.ways) {
      const Words words = way.words.size() == 1 ? split(way.words.front()) : way.words;
      const std::vector<Argument> all = arguments_of(words);
      ways.emplace_back(all.begin(), all.end());
    }
    for (const auto& way : ways) {
      for (const Argument& argument : way) {
        const bool everywhere = std::all_of(
            ways.begin(), ways.end(), [&](const auto& other) { return other.contains(argument); });
        if (everywhere) continue;
        const std::string name = dashed(argument.name);
        differ.insert(name);
      }
    }
    for (const Argument& argument : ways.front()) {
      if (!differ.contains(dashed(argument.name))) add(argument.name, argument.value, line);
    }
    for (const std::string& name : differ) {
      if (is_without_effect(name)) {
        launch_.harmless.push_back(name);
      } else if (!fault_) {
        fault_ = invalid("two plans: " + shell::spoken(word, script_) + " is " + ask(word));
        fault_->where = SourceSpan{file_, hole.line, 1};
      }
    }
  }

  void add(const std::string& name, const std::string& value, int line) {
    MegatronArgument argument{dashed(name), shell::spoken(value, script_), line};
    if (shell::has_hole(value)) argument.unknown = ask(value);
    launch_.arguments.push_back(std::move(argument));
  }

  void arguments(const Words& words, int line) {
    for (const std::string& given : words) {
      const bool has_more = given.starts_with("--") && given.find(' ') != std::string::npos;
      for (const std::string& word : has_more ? split(given) : Words{given}) argument(word, line);
    }
    flush(line);
  }

  void argument(const std::string& word, int line) {
    if (word.starts_with("--") && word.size() > 2) {
      flush(line);
      const std::size_t equals = word.find('=');
      open_ = Argument{word.substr(2, equals == std::string::npos ? equals : equals - 2),
                       equals == std::string::npos ? "" : word.substr(equals + 1)};
      return;
    }
    const std::vector<int> holes = shell::holes_of(word);
    if (holes.size() == 1 && word.front() == shell::kHoleBegin && word.back() == shell::kHoleEnd) {
      const Hole& hole = script_.holes[static_cast<std::size_t>(holes.front())];
      const bool has_options =
          std::any_of(hole.ways.begin(), hole.ways.end(), [](const shell::Way& way) {
            return std::any_of(way.words.begin(), way.words.end(), [](const std::string& w) {
              return w.find("--") != std::string::npos;
            });
          });
      if (has_options) {
        flush(line);
        return options_of_ways(word, hole, line);
      }
      const bool more = hole.name == "@" || hole.name.find("ARG") != std::string::npos ||
                        hole.name.find("OPT") != std::string::npos ||
                        hole.name.find("args") != std::string::npos ||
                        hole.name.find("opt") != std::string::npos;
      const bool nothing = hole.kind == Hole::Kind::Ways && !open_;
      if ((hole.kind == Hole::Kind::Unset && (more || !open_ || !open_->value.empty())) ||
          nothing) {
        launch_.assumed.push_back("that $" + hole.name + " adds no argument" +
                                  (hole.name == "@" ? "" : " (--arg " + hole.name + "=VALUE)"));
        return;
      }
    }
    if (open_) open_->value += (open_->value.empty() ? "" : " ") + word;
  }
  void flush(int line) {
    if (open_) add(open_->name, open_->value, line);
    open_.reset();
  }

  const Script& script_;
  const std::string& file_;
  Launch launch_;
  std::optional<Argument> open_;
  std::optional<Error> fault_;
};

/// What the head of a script for Slurm asks for.
struct Slurm {
  std::int64_t nodes = 0, tasks = 0, per_node = 0, gpus = 0;
  std::string from;
  std::vector<std::string> others;
};
Slurm slurm_of(std::string_view text) {
  Slurm slurm;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("#SBATCH")) continue;
    std::replace(line.begin(), line.end(), '=', ' ');
    const Words words = split(line);
    if (words.size() < 2) continue;
    const std::string value = words.size() > 2 ? words[2].substr(words[2].rfind(':') + 1) : "";
    const std::int64_t number = number_of(value);
    const std::string& option = words[1];
    std::int64_t* const what =
        option == "--nodes" || option == "-N"    ? &slurm.nodes
        : option == "--ntasks" || option == "-n" ? &slurm.tasks
        : option == "--ntasks-per-node"          ? &slurm.per_node
        : option == "--gpus-per-node" || (option == "--gres" && words[2].starts_with("gpu"))
            ? &slurm.gpus
            : nullptr;
    if (what == nullptr || number == 0) {
      slurm.others.push_back("#SBATCH " + option);
      continue;
    }
    *what = number;
    slurm.from += (slurm.from.empty() ? "#SBATCH " : " ") + option + " " + value;
  }
  return slurm;
}

}  // namespace

Result<Launch> launch_of(std::string_view text, const std::string& file,
                         const std::map<std::string, std::string>& given) {
  const Slurm slurm = slurm_of(text);
  std::map<std::string, std::string> values = given;
  const auto know = [&](std::int64_t value, std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (value > 0) values.try_emplace(name, std::to_string(value));
    }
  };
  const std::int64_t each = slurm.per_node > 0 ? slurm.per_node : 0;
  know(slurm.nodes, {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"});
  know(slurm.gpus, {"SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"});
  know(each, {"SLURM_NTASKS_PER_NODE"});
  know(slurm.tasks > 0 ? slurm.tasks : slurm.nodes * each, {"SLURM_NTASKS", "SLURM_NPROCS"});
  const Result<Script> script = shell::evaluate(text, file, values);
  if (!script) return script.error();
  Result<Launch> launch = LaunchReader(*script, file).read();
  if (!launch) return launch;
  for (const auto& [name, value] : given) {
    const bool known =
        script->read.contains(name) ||
        std::find(script->order.begin(), script->order.end(), name) != script->order.end();
    if (!known) launch->unused.push_back(name);
  }
  launch->of_others.insert(launch->of_others.end(), slurm.others.begin(), slurm.others.end());
  if (launch->ranks == 0 && slurm.nodes > 0 && launch->unknown_gpus.empty()) {
    const std::int64_t tasks = slurm.tasks > 0 ? slurm.tasks : slurm.nodes * slurm.per_node;
    launch->ranks = slurm.gpus > 0 ? slurm.nodes * slurm.gpus : tasks;
    launch->nodes = slurm.nodes;
    launch->from = slurm.from;
  }
  return launch;
}

}  // namespace lockstep
