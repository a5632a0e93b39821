// lockstep: the command-line program (see cli.hpp). SIGINT (Ctrl-C) or SIGTERM ends a run after its
// current step, with a checkpoint; a second one ends the program at once.
#include <atomic>
#include <csignal>

#include "cli/cli.hpp"
#include "core/base/free_memory.hpp"

namespace {
std::atomic<bool> interrupted{false};
}

int main(int argc, char** argv) {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = true; };
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A file that grows beyond the limit (ulimit -f) is an error of the write, which is told.
  std::signal(SIGXFSZ, SIG_IGN);
  lockstep::share_heap_if_limited();
  lockstep::Console console = lockstep::standard_console();
  console.cancel = &interrupted;
  return lockstep::run_cli({argv + 1, argv + argc}, console);
}
