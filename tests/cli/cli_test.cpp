#include "cli/cli.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"

namespace lockstep {
namespace {

using test::CommandOutcome;
using test::kSynthetic;
using test::kTiny;
using test::lockstep;

TEST_CASE("help and version are answers, not errors", "[cli]") {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--help"}, {"run", "--help"}, {"--help-all"}, {"--version"}}) {
    const CommandOutcome o = lockstep(arguments);
    CHECK(o.exit_code == 0);
    CHECK_THAT(o.out, ContainsSubstring("lockstep") || ContainsSubstring("Usage"));
    CHECK(o.err.empty());
  }
}

TEST_CASE("an empty value is refused, and does not count as an option that is not given", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", kSynthetic);
  for (const std::string option : {"--out", "--resume", "--picture", "--cluster", "--accept"}) {
    for (const auto& words : {std::vector<std::string>{option, ""}, {option + "="}}) {
      std::vector<std::string> arguments{"run", folder / "s.toml"};
      arguments.insert(arguments.end(), words.begin(), words.end());
      const CommandOutcome o = lockstep(arguments);
      INFO(option << ": " << o.err);
      CHECK(o.exit_code == 2);
      CHECK_THAT(o.err, ContainsSubstring(option));
      CHECK(o.out.empty());
    }
  }
  CHECK_THAT(lockstep({"run", ""}).err, ContainsSubstring("scenario: its value is empty"));
  CHECK_THAT(lockstep({"sample", folder.path.string(), "--prompt", ""}).err,
             !ContainsSubstring("empty"));
}

TEST_CASE("a run that is larger than this machine's free memory is refused before it allocates",
          "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", kTiny);
  // Each rank would get its arena, of which no page is there before it is touched.
  const auto o = lockstep({"run", folder / "s.toml", "--backend", "cpu", "--out", folder / "run",
                           "--set", "model.vocab=4000000", "--set", "model.hidden=65536", "--set",
                           "cluster.device.memory_gb=1e6"});
  INFO(o.err);
  CHECK(o.exit_code == 3);
  CHECK_THAT(o.err, ContainsSubstring("are needed, ") && ContainsSubstring("are free") &&
                        ContainsSubstring("--backend sim"));
  CHECK(!std::filesystem::exists(folder / "run"));
}

TEST_CASE("a backend that there is not is named before memory is counted", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", kTiny);
  const auto o = lockstep({"run", folder / "s.toml", "--backend", "cpuu", "--set",
                           "cluster.device.memory_gb=0.000001"});
  CHECK(o.exit_code == 2);
  CHECK_THAT(o.err, ContainsSubstring("unknown backend 'cpuu'; did you mean 'cpu'?"));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they end such a process
TEST_CASE("where this machine has less memory than the devices, no change for these is advised",
          "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", kTiny);
  const auto run = [&](const char* gigabytes) {
    // 16 bytes of each of 2e8 × 65,536 parameters are more than a process can address.
    return lockstep({"run", folder / "s.toml", "--backend", "cpu", "--out", folder / "run", "--set",
                     "model.vocab=200000000", "--set", "model.hidden=65536", "--set",
                     std::string("cluster.device.memory_gb=") + gigabytes});
  };
  const auto here = run("1e6");
  CHECK(here.exit_code == 3);
  CHECK_THAT(here.err, ContainsSubstring("--backend cpu: 4 ranks are kept in the memory of this") &&
                           ContainsSubstring("are needed, ") && ContainsSubstring("are free"));
  CHECK_THAT(here.err, ContainsSubstring("this machine has not: take a smaller model"));
  CHECK_THAT(here.err, !ContainsSubstring("--set"));
  CHECK(!std::filesystem::exists(folder / "run"));  // what was refused leaves nothing
  const auto there = run("1e5");
  CHECK(there.exit_code == 3);
  CHECK_THAT(there.err, ContainsSubstring("its device has"));
  CHECK_THAT(there.err, !ContainsSubstring("this machine has not"));
  // A folder with an older run stays as it was.
  const std::string old = folder / "run";
  REQUIRE(lockstep({"run", folder / "s.toml", "--out", old}).exit_code == 0);
  std::map<std::string, std::string> before;
  for (const auto& entry : std::filesystem::directory_iterator(old)) {
    before[entry.path().filename().string()] = read_bytes(entry.path().string());
  }
  before.erase(".lock");
  CHECK(before.size() == 5);
  CHECK(run("1e6").exit_code == 3);
  for (const auto& [name, text] : before) {
    INFO(name);
    CHECK(read_bytes((std::filesystem::path(old) / name).string()) == text);
  }
}
#endif

