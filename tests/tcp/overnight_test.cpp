// Tests of training that is left alone: each row is something that once went wrong unseen. Runs are
// processes of their own, over TCP, which are stopped, killed and given what does not fit together.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
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

using std::chrono::steady_clock;
using test::Group;
using test::metrics;
using test::Outcome;
using test::scenario;
using test::shell;
using test::torchrun;

const std::string kLockstep = LOCKSTEP_BINARY;
const std::string kTwo = "data_parallel_shard_degree = 2\n";

std::string weights(const std::string& run, int step) {
  const std::string folder = run + "/checkpoints/step-" + std::to_string(step);
  return read_bytes(folder + "/model.safetensors") + read_bytes(folder + "/optimizer.safetensors");
}

void flip_last_byte(const std::string& path) {
  std::string bytes = read_bytes(path);
  REQUIRE(!bytes.empty());
  bytes.back() = static_cast<char>(bytes.back() ^ 0x40);
  write_bytes(path, bytes);
}

/// A folder with a scenario, and the command that trains it on the CPU.
struct Training {
  explicit Training(const std::string& parallelism = kTwo)
      : path(scenario(folder, parallelism)),
        command(kLockstep + " run " + path + " --backend cpu --quiet") {}
  Outcome alone(const std::string& more) const {
    return shell(folder / "log.txt", command + " " + more);
  }
  std::vector<Outcome> both(const std::string& first, const std::string& second) const {
    return torchrun(folder, {command + " " + first, command + " " + second});
  }
  TemporaryFolder folder;
  std::string path, command;
};

}  // namespace

TEST_CASE("processes that were told different things say which before the first step",
          "[tcp][overnight]") {
  const Training t;
  const std::string out = "--out " + t.folder / "run";
  for (const auto& [change, key] : std::vector<std::pair<std::string, std::string>>{
           {"--set training.seed=7", "training.seed"},
           {"--set optimizer.lr=0.5", "optimizer.lr"},
           {"--set training.dataset=" + t.path, "training.dataset"},
           {"--set checkpoint.interval=2", "checkpoint.interval"},
           {"--steps 4", "the steps to run"}}) {
    INFO(key);
    const auto outcomes = t.both(out, out + " " + change);
    for (const Outcome& outcome : outcomes) CHECK(outcome.exit_code == 2);
    CHECK_THAT(outcomes[0].output, ContainsSubstring("process 1 differs in " + key));
    CHECK_FALSE(std::filesystem::exists(t.folder / "run/checkpoints"));
    CHECK_FALSE(std::filesystem::exists(t.folder / "run/metrics.jsonl"));
  }
}

TEST_CASE("processes that go on from different checkpoints are refused", "[tcp][overnight]") {
  const Training t;
  REQUIRE(t.alone("--out " + t.folder / "a").exit_code == 0);
  const auto at = [&](int step) {
    return "--out " + t.folder / "b" + " --steps 2 --resume " + t.folder / "a/checkpoints/step-" +
           std::to_string(step);
  };
  const auto outcomes = t.both(at(3), at(6));
  for (const Outcome& outcome : outcomes) CHECK(outcome.exit_code == 2);
  CHECK_THAT(outcomes[0].output,
             ContainsSubstring("process 1 differs in the checkpoint: it has step 6, process 0 has "
                               "step 3"));
}

TEST_CASE("a damaged tensor is never trained on", "[tcp][overnight]") {
  const Training t;
  REQUIRE(t.alone("--out " + t.folder / "a").exit_code == 0);
  flip_last_byte(t.folder / "a/checkpoints/step-6/optimizer.safetensors");
  const Outcome named = t.alone("--steps 1 --resume " + t.folder / "a/checkpoints/step-6");
  CHECK(named.exit_code == 2);
  CHECK_THAT(named.output, ContainsSubstring("is not what was saved (checksum)"));
  // Whoever asks for the newest gets the one before it, and is told so.
  const Outcome newest = t.alone("--steps 1 --resume " + t.folder / "a");
  CHECK(newest.exit_code == 0);
  CHECK_THAT(newest.output, ContainsSubstring("damaged") && ContainsSubstring("step-3"));
  std::string manifest = read_bytes(t.folder / "a/checkpoints/step-3/manifest.json");
  manifest.replace(manifest.find("\"step\": 3"), 9, "\"step\": 5");
  write_bytes(t.folder / "a/checkpoints/step-3/manifest.json", manifest);
  const Outcome edited = t.alone("--steps 1 --resume " + t.folder / "a/checkpoints/step-3");
  CHECK(edited.exit_code == 2);
  CHECK_THAT(edited.output, ContainsSubstring("damaged"));
}

