// The commands: their arguments as plain values, and what they do. Each returns the exit code.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/console.hpp"

namespace lockstep {

struct RunArguments {
  std::string scenario;  // or a program's text
  std::string backend = "sim";
  std::vector<std::string> set;
  std::optional<int> steps;
  std::string resume, out;  // empty: not given
  bool json = false, timeline = false, quiet = false;
  int threads = 1;                          // of each rank
  std::string communicator;                 // backend cuda
  bool cuda_graphs = false, cudnn = false;  // likewise
  std::optional<int> trace_from, trace_steps;
  // Of a program's text alone, where there is no scenario to say them.
  std::string cluster, data;            // empty: preset "cpu", synthetic data
  std::optional<int> checkpoint_every;  // steps
};
int run_command(const RunArguments& arguments, const Console& console);

struct ReportArguments {
  std::string run;  // as open_run takes it
  bool json = false, timeline = false;
};
int report_command(const ReportArguments& arguments, const Console& console);

struct CompareArguments {
  std::string a, b;  // as open_run takes them
};
int compare_command(const CompareArguments& arguments, const Console& console);

struct ShowArguments {
  std::string what;  // program, schedule, memory, model
  std::string scenario;
  std::vector<std::string> set;
  std::optional<int> rank;
  std::string after;           // pass; empty: the finished program
  bool csv = false;            // of a schedule: PyTorch's file format
  bool communication = false;  // with csv: its second level
};
int show_command(const ShowArguments& arguments, const Console& console);

struct VerifyArguments {
  std::string program;  // text file
};
int verify_command(const VerifyArguments& arguments, const Console& console);

struct RecommendArguments {
  std::string params;  // "7B", "1.3e9"
  double gpu_mem = 0;  // GB
  int gpus = 1;
  std::string interconnect = "nvlink";
};
int recommend_command(const RecommendArguments& arguments, const Console& console);

struct SearchArguments {
  std::string scenario;
  std::vector<std::string> set;
  int top = 10;         // layouts shown
  double seconds = 60;  // after which no further ones are tried
  int threads = 0;      // 0: one for each core
  bool json = false, quiet = false;
  std::string write;  // scenario file for the fastest; empty: none
};
int search_command(const SearchArguments& arguments, const Console& console);

struct ValidateArguments {
  std::string file;              // CSV of training runs or of collectives
  std::string source, row;       // pattern of sources, id; empty: all
  std::vector<std::string> set;  // of every scenario
  int threads = 0;               // 0: one for each core
  bool json = false, markdown = false, rows = false, scenario = false, quiet = false;
  std::string svg;  // file for the diagram; empty: none
};
int validate_command(const ValidateArguments& arguments, const Console& console);

struct CollectiveArguments {
  std::string kind = "all_reduce", bytes = "256MiB", cluster = "h100";
  int nodes = 1, ranks = 0;  // 0: all of the nodes
  bool sweep = false, json = false;
};
int collective_command(const CollectiveArguments& arguments, const Console& console);

struct CalibrateArguments {
  std::string backend, out;
  std::string dtype;  // of kernels, on a GPU; empty: bfloat16
  bool quick = false;
};
int calibrate_command(const CalibrateArguments& arguments, const Console& console);

}  // namespace lockstep