TEST_CASE("an output that cannot be written is an error", "[cli]") {
  struct Full : std::streambuf {};  // takes no character
  Full full;
  for (const auto& arguments : {std::vector<std::string>{"list", "keys"}, {"--help"}, {"man"}}) {
    std::ostream out(&full);
    std::ostringstream err;
    const Console console{out, err};
    CHECK(run_cli(arguments, console) == 4);
    CHECK_THAT(err.str(), ContainsSubstring("the output could not be written whole"));
  }
}

TEST_CASE("no argument of a command has the name of one of its options", "[cli]") {
  // CLI11 2.4, which Ubuntu 24.04 has, takes the two for one; 2.1 of Debian 12 does not.
  const auto words_of = [](const std::string& text, const std::string& heading) {
    std::vector<std::string> words;
    std::istringstream lines(text.substr(std::min(text.find(heading), text.size())));
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line) && line.starts_with("  ")) {
      std::string word = line.substr(2, line.find_first_of(" ,", 2) - 2);
      if (word.starts_with("--")) word.erase(0, 2);
      if (!word.empty()) words.push_back(word);
    }
    return words;
  };
  const std::vector<std::string> commands = words_of(lockstep({"--help"}).out, "Commands:");
  REQUIRE(commands.size() > 15);
  std::size_t arguments = 0;
  for (const std::string& command : commands) {
    const std::string help = lockstep({command, "--help"}).out;
    std::vector<std::string> options = words_of(help, "Options:");
    for (const std::string& option : words_of(help, "Options of every command:")) {
      options.push_back(option);
    }
    CHECK(options.size() > 1);
    for (const std::string& argument : words_of(help, "Arguments:")) {
      INFO(command << " " << argument);
      CHECK(std::find(options.begin(), options.end(), argument) == options.end());
      ++arguments;
    }
  }
  CHECK(arguments > 10);
}

TEST_CASE("a vocabulary that is slow on a GPU is pointed out there, and nowhere else", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", kTiny);
  const auto said = [&](const std::string& backend, const std::string& setting) {
    return lockstep({"run", folder / "s.toml", "--backend", backend, "--steps", "1", "--quiet",
                     "--set", "training.mixed_precision_param=bfloat16", "--set", setting});
  };
  const auto note =
      ContainsSubstring("model.vocab 61 is no multiple of 8") && ContainsSubstring("64 is faster");
  const auto on_gpu = said("cuda", "model.vocab=61");
  if (on_gpu.err.find("not built") == std::string::npos) {
    CHECK_THAT(on_gpu.err,
               ContainsSubstring("model.vocab 61 is no multiple of 8: products of logits are slow "
                                 "on a GPU; 64 is faster"));
  }
  CHECK_THAT(said("cuda", "model.vocab=64").err, !ContainsSubstring("model.vocab"));
  CHECK_THAT(said("cpu", "model.vocab=61").err, !ContainsSubstring("model.vocab"));
}