TEST_CASE("nothing is written outside the run folder", "[tcp][overnight]") {
  const Training t;
  std::filesystem::create_directories(t.folder / "elsewhere/step-3");
  write_bytes(t.folder / "elsewhere/step-3/thesis.txt", "words");
  write_bytes(t.folder / "elsewhere/latest", "step-3\n");
  for (const std::string& folder :
       {t.folder / "elsewhere", std::string("../elsewhere"), std::string("a/../../elsewhere"),
        std::string("."), std::string("")}) {
    INFO(folder);
    const Outcome outcome =
        t.alone("--out " + t.folder / "run" + " --set 'checkpoint.folder=\"" + folder + "\"'");
    CHECK(outcome.exit_code == 2);
    CHECK_THAT(outcome.output, ContainsSubstring("must name a folder inside the run folder"));
  }
  CHECK(read_bytes(t.folder / "elsewhere/step-3/thesis.txt") == "words");
  CHECK(read_bytes(t.folder / "elsewhere/latest") == "step-3\n");
}

TEST_CASE("a stopped process is named by all the others within the timeout", "[tcp][overnight]") {
  const Training t("data_parallel_shard_degree = 3\n");
  Group group(t.folder, 3, t.command + " --steps 1000000 --out " + t.folder / "run",
              "LOCKSTEP_TIMEOUT_SECONDS=3");
  REQUIRE(group.wait_for_text(t.folder / "run/metrics.jsonl", "\"step\":5,"));
  const auto begin = steady_clock::now();
  group.send(1, SIGSTOP);
  CHECK(group.wait(0) == 4);
  CHECK(group.wait(2) == 4);
  const std::chrono::duration<double> time = steady_clock::now() - begin;
  CHECK(time.count() < 60);  // 3 s, and what a busy machine adds
  for (const int rank : {0, 2}) {
    INFO(group.log(rank));
    CHECK_THAT(group.log(rank), ContainsSubstring("process 1") && ContainsSubstring("is silent"));
    // What it waited for is in the log, too, unless the process was stopped between two steps.
    const std::string flight = t.folder / ("run/flight-" + std::to_string(rank) + ".txt");
    REQUIRE(std::filesystem::exists(flight));
    CHECK_THAT(read_bytes(flight), ContainsSubstring("rank " + std::to_string(rank)));
  }
  group.send(1, SIGCONT);  // a zombie that comes back finds itself alone, and writes nothing
  CHECK(group.wait(1) == 4);
}

TEST_CASE("a killed leader leaves no log empty", "[tcp][overnight]") {
  const Training t("data_parallel_shard_degree = 3\n");
  Group group(t.folder, 3, t.command + " --steps 1000000 --out " + t.folder / "run", "");
  REQUIRE(group.wait_for_text(t.folder / "run/metrics.jsonl", "\"step\":3,"));
  group.send(0, SIGKILL);
  for (const int rank : {1, 2}) {
    CHECK(group.wait(rank) == 4);
    CHECK_THAT(group.log(rank), ContainsSubstring("process 0"));
  }
}

TEST_CASE("one command starts a training and goes on with it", "[tcp][overnight]") {
  const Training t;
  REQUIRE(t.alone("--out " + t.folder / "whole").exit_code == 0);
  const std::string again = "--resume auto --out " + t.folder / "run";
  // A crash in the first save leaves step-3.new, which does not lock the folder.
  std::filesystem::create_directories(t.folder / "run/checkpoints/step-3.new");
  write_bytes(t.folder / "run/program.txt", "x");
  const Outcome first = t.alone(again + " --steps 4");
  INFO(first.output);
  CHECK(first.exit_code == 0);
  for (const Outcome& outcome : t.both(again, again)) {
    INFO(outcome.output);
    CHECK(outcome.exit_code == 0);
  }
  CHECK(weights(t.folder / "run", 6) == weights(t.folder / "whole", 6));
  CHECK(metrics(t.folder / "run") == metrics(t.folder / "whole"));
  const Outcome done = t.alone(again);
  CHECK(done.exit_code == 0);
  CHECK_THAT(done.output, ContainsSubstring("are done"));
  std::filesystem::remove_all(t.folder / "run/checkpoints");
  const Outcome lost = t.alone(again);
  CHECK(lost.exit_code == 0);
  CHECK_THAT(lost.output, ContainsSubstring("run has metrics but no checkpoint"));
  CHECK(metrics(t.folder / "run") == metrics(t.folder / "whole"));
}

