// Chaos: runs that are disturbed at random end with the weights of one that was not, or refuse.
//
// LOCKSTEP_CHAOS=200 sets the number of disturbances (8 in CI), LOCKSTEP_CHAOS_SEED the first of
// their seeds; a failure prints its own seed, with which it can be repeated alone.
#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/checkpoint/checkpoint.hpp"
#include "tests/catch.hpp"
#include "tests/process_runs.hpp"
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

class Disturbed {
 public:
  explicit Disturbed(unsigned seed) : random_(seed) {
    static const std::vector<std::string> layouts = {
        "data_parallel_replicate_degree = 2\n", "data_parallel_shard_degree = 2\n",
        "tensor_parallel_degree = 2\n",
        "pipeline_parallel_degree = 2\npipeline_parallel_microbatches = 2\n"};
    path_ = scenario(folder_, layouts[random_() % layouts.size()]);
    way_ = static_cast<Way>(random_() % (kHaveMpi ? 4 : 3));
    told_ = std::string(kWays[static_cast<std::size_t>(way_)]) + ": ";
    command_ = std::string(LOCKSTEP_BINARY) + " run " + path_ +
               " --backend cpu --quiet --set training.steps=" + std::to_string(kSteps) +
               " --set checkpoint.interval=" + std::to_string(1 + random_() % 5) +
               " --resume auto --out ";
  }

  /// What was found wrong; empty if nothing was.
  std::string judge() {
    const Outcome whole = shell(folder_ / "log.txt", command_ + folder_ / "whole");
    if (whole.exit_code != 0) return "the undisturbed run failed: " + whole.output;
    const unsigned times = 1 + random_() % 3;
    for (unsigned i = 0; i < times; ++i) {
      if (std::string wrong = disturb(); !wrong.empty()) return told_ + wrong;
    }
    // The same command, again and again, until it is done.
    for (int i = 0; i < 5; ++i) {
      const int code = run_to_end();
      if (code == 0) {
        const std::string wrong = difference();
        return wrong.empty() ? "" : told_ + wrong;
      }
      if (code == 2) return refused_ ? "" : told_ + "refused: " + log_;
      const bool killed = way_ == Way::Mpi && code == 128 + SIGKILL;  // as mpirun says it
      if (code != 4 && code != 75 && !killed)
        return told_ + "exit code " + std::to_string(code) + ": " + log_;
    }
    return told_ + "it never ended";
  }

 private:
  std::string run() const { return folder_ / "run"; }

  Group start() const {
    const std::string& command = command_ + run();
    if (way_ == Way::Threads) return Group(folder_, command);
    if (way_ == Way::Launcher) return Group(folder_, command + " --nproc 2");
    if (way_ == Way::Mpi) return start_mpi();
    return Group(folder_, 2, command, "LOCKSTEP_TIMEOUT_SECONDS=3");
  }

  /// mpirun and its two processes, which leave their numbers in files.
  Group start_mpi() const {
    for (int rank = 0; rank < 2; ++rank) fs::remove(pid_file(rank));
    write_bytes(folder_ / "rank.sh", "echo $$ >" + folder_ / "pid-" +
                                         "${OMPI_COMM_WORLD_RANK-$PMI_RANK}\nexec " + command_ +
                                         run() + "\n");
    return Group(folder_,
                 "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
                 "OMPI_MCA_rmaps_base_oversubscribe=1 LOCKSTEP_TIMEOUT_SECONDS=3 " LOCKSTEP_MPIEXEC
                 " -np 2 sh " +
                     folder_ / "rank.sh");
  }
  std::string pid_file(int rank) const { return folder_ / ("pid-" + std::to_string(rank)); }

  void send(Group& group, int victim, int signal) const {
    if (way_ != Way::Mpi) return send(group, victim, signal);
    const int process = std::atoi(read_bytes(pid_file(victim)).c_str());
    if (process > 0 && group.runs(0)) ::kill(process, signal);
  }

  /// Lets a run go on for a moment, and does something to it or to its folder.
  std::string disturb() {
    const unsigned what = random_() % 8;
    const std::vector<const char*> names = {"kill",       "term",    "stop", "second start",
                                            "flip a bit", "cut off", "int",  "full disk"};
    told_ += std::string(names[what]) + ", ";
    if (what == 7) return fill_disk();
    Group group = start();
    std::this_thread::sleep_for(std::chrono::milliseconds(random_() % 1500));
    const bool two = way_ == Way::Processes || way_ == Way::Mpi;
    const int victim = two ? static_cast<int>(random_() % 2) : 0;
    switch (what) {
      case 0:
        send(group, victim, SIGKILL);
        break;
      case 1:
        send(group, victim, SIGTERM);
        break;
      case 2:
        if (two) {
          send(group, victim, SIGSTOP);
          std::this_thread::sleep_for(std::chrono::milliseconds(random_() % 4000));
          send(group, victim, SIGCONT);
        }
        break;
      case 3: {
        const Outcome second = shell(folder_ / "second.txt", command_ + run());
        const bool well = second.exit_code == 2 || second.exit_code == 0;  // refused, or alone
        if (!well) return "the second start ended with " + std::to_string(second.exit_code);
        break;
      }
      case 6:
        send(group, victim, SIGINT);
        break;
      default:
        send(group, victim, SIGKILL);  // and the disk, too
        for (int i = 0; i < group.size(); ++i) group.wait(i);
        if (group.size() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
        return damage(what == 4);
    }
    for (int i = 0; i < group.size(); ++i) group.wait(i);
    return "";
  }

  /// A limit on the size of files stands for a full disk: writing fails in the same places.
  std::string fill_disk() {
    const std::string limit = std::to_string(1 + random_() % 60);
    const Outcome full =
        shell(folder_ / "log.txt", "ulimit -f " + limit + "; trap '' XFSZ; " + command_ + run());
    const bool well = full.exit_code == 4 || full.exit_code == 0 || full.exit_code == 2;
    return well ? "" : "with a full disk it ended with " + std::to_string(full.exit_code);
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
  TemporaryFolder folder_;
  std::string path_, command_, told_, log_;
  Way way_ = Way::Threads;
  bool refused_ = false;
};

}  // namespace

TEST_CASE("disturbed runs end with the weights of an undisturbed one, or refuse", "[tcp][chaos]") {
  const int rounds = number_of("LOCKSTEP_CHAOS", 8);
  const unsigned first = static_cast<unsigned>(
      number_of("LOCKSTEP_CHAOS_SEED", static_cast<int>(std::random_device()() >> 1)));
  for (int i = 0; i < rounds; ++i) {
    const unsigned seed = first + static_cast<unsigned>(i);
    INFO("LOCKSTEP_CHAOS=1 LOCKSTEP_CHAOS_SEED=" << seed);
    CHECK(Disturbed(seed).judge() == "");
  }
}

}  // namespace lockstep