TEST_CASE("a wrong argument exits 2 and names the nearest valid one", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", kSynthetic);
  const struct {
    std::vector<std::string> arguments;
    std::string message;
  } cases[] = {
      {{"rnu"}, "unknown command 'rnu'; did you mean 'run'?"},
      {{"run"}, "lockstep run needs a scenario (TOML)"},
      {{"show"}, "lockstep show needs what to show: program, schedule, memory or model"},
      {{"show", "memory"}, "lockstep show memory needs a scenario"},
      {{"show", folder / "s.toml"}, "lockstep show memory " + (folder / "s.toml")},
      {{"compare", "a"}, "lockstep compare needs a second run"},
      {{"run", folder / "s.toml", "--steps"}, "--steps needs a value: N"},
      {{"run", folder / "s.toml", "--stepz", "3"}, "no option '--stepz'; did you mean '--steps'?"},
      {{"run", folder / "s.toml", "extra"}, "more than it takes"},
      {{"run", folder / "s.toml", "--steps", "0"}, "--steps"},
      {{"run", folder / "s.toml", "--steps", "many"}, "--steps"},
      {{"run", folder / "s.toml", "--backend", "smi"}, "did you mean 'sim'?"},
      {{"run", folder / "s.toml", "--cuda-graphs"}, "only the backend 'cuda' has graphs"},
      {{"run", folder / "s.toml", "--backend", "cpu", "--cudnn"}, "only the backend 'cuda'"},
      {{"run", folder / "s.toml", "--trace-from", "4"}, "the run has 1 steps"},
      {{"run", folder / "s.toml", "--resume", folder / "none"}, "a backend that computes"},
      {{"run", folder / "none.toml"}, "none.toml"},
      {{"show", "shedule", folder / "s.toml"}, "did you mean 'schedule'?"},
      {{"show", "program", folder / "s.toml", "--after", "pipeln"}, "did you mean 'pipeline'?"},
      {{"show", "program", folder / "s.toml", "--rank", "4"}, "ranks are 0 to 3"},
      {{"show", "memory", folder / "s.toml", "--after", "pipeline"}, "show program only"},
      {{"compare", folder / "a", folder / "b"}, "no such file or folder"},
      {{"calibrate", "--backend", "sim", "--out", folder / "p.toml"}, "not 'sim'"},
      {{"calibrate", "--backend", "cpu"}, "lockstep calibrate needs --out FILE"},
      {{"calibrate", "--backend", "cpu", "--dtype", "float32", "--out", folder / "p.toml"},
       "only the backend 'cuda'"},
      {{"calibrate", "--backend", "cuda", "--dtype", "int8", "--out", folder / "p.toml"},
       "int8 not in {float32,float64,bfloat16}"},
      {{"recommend", "--params", "7Q", "--gpu-mem", "80", "--gpus", "8"}, "'7Q'"},
      {{"recommend", "--params", "7B", "--gpu-mem", "80", "--gpus", "8", "--interconnect", "nvlnk"},
       "did you mean 'nvlink'?"},
  };
  for (const auto& c : cases) {
    const CommandOutcome o = lockstep(c.arguments);
    INFO(o.err);
    CHECK(o.exit_code == 2);
    CHECK_THAT(o.err, ContainsSubstring(c.message));
    CHECK(o.out.empty());
  }
}

TEST_CASE("without a command the help is printed, which is no success", "[cli]") {
  const CommandOutcome o = lockstep({});
  CHECK(o.exit_code == 2);
  CHECK(o.out == lockstep({"--help"}).out);
}

TEST_CASE("every fault of a scenario is reported with its line", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "bad.toml",
              "[model]\npreset = \"gpt2-tini\"\n[training]\nstepz = 3\nseq_len = 8\n");
  const CommandOutcome o = lockstep({"run", folder / "bad.toml"});
  CHECK(o.exit_code == 2);
  CHECK_THAT(o.err, ContainsSubstring("bad.toml:2:") && ContainsSubstring("gpt2-tiny"));
  CHECK_THAT(o.err, ContainsSubstring("bad.toml:4:1") && ContainsSubstring("steps"));
}

TEST_CASE("a model that does not fit exits 3 before anything runs", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", "[model]\npreset = \"llama2-70b\"\n");
  const CommandOutcome o = lockstep({"run", folder / "s.toml"});
  CHECK(o.exit_code == 3);
  CHECK_THAT(o.err, ContainsSubstring("rank 0"));
}