TEST_CASE("--steps with --resume auto says where the training ends", "[tcp][overnight]") {
  const Training t;
  const std::string again = "--resume auto --steps 4 --out " + t.folder / "run";
  for (int time = 0; time < 3; ++time) CHECK(t.alone(again).exit_code == 0);
  CHECK(std::filesystem::exists(t.folder / "run/checkpoints/step-4"));
  CHECK(!std::filesystem::exists(t.folder / "run/checkpoints/step-6"));
  const Outcome done = t.alone(again);
  CHECK_THAT(done.output, ContainsSubstring("all 4 steps of ") && ContainsSubstring("are done"));
}

TEST_CASE("a signal saves and ends a run with an exit code of its own", "[tcp][overnight]") {
  for (const int signal : {SIGTERM, SIGINT}) {
    const Training t;
    const std::string run = t.command + " --set training.steps=40 --resume auto --out ";
    REQUIRE(shell(t.folder / "log.txt", run + t.folder / "whole").exit_code == 0);
    Group group(t.folder, 2, run + t.folder / "run", "");
    REQUIRE(group.wait_for_text(t.folder / "run/metrics.jsonl", "\"step\":2,"));
    group.send(1, signal);  // any of them may be told
    const int leader = group.wait(0), other = group.wait(1);
    INFO(group.log(0));
    CHECK(leader == other);
    CHECK((leader == 75 || leader == 0));
    if (leader == 75) {
      CHECK_THAT(group.log(0), ContainsSubstring("stopped by a signal after step") &&
                                   ContainsSubstring("is the newest checkpoint"));
    }
    CHECK(shell(t.folder / "log.txt", run + t.folder / "run").exit_code == 0);
    CHECK(weights(t.folder / "run", 40) == weights(t.folder / "whole", 40));
  }
}

TEST_CASE("two runs do not share a folder", "[tcp][overnight]") {
  const Training t;
  Group group(t.folder, 2, t.command + " --steps 1000000 --out " + t.folder / "run", "");
  REQUIRE(group.wait_for_text(t.folder / "run/metrics.jsonl", "\"step\":1,"));
  const std::string before = read_bytes(t.folder / "run/scenario.toml");
  const Outcome second = t.alone("--resume auto --set training.seed=9 --out " + t.folder / "run");
  CHECK(second.exit_code == 2);
  CHECK_THAT(second.output, ContainsSubstring("is in use by another run (process "));
  CHECK(read_bytes(t.folder / "run/scenario.toml") == before);
  for (const int rank : {0, 1}) group.send(rank, SIGKILL);  // and the lock goes with its holder
  for (const int rank : {0, 1}) group.wait(rank);
  CHECK(t.alone("--resume auto --out " + t.folder / "run").exit_code == 0);
}

TEST_CASE("a run goes on with other settings only if they are named", "[tcp][overnight]") {
  const Training t;
  REQUIRE(t.alone("--out " + t.folder / "a --steps 3").exit_code == 0);
  const std::string resume = "--steps 1 --resume " + t.folder / "a";
  for (const auto& [change, key] : std::vector<std::pair<std::string, std::string>>{
           {"model.heads=4", "model.heads"},
           {"model.layers=1", "model.layers"},
           {"training.seed=7", "training.seed"},
           {"training.dataset=" + t.path, "training.dataset"},
           {"training.local_batch_size=2", "training.global_batch_size"},
           {"training.seq_len=4", "training.seq_len"},
           {"optimizer.lr=0.1", "optimizer.lr"},
           {"optimizer.beta2=0.5", "optimizer.beta2"}}) {
    INFO(key);
    const Outcome refused = t.alone(resume + " --set " + change);
    CHECK(refused.exit_code == 2);
    CHECK_THAT(refused.output, ContainsSubstring("trained with other settings:\n  " + key + ": "));
    CHECK_THAT(refused.output, ContainsSubstring("--accept " + key));
  }
  CHECK(t.alone(resume + " --set training.seed=7 --accept training.seed").exit_code == 0);
  const Outcome unknown = t.alone(resume + " --accept training.sead");
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.output, ContainsSubstring("did you mean training.seed?"));
  // What decides nothing about the training may change freely.
  CHECK(t.alone(resume + " --set parallelism.data_parallel_shard_degree=4"
                         " --set training.local_batch_size=2 --set training.steps=9")
            .exit_code == 0);
}

