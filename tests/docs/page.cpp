#include "tests/docs/page.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "core/format/table.hpp"
#include "tests/cli/command_line.hpp"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

bool starts_a_command(const std::string& line) {
  return std::regex_search(line, std::regex(R"(^( {4})?(\$ )?lockstep [a-z])"));
}

std::size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, text_width(line));
  return widest;
}

/// Renders one page: a reader of its lines that remembers the last output and the figures' command.
class Renderer {
 public:
  Renderer(const std::string& name, const std::string& text, int width)
      : name_(name), lines_(text), width_(width) {}

  RenderedPage page() {
    for (std::string line; next(line);) {
      if (line.starts_with("```")) {
        block(line);
      } else if (line == "<!--sh") {
        hidden_commands();
      } else {
        if (line.starts_with("    ") && starts_a_command(line)) {
          fault("a command outside of a block of sh");
        }
        in_table_ = line == "<!--run-->" || (in_table_ && line.starts_with("|"));
        if (in_table_) run_cells(line);
        page_.text += with_figures(line) + "\n";
      }
    }
    return std::move(page_);
  }

 private:
  bool next(std::string& line) {
    ++number_;
    return bool(std::getline(lines_, line));
  }

  void fault(const std::string& words) {
    page_.faults.push_back(name_ + ":" + std::to_string(number_) + ": " + words);
  }

  /// The lines up to one that is `end`, which is read, too. `first` is added to the page before.
  std::vector<std::string> lines_until(const std::string& end) {
    std::vector<std::string> lines;
    for (std::string line; next(line) && line != end;) lines.push_back(line);
    return lines;
  }

  void block(const std::string& fence) {
    std::istringstream head(fence.substr(3));
    std::string language, rest;
    head >> language >> rest;
    std::vector<std::string> lines = lines_until("```");
    if (language == "sh") {
      for (const std::string& command : joined(lines)) {
        if (rest.starts_with("needs=")) {
          check(command);
        } else if (rest.empty()) {
          run(command);
        } else {
          fault("'" + rest + "' after sh: only needs=… may stand there");
        }
      }
    } else if (language == "output") {
      std::istringstream output(select_paragraphs(output_, rest));
      lines.clear();
      for (std::string line; std::getline(output, line);) lines.push_back(line);
      if (lines.empty()) fault("the command above prints nothing that is shown here");
    } else {
      if (language.empty()) fault("a block of code without a language");
      for (const std::string& line : lines) {
        if (starts_a_command(line)) fault("a command outside of a block of sh: " + line);
      }
      if (rest.find('.') != std::string::npos) {
        std::ofstream file(rest);
        for (const std::string& line : lines) file << line << "\n";
      }
    }
    page_.text += fence + "\n";
    for (const std::string& line : lines) page_.text += line + "\n";
    page_.text += "```\n";
  }

  void hidden_commands() {
    const std::vector<std::string> lines = lines_until("-->");
    for (const std::string& command : joined(lines)) run(command);
    page_.text += "<!--sh\n";
    for (const std::string& line : lines) page_.text += line + "\n";
    page_.text += "-->\n";
  }

  /// The commands in the cells of a table.
  void run_cells(const std::string& line) {
    static const std::regex command("`(lockstep [^`]*)`");
    for (std::sregex_iterator at(line.begin(), line.end(), command), end; at != end; ++at) {
      run((*at)[1]);
    }
  }

  /// Lines that end with a backslash, with those that follow them. Without comments and gaps.
  static std::vector<std::string> joined(const std::vector<std::string>& lines) {
    std::vector<std::string> commands(1);
    for (const std::string& line : lines) {
      if (line.ends_with("\\")) {
        commands.back() += line.substr(0, line.size() - 1);
      } else {
        commands.back() += line;
        if (!words_of(commands.back()).empty()) commands.emplace_back();
      }
    }
    if (words_of(commands.back()).empty()) commands.pop_back();
    return commands;
  }

