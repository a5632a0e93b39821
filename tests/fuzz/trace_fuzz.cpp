// libFuzzer target: read_any_trace on any bytes, as a file; then what a report and the views need
// of a trace. Whatever can be read must be sound.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "core/analysis/report.hpp"
#include "core/trace/kineto/kineto.hpp"
#include "tests/core/trace/sound_trace.hpp"

namespace {

void require(bool good, const std::string& rule) {
  if (good) return;
  std::cerr << rule << "\n";
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  static const std::string path =
      "/dev/shm/lockstep_trace_fuzz_" + std::to_string(getpid()) + ".json";
  std::FILE* file = std::fopen(path.c_str(), "wb");
  require(file != nullptr && std::fwrite(data, 1, size, file) == size, "cannot write " + path);
  std::fclose(file);
  const Result<ImportedTrace> read = read_any_trace(path);
  if (!read) {
    require(exit_code(read.error().kind) == 2, "a bad file blamed on another");
    require(!read.error().message.empty(), "an error without a message");
    return 0;
  }
  const std::string broken = test::unsound(read->trace);
  require(broken.empty(), "unsound: " + broken);
  require(read->counts.spans == static_cast<std::int64_t>(read->trace.spans.size()),
          "spans lost or invented");
  const Report report = analyze(read->trace);
  require(report.step_time.v >= 0, "a step of negative length");
  return 0;
}
