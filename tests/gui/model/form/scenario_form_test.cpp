#include "gui/model/form/scenario_form.hpp"

#include <algorithm>
#include <cstdlib>

#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"

namespace lockstep::gui {
namespace {

constexpr const char* kPipeline = R"([model]
preset = "gpt2-tiny"

[training]
seq_len = 64
local_batch_size = 8

[parallelism]
pipeline_parallel_degree = 2
pipeline_parallel_microbatches = 4

[cluster]
ranks_per_device = 16
)";

const FieldState& state_of(const std::vector<FieldState>& states, const std::string& key) {
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (form_fields()[i].key == key) return states[i];
  }
  throw std::runtime_error("no field " + key);
}

std::vector<FieldState> states_of(const std::string& text,
                                  const std::vector<std::string>& overrides = {}) {
  const Cancelled never{false};
  return form_state(text, "test.toml", overrides, never);
}

TEST_CASE("a field offers exactly the values that leave the scenario free of faults",
          "[gui][model]") {
  const auto states = states_of(kPipeline);
  REQUIRE(states.size() == form_fields().size());
  // Microbatches divide the local batch of 8; four blocks make one to four stages, and
  // two more where the embedding and the output layer are stages of their own.
  CHECK(state_of(states, "parallelism.pipeline_parallel_microbatches").values ==
        std::vector<std::string>{"1", "2", "4", "8"});
  const FieldState& stages = state_of(states, "parallelism.pipeline_parallel_degree");
  CHECK(stages.values == std::vector<std::string>{"1", "2", "3", "4", "5", "6"});
  CHECK(stages.values[stages.at] == "2");
  for (std::size_t i = 0; i < states.size(); ++i) {
    INFO(form_fields()[i].key);
    for (std::size_t k = 0; k < states[i].values.size(); ++k) {
      std::vector<std::string> set = {form_fields()[i].key + "=" + states[i].values[k]};
      if (!states[i].helper[k].empty()) set.push_back(states[i].helper[k]);
      CHECK(parse_scenario(kPipeline, "test.toml", set).ok());
    }
  }
}

TEST_CASE("every field reads the value that its key sets", "[gui][model]") {
  const auto states = states_of(kPipeline);
  for (std::size_t i = 0; i < states.size(); ++i) {
    const FormField& field = form_fields()[i];
    INFO(field.key);
    for (std::size_t k = 0; k < states[i].values.size(); ++k) {
      std::vector<std::string> set = {field.key + "=" + states[i].values[k]};
      if (!states[i].helper[k].empty()) set.push_back(states[i].helper[k]);
      const auto loaded = parse_scenario(kPipeline, "test.toml", set);
      REQUIRE(loaded.ok());
      const KeyValues values = values_of_keys(loaded.points.front().scenario);
      CHECK(field.value_in(values) == states[i].values[k]);
    }
  }
}

TEST_CASE("a schedule that needs chunks is offered, and says which it sets", "[gui][model]") {
  const auto states = states_of(kPipeline);
  const FieldState& field = state_of(states, "parallelism.pipeline_parallel_schedule");
  const auto helper = [&](const std::string& value) {
    for (std::size_t i = 0; i < field.values.size(); ++i) {
      if (field.values[i] == value) return field.helper[i];
    }
    return std::string("not offered");
  };
  CHECK(helper("GPipe").empty());
  CHECK(helper("Interleaved1F1B") == "parallelism.pipeline_parallel_virtual_stages=2");
}

TEST_CASE("a field without another value says why, and values have words", "[gui][model]") {
  const auto states = states_of(kPipeline);
  const FieldState& chunks = state_of(states, "parallelism.pipeline_parallel_virtual_stages");
  REQUIRE(chunks.values.size() == 1);  // 1F1B has none
  CHECK_FALSE(chunks.why_not.empty());
  for (const FormField& field : form_fields()) {
    if (field.key == "what_if.straggler_rank") {
      CHECK(field.text_of("-1") == "none");
      CHECK(field.text_of("3") == "3");
    }
  }
}

TEST_CASE("an override shows as one, and its field still offers the text's value", "[gui][model]") {
  const auto states = states_of(kPipeline, {"parallelism.pipeline_parallel_microbatches=8"});
  const FieldState& field = state_of(states, "parallelism.pipeline_parallel_microbatches");
  CHECK(field.overridden);
  CHECK(field.values[field.at] == "8");
  CHECK(std::count(field.values.begin(), field.values.end(), "4") == 1);
  CHECK_FALSE(state_of(states, "parallelism.pipeline_parallel_degree").overridden);
}

TEST_CASE("a field knows what its key is without the override", "[gui][model]") {
  const auto states = states_of(kPipeline, {"parallelism.pipeline_parallel_microbatches=8",
                                            "parallelism.pipeline_parallel_degree=4"});
  CHECK(state_of(states, "parallelism.pipeline_parallel_microbatches").own == "4");
  CHECK(state_of(states, "parallelism.pipeline_parallel_degree").own == "2");
  CHECK(state_of(states, "training.seq_len").own == "64");
}

TEST_CASE("a way that a scenario cannot take is not offered, and the field says its value",
          "[gui][model]") {
  using Values = std::vector<std::string>;
  const auto values = [](const std::string& key, const Values& overrides) {
    return state_of(states_of(kPipeline, overrides), key).values;
  };
  const std::string gather = "parallelism.overlap_param_gather";
  CHECK(values(gather, {}) == Values{"false"});
  CHECK(values(gather, {"parallelism.data_parallel_shard_degree=2", "parallelism.zero_stage=1"}) ==
        Values{"false", "true"});
  const std::string method = "parallelism.context_parallel_method";
  CHECK(values(method, {"parallelism.context_parallel_degree=2"}) ==
        Values{"ulysses", "allgather", "ring"});
  // Three ranks divide no four heads, but 60 tokens into six pieces.
  CHECK(values(method, {"training.seq_len=60", "parallelism.context_parallel_degree=3",
                        "parallelism.context_parallel_method=allgather"}) ==
        Values{"allgather", "ring"});
  const std::string every = "parallelism.pipeline_parallel_update_every";
  CHECK(values(every, {}) == Values{"0"});
  CHECK(values(every, {"parallelism.pipeline_parallel_schedule=PipeDream", "training.max_norm=0",
                       "model.tied_embeddings=false"}) == Values{"0", "1", "2", "4"});
}

TEST_CASE("a value between those of the slider takes its place among them", "[gui][model]") {
  const FieldState field =
      state_of(states_of(kPipeline, {"training.seq_len=100"}), "training.seq_len");
  CHECK(field.values[field.at] == "100");
  CHECK(std::is_sorted(field.values.begin(), field.values.end(), [](const auto& a, const auto& b) {
    return std::atof(a.c_str()) < std::atof(b.c_str());
  }));
}

TEST_CASE("a scenario with faults has no form, nor has one that is no longer wanted",
          "[gui][model]") {
  CHECK(states_of("[model]\npreset = \"gpt2-tiny\"\nlayers = \"four\"\n").empty());
  const Cancelled now{true};
  CHECK(form_state(kPipeline, "test.toml", {}, now).empty());
}

}  // namespace
}  // namespace lockstep::gui