TEST_CASE("a checkpoint knows how many samples were read", "[tcp][overnight]") {
  const Training t;
  REQUIRE(t.alone("--out " + t.folder / "a --steps 3").exit_code == 0);
  REQUIRE(t.alone("--out " + t.folder / "b --steps 2 --resume " + t.folder / "a" +
                  " --set training.local_batch_size=6 --set checkpoint.interval=1"
                  " --accept training.global_batch_size")
              .exit_code == 0);
  CHECK(find_checkpoint(t.folder / "a/checkpoints")->manifest.samples == 3 * 8);
  CHECK(find_checkpoint(t.folder / "b/checkpoints")->manifest.samples == 3 * 8 + 2 * 12);
}

TEST_CASE("lockstep starts the processes of a run itself, and again after one was killed",
          "[tcp][overnight]") {
  const Training t;
  REQUIRE(
      t.alone("--set training.steps=200 --set checkpoint.interval=20 --out " + t.folder / "whole")
          .exit_code == 0);
  Group launcher(t.folder, t.command +
                               " --set training.steps=200 --set checkpoint.interval=20 --out " +
                               t.folder / "run --nproc 2 --restarts 3");
  REQUIRE(launcher.wait_for_text(t.folder / "run/checkpoints/latest", "step-"));
  const std::string lock = read_bytes(t.folder / "run/.lock");  // "process 4711 on ..."
  REQUIRE(lock.starts_with("process "));
  ::kill(std::atoi(lock.c_str() + 8), SIGKILL);
  CHECK(launcher.wait(0) == 0);
  INFO(launcher.log(0));
  CHECK_THAT(launcher.log(0), ContainsSubstring("was ended by signal 9") &&
                                  ContainsSubstring("starting the processes again"));
  CHECK(weights(t.folder / "run", 200) == weights(t.folder / "whole", 200));
  CHECK(metrics(t.folder / "run") == metrics(t.folder / "whole"));
}

TEST_CASE("a signal to processes that are starting ends them soon, and is no failure",
          "[tcp][overnight]") {
  const Training t;
  for (const int begun : {10, 30, 60, 100, 150}) {  // ms: before they run, meet and agree, or after
    const std::string run = t.folder / ("run-" + std::to_string(begun));
    Group launcher(t.folder, t.command + " --set training.steps=100000 --nproc 2 --out " + run);
    std::this_thread::sleep_for(std::chrono::milliseconds(begun));
    const auto told = std::chrono::steady_clock::now();
    launcher.send(0, SIGTERM);
    const int code = launcher.wait(0);
    INFO(begun << " ms: " << launcher.log(0));
    CHECK((code == 75 || code == -1));  // -1: before the launcher itself looks at signals
    CHECK(std::chrono::steady_clock::now() - told < std::chrono::seconds(20));
    CHECK_THAT(launcher.log(0), !ContainsSubstring("was killed"));
  }
}

TEST_CASE("a full disk is said, and leaves the checkpoint before it", "[tcp][overnight]") {
  const Training t;
  REQUIRE(t.alone("--steps 3 --out " + t.folder / "run").exit_code == 0);
  // A limit on the size of files stands for a full disk: writing fails in the same places.
  const Outcome full =
      shell(t.folder / "log.txt", "ulimit -f 50; " + t.command + " --resume auto --out " +
                                      t.folder / "run --set model.layers=2");
  CHECK(full.exit_code == 4);
  CHECK_THAT(full.output, ContainsSubstring("cannot be written"));
  CHECK(find_checkpoint(t.folder / "run/checkpoints")->manifest.step == 3);
  CHECK(t.alone("--resume auto --out " + t.folder / "run").exit_code == 0);
}

