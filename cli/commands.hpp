// Commands: their arguments as plain values, and the functions that run them. Each function returns
// the exit code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/console.hpp"
#include "core/advice/question.hpp"
#include "core/generate/sampling.hpp"
#include "core/handover/plan_import.hpp"
#include "core/session/session.hpp"
#include "core/validation/collective_question.hpp"
#include "core/validation/row_choice.hpp"

namespace lockstep {

/// The exit code of a run that a signal has stopped: EX_TEMPFAIL of sysexits.h, "try again".
inline constexpr int kStopped = 75;
/// The exit code of a run that ended because its loss or gradient norm was not finite.
inline constexpr int kDiverged = 6;

struct RunArguments : SessionOptions {
  std::string scenario;  // file of a scenario, or of a program's text
  std::vector<std::string> set;
  std::string picture;               // SVG to write; empty: none
  int restarts = 0;                  // of the processes to start on this machine, if one fails
  std::string bind;                  // address at which these listen; empty: 127.0.0.1
  std::vector<std::string> command;  // the words of the command line, for these
  bool json = false, timeline = false, quiet = false;
  bool insecure = false;  // no warning where anyone can join
  // The next lines are for a program's text only, because it has no scenario to say them.
  std::string cluster, data;            // empty: the preset "cpu", and synthetic data
  std::string nvme_path;                // folder for what lies on a drive
  std::vector<std::string> allow;       // what verify() leaves unproven (unproven())
  std::optional<int> checkpoint_every;  // in steps
};
int run_command(const RunArguments& arguments, const Console& console);
/// Runs `arguments.processes` processes of the same command on this machine, and again, from the
/// newest checkpoint, up to `arguments.restarts` times.
int launch_locally(const RunArguments& arguments, const Console& console);

struct ReportArguments {
  std::string run;      // a path as open_run() takes it
  std::string picture;  // SVG to write; empty: none
  bool json = false, timeline = false;
  int names = 0;  // so many kernels and calls by name
};
int report_command(const ReportArguments& arguments, const Console& console);

inline const std::vector<std::string> kLists = {"models",     "clusters", "schedules", "scenarios",
                                                "frameworks", "backends", "keys"};
struct ListArguments {
  std::string what;     // of kLists; empty: which there are
  std::string matches;  // of keys: those in whose name or meaning it is, with all that is known
  bool json = false;
};
int list_command(const ListArguments& arguments, const Console& console);

struct CompareArguments {
  std::string a, b;  // paths as open_run() takes them, or scenarios to simulate
  bool json = false;
};
int compare_command(const CompareArguments& arguments, const Console& console);

struct ShowArguments {
  std::string what;  // "program", "schedule", "memory" or "model"
  std::string scenario;
  std::vector<std::string> set;
  std::optional<int> rank;
  std::string after;           // name of a pass; empty: the finished program
  bool csv = false;            // print a schedule in PyTorch's file format
  bool communication = false;  // with csv: the second level of that format
  bool json = false;
};
int show_command(const ShowArguments& arguments, const Console& console);

struct VerifyArguments {
  std::string program;             // text file
  std::vector<std::string> allow;  // what verify() leaves unproven (unproven())
  bool json = false;
};
int verify_command(const VerifyArguments& arguments, const Console& console);

struct LessonArguments {
  std::string page;     // Markdown file, or the number of a shipped one; empty: which there are
  std::string picture;  // path of the page's picture; empty: none
  bool json = false;
};
int lesson_command(const LessonArguments& arguments, const Console& console);

struct RecommendArguments : RecommendQuestion {
  double seconds = 60;  // after this time no further layouts are tried
  int threads = 0;      // 0: one for each core
  bool json = false;
};
int recommend_command(const RecommendArguments& arguments, const Console& console);

struct SearchArguments {
  std::string scenario;
  std::vector<std::string> set;
  int top = 10;                    // layouts shown
  double seconds = 60;             // after this time no further layouts are tried
  int threads = 0;                 // 0: one for each core
  int finalists = 0;               // layouts that fit and are simulated in full; 0: one or two
  bool exhaustive = false;         // simulate all layouts
  bool keep_schedule = false;      // the scenario's pipeline schedule alone
  bool offload = false;            // also layouts with states in host memory
  double max_memory_gb = 0;        // of a rank, in GB of 10^9 bytes; 0: what the device has
  std::string objective = "time";  // of a step; or throughput of a GPU, money, energy, memory
  bool sensitivity = false;        // estimate what the choice depends on
  std::vector<std::string> only;   // "tp=8"
  std::vector<int> nodes;          // cluster sizes; empty: the scenario's
  std::vector<int> batches;        // global batches, in sequences; empty: the scenario's
  std::vector<std::string> types;  // of search_types(), in which layers multiply; likewise
  bool json = false, quiet = false, verbose = false;
  std::string write;  // scenario file to write for the fastest layout; empty: none
};
const std::vector<std::string>& search_types();
int search_command(const SearchArguments& arguments, const Console& console);

struct CampaignArguments {
  std::string scenario;
  std::vector<std::string> set;
  std::uint64_t seed = 1;  // of the first campaign
  int runs = 1000;         // campaigns that are simulated
  bool json = false;
};
int campaign_command(const CampaignArguments& arguments, const Console& console);

struct ValidateArguments : RowChoice {
  std::vector<std::string> set;  // overrides of every scenario
  int threads = 0;               // 0: one for each core
  bool json = false, markdown = false, rows = false, scenario = false, quiet = false;
  std::string svg;  // file to which the diagram is written; empty: none
};
int validate_command(const ValidateArguments& arguments, const Console& console);

struct FitArguments {
  std::vector<std::string> inputs;  // CSV, run folders, Kineto traces or folders of these
  std::string fit;                  // "KEY[@PATTERN][=START],..."; empty: what the rows can tell
  std::vector<std::string> set;     // overrides of every scenario
  std::string cluster;              // of traces
  std::string source;               // a pattern; empty: all rows
  std::string leave_out = "row";    // or "source"
  std::string out, framework_out;   // profiles to write; empty: none
  int threads = 0;                  // 0: one for each core
  bool json = false, rows = false, quiet = false;
};
int fit_command(const FitArguments& arguments, const Console& console);

struct CollectiveArguments : CollectiveQuestion {
  bool json = false;
};
int collective_command(const CollectiveArguments& arguments, const Console& console);

struct CalibrateArguments {
  std::string backend, out;
  std::string dtype;  // in which kernels are measured on a GPU; empty: bfloat16
  bool quick = false, json = false;
};
int calibrate_command(const CalibrateArguments& arguments, const Console& console);

struct SampleArguments {
  std::string model;              // run folder, or folder of a Hugging Face model
  std::string prompt;             // text to go on from
  std::string tokenizer;          // file or folder; empty: the model's own
  std::vector<std::int32_t> ids;  // the prompt as tokens; counts before `prompt`
  int tokens = 100;               // at most as many are made
  Sampling sampling;
  std::string backend = "cpu";
  int threads = 1;
  bool ignore_end = false, json = false, quiet = false;
};
int sample_command(const SampleArguments& arguments, const Console& console);

struct WeightsArguments {
  std::string layout;                  // "hf", "chakra", or a trainer of core/handover
  std::string from, out;               // folders; of a handover: scenario and file
  std::string merge;                   // folder of PEFT's adapters, for an import; empty: none
  std::vector<std::string> set;        // of a handover
  std::string dtype;                   // of exported tensors; empty: that of the checkpoint
  bool adapters = false;               // export adapters alone, for PEFT
  double shard_gb = 5;                 // most of a file, in GB of 10^9 bytes
  PlanOptions plan;                    // of an imported plan
  std::vector<std::string> arguments;  // NAME=VALUE, of an imported script
  bool strict = false;                 // refuse an imported plan of which anything is assumed
  bool json = false;
};
int import_plan_command(const WeightsArguments& arguments, const Console& console);
int import_command(const WeightsArguments& arguments, const Console& console);
int export_command(const WeightsArguments& arguments, const Console& console);
int chakra_command(const WeightsArguments& arguments, const Console& console);
int handover_command(const WeightsArguments& arguments, const Console& console);

struct DataArguments {
  std::vector<std::string> texts;  // files and folders
  std::string tokenizer, out;      // file or folder; the shard to make
  std::string field = "text";      // of the objects in JSON lines
  std::string dtype;               // uint16 or uint32; empty: the narrower that holds all tokens
  double validation = 0;           // share of the text, its end, that goes into a second shard
  bool json = false;
};
int data_command(const DataArguments& arguments, const Console& console);

}  // namespace lockstep
