// Kineto file: makes a Kineto trace from a seed, in the shape that PyTorch 2 writes: for each layer
// the host's ops and launches, the kernels with all their arguments, flows, and a collective. It
// also measures the memory that opening the trace takes.
#pragma once

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>

#include "core/trace/gzip_file.hpp"

namespace lockstep::bench {

class KinetoGenerator {
 public:
  KinetoGenerator(GzipWriter& out, std::int64_t bytes) : out_(out), left_(bytes) {}

  void write() {
    text(R"({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}],)"
         "\n\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 0, \"world_size\": 8},\n"
         "\"displayTimeUnit\": \"ms\", \"baseTimeNanoseconds\": 1711964646000000000,\n"
         "\"traceEvents\": [\n");
    for (int step = 0; left_ > 0; ++step) {
      const double begin = host_;
      for (int layer = 0; layer < 48 && left_ > 0; ++layer) write_layer();
      event("user_annotation", "ProfilerStep#" + std::to_string(step), "1234", "1234", begin,
            host_ - begin, "");
    }
    text(
        "{\"name\": \"process_name\", \"ph\": \"M\", \"ts\": 0, \"pid\": 1234, \"tid\": 0, "
        "\"args\": {\"name\": \"python\"}}\n],\n\"traceName\": \"bench.json\"}\n");
  }

 private:
  double uniform(double low, double high) {  // the same on every standard library
    return low + (high - low) * static_cast<double>(random_() >> 11) / 9007199254740992.0;
  }
  void text(const std::string& s) {
    out_.text(s);
    left_ -= static_cast<std::int64_t>(s.size());
  }
  static std::string us(double t) {
    char digits[40];
    std::snprintf(digits, sizeof digits, "%.3f", t);
    return digits;
  }
  void event(const char* cat, const std::string& name, const char* pid, const char* tid, double ts,
             double dur, const std::string& args) {
    text("  {\n    \"ph\": \"X\", \"cat\": \"" + std::string(cat) + "\", \"name\": \"" + name +
         "\", \"pid\": " + pid + ", \"tid\": " + tid + ",\n    \"ts\": " + us(4458677009853 + ts) +
         ", \"dur\": " + us(dur) + (args.empty() ? "" : ",\n    \"args\": {\n      " + args + "}") +
         "\n  },\n");
  }
  void flow(char ph, const char* pid, const char* tid, double ts, int id) {
    text("  {\n    \"ph\": \"" + std::string(1, ph) + "\", \"id\": " + std::to_string(id) +
         ", \"pid\": " + pid + ", \"tid\": " + tid + ", \"ts\": " + us(4458677009853 + ts) +
         ",\n    \"cat\": \"ac2g\", \"name\": \"ac2g\"" + (ph == 'f' ? ", \"bp\": \"e\"" : "") +
         "\n  },\n");
  }

  void write_layer() {
    static const char* const kOps[] = {"aten::linear", "aten::layer_norm", "aten::gelu",
                                       "aten::scaled_dot_product_attention", "aten::add"};
    for (const char* op : kOps) {
      const double begin = host_;
      const double launch = begin + uniform(5, 12);
      const int id = ++correlation_;
      const std::string ids = "\"External id\": " + std::to_string(id) +
                              ", \"cbid\": 211, \"correlation\": " + std::to_string(id);
      event("cuda_runtime", "cudaLaunchKernel", "1234", "1234", launch, 4.5, ids);
      flow('s', "1234", "1234", launch, id);
      host_ = launch + uniform(6, 20);
      event("cpu_op", op, "1234", "1234", begin, host_ - begin,
            "\"External id\": " + std::to_string(id) +
                ", \"Record function id\": 0, \"Ev Idx\": " + std::to_string(id));
      device_ = std::max(device_, launch + 6);
      const double dur = uniform(8, 400);
      event("kernel",
            "void at::native::vectorized_elementwise_kernel<4, at::native::" + std::string(op + 6) +
                "_functor<float>, at::detail::Array<char*, 3> >(int, float, "
                "at::detail::Array<char*, 3>)",
            "0", "7", device_, dur,
            ids +
                ",\n      \"queued\": 0, \"device\": 0, \"context\": 1,\n      \"stream\": 7, "
                "\"registers per thread\": 32,\n      \"shared memory\": 0,\n      "
                "\"blocks per SM\": 38.787880,\n      \"warps per SM\": 155.151520,\n      "
                "\"grid\": [5120, 1, 1],\n      \"block\": [128, 1, 1],\n      "
                "\"est. achieved occupancy %\": 100");
      flow('f', "0", "7", device_, id);
      device_ += dur + 1;
    }
    event(
        "kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "0",
        "20", device_ - 300, uniform(100, 280),
        "\"External id\": 7, \"queued\": 0, \"device\": 0, \"context\": 1, \"stream\": 20,\n      "
        "\"correlation\": 0, \"Collective name\": \"allreduce\", \"In msg nelems\": 4194304,\n"
        "      \"Out msg nelems\": 4194304, \"Group size\": 8, \"dtype\": \"BFloat16\",\n      "
        "\"Process Group Name\": \"0\", \"Process Group Description\": \"default_pg\",\n      "
        "\"Process Group Ranks\": \"[0, 1, 2, 3, 4, 5, 6, 7]\", \"Seq\": " +
            std::to_string(++seq_));
  }

  GzipWriter& out_;
  std::int64_t left_;
  std::mt19937_64 random_{20260101};
  double host_ = 0, device_ = 0;
  int correlation_ = 0, seq_ = 0;
};

/// Writes a file of that many MB (10^6 bytes) before compression, which the caller removes. Returns
/// its path; empty if it cannot be written.
inline std::string kineto_file(std::int64_t megabytes, bool compress) {
  const std::string path =
      (std::filesystem::temp_directory_path() /
       ("lockstep_bench_" + std::to_string(megabytes) + (compress ? ".json.gz" : ".json")))
          .string();
  GzipWriter out(path, compress);
  KinetoGenerator(out, megabytes * 1'000'000).write();
  return out.commit() ? path : "";
}

/// A figure of this process's memory in MB; "VmHWM" is the peak since reset_peak().
inline double memory_mb(std::string_view key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::stod(line.substr(key.size() + 1)) * 1024 / 1e6;
  }
  return 0;
}
inline void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace lockstep::bench