TEST_CASE("a model that does not fit is shown, with the memory that is missing", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml",
              "[model]\npreset = \"gpt2-tiny\"\n[cluster.device]\nmemory_gb = 0.001\n");
  for (const std::string what : {"program", "schedule", "memory", "model"}) {
    const CommandOutcome o = lockstep({"show", what, folder / "s.toml"});
    INFO(what << ": " << o.err);
    CHECK(o.exit_code == 0);
    CHECK(!o.out.empty());
    CHECK_THAT(o.err, ContainsSubstring("does not fit: rank 0 needs") &&
                          ContainsSubstring("GB too little"));
  }
}

TEST_CASE("a failed expectation exits 5 and names its line", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml",
              kSynthetic + "[expect]\nstep_time_s = 33.0\nbubble_fraction = 0.2\n");
  const CommandOutcome o = lockstep({"run", folder / "s.toml"});
  CHECK(o.exit_code == 5);
  CHECK_THAT(o.err,
             ContainsSubstring("s.toml:14:") && ContainsSubstring("bubble_fraction is 0.27"));
  CHECK_THAT(o.err, !ContainsSubstring("step_time_s"));
  CHECK_THAT(o.out, ContainsSubstring("33 s"));  // the report is printed all the same
  CHECK(lockstep({"run", folder / "s.toml", "--set", "expect.bubble_fraction=0.27272727272727"})
            .exit_code == 0);
}

TEST_CASE("run prints the step, both conventions of the bubble, and a row for every rank",
          "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", kSynthetic);
  const CommandOutcome o = lockstep({"run", folder / "s.toml", "--timeline"});
  REQUIRE(o.exit_code == 0);
  CHECK(o.err.empty());
  CHECK_THAT(o.out, ContainsSubstring("27.3 % of the step"));          // 3 / 11
  CHECK_THAT(o.out, ContainsSubstring("37.5 % idle time / busiest"));  // 3 / 8
  CHECK_THAT(o.out, ContainsSubstring("   3     24 s"));
  CHECK_THAT(o.out, ContainsSubstring("rank 3 (pp3)  ........F0B0----F1"));
}

TEST_CASE("--json prints report.json and nothing else", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", kSynthetic);
  const CommandOutcome o = lockstep({"run", folder / "s.toml", "--json"});
  REQUIRE(o.exit_code == 0);
  const auto report = nlohmann::json::parse(o.out);
  for (const char* key :
       {"backend", "world_size", "program_hash", "step_time_s", "tokens_per_s",
        "model_flops_per_step", "mfu", "bubble_fraction", "exposed_comm_s", "comm_bytes_sent",
        "peak_memory_bytes", "losses", "stage_span_s", "peak_microbatches_in_flight"}) {
    CHECK(report.contains(key));
  }
  CHECK(report["step_time_s"] == 33.0);
  CHECK(report["peak_microbatches_in_flight"] == nlohmann::json({4, 3, 2, 1}));
  CHECK(report["stage_span_s"] == nlohmann::json({33.0, 30.0, 27.0, 24.0}));
}

TEST_CASE("a sweep is one table with a row for every point", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml",
              kSynthetic + "[sweep]\nparallelism.pipeline_parallel_microbatches = [4, 8, 16]\n");
  const CommandOutcome o = lockstep({"run", folder / "s.toml", "--wide"});
  REQUIRE(o.exit_code == 0);
  CHECK(std::count(o.out.begin(), o.out.end(), '\n') == 4);
  // Field facts: p = 4, forward 1, backward 2.
  CHECK_THAT(o.out, ContainsSubstring("microbatches=4 ") && ContainsSubstring("21 s") &&
                        ContainsSubstring("42.9 %"));
  CHECK_THAT(o.out, ContainsSubstring("57 s") && ContainsSubstring("15.8 %"));
  const CommandOutcome json = lockstep({"run", folder / "s.toml", "--json"});
  const auto list = nlohmann::json::parse(json.out);
  REQUIRE(list.size() == 3);
  CHECK(list[2]["step_time_s"] == 57.0);
}

