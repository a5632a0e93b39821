// Process groups: commands started together, one per rank, as torchrun does, and what becomes of
// them.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "backends/tcp/socket.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep::test {

struct Outcome {
  int exit_code = 0;
  std::string output;  // what it wrote to stdout and stderr
};

inline Outcome shell(const std::string& log, const std::string& command) {
  const int status = std::system(("(" + command + ") >" + log + " 2>&1").c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_bytes(log)};
}

/// The variables that torchrun gives the processes of one launch at a port that is free.
inline std::string torchrun_variables(std::size_t rank, std::size_t size, int port) {
  const std::string number = std::to_string(rank);
  return "MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(port - 1) +
         " TORCHELASTIC_USE_AGENT_STORE=True LOCAL_RANK=" + number + " RANK=" + number +
         " WORLD_SIZE=" + std::to_string(size) + " LOCKSTEP_JOIN_SECONDS=20 ";
}

inline int free_port() {
  const auto listener = tcp::listen_at(0);
  REQUIRE(listener.ok());
  return listener->local().port();
}

/// Starts one command per rank, all together, and waits for them.
inline std::vector<Outcome> torchrun(const TemporaryFolder& folder,
                                     const std::vector<std::string>& commands) {
  const int port = free_port();
  std::vector<Outcome> outcomes(commands.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < commands.size(); ++rank) {
    threads.emplace_back([&, rank] {
      outcomes[rank] =
          shell(folder / ("log-" + std::to_string(rank) + ".txt"),
                torchrun_variables(rank, commands.size(), port) + "timeout 120 " + commands[rank]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

/// Processes that run while the test does something to them. Those that are left are killed.
class Group {
 public:
  /// One process per rank. `variables` come before the command, as in a shell.
  Group(const TemporaryFolder& folder, std::size_t size, const std::string& command,
        const std::string& variables)
      : folder_(folder) {
    const int port = free_port();
    for (std::size_t rank = 0; rank < size; ++rank) {
      start("exec env " + torchrun_variables(rank, size, port) + variables + " " + command);
    }
  }
  /// A single process, with the index 0.
  Group(const TemporaryFolder& folder, const std::string& command) : folder_(folder) {
    start("exec " + command);
  }
  ~Group() {
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      if (codes_[i] == kRuns) ::kill(processes_[i], SIGKILL);
      wait(static_cast<int>(i));
    }
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int size() const { return static_cast<int>(processes_.size()); }

  /// Whether it has not been waited for yet.
  bool runs(int i) const { return codes_[static_cast<std::size_t>(i)] == kRuns; }

  void send(int i, int signal) { ::kill(processes_[static_cast<std::size_t>(i)], signal); }

  /// The exit code; -1 for one that a signal has ended, or that has to be killed after 60 s.
  int wait(int i) {
    int& code = codes_[static_cast<std::size_t>(i)];
    const pid_t process = processes_[static_cast<std::size_t>(i)];
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (code == kRuns) {
      int status = 0;
      if (::waitpid(process, &status, WNOHANG) == process) {
        code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      } else if (std::chrono::steady_clock::now() > until) {
        ::kill(process, SIGKILL);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return code;
  }

  std::string log(int i) const { return read_bytes(log_path(static_cast<std::size_t>(i))); }

  /// Waits until a file holds a text; false after 60 s.
  bool wait_for_text(const std::string& path, const std::string& text) const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < until) {
      if (read_bytes(path).find(text) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

 private:
  static constexpr int kRuns = -1000;

  std::string log_path(std::size_t i) const {
    return folder_ / ("group-" + std::to_string(i) + ".txt");
  }

  void start(const std::string& command) {
    const std::string line = command + " >" + log_path(processes_.size()) + " 2>&1";
    const pid_t process = ::fork();
    REQUIRE(process >= 0);
    if (process == 0) {
      ::execl("/bin/sh", "sh", "-c", line.c_str(), static_cast<char*>(nullptr));
      ::_exit(127);
    }
    processes_.push_back(process);
    codes_.push_back(kRuns);
  }

  const TemporaryFolder& folder_;
  std::vector<pid_t> processes_;
  std::vector<int> codes_;
};

}  // namespace lockstep::test