  void run(const std::string& line) {
    std::vector<std::string> words = words_of(line);
    if (words.front() != "lockstep") {
      fault("'" + words.front() + "' is not run: its block says needs=…");
      return;
    }
    words.erase(words.begin());
    std::string file;  // into which the output goes
    if (words.size() > 2 && words[words.size() - 2] == ">") {
      file = words.back();
      words.resize(words.size() - 2);
    }
    const auto begin = std::chrono::steady_clock::now();
    const CommandOutcome outcome = lockstep(words, width_);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::smatch other;
    const int wanted = std::regex_search(line, other, std::regex("# exit code ([0-9]+)"))
                           ? std::stoi(other[1])
                           : 0;
    if (outcome.exit_code != wanted) {
      fault("exit code " + std::to_string(outcome.exit_code) + " of: " + line + "\n" + outcome.err);
    }
    std::ostringstream listed;
    listed.precision(1);
    const std::size_t width = widest_line(outcome.out);
    listed << "exit code " << outcome.exit_code << "  " << std::fixed << took.count() << " s  "
           << width << " columns  " << line;
    // Files, and lines to be copied, have the width that they have.
    const bool text = !file.empty() || words.front() == "lesson" || words.front() == "import";
    if (!text && width > std::size_t(width_)) page_.wide.push_back(listed.str());
    page_.commands.push_back(listed.str());
    if (file.empty()) {
      output_ = outcome.out;
    } else {
      std::ofstream(file, std::ios::binary) << outcome.out;
    }
  }

  /// A command that is not run: what it names is there.
  void check(const std::string& line) {
    const std::vector<std::string> words = words_of(line);
    page_.commands.push_back("not run           " + line);
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i];
      if (word == "lockstep" || word.ends_with("bin/lockstep")) {
        check_options({words.begin() + std::ptrdiff_t(i) + 1, words.end()});
        return;
      }
      if (word.starts_with("scripts/") || word.starts_with("python/") ||
          word.starts_with("examples/")) {
        if (!fs::exists(word)) fault("there is no " + word);
      } else if (i > 0 && words[i - 1] == "make" && word.find('=') == std::string::npos) {
        const std::string makefile = read_bytes("Makefile");
        if (makefile.find("\n" + word + ":") == std::string::npos) fault("no make " + word);
      }
    }
  }

  void check_options(const std::vector<std::string>& words) {
    if (words.empty()) return;
    std::vector<std::string> command = {words.front()};
    if ((command[0] == "import" || command[0] == "export" || command[0] == "show" ||
         command[0] == "list" || command[0] == "completion") &&
        words.size() > 1 && !words[1].starts_with("-")) {
      command.push_back(words[1]);
    }
    command.emplace_back("--help");
    CommandOutcome help = lockstep(command);
    if (help.exit_code != 0 && command.size() > 2) {  // the second word is a plain argument
      command.erase(command.begin() + 1);
      help = lockstep(command);
    }
    if (help.exit_code != 0) fault("there is no command lockstep " + words.front());
    for (const std::string& word : words) {
      if (!word.starts_with("--") || word == "--help" || word == "--") continue;
      const std::string option = word.substr(0, word.find('='));
      if (help.out.find(option) == std::string::npos) {
        fault("lockstep " + words.front() + " has no " + option);
      }
    }
  }

  /// A line of prose with its figures as they are now.
  std::string with_figures(const std::string& line) {
    std::string out;
    std::vector<std::string> row;
    std::size_t begin = 0;
    for (std::size_t at; (at = line.find("<!--", begin)) != std::string::npos;) {
      const std::size_t end = line.find("-->", at);
      if (end == std::string::npos) break;
      const std::string comment = line.substr(at + 4, end - at - 4);
      out += line.substr(begin, at - begin);
      begin = end + 3;
      if (comment.starts_with("of ")) {
        command_ = words_of(comment.substr(3));
      } else if (comment.starts_with("with ")) {
        row = words_of(comment.substr(5));
      } else if (comment.starts_with("=")) {
        replace_figure(out, comment.substr(1), row);
      }
      out += "<!--" + comment + "-->";
    }
    return out + line.substr(begin);
  }

  void replace_figure(std::string& text, const std::string& words,
                      const std::vector<std::string>& row) {
    std::istringstream parts(words);
    std::string expression, part;
    std::getline(parts, expression, ';');
    std::vector<std::string> set = row;
    while (std::getline(parts, part, ';')) {
      set.push_back(part.substr(std::min(part.find_first_not_of(' '), part.size())));
    }
    const bool factor = expression.starts_with("x "), change = expression.starts_with("+ ");
    if (factor || change) expression = expression.substr(2);
    const ShownFigure shown = figure_at_end(text);
    if (shown.digits.empty()) return fault("no figure stands before <!--=" + words + "-->");
    try {
      double value = evaluate(expression, report(set));
      if (factor || change) value /= evaluate(expression, report(row));
      if (change) value -= 1;
      text.resize(text.size() - shown.sign.size() - shown.digits.size() - shown.unit.size());
      text += in_style_of(shown, value);
    } catch (const std::exception& error) {
      fault("<!--=" + words + "-->: " + error.what());
    }
  }

  /// What the figures' command prints as JSON with these overrides. Each is run once.
  const nlohmann::json& report(const std::vector<std::string>& set) {
    if (command_.empty()) throw std::runtime_error("no <!--of COMMAND--> stands above");
    std::vector<std::string> command = command_;
    for (const std::string& assignment : set) command.insert(command.end(), {"--set", assignment});
    command.emplace_back("--json");
    const auto found = reports_.find(command);
    if (found != reports_.end()) return found->second;
    const CommandOutcome outcome = lockstep(command);
    // 5: an [expect] of the scenario differs, which a test of its own watches.
    if (outcome.exit_code != 0 && outcome.exit_code != 5) throw std::runtime_error(outcome.err);
    return reports_[command] = nlohmann::json::parse(outcome.out);
  }

  std::string name_;
  std::istringstream lines_;
  int width_ = 0;
  int number_ = 0;
  bool in_table_ = false;             // whose commands are run
  std::string output_;                // of the last command
  std::vector<std::string> command_;  // of figures
  std::map<std::vector<std::string>, nlohmann::json> reports_;
  RenderedPage page_;
};

}  // namespace

