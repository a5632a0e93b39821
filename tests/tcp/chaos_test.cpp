// Chaos: runs that are disturbed at random end with the weights of one that was not, or refuse.
//
// LOCKSTEP_CHAOS=200 sets the number of runs (8 in CI), LOCKSTEP_CHAOS_SEED the first of their
// seeds; a failure prints its own seed, with which it can be repeated alone. If LOCKSTEP_CHAOS is
// set, a table says what became of the runs, by disturbance.
#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/checkpoint/checkpoint.hpp"
#include "tests/catch.hpp"
#include "tests/process_runs.hpp"
#include "tests/tcp/network_namespace.hpp"
#include "tests/tcp/process_group.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using test::Group;
using test::metrics;
using test::Outcome;
using test::scenario;
using test::shell;

constexpr int kSteps = 60;

int number_of(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

/// How a run is started: its ranks as threads, or as processes of the launcher, of torchrun or of
/// mpirun.
enum class Way { Threads, Launcher, Processes, Mpi };
constexpr std::array<const char*, 4> kWays = {"threads", "--nproc", "torchrun", "mpirun"};
const bool kHaveMpi = std::string(LOCKSTEP_MPIEXEC) != "";

enum class Disturbance { Kill, Stop, Term, Int, Second, Flip, Truncate, FullDisk, Cut, Delay };
constexpr std::array<const char*, 10> kDisturbances = {
    "kill",       "stop",     "SIGTERM",   "SIGINT", "second start",
    "flip a bit", "truncate", "full disk", "cut",    "delay"};

enum class Verdict { Identical, Refused, Wrong };

class Disturbed {
 public:
  Disturbed(unsigned seed, const test::LoopbackNetwork& network)
      : random_(seed), network_(network) {
    static const std::vector<std::string> layouts = {
        "data_parallel_replicate_degree = 2\n", "data_parallel_shard_degree = 2\n",
        "tensor_parallel_degree = 2\n",
        "pipeline_parallel_degree = 2\npipeline_parallel_microbatches = 2\n"};
    const std::string path = scenario(folder_, layouts[random_() % layouts.size()]);
    way_ = static_cast<Way>(random_() % (kHaveMpi ? 4 : 3));
    told_ = std::string(kWays[static_cast<std::size_t>(way_)]) + ": ";
    command_ = std::string(LOCKSTEP_BINARY) + " run " + path +
               " --backend cpu --quiet --set training.steps=" + std::to_string(kSteps) +
               " --set checkpoint.interval=" + std::to_string(1 + random_() % 5) +
               " --resume auto --out ";
    over_sockets_ = random_() % 2 == 0;
  }

  Way way() const { return way_; }
  const std::vector<Disturbance>& disturbances() const { return done_; }
  const std::string& told() const { return told_; }

  /// If it is Wrong, told() says what was found.
  Verdict judge() {
    const Outcome whole = shell(folder_ / "log.txt", command_ + folder_ / "whole");
    if (whole.exit_code != 0) return wrong("the undisturbed run failed: " + whole.output);
    const unsigned times = 1 + random_() % 3;
    for (unsigned i = 0; i < times; ++i) {
      if (const std::string why = disturb(); !why.empty()) return wrong(why);
    }
    // The same command, again and again, until it is done.
    for (int i = 0; i < 5; ++i) {
      const int code = run_to_end();
      if (code == 0) {
        const std::string why = difference();
        return why.empty() ? Verdict::Identical : wrong(why);
      }
      if (code == 2) return refused_ ? Verdict::Refused : wrong("refused: " + log_);
      const bool killed = way_ == Way::Mpi && code == 128 + SIGKILL;  // as mpirun says it
      if (code != 4 && code != 75 && !killed) {
        return wrong("exit code " + std::to_string(code) + ": " + log_);
      }
    }
    return wrong("it never ended: " + log_);
  }

 private:
  Verdict wrong(const std::string& what) {
    told_ += what;
    return Verdict::Wrong;
  }
  std::string run() const { return folder_ / "run"; }

  /// Starts the run by a script, in which each process leaves its number. `before` is what the
  /// script does before.
  Group start(const std::string& before = "") const {
    for (int rank = 0; rank < 2; ++rank) fs::remove(pid_file(rank));
    const std::string launcher = way_ == Way::Launcher ? " --nproc 2" : "";
    write_bytes(folder_ / "rank.sh", "echo $$ >" + folder_ / "pid-" +
                                         "${RANK-${OMPI_COMM_WORLD_RANK-${PMI_RANK-0}}}\n" +
                                         before + "exec " + command_ + run() + launcher + "\n");
    const std::string script = "sh " + folder_ / "rank.sh";
    const std::string timeout = "LOCKSTEP_TIMEOUT_SECONDS=3 ";
    if (way_ == Way::Processes) return Group(folder_, 2, network_.enter() + script, timeout);
    if (way_ != Way::Mpi) return Group(folder_, "env " + timeout + network_.enter() + script);
    // Over sockets every byte comes through the network, else only what mpirun says.
    const std::string sockets = over_sockets_ && network_.well()
                                    ? "OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo "
                                    : "";
    return Group(folder_,
                 "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
                 "OMPI_MCA_rmaps_base_oversubscribe=1 " +
                     sockets + timeout + network_.enter() + LOCKSTEP_MPIEXEC " -np 2 " + script);
  }
  std::string pid_file(int rank) const { return folder_ / ("pid-" + std::to_string(rank)); }

  bool several() const { return way_ == Way::Processes || way_ == Way::Mpi; }

  /// Any process of the run; of a launcher's, itself or one that it has started. 0: none yet.
  pid_t victim() {
    const int rank = several() ? static_cast<int>(random_() % 2) : 0;
    const pid_t process = std::atoi(read_bytes(pid_file(rank)).c_str());
    if (way_ != Way::Launcher || process <= 0) return process;
    const std::string number = std::to_string(process);
    std::istringstream children(read_bytes("/proc/" + number + "/task/" + number + "/children"));
    std::vector<pid_t> all{process};
    for (pid_t child = 0; children >> child;) all.push_back(child);
    return all[random_() % all.size()];
  }

  void send(Group& group, int signal) {
    const pid_t process = victim();
    if (process > 0 && group.runs(0)) ::kill(process, signal);
  }

  void pause(unsigned longest) {  // ms
    std::this_thread::sleep_for(std::chrono::milliseconds(random_() % longest));
  }

  /// Lets a run go on for a moment, and does something to it, to its folder or to its network.
  std::string disturb() {
    const bool connected = way_ != Way::Threads && network_.well();
    const auto what = static_cast<Disturbance>(random_() % (connected ? 10 : 8));
    done_.push_back(what);
    told_ += std::string(kDisturbances[static_cast<std::size_t>(what)]) + ", ";
    if (what == Disturbance::FullDisk) return fill_disk();
    Group group = start();
    pause(1500);
    switch (what) {
      case Disturbance::Kill:
        send(group, SIGKILL);
        break;
      case Disturbance::Term:
        send(group, SIGTERM);
        break;
      case Disturbance::Int:
        send(group, SIGINT);
        break;
      case Disturbance::Stop: {
        const pid_t process = victim();
        if (process <= 0 || !group.runs(0)) break;
        ::kill(process, SIGSTOP);
        pause(4000);
        ::kill(process, SIGCONT);
        break;
      }
      case Disturbance::Second: {
        const Outcome second = shell(folder_ / "second.txt", command_ + run());
        const bool well = second.exit_code == 2 || second.exit_code == 0;  // refused, or alone
        if (!well) return "the second start ended with " + std::to_string(second.exit_code);
        break;
      }
      case Disturbance::Cut:
        network_.cut();
        pause(6000);  // the processes wait for 3 s
        network_.mend();
        break;
      case Disturbance::Delay:
        network_.delay();
        pause(4000);
        network_.mend();
        break;
      default:
        send(group, SIGKILL);  // and the disk, too
        for (int i = 0; i < group.size(); ++i) group.wait(i);
        if (group.size() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
        return damage(what == Disturbance::Flip);
    }
    for (int i = 0; i < group.size(); ++i) group.wait(i);
    return "";
  }

  /// A limit on the size of files stands for a full disk: writing fails in the same places.
  std::string fill_disk() {
    const std::string limit = std::to_string(1 + random_() % 60);
    Group full = start("ulimit -f " + limit + "\ntrap '' XFSZ\n");
    for (int i = 0; i < full.size(); ++i) {
      const int code = full.wait(i);
      const bool well = code == 4 || code == 0 || code == 2 || (way_ == Way::Mpi && code > 0);
      if (!well) return "with a full disk it ended with " + std::to_string(code) + full.log(i);
    }
    return "";
  }

  /// Changes one bit of a file of a checkpoint, or cuts its end off.
  std::string damage(bool flips) {
    std::vector<fs::path> files;
    std::error_code none;
    for (fs::recursive_directory_iterator at(run() + "/checkpoints", none), end; at != end;
         at.increment(none)) {
      if (none) break;
      if (at->is_regular_file()) files.push_back(at->path());
    }
    if (files.empty()) return "";
    std::sort(files.begin(), files.end());
    const fs::path& file = files[random_() % files.size()];
    std::string bytes = read_bytes(file.string());
    if (bytes.empty()) return "";
    const std::size_t at = random_() % bytes.size();
    if (flips) {
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random_() % 8));
    } else {
      bytes.resize(at);
    }
    write_bytes(file.string(), bytes);
    refused_ = true;  // if it was the only checkpoint, a refusal is right
    return "";
  }

  int run_to_end() {
    Group group = start();
    int code = 0;
    for (int i = 0; i < group.size(); ++i) {
      const int one = group.wait(i);
      if (code == 0) code = one;
      log_ += group.log(i);
    }
    return code;
  }

  std::string difference() const {
    const std::string step = "/checkpoints/step-" + std::to_string(kSteps) + "/";
    for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
      const std::string bytes = read_bytes(folder_ / "whole" + step + name);
      if (bytes.empty() || read_bytes(run() + step + name) != bytes) {
        return std::string("other bytes in ") + name;
      }
    }
    return metrics(run()) == metrics(folder_ / "whole") ? "" : "other metrics";
  }

  std::mt19937 random_;
  const test::LoopbackNetwork& network_;
  TemporaryFolder folder_;
  std::string command_, told_, log_;
  std::vector<Disturbance> done_;
  Way way_ = Way::Threads;
  bool over_sockets_ = false;
  bool refused_ = false;
};

