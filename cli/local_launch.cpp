// lockstep run --nproc N: starts the processes of a run on this machine, as torchrun does, watches
// over them, and starts them again if one fails.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>
#include <utility>

#include "backends/tcp/socket.hpp"
#include "cli/commands.hpp"
#include "core/base/read_file.hpp"

namespace lockstep {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{20};
// After the first failure the others have so long to find it and say so, until they are told to
// stop, as those must be who still wait for it to join them; and so long until they are killed.
constexpr std::chrono::seconds kFind{3};
// Before the first restart, twice as long before each further one, and at most.
constexpr std::chrono::milliseconds kFirstWait{250};
constexpr std::chrono::milliseconds kLongestWait{60'000};
constexpr int kMostFutile = 4;  // restarts in a row that come to no other checkpoint
constexpr std::chrono::seconds kGrace{30};

std::string random_text() {
  std::random_device device;
  std::string text;
  for (int i = 0; i < 8; ++i) text += std::to_string(device());
  return text;
}

/// The command of a process: this one's, without what only the launcher reads, and from the newest
/// checkpoint if it is not the first time.
std::vector<std::string> command_of(const std::vector<std::string>& own, bool again) {
  std::vector<std::string> command{"lockstep"};
  for (std::size_t i = 0; i < own.size(); ++i) {
    const std::string name = own[i].substr(0, own[i].find('='));
    const bool left_out = name == "--nproc" || name == "--restarts" || name == "--bind" ||
                          (again && name == "--resume");
    if (!left_out) command.push_back(own[i]);
    if (left_out && name == own[i]) ++i;  // its value follows
  }
  if (again) command.insert(command.end(), {"--resume", "auto"});
  return command;
}

class LocalLaunch {
 public:
  LocalLaunch(const RunArguments& arguments, const Console& console)
      : arguments_(arguments), console_(console) {}

  int run() {
    std::string before = progress();
    int futile = 0;  // attempts in a row that have left nothing new
    for (int attempt = 0;; ++attempt) {
      const Result<void> started = start(attempt);
      const int code = started ? watch() : report_error(console_, started.error());
      const bool again = code == exit_code(ErrorKind::Device) && started && !told_ &&
                         attempt < arguments_.restarts;
      if (!again) return code;
      const std::string now = progress();
      futile = now == before ? futile + 1 : 0;
      before = now;
      if (futile >= kMostFutile) {
        console_.err << "note: not started again: the last " << kMostFutile + 1
                     << " attempts got no further than each other\n";
        return code;
      }
      if (!wait(std::min(kLongestWait, kFirstWait * (1 << std::min(attempt, 10))))) return kStopped;
      console_.err << "note: starting the processes again, from the newest checkpoint ("
                   << attempt + 1 << " of " << arguments_.restarts << " restarts)\n";
    }
  }

 private:
  /// The newest checkpoints in the run folder.
  std::string progress() const {
    namespace fs = std::filesystem;
    std::error_code none;
    std::string text;
    for (const auto& entry : fs::directory_iterator(arguments_.out, none)) {
      const fs::path latest = entry.path() / "latest";
      if (!fs::is_regular_file(latest, none)) continue;
      if (const auto read = read_file(latest.string())) text += *read;
    }
    return text;
  }

  /// False if the user ends it.
  bool wait(std::chrono::milliseconds time) const {
    const auto until = steady_clock::now() + time;
    while (steady_clock::now() < until) {
      if (console_.cancel != nullptr && console_.cancel->load()) return false;
      std::this_thread::sleep_for(kLook);
    }
    return true;
  }

  Result<void> start(int attempt) {
    auto listener = tcp::listen_at(0, arguments_.bind.empty() ? "127.0.0.1" : arguments_.bind);
    if (!listener) return listener.error();
    const std::string port = std::to_string(listener->local().port());
    const std::string address = arguments_.bind.empty() ? "127.0.0.1" : arguments_.bind;
    ::setenv("WORLD_SIZE", std::to_string(arguments_.processes).c_str(), 1);
    ::setenv("MASTER_ADDR", address.c_str(), 1);
    ::setenv("MASTER_PORT", port.c_str(), 1);
    ::setenv("LOCKSTEP_PORT", port.c_str(), 1);
    ::setenv("LOCKSTEP_BIND", address.c_str(), 1);
    ::setenv("LOCKSTEP_LISTENER", std::to_string(listener->fd()).c_str(), 1);
    ::setenv("TORCHELASTIC_RUN_ID", "local", 1);
    ::setenv("TORCHELASTIC_RESTART_COUNT", std::to_string(attempt).c_str(), 1);
    if (secret_.empty()) {
      const char* const given = std::getenv("LOCKSTEP_SECRET");
      const bool known = given != nullptr || std::getenv("LOCKSTEP_SECRET_FILE") != nullptr;
      secret_ = known ? "given" : random_text();
      if (!known) ::setenv("LOCKSTEP_SECRET", secret_.c_str(), 1);
    }
    const std::vector<std::string> command = command_of(arguments_.command, attempt > 0);
    for (int rank = 0; rank < arguments_.processes; ++rank) {
      if (auto begun = start_one(rank, command, *listener); !begun) {
        tell(SIGKILL);
        static_cast<void>(watch());
        return begun;
      }
    }
    ::unsetenv("WORLD_SIZE");  // this process is none of them
    ::unsetenv("RANK");
    return {};
  }

  Result<void> start_one(int rank, const std::vector<std::string>& command,
                         const tcp::Socket& listener) {
    ::setenv("RANK", std::to_string(rank).c_str(), 1);
    ::setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    const pid_t parent = ::getpid();
    // A signal for the child that comes before it runs its program must not be lost in this
    // program's handler.
    sigset_t ends, before;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    ::pthread_sigmask(SIG_BLOCK, &ends, &before);
    const pid_t child = ::fork();
    if (child != 0) ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (child < 0) {
      return Error{ErrorKind::Device,
                   std::string("cannot start a process: ") + std::strerror(errno), std::nullopt};
    }
    if (child == 0) {  // only what is safe after fork(); the launcher hands on what a terminal says
      ::signal(SIGTERM, SIG_DFL);
      ::signal(SIGINT, SIG_DFL);
      ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
      ::setpgid(0, 0);
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(exit_code(ErrorKind::Device));
      if (rank == 0) ::fcntl(listener.fd(), F_SETFD, 0);
      ::execv("/proc/self/exe", words.data());
      ::_exit(exit_code(ErrorKind::Internal));
    }
    children_.push_back({child, rank});
    return {};
  }

  /// Waits until all have ended. Returns the exit code of the first process that failed, else that
  /// of those that were stopped; that of a device that failed for one that a signal has ended.
  int watch() {
    std::vector<int> codes(static_cast<std::size_t>(arguments_.processes), 0);
    steady_clock::time_point failed = steady_clock::time_point::max();
    stopping_ = killed_ = false;
    while (!children_.empty()) {
      int status = 0;
      const pid_t ended = ::waitpid(-1, &status, WNOHANG);
      const auto child = std::find_if(children_.begin(), children_.end(),
                                      [&](const Child& c) { return c.process == ended; });
      if (ended > 0 && child != children_.end()) {
        const int code = code_of(status, child->rank);
        codes[static_cast<std::size_t>(child->rank)] = code;
        if (code != 0) failed = std::min(failed, steady_clock::now());
        children_.erase(child);
        continue;
      }
      if (console_.cancel != nullptr && console_.cancel->load() && !std::exchange(told_, true)) {
        tell(SIGTERM);
      }
      if (failed < steady_clock::now() - kFind && !std::exchange(stopping_, true) && !told_) {
        tell(SIGTERM);
      }
      if (failed < steady_clock::now() - kGrace && !std::exchange(killed_, true)) tell(SIGKILL);
      std::this_thread::sleep_for(kLook);
    }
    // A signal is the cause of what the others say.
    if (std::any_of(codes.begin(), codes.end(), [](int code) { return code < 0; })) {
      return exit_code(ErrorKind::Device);
    }
    // Told to stop before they have met, some stop and the others lose them. Later they stop
    // together.
    const bool lost = told_ && std::find(codes.begin(), codes.end(), kStopped) != codes.end();
    const auto first = std::find_if(codes.begin(), codes.end(), [&](int code) {
      return code != 0 && code != kStopped && !(lost && code == exit_code(ErrorKind::Device));
    });
    if (first != codes.end()) return *first;
    return *std::max_element(codes.begin(), codes.end());
  }

  int code_of(int status, int rank) const {
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    if (WTERMSIG(status) == SIGTERM && (told_ || stopping_)) return kStopped;  // before it began
    console_.err << "error: process " << rank;
    if (killed_) {
      console_.err << " did not end by itself within " << kGrace.count() << " s, and was killed\n";
    } else {
      console_.err << " was ended by signal " << WTERMSIG(status) << "\n";
    }
    return -1;
  }

  void tell(int signal) const {
    for (const Child& child : children_) ::kill(child.process, signal);
  }

  struct Child {
    pid_t process = 0;
    int rank = 0;
  };
  const RunArguments& arguments_;
  const Console& console_;
  std::string secret_;
  std::vector<Child> children_;
  bool told_ = false;      // they have been told to stop
  bool stopping_ = false;  // and because one has failed
  bool killed_ = false;    // and killed
};

}  // namespace

int launch_locally(const RunArguments& arguments, const Console& console) {
  if (arguments.restarts > 0 && arguments.out.empty()) {
    return report_error(console, invalid("--restarts needs --out DIR, where the checkpoints are"));
  }
  return LocalLaunch(arguments, console).run();
}

}  // namespace lockstep