TEST_CASE("a run whose folder is taken away ends, and does not go on in another of its name",
          "[tcp][overnight]") {
  const Training t;
  Group run(t.folder, t.command +
                          " --set training.steps=1000000 --set checkpoint.interval=50 --out " +
                          t.folder / "run");
  while (!std::filesystem::exists(t.folder / "run/checkpoints/latest")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::filesystem::rename(t.folder / "run", t.folder / "moved");
  const Outcome o{run.wait(0), run.log(0)};
  CHECK(o.exit_code == 4);
  CHECK_THAT(o.output, ContainsSubstring("run was removed or moved while the run wrote into it"));
  CHECK_FALSE(std::filesystem::exists(t.folder / "run/metrics.jsonl"));
  CHECK(find_checkpoint(t.folder / "moved/checkpoints").ok());
}

TEST_CASE("a run that may open too few files says so, and may be started again",
          "[tcp][overnight]") {
  const Training t;
  const auto with = [&](int files, const std::string& command) {
    return shell(t.folder / "log.txt", "ulimit -n " + std::to_string(files) + "; " + command);
  };
  // The loader needs some itself, after those that the test was started with.
  int least = 4;
  while (with(least, kLockstep + " --version").exit_code != 0) REQUIRE(++least < 100);
  for (int files = least; files < least + 4; ++files) {
    const Outcome few = with(files, t.command + " --resume auto --out " + t.folder / "run");
    INFO(files << ": " << few.output);
    CHECK((few.exit_code == 0 || few.exit_code == 4));
    if (few.exit_code != 0) CHECK_THAT(few.output, ContainsSubstring("Too many open files"));
  }
  REQUIRE(t.alone("--out " + t.folder / "whole").exit_code == 0);
  REQUIRE(t.alone("--resume auto --out " + t.folder / "run").exit_code == 0);
  CHECK(metrics(t.folder / "run") == metrics(t.folder / "whole"));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need more to begin with
TEST_CASE("a run that may map too little memory is refused before its first step, or trains",
          "[tcp][overnight]") {
  const Training t;
  int refused = 0, trained = 0;
  for (int kilobytes = 40'000; kilobytes <= 400'000; kilobytes += 9'000) {
    const std::string run = t.folder / ("run-" + std::to_string(kilobytes));
    const Outcome o = shell(t.folder / "log.txt", "ulimit -v " + std::to_string(kilobytes) + "; " +
                                                      t.command + " --out " + run);
    INFO(kilobytes << ": " << o.output);
    if (o.output.find("error while loading shared libraries") != std::string::npos) continue;
    if (o.exit_code == 0) {
      ++trained;
      continue;
    }
    ++refused;
    CHECK(o.exit_code == exit_code(ErrorKind::OutOfMemory));
    CHECK_THAT(o.output, ContainsSubstring("error: ") && ContainsSubstring("(ulimit -v)"));
    CHECK_FALSE(std::filesystem::exists(run));
  }
  CHECK(refused > 0);
  CHECK(trained > 0);
}
#endif

TEST_CASE("a step that stands out is undone to the bit, also after going on from a checkpoint",
          "[tcp][overnight]") {
  const Training t;
  const std::string spikes =
      "--set training.skip_grad_zscore=1 --set optimizer.lr=1e-5 --set training.steps=145"
      " --set checkpoint.interval=1 --out ";
  const Outcome whole = t.alone(spikes + t.folder / "whole");
  REQUIRE(whole.exit_code == 0);
  std::vector<int> skipped;
  const std::string words = "step 1";  // none before 128
  for (std::size_t at = whole.output.find(words); at != std::string::npos;
       at = whole.output.find(words, at + 1)) {
    if (whole.output.find("is skipped: its gradient norm of", at) == at + 9) {
      skipped.push_back(std::atoi(whole.output.c_str() + at + 5));
    }
  }
  REQUIRE_FALSE(skipped.empty());
  const auto tensors = [&](int step) {
    return load_checkpoint(t.folder / "whole/checkpoints/step-" + std::to_string(step))->tensors;
  };
  for (const int step : skipped) {
    const bool undone = tensors(step) == tensors(step - 1), moved = tensors(step) != tensors(127);
    CHECK(undone);
    CHECK(moved);
  }
  REQUIRE(t.alone("--steps 135 " + spikes + t.folder / "parts").exit_code == 0);
  REQUIRE(t.alone("--resume auto " + spikes + t.folder / "parts").exit_code == 0);
  const bool same = weights(t.folder / "parts", 145) == weights(t.folder / "whole", 145);
  CHECK(same);
  CHECK(metrics(t.folder / "parts") == metrics(t.folder / "whole"));
}

TEST_CASE("steps whose numbers are not finite are skipped, up to a limit", "[tcp][overnight]") {
  const Training t;
  const Outcome o = t.alone(
      "--set training.on_nonfinite=skip --set optimizer.lr=1e6 --set"
      " training.steps=60 --set checkpoint.interval=1 --out " +
      t.folder / "run");
  INFO(o.output);
  CHECK(o.exit_code == 6);
  CHECK_THAT(o.output, ContainsSubstring("is skipped: its"));
  CHECK(read_bytes(t.folder / "run/metrics.jsonl").find("nan") == std::string::npos);
  const auto left = load_checkpoint(t.folder / "run/checkpoints");  // every number of it is finite
  CHECK(left.ok());
}

}  // namespace lockstep
