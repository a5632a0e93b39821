#include "cli/help.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

namespace lockstep {
namespace {

constexpr Example kExamples[] = {
    {"", "run scenarios/schedules/1f1b-p4-m8.toml --timeline",
     "simulate a pipeline, draw its bubble"},
    {"", "recommend --model llama2-7b --cluster a100-80", "how to train a 7B on eight A100s"},
    {"", "run scenarios/quickstart.toml --backend cpu --out out/first", "train a small GPT here"},
    {"run", "run scenarios/schedules/1f1b-p4-m8.toml --timeline", "simulate and draw a pipeline"},
    {"run", "run scenarios/quickstart.toml --training.seq_len 128",
     "with another value of a key; the same as --set training.seq_len=128"},
    {"run", "run scenarios/quickstart.toml --backend cpu --out out/a --resume auto",
     "train on this machine, or go on where it stopped"},
    {"report", "report out/first --timeline", "figures and timeline of a run"},
    {"report", "report trace.json.gz --names 20", "the 20 kernels with the most time of a trace"},
    {"compare", "compare out/first scenarios/quickstart.toml",
     "a run beside the simulation of its scenario"},
    {"show", "show memory scenarios/clusters/llama2-7b-fsdp-8xh100.toml --rank 0",
     "what is in the memory of a rank, and when"},
    {"show", "show schedule scenarios/schedules/1f1b-p4-m8.toml",
     "the order of forward and backward passes on each rank"},
    {"verify", "verify step.program", "check a program that was written or changed by hand"},
    {"lesson", "lesson 6", "the sixth page: the pipeline and its bubble"},
    {"recommend", "recommend --model llama2-7b --cluster a100-80", "a 7B on eight A100s"},
    {"recommend", "recommend --params 70B --gpu-mem 80 --gpus 64",
     "a decoder of that size on GPUs of 80 GB"},
    {"search", "search scenarios/clusters/llama2-7b-fsdp-8xh100.toml --top 5",
     "the five fastest layouts"},
    {"search", "search scenarios/published/gpt2-1558m-h100.toml --sensitivity",
     "the fastest, and what the choice depends on"},
    {"campaign", "campaign scenarios/published/llama3-405b-16384xh100.toml",
     "Llama 3.1 405B on 16,384 H100s that fail"},
    {"calibrate", "calibrate --backend cpu --quick --out here.toml",
     "a profile of this machine, for cluster.profile"},
    {"validate", "validate validation/training.csv --source 'zb-*' --rows",
     "the published runs of one source, each beside its simulation"},
    {"collective", "collective --kind all_gather --bytes 64MB --cluster h100 --nodes 4",
     "what an all-gather over 32 H100s takes"},
    {"fit", "fit out/first --out fitted.toml", "a profile that agrees with a measured run"},
    {"sample", "sample out/first --prompt \"Once upon a time\" --tokens 50",
     "continue a text with a model that was trained here"},
    {"import", "import torchtitan train.toml --cluster h100 --out scenario.toml",
     "a scenario from torchtitan's configuration"},
    {"import", "import hf gpt2 --out out/gpt2", "weights of Hugging Face's transformers"},
    {"export", "export megatron scenarios/clusters/llama2-7b-fsdp-8xh100.toml",
     "the layout as arguments of Megatron-LM"},
    {"data", "data novel.txt --tokenizer gpt2 --out novel.bin --validation 0.1",
     "token shards to train on and to validate with"},
    {"list", "list models", "the presets of models, and their sizes"},
    {"completion", "completion bash", "for source <(lockstep completion bash)"},
    {"man", "man", "for man -l -"},
    {"help", "help run", "the help of a command"},
    {"version", "version", "what this binary is and can do"},
};

/// What CLI11 calls the type of an option whose value has no name of its own.
const std::map<std::string, std::string> kTypes = {
    {"TEXT", "NAME"}, {"INT", "N"}, {"UINT", "N"}, {"FLOAT", "NUMBER"}, {"BOOLEAN", "true|false"}};
constexpr std::size_t kMostChoices = 28;  // characters; more are told in the description

bool is_flag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

bool is_general(const CLI::Option& option) {
  const std::string name = option.get_name();
  return name == "--help" || name == "--help-all" || name == "--color" || name == "--wide";
}

std::string description(const CLI::Option& option) {
  std::string text = option.get_description();
  const std::string value = option.get_default_str();
  if (!value.empty() && !is_flag(option)) text += " (default: " + value + ")";
  if (option.get_required() && !option.get_positional()) text += " (required)";
  return text;
}

std::string usage(const CLI::App& app) {
  std::string text = "lockstep";
  if (app.get_parent() == nullptr) return text + " COMMAND [ARGUMENTS]";
  text += " " + app.get_name();
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    const std::string name = value_name(*option);
    text += option->get_required() ? " " + name : " [" + name + "]";
  }
  return text + " [OPTIONS]";
}

std::string examples_text(const std::string& command, const Screen& screen) {
  std::string text;
  for (const Example& example : examples_of(command)) {
    const std::string line = "  lockstep " + std::string(example.arguments);
    text += emphasized(wrapped(line, screen, 6), Emphasis::kName, screen) + "\n" +
            wrapped("      " + std::string(example.what) + "\n", screen, 6);
  }
  return text;
}

/// A heading and a table of names and what they mean; nothing without any.
class Section {
 public:
  explicit Section(const char* heading) : heading_(heading) {}
  void add(const std::string& name, const std::string& meaning) {
    table_.add({"  " + name, meaning});
    empty_ = false;
  }
  std::string text(const Screen& screen) const {
    if (empty_) return "";
    return "\n" + emphasized(heading_, Emphasis::kBold, screen) + "\n" + table_.text(screen);
  }