RenderedPage render(const std::string& name, const std::string& text, int width) {
  return Renderer(name, text, width).page();
}

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  char quote = 0;
  bool begun = false;
  for (const char c : line) {
    if (quote != 0 ? c == quote : c == '"' || c == '\'') {
      quote = quote != 0 ? 0 : c;
      if (!begun) words.emplace_back();
      begun = true;
    } else if (quote == 0 && c == ' ') {
      begun = false;
    } else if (quote == 0 && c == '#' && !begun) {
      break;
    } else {
      if (!begun) words.emplace_back();
      begun = true;
      words.back() += c;
    }
  }
  return words;
}

std::string select_paragraphs(const std::string& output, const std::string& selection) {
  if (selection.empty()) return output;
  std::vector<std::string> paragraphs(1);
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) {
      paragraphs.back() += line + "\n";
    } else if (!paragraphs.back().empty()) {
      paragraphs.emplace_back();
    }
  }
  if (paragraphs.back().empty()) paragraphs.pop_back();
  std::string shown;
  std::istringstream ranges(selection);
  std::size_t next = 1;
  for (std::string range; std::getline(ranges, range, ',');) {
    const std::size_t first = std::stoul(range);
    const std::size_t dash = range.find('-');
    const std::size_t last = dash == std::string::npos ? first : std::stoul(range.substr(dash + 1));
    for (std::size_t i = first; i <= std::min(last, paragraphs.size()); next = ++i) {
      if (i > next) shown += shown.empty() ? "…\n\n" : "\n…\n";
      shown += (shown.empty() || shown.ends_with("\n\n") ? "" : "\n") + paragraphs[i - 1];
    }
  }
  if (next <= paragraphs.size()) shown += "…\n";
  return shown;
}

}  // namespace lockstep::test
