#include "cli/man_page.hpp"

#include <CLI/CLI.hpp>

#include "cli/help.hpp"

namespace lockstep {
namespace {

/// Text as troff takes it: no escapes, no line that begins as a request, no hyphens for minus.
std::string troff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool begins = out.empty() || out.back() == '\n';
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string option_text(const CLI::Option& option) {
  std::string text = ".TP\n.B " + troff(option.get_name(false, true));
  const std::string value = value_name(option);
  if (!value.empty()) text += " \\fI" + troff(value) + "\\fR";
  text += "\n" + troff(option.get_description());
  const std::string usual = option.get_default_str();
  if (!usual.empty()) text += " (default: " + troff(usual) + ")";
  return text + "\n";
}

std::string example_text(const Example& example) {
  return ".TP\n.B lockstep " + troff(example.arguments) + "\n" + troff(example.what) + "\n";
}

std::string command_text(const CLI::App& command) {
  std::string positionals, options;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) {
      positionals += " \\fI" + troff(option->get_name(true)) + "\\fR";
      options += ".TP\n.I " + troff(option->get_name(true)) + "\n" +
                 troff(option->get_description()) + "\n";
    }
  }
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (!option->get_positional() && name != "--help" && name != "--help-all") {
      options += option_text(*option);
    }
  }
  std::string text = ".SS \"lockstep " + troff(command.get_name()) + positionals + "\"\n" +
                     troff(command.get_description()) + "\n" + options;
  for (const Example& example : examples_of(command.get_name())) text += example_text(example);
  for (const CLI::App* sub : command.get_subcommands({})) text += command_text(*sub);
  return text;
}

struct ExitStatus {
  int code;
  const char* meaning;
};
constexpr ExitStatus kExitStatus[] = {
    {0, "done"},
    {2, "the input is wrong; the message has file, line, column and what would be right"},
    {3, "it does not fit into memory; the message has the keys that would make it fit"},
    {4, "a device, a disk or a connection failed, or a process died: run --resume auto goes on"},
    {5, "an [expect] of the scenario failed"},
    {6, "the loss or the gradient norm was not finite"},
    {70, "a fault of Lockstep"},
    {75, "stopped by SIGTERM or SIGINT after a checkpoint: run --resume auto goes on"},
};

struct Variable {
  const char *name, *meaning;
};
constexpr Variable kEnvironment[] = {
    {"COLUMNS", "width of tables; without it that of the terminal, or 100"},
    {"NO_COLOR", "no colours, unless --color always"},
    {"LOCKSTEP_TIMEOUT_SECONDS", "silence of another rank after which it is taken for dead"},
};

}  // namespace

std::string man_page(const CLI::App& app) {
  std::string text = ".TH LOCKSTEP 1\n.SH NAME\nlockstep \\- " + troff(app.get_description()) +
                     "\n.SH SYNOPSIS\n.B lockstep\n.I command\n[\\fIarguments\\fR]\n.SH COMMANDS\n";
  for (const CLI::App* command : app.get_subcommands({})) {
    if (!command->get_group().empty()) text += command_text(*command);
  }
  text += ".SH EXIT STATUS\n";
  for (const ExitStatus& status : kExitStatus) {
    text += ".TP\n.B " + std::to_string(status.code) + "\n" + troff(status.meaning) + "\n";
  }
  text += ".SH ENVIRONMENT\n";
  for (const Variable& v : kEnvironment) {
    text += ".TP\n.B " + troff(v.name) + "\n" + troff(v.meaning) + "\n";
  }
  text += ".SH EXAMPLES\n";
  for (const Example& example : examples_of("")) text += example_text(example);
  return text;
}

}  // namespace lockstep
