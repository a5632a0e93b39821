// Trainings whose scales of factors in 8 bits follow from earlier steps: they are a state of the
// training, which goes on bit for bit, in any layout.
#include "tests/integration/parity_runs.hpp"

using namespace lockstep;
using test::parity_scenario;

namespace {

Scenario delayed(const std::string& keys) {
  return parity_scenario(Architecture::Llama, test::parity_row("", "fp8-delayed " + keys),
                         DType::F64);
}

test::Numbers values(const TrainingState& state, const std::string& name) {
  const Tensor& tensor = state.tensors.at(name);
  return test::decoded(tensor.data, tensor.dtype);
}

constexpr const char* kScales = "blocks.2.attn.wqkv.fp8_scale";

}  // namespace

TEST_CASE("a training with scales from earlier steps goes on bit for bit", "[integration][fp8]") {
  for (const char* keys : {"", "dp_shard=2 tp=2", "pp=2 mb=3 dp_replicate=2"}) {
    INFO(keys);
    const Scenario s = delayed(keys);
    const test::Outcome whole = test::train(s, 6);
    const test::Outcome begun = test::train(s, 3);
    const test::Outcome gone_on = test::train(s, 3, &begun.run.state);
    CHECK(gone_on.run.state.tensors == whole.run.state.tensors);
    for (int i = 0; i < 3; ++i) {
      const std::size_t step = static_cast<std::size_t>(i);
      CHECK(gone_on.run.trace.steps[step].loss == whole.run.trace.steps[step + 3].loss);
    }
    // Without the scales it would be another training.
    TrainingState without = begun.run.state;
    for (auto& [name, tensor] : without.tensors) {
      if (name.ends_with(kFactorScales))
        std::fill(tensor.data.begin(), tensor.data.end(), std::byte{0});
      if (name.ends_with(kFactorScales) && !name.starts_with("adam_m.")) {
        const double one = 1;
        for (std::size_t at = 0; at < tensor.data.size(); at += 8) {
          std::memcpy(tensor.data.data() + at, &one, 8);
        }
      }
    }
    CHECK(test::train(s, 1, &without).run.trace.steps[0].loss != whole.run.trace.steps[3].loss);
  }
}

TEST_CASE("scales and histories are the same in every layout, and go from one to another",
          "[integration][fp8]") {
  const test::Outcome one = test::train(delayed(""), 4);
  const test::Numbers history = values(one.run.state, std::string("adam_m.") + kScales);
  REQUIRE(history.size() == 3 * 3);  // x, w and dy, each of three steps
  for (const char* keys :
       {"dp_shard=2 tp=2", "cp=2 dp_replicate=2", "pp=2 mb=3 schedule=ZB-H1", "accumulation=3"}) {
    INFO(keys);
    const test::Outcome other = test::train(delayed(keys), 4);
    CHECK(values(other.run.state, kScales) == values(one.run.state, kScales));
    const test::Numbers its = values(other.run.state, std::string("adam_m.") + kScales);
    for (std::size_t i = 0; i < history.size(); ++i) {
      CHECK(its[i] == Approx(history[i]).epsilon(1e-12));
    }
    const test::Outcome begun = test::train(delayed(keys), 2);
    const test::Outcome moved = test::train(delayed("tp=4"), 2, &begun.run.state);
    CHECK(moved.run.trace.steps[1].loss == Approx(one.run.trace.steps[3].loss).epsilon(1e-12));
  }
}

TEST_CASE("a history counts steps, the newest first, and a scale covers its largest",
          "[integration][fp8]") {
  const auto after = [](int steps) {
    return test::train(delayed("accumulation=2"), steps).run.state;
  };
  const std::string name = std::string("adam_m.") + kScales;
  const test::Numbers two = values(after(2), name), three = values(after(3), name),
                      scales = values(after(3), kScales);
  for (std::size_t tensor = 0; tensor < 3; ++tensor) {
    const std::size_t at = 3 * tensor;
    CHECK(two[at + 2] == 0);  // no third step
    CHECK(three[at + 1] == two[at]);
    CHECK(three[at + 2] == two[at + 1]);
    const double most = std::max({three[at], three[at + 1], three[at + 2]});
    const double largest = tensor == 2 ? 57344 : 448;
    CHECK(scales[tensor] * largest >= most);
    CHECK(scales[tensor] * largest < 2 * most);
  }
}

TEST_CASE("a training without scales goes on with them, from 1", "[integration][fp8]") {
  const Scenario wide = parity_scenario(
      Architecture::Llama, test::parity_row("", "model.head_dim=8 model.kv_heads=4"), DType::F64);
  const test::Outcome begun = test::train(wide, 2);
  const test::Outcome narrow = test::train(delayed("dp_shard=2"), 2, &begun.run.state);
  CHECK(values(narrow.run.state, kScales) != test::Numbers(3, 1.0));
}