TEST_CASE("a point of a sweep that does not fit keeps its row", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", kTiny + "[sweep]\nmodel.hidden = [16, 65536]\n");
  const CommandOutcome o = lockstep({"run", folder / "s.toml"});
  CHECK(o.exit_code == 3);
  CHECK_THAT(o.out, ContainsSubstring("hidden=65536") && ContainsSubstring("does not fit"));
  CHECK_THAT(o.err, ContainsSubstring("hidden=65536: rank"));
}

TEST_CASE("show schedule reads the pipeline's order back from the finished program", "[cli]") {
  const TemporaryFolder folder;
  for (const std::string& scenario : {kSynthetic, kTiny}) {
    for (const char* schedule : {"1F1B", "GPipe"}) {
      write_bytes(folder / "s.toml", scenario);
      const std::string set =
          std::string("parallelism.pipeline_parallel_schedule=\"") + schedule + "\"";
      const CommandOutcome planned =
          lockstep({"show", "program", folder / "s.toml", "--after", "pipeline", "--set", set});
      const CommandOutcome lowered =
          lockstep({"show", "schedule", folder / "s.toml", "--set", set});
      REQUIRE(lowered.exit_code == 0);
      CHECK(lowered.out == planned.out);
    }
  }
  write_bytes(folder / "s.toml", kSynthetic);
  const CommandOutcome last = lockstep({"show", "schedule", folder / "s.toml", "--rank", "3"});
  CHECK(last.out == "pp3: 3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4 3F5 3B5 3F6 3B6 3F7 3B7\n");
}

TEST_CASE("a schedule written by show schedule --csv is read back as the user's own", "[cli]") {
  const TemporaryFolder folder;
  for (const char* schedule : {"1F1B", "ZBVZeroBubble", "DualPipeV", "DualPipe"}) {
    write_bytes(folder / "s.toml", kSynthetic);
    const std::string name = schedule;
    const bool single = name == "1F1B" || name == "DualPipe";
    const std::string v = single ? "1" : "2";
    const std::vector<std::string> common = {
        "--set", "parallelism.pipeline_parallel_virtual_stages=" + v, "--set",
        std::string("parallelism.pipeline_parallel_schedule=\"") + schedule + "\""};
    const auto run = [&](std::vector<std::string> arguments) {
      arguments.insert(arguments.end(), common.begin(), common.end());
      return lockstep(arguments);
    };
    const CommandOutcome csv = run({"show", "schedule", folder / "s.toml", "--csv"});
    REQUIRE(csv.exit_code == 0);
    write_bytes(folder / "own.csv", csv.out);
    const std::string own = "parallelism.pipeline_parallel_schedule_csv=\"own.csv\"";
    const CommandOutcome back = run({"show", "schedule", folder / "s.toml", "--csv", "--set", own});
    CHECK(back.out == csv.out);
    const CommandOutcome named = run({"run", folder / "s.toml", "--json"});
    const CommandOutcome given = run({"run", folder / "s.toml", "--json", "--set", own});
    REQUIRE(given.exit_code == 0);
    const auto time = [](const CommandOutcome& o) {
      return nlohmann::json::parse(o.out)["step_time_s"];
    };
    const auto hash = [](const CommandOutcome& o) {
      return nlohmann::json::parse(o.out)["program_hash"];
    };
    CHECK(time(named) == time(given));
    CHECK(hash(named) == hash(given));
    // The second level says the same, and stays as it is when written again.
    const CommandOutcome whole =
        run({"show", "schedule", folder / "s.toml", "--csv", "--communication"});
    CHECK_THAT(whole.out, ContainsSubstring("0UNSHARD") && ContainsSubstring("SEND_F") &&
                              ContainsSubstring("RECV_B") && ContainsSubstring("REDUCE_GRAD"));
    write_bytes(folder / "own.csv", whole.out);
    CHECK(run({"show", "schedule", folder / "s.toml", "--csv", "--set", own}).out == csv.out);
    CHECK(run({"show", "schedule", folder / "s.toml", "--csv", "--communication", "--set", own})
              .out == whole.out);
  }
  CHECK(lockstep({"show", "program", folder / "s.toml", "--csv"}).exit_code == 2);
}

