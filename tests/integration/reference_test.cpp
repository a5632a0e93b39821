// Tests that the reference backend trains what the CPU trains, op for op.
#include "backends/reference/reference_backend.hpp"
#include "tests/integration/parity_runs.hpp"

using namespace lockstep;
using test::Outcome;
using test::parity_scenario;
using test::ParityRow;
using test::train;

namespace {

/// Every `every`-th of the rows that compute in float64, from the first on.
std::vector<ParityRow> sample(const std::vector<ParityRow>& rows, std::size_t every) {
  std::vector<ParityRow> out;
  std::size_t i = 0;
  for (const ParityRow& row : rows) {
    if (row.trains_in(DType::F64) && i++ % every == 0) out.push_back(row);
  }
  return out;
}

void check_rows(Architecture architecture, const std::vector<ParityRow>& rows) {
  const auto reference = make_reference_backend({.poison = true});
  for (const ParityRow& row : rows) {
    INFO(row.name);
    const Scenario s = parity_scenario(architecture, row, DType::F64);
    const Outcome defined = train(s, test::kParitySteps, nullptr, reference.get());
    const Outcome cpu = train(s);
    const test::Distance d = test::distance(cpu, defined);
    CHECK(d.loss <= 1e-11);
    CHECK(d.norm <= 1e-11);
    CHECK(d.weights <= 1e-11);
    CHECK(d.statistics <= 1e-11);
    test::check_same_shape(cpu.run.trace, defined.run.trace);
  }
}

}  // namespace

TEST_CASE("rows of the parity table train on the reference device as on the CPU, to 1e-11",
          "[integration]") {
  check_rows(Architecture::Gpt2, sample(test::parity_rows(), 13));
  check_rows(Architecture::Llama, sample(test::parity_rows(), 17));
  check_rows(Architecture::Resnet, sample(test::image_rows(), 5));
  check_rows(Architecture::Vit, sample(test::patch_rows(), 4));
}

TEST_CASE("in float32 and bfloat16 the reference device is as far from the CPU as rounding is",
          "[integration]") {
  const auto reference = make_reference_backend();
  for (const DType dtype : {DType::F32, DType::BF16}) {
    INFO(to_string(dtype));
    const ParityRow row = test::parity_row("row", "dp_shard=2 pp=2 mb=3");
    const Scenario s = parity_scenario(Architecture::Llama, row, dtype);
    const double most = dtype == DType::F32 ? 1e-5 : 2e-2;
    const Outcome defined = train(s, test::kParitySteps, nullptr, reference.get());
    const test::Distance d = test::distance(train(s), defined);
    CHECK(d.weights > 0);  // float32 sums are not float64 ones
    CHECK(d.loss <= most);
    CHECK(d.weights <= most);
  }
}