 private:
  const char* heading_;
  TextTable table_{{"", ""}, 2};
  bool empty_ = true;
};

}  // namespace

std::vector<Example> examples_of(const std::string& command) {
  std::vector<Example> examples;
  for (const Example& example : kExamples) {
    if (command == example.command) examples.push_back(example);
  }
  return examples;
}

std::string value_name(const CLI::Option& option) {
  if (is_flag(option)) return "";
  const std::string type = option.get_type_name();
  const std::size_t colon = type.find(':'), brace = type.find('{');
  std::string name = type.substr(0, colon);
  if (brace != std::string::npos && type.find('}', brace) - brace <= kMostChoices) {
    name = type.substr(brace + 1, type.find('}', brace) - brace - 1);
    std::replace(name.begin(), name.end(), ',', '|');
    return name;
  }
  if (const auto known = kTypes.find(name); known != kTypes.end()) {
    return option.get_positional() ? option.get_name(true) : known->second;
  }
  return name;
}

std::string help_text(const CLI::App& app, const Screen& screen) {
  const bool root = app.get_parent() == nullptr;
  Section commands("Commands:"), arguments("Arguments:"), options("Options:"),
      general(root ? "Options:" : "Options of every command:");
  for (const CLI::App* sub : app.get_subcommands({})) {
    if (!sub->get_group().empty()) commands.add(sub->get_name(), sub->get_description());
  }
  for (const CLI::Option* option : app.get_options()) {
    const std::string value = value_name(*option);
    if (option->get_positional()) {
      arguments.add(value, description(*option));
    } else {
      Section& section = root || is_general(*option) ? general : options;
      std::string name = option->get_name(false, true);
      if (const std::size_t comma = name.find(','); comma != std::string::npos) {
        name.insert(comma + 1, " ");
      }
      section.add(name + (value.empty() ? "" : " " + value), description(*option));
    }
  }
  std::string text = wrapped(app.get_description() + "\n", screen) + "\n" +
                     emphasized("Usage:", Emphasis::kBold, screen) + " " +
                     wrapped(usage(app) + "\n", screen, 7) + commands.text(screen) +
                     arguments.text(screen) + options.text(screen) + general.text(screen);
  if (const std::string more = app.get_footer(); !more.empty()) {
    text += "\n" + wrapped(more, screen, 4) + "\n";
  }
  return text + "\n" + emphasized(root ? "Try:" : "Examples:", Emphasis::kBold, screen) + "\n" +
         examples_text(root ? "" : app.get_name(), screen);
}

std::string whole_help_text(const CLI::App& app, const Screen& screen) {
  std::string text = help_text(app, screen);
  for (const CLI::App* sub : app.get_subcommands({})) {
    if (!sub->get_group().empty()) text += "\n\n" + help_text(*sub, screen);
  }
  return text;
}

}  // namespace lockstep
