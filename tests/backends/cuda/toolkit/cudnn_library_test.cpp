// Without a GPU, cuDNN tells which of its engines would accept a graph on a GPU that is described
// to it. What they compute, and how fast, only a GPU shows.
#include "backends/cuda/toolkit/cudnn_library.hpp"

#include <dlfcn.h>

#include <string>

#include "tests/backends/cuda/cudnn/kernels.hpp"
#include "tests/catch.hpp"

#ifdef LOCKSTEP_HAVE_CUDNN

using namespace lockstep;
using test::attention;
using test::convolution;

namespace {

/// An H200, or an A100, as cudaGetDeviceProperties and cudaDeviceGetAttribute describe them.
std::string description(bool hopper) {
  const auto either = [&](const char* a, const char* b) { return std::string(hopper ? a : b); };
  return R"({"schemaVersion":1,"cudnnVersion":91000,"cudaDeviceId":0,"pciDeviceId":0,)"
         R"("driverVer":13000,"isTccDriver":0,"supportCoopLaunch":1,"warpSize":32,)"
         R"("maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)"
         R"("maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"maxCtasPerSM":32,)"
         R"("regsPerBlock":65536,"maxRegistersPerSM":65536,"maxSharedMemoryPerBlock":49152,)"
         R"("reservedSharedMemoryPerBlock":1024,)"
         R"("deviceName":)" +
         either(R"("NVIDIA H200")", R"("NVIDIA A100")") + R"(,"deviceVer":)" +
         either("900", "800") + R"(,"multiProcessorCount":)" + either("132", "108") +
         R"(,"smClockRateKHz":)" + either("1980000", "1410000") + R"(,"memClockRateKHz":)" +
         either("3201000", "1593000") + R"(,"l2CacheSize":)" + either("62914560", "41943040") +
         R"(,"maxSharedMemoryPerBlockOptin":)" + either("232448", "166912") +
         R"(,"totalGlobalMem":)" + either("150754820096", "85899345920") + "}";
}

/// Whether cuDNN can be asked; warns of the reason if not.
bool can_ask() {
  // cuDNN needs the library of a driver; the toolkit's stub has its names, but does nothing.
  for (const char* name : {"libcuda.so.1", LOCKSTEP_CUDA_STUB}) {
    if (dlopen(name, RTLD_NOW | RTLD_GLOBAL) != nullptr) break;
  }
  const auto found = cuda::cudnn_engines(
      attention(KernelKind::AttentionForward, {1, 128, 2, 2, 64}), description(true));
  if (found) return true;
  WARN("skipped: " << to_string(found.error()));
  return false;
}

}  // namespace

TEST_CASE("cuDNN has engines with one order of sums for attention", "[cuda][cudnn]") {
  if (!can_ask()) return;
  for (const bool hopper : {true, false}) {
    for (const test::AttentionShape& s :
         {test::AttentionShape{32, 1024, 12, 12, 64}, test::AttentionShape{8, 1024, 25, 25, 64},
          test::AttentionShape{2, 4096, 32, 8, 128}, test::AttentionShape{1, 8192, 64, 8, 128},
          test::AttentionShape{3, 77, 6, 2, 96}, test::AttentionShape{1, 8, 4, 2, 64}}) {
      for (const KernelKind kind : {KernelKind::AttentionForward, KernelKind::AttentionBackward}) {
        INFO((hopper ? "H200 " : "A100 ") << info(kind).name << " " << s.seq << " " << s.head_dim);
        const auto engines = cuda::cudnn_engines(attention(kind, s), description(hopper));
        if (!engines) FAIL(to_string(engines.error()));
        CHECK(*engines > 0);
      }
    }
  }
}

TEST_CASE("cuDNN has engines with one order of sums for the convolutions of a residual network",
          "[cuda][cudnn]") {
  if (!can_ask()) return;
  using K = KernelKind;
  for (const test::ConvolutionShape& s : {test::ConvolutionShape{32, 56, 56, 64, 64, 3, 1},
                                          test::ConvolutionShape{32, 56, 56, 128, 128, 3, 2},
                                          test::ConvolutionShape{32, 28, 28, 512, 1024, 1, 2}}) {
    for (const K kind : {K::Conv2dForward, K::Conv2dBackwardInput, K::Conv2dBackwardWeight}) {
      for (const bool added : {false, true}) {
        INFO(info(kind).name << " " << s.window << "x" << s.window << " added " << added);
        const DType result = kind == K::Conv2dBackwardWeight ? DType::F32 : DType::BF16;
        const auto engines =
            cuda::cudnn_engines(convolution(kind, s, added, result), description(true));
        if (!engines) FAIL(to_string(engines.error()));
        CHECK(*engines > 0);
      }
    }
  }
}

TEST_CASE("a GPU that is described wrongly is refused with cuDNN's reason", "[cuda][cudnn]") {
  if (!can_ask()) return;
  const auto engines =
      cuda::cudnn_engines(attention(KernelKind::AttentionForward, {1, 128, 2, 2, 64}), "{}");
  REQUIRE(!engines);
  CHECK(engines.error().kind == ErrorKind::Unsupported);
  CHECK(to_string(engines.error()).find("cuDNN") != std::string::npos);
}

TEST_CASE("without a GPU cuDNN says so, or that it is missing", "[cuda][cudnn]") {
  if (cuda::CudnnLibrary::open()) return;  // there is one
  const Error error = cuda::CudnnLibrary::open().error();
  CHECK((error.kind == ErrorKind::Unsupported || error.kind == ErrorKind::Device));
  CHECK(!error.message.empty());
}

#endif
