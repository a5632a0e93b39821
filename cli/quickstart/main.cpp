// lockstep-quickstart: what `make run` shows first. It links little of Lockstep, so that it is
// compiled soon; the commands of `lockstep` do each of its parts.
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "cli/quickstart/page.hpp"
#include "cli/quickstart/quickstart.hpp"
#include "core/base/thread_team.hpp"

namespace lockstep {
namespace {

constexpr const char* kUsage =
    "usage: lockstep-quickstart [--out DIR] [--cores N] [--steps N] [--repeat N] SCENARIO\n"
    "  --out DIR   where results go; what an earlier run left there is replaced (runs/make-run)\n"
    "  --cores N   divide the training among so many cores (all)\n"
    "  --steps N   train so many steps (the scenario's)\n"
    "  --repeat N  run all of it so many times and show how far each prediction was off\n";

struct Arguments {
  QuickstartOptions options{"", "runs/make-run", 1, 0, {}};
  int repeat = 1;
};

/// What is wrong with the arguments; empty if nothing is.
std::string parse(const std::vector<std::string>& words, Arguments& to) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!word.starts_with("--")) {
      if (!to.options.scenario.empty()) return "there is a second scenario, '" + word + "'";
      to.options.scenario = word;
      continue;
    }
    if (word != "--out" && word != "--cores" && word != "--steps" && word != "--repeat") {
      return "there is no option '" + word + "'";
    }
    if (++i == words.size() || words[i].empty()) return word + " needs a value";
    if (word == "--out") {
      to.options.out = words[i];
      continue;
    }
    int& number = word == "--cores"   ? to.options.cores
                  : word == "--steps" ? to.options.steps
                                      : to.repeat;
    char* end = nullptr;
    const long value = std::strtol(words[i].c_str(), &end, 10);
    if (*end != '\0' || value < 1 || value > 1000000) {
      return word + " needs a number from 1 to 1000000, not '" + words[i] + "'";
    }
    number = static_cast<int>(value);
  }
  return to.options.scenario.empty() ? "no scenario is given" : "";
}

/// A line that rewrites itself on a terminal; elsewhere a line when a part of the work begins.
class Progress {
 public:
  ~Progress() { clear(); }
  void show(const std::string& what, int done, int all) {
    const std::string part = what.substr(0, what.find(','));
    if (live_) {
      std::cerr << "\r\033[K" << what << ": " << done << " of " << all << std::flush;
      open_ = true;
    } else if (part != part_) {
      std::cerr << part << std::endl;
    }
    part_ = part;
  }
  void clear() {
    if (open_) std::cerr << "\r\033[K" << std::flush;
    open_ = false;
  }

 private:
  bool live_ = isatty(STDERR_FILENO) != 0, open_ = false;
  std::string part_;
};

int quickstart(const std::string& self, const std::vector<std::string>& words) {
  Arguments arguments;
  arguments.options.cores = num_cores();
  if (const std::string fault = parse(words, arguments); !fault.empty()) {
    std::cerr << "error: " << fault << "\n" << kUsage;
    return exit_code(ErrorKind::InvalidSpec);
  }
  std::vector<Quickstart> runs;
  for (int i = 0; i < arguments.repeat; ++i) {
    Progress progress;
    arguments.options.on_progress = [&](const std::string& what, int done, int all) {
      progress.show(what, done, all);
    };
    Result<Quickstart> run = run_quickstart(arguments.options);
    progress.clear();
    if (!run) {
      std::cerr << "error: " << to_string(run.error()) << "\n";
      return exit_code(run.error().kind);
    }
    runs.push_back(std::move(*run));
  }
  const std::string lockstep = self.substr(0, self.rfind('/') + 1) + "lockstep";
  std::cout << (arguments.repeat > 1
                    ? quickstart_table(runs)
                    : quickstart_page(runs.front(), lockstep, arguments.options.out));
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) { return lockstep::quickstart(argv[0], {argv + 1, argv + argc}); }
