#include "core/cost/loading.hpp"

#include "tests/catch.hpp"

using namespace lockstep;

TEST_CASE("workers share what they load", "[core][cost]") {
  const DataLoaderSpec loader{.sample = Seconds{0.01}, .num_workers = 4, .prefetch_factor = 3};
  const LoadingPace pace = loading_pace(32, 8, loader);
  CHECK(pace.microbatch.v == Approx(8 * 0.01 / 4));
  CHECK(pace.step.v == Approx(32 * 0.01 / 4));
  CHECK(pace.ahead == 12);
}

TEST_CASE("without workers the rank loads alone, and nothing ahead", "[core][cost]") {
  const LoadingPace pace = loading_pace(32, 8, {.sample = Seconds{0.01}, .num_workers = 0});
  CHECK(pace.microbatch.v == Approx(0.08));
  CHECK(pace.step.v == Approx(0.32));
  CHECK(pace.ahead == 0);
}

TEST_CASE("data-parallel ranks divide a step's samples, and each has its own loader",
          "[core][cost]") {
  Program program;
  program.mesh.dims = {{"pp", 2}, {"dp_replicate", 4}, {"tp", 2}};
  program.input.samples.kind = SampleKind::Tokens;
  program.input.samples.per_step = 64;
  program.input.samples.microbatch = 2;
  program.input.samples.over = {1};
  const LoadingPace pace = loading_pace(program, {.sample = Seconds{0.5}, .num_workers = 1});
  CHECK(pace.microbatch.v == 1.0);
  CHECK(pace.step.v == 8.0);
  program.input.samples.kind = SampleKind::None;
  CHECK(loading_pace(program, {.sample = Seconds{0.5}, .num_workers = 1}).step.v == 0);
}
