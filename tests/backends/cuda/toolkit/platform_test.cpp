#include "backends/cuda/toolkit/platform.hpp"

#include "tests/catch.hpp"

using namespace lockstep;

TEST_CASE("GPUs that cannot be opened are refused with the reason", "[cuda]") {
  const auto gpus = cuda::platform().open_gpus();
  if (gpus) return;  // there are some
  CHECK(gpus.error().kind == (cuda::has_toolkit() ? ErrorKind::Device : ErrorKind::Unsupported));
  CHECK(to_string(gpus.error()).find("CUDA") != std::string::npos);
}