/// What became of the runs, by disturbance: one with several of them counts for each.
class Tally {
 public:
  void add(const Disturbed& run, Verdict verdict) {
    for (const Disturbance what : run.disturbances()) {
      ++counts_[{what, run.way()}][static_cast<std::size_t>(verdict)];
    }
  }
  std::string table() const {
    std::string text = "| disturbance | ranks | runs | identical | refused | wrong |\n";
    for (const auto& [key, counts] : counts_) {
      text += std::string("| ") + kDisturbances[static_cast<std::size_t>(key.first)] + " | " +
              kWays[static_cast<std::size_t>(key.second)] + " | " +
              std::to_string(counts[0] + counts[1] + counts[2]);
      for (const int count : counts) text += " | " + std::to_string(count);
      text += " |\n";
    }
    return text;
  }

 private:
  std::map<std::pair<Disturbance, Way>, std::array<int, 3>> counts_;
};

}  // namespace

TEST_CASE("disturbed runs end with the weights of an undisturbed one, or refuse", "[tcp][chaos]") {
  const int rounds = number_of("LOCKSTEP_CHAOS", 8);
  const unsigned first = static_cast<unsigned>(
      number_of("LOCKSTEP_CHAOS_SEED", static_cast<int>(std::random_device()() >> 1)));
  const test::LoopbackNetwork network;
  Tally tally;
  for (int i = 0; i < rounds; ++i) {
    const unsigned seed = first + static_cast<unsigned>(i);
    INFO("LOCKSTEP_CHAOS=1 LOCKSTEP_CHAOS_SEED=" << seed);
    Disturbed run(seed, network);
    const Verdict verdict = run.judge();
    INFO(run.told());
    CHECK(verdict != Verdict::Wrong);
    tally.add(run, verdict);
  }
  if (std::getenv("LOCKSTEP_CHAOS") != nullptr) std::cout << tally.table();
}

}  // namespace lockstep