TEST_CASE("show model counts GPT-2's parameters", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml",
              "[model]\npreset = \"gpt2-124m\"\n[training]\nseq_len = 64\n"
              "[cluster]\npreset = \"a100-80\"\n");
  const CommandOutcome o = lockstep({"show", "model", folder / "s.toml"});
  INFO(o.err);
  REQUIRE(o.exit_code == 0);
  CHECK_THAT(o.out, ContainsSubstring("124,439,808 parameters"));
  CHECK_THAT(o.out, ContainsSubstring("50257 x 768"));
}

TEST_CASE("show memory and show program describe the rank that was asked for", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", kTiny);
  const CommandOutcome memory = lockstep({"show", "memory", folder / "s.toml"});
  REQUIRE(memory.exit_code == 0);
  CHECK_THAT(memory.out, ContainsSubstring("ranks 0 1: arena") && ContainsSubstring("ranks 2 3: "));
  CHECK_THAT(memory.out, ContainsSubstring("largest buffers") && ContainsSubstring("optimizer"));
  const CommandOutcome rank = lockstep({"show", "memory", folder / "s.toml", "--rank", "3"});
  CHECK_THAT(rank.out, !ContainsSubstring("ranks 0 1"));
  const CommandOutcome program = lockstep({"show", "program", folder / "s.toml"});
  const CommandOutcome role = lockstep({"show", "program", folder / "s.toml", "--rank", "2"});
  CHECK(role.exit_code == 0);
  CHECK(role.out.size() < program.out.size());
}

TEST_CASE("ranks of a large world that have equal figures share a row", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", kTiny + "[cluster]\npreset = \"a100-80\"\nnodes = 4\n");
  const CommandOutcome o = lockstep(
      {"run", folder / "s.toml", "--set", "parallelism.data_parallel_replicate_degree=16"});
  INFO(o.err);
  REQUIRE(o.exit_code == 0);
  CHECK_THAT(o.out, ContainsSubstring("\n 0-15 ") && ContainsSubstring("\n16-31 "));
}

TEST_CASE("a sweep over ranks has a column of scaling efficiency", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "one.toml",
              "[model]\npreset = \"gpt2-tiny\"\n[training]\n"
              "total_tokens = 1e12\n[cluster]\npreset = \"a100-80\"\n"
              "[sweep]\n\"parallelism.data_parallel_replicate_degree\" = "
              "[1, 2]\n");
  const CommandOutcome table = lockstep({"run", folder / "one.toml"});
  REQUIRE(table.exit_code == 0);
  CHECK_THAT(table.out, ContainsSubstring("scaling") && ContainsSubstring(" 1.000 "));
  const CommandOutcome json = lockstep({"run", folder / "one.toml", "--json"});
  REQUIRE(json.exit_code == 0);
  const auto list = nlohmann::json::parse(json.out);
  const auto& one = list[0];
  const auto& two = list[1];
  CHECK(one["scaling_efficiency"] == 1.0);
  const double rate = two["tokens_per_s"];
  CHECK(two["scaling_efficiency"].get<double>() ==
        Approx(rate / 2 / one["tokens_per_s"].get<double>()));
  CHECK(two["time_to_train_s"].get<double>() == Approx(1e12 / rate));
}

TEST_CASE("show memory sets the ZeRO formula beside the plan", "[cli]") {
  // Llama-2 7B: 6,738,415,616 parameters of 16 bytes are 107.8 GB, 13.5 GB on eight ranks.
  const CommandOutcome outcome = lockstep(
      {"show", "memory",
       std::string(LOCKSTEP_SOURCE_DIR) + "/scenarios/clusters/llama2-7b-fsdp-8xh100.toml"});
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("6,738,415,616 parameters on 8 data-parallel ranks"));
  CHECK_THAT(outcome.out, ContainsSubstring("108"));
  CHECK_THAT(outcome.out, ContainsSubstring("13.5"));
}

}  // namespace
}  // namespace lockstep
