#include "core/validation/training_validation.hpp"

#include <nlohmann/json.hpp>

#include "tests/core/validation/rows.hpp"

using namespace lockstep;
using test::training_row;

namespace {

constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;

/// An oracle that predicts a second for every ten heads, and a GiB for each; twice that for the
/// whole process.
Result<StepPrediction> by_heads(const Scenario& s) {
  if (s.model.heads == 64) return Error{ErrorKind::Unsupported, "64 heads", std::nullopt};
  const Bytes bytes{s.model.heads * kGibibyte};
  return StepPrediction{{static_cast<double>(s.model.heads) / 10}, {bytes, 2 * bytes, bytes}};
}

TrainingRow with_heads(const std::string& id, const std::string& heads, test::Cells more = {}) {
  more.insert(more.begin(), {{"id", id}, {"heads", heads}});
  return training_row(more);
}

}  // namespace

TEST_CASE("errors are of the simulated against the measured", "[validation]") {
  const auto rows = validate_rows(
      {with_heads("a-1", "16", {{"iter_time_s", "2"}, {"mem_gb", "20"}})}, by_heads, {});
  REQUIRE(rows.size() == 1);
  CHECK(*rows[0].time_error() == Approx(1.6 / 2 - 1));
  CHECK(*rows[0].memory_error() == Approx(16.0 / 20 - 1));
  CHECK(*rows[0].fits());
  CHECK(!rows[0].row.max_allocated());
}

TEST_CASE("memory is compared with what the source measured, in its unit", "[validation]") {
  const auto error = [](const char* measure) {
    return *validate_rows(
                {with_heads("a-1", "16", {{"mem_gb", "20"}, {"memory_measure", measure}})},
                by_heads, {})[0]
                .memory_error();
  };
  CHECK(error("") == Approx(16.0 / 20 - 1));         // GiB of max allocated
  CHECK(error("process") == Approx(32.0 / 20 - 1));  // nvidia-smi
  CHECK(error("allocated decimal") == Approx(16.0 * kGibibyte / 20e9 - 1));
}

TEST_CASE("fit is judged by the card's memory, and a refused run is timed all the same",
          "[validation]") {
  const auto rows =
      validate_rows({with_heads("a-1", "128"),  // 128 GiB on 79 GiB, and it ran
                     with_heads("a-2", "128", {{"notes", "OOM"}, {"iter_time_s", ""}}),
                     with_heads("a-3", "16", {{"notes", "OOM"}, {"iter_time_s", ""}})},
                    by_heads, {});
  const ValidationSummary summary = summarize(rows);
  CHECK(summary.all.ran == 1);
  CHECK(summary.all.wrongly_refused == 1);
  CHECK(summary.all.out_of_memory == 2);
  CHECK(summary.all.missed == 1);
  CHECK(summary.all.time.count == 1);  // of the refused one
  CHECK(summary.all.expressed == 3);
}

TEST_CASE("sources are apart, in file order, and their sum is all", "[validation]") {
  const auto rows =
      validate_rows({with_heads("b-1", "16", {{"iter_time_s", "1.6"}}),
                     with_heads("a-1", "16", {{"iter_time_s", "3.2"}}),
                     with_heads("b-2", "16", {{"iter_time_s", "1.6"}}), with_heads("b-3", "64"),
                     with_heads("c-1", "16", {{"hw", "TPU v5p"}})},
                    by_heads, {2, {}, {}});
  const ValidationSummary summary = summarize(rows);
  REQUIRE(summary.sources.size() == 3);
  CHECK(summary.sources[0].source == "b");
  CHECK(summary.sources[0].rows == 3);
  CHECK(summary.sources[0].time.count == 2);
  CHECK(summary.sources[0].time.median == Approx(0).margin(1e-12));
  CHECK(summary.sources[1].time.bias == Approx(-0.5));
  CHECK(summary.all.time.count == 3);
  CHECK(summary.all.rows == 5);
  REQUIRE(summary.unexpressed.size() == 2);
  CHECK(summary.unexpressed[0].reason == Unexpressed::NoProfile);
  CHECK(summary.unexpressed[1].details == std::vector<std::string>{"64 heads"});
  CHECK(summary.unexpressed[1].ids == std::vector<std::string>{"b-3"});
}

TEST_CASE("order is compared inside a sweep only", "[validation]") {
  // The rows of a sweep have equal heads, so this oracle predicts by passes over the batch, which
  // tell layouts apart.
  const StepOracle by_pass = [](const Scenario& s) -> Result<StepPrediction> {
    return StepPrediction{{static_cast<double>(s.num_microbatches())}, {}};
  };
  const auto rows = validate_rows(
      {training_row({{"id", "a-1"}, {"micro_batch", "8"}, {"iter_time_s", "1"}}),
       training_row({{"id", "a-2"}, {"micro_batch", "4"}, {"iter_time_s", "3"}}),
       training_row({{"id", "a-3"}, {"micro_batch", "2"}, {"iter_time_s", "2"}}),
       training_row({{"id", "a-4"}, {"micro_batch", "2"}, {"iter_time_s", "9"}}),
       training_row({{"id", "a-5"}, {"micro_batch", "1"}, {"iter_time_s", "1"}, {"seq", "1024"}})},
      by_pass, {});
  const ValidationSummary summary = summarize(rows);
  const ValidationFigures& all = summary.all;
  // 1-2 +, 1-3 +, 1-4 +, 2-3 -, 2-4 +; 3-4 repeat a layout; 5 has another length
  CHECK(all.order.pairs == 5);
  CHECK(all.order.tau() == Approx((4.0 - 1) / 5));
  REQUIRE(summary.sweeps.size() == 1);  // a sweep of one run has no pairs
  CHECK(summary.sweeps[0].name == "a, GPT 1B, 8 GPUs, batch 64");
  CHECK(summary.sweeps[0].runs == 4);
  CHECK(summary.sweeps[0].order.discordant == 1);
  CHECK(summary.sweeps[0].loss == 0);
  CHECK(summary.sweeps[0].chosen == "a-1");
}

TEST_CASE("JSON holds the figures, and rows where asked", "[validation]") {
  const auto rows = validate_rows(
      {with_heads("a-1", "16"), with_heads("a-2", "16", {{"hw", "TPU"}})}, by_heads, {});
  const ValidationSummary summary = summarize(rows);
  const auto json = nlohmann::json::parse(validation_json(summary, rows, true));
  CHECK(json["all"]["rows"] == 2);
  CHECK(json["all"]["step_time"]["bias"] == Approx(1.6 / 1.5 - 1));
  CHECK(json["rows"][0]["simulated_s"] == 1.6);
  CHECK(json["rows"][1]["reason"] == "no profile of the card");
  CHECK(json["unexpressed"][0]["ids"][0] == "a-2");
  CHECK(!nlohmann::json::parse(validation_json(summary, rows, false)).contains("rows"));
}

TEST_CASE("threads and progress do not change what is found", "[validation]") {
  std::vector<TrainingRow> rows;
  for (int i = 1; i <= 20; ++i) rows.push_back(with_heads("a-" + std::to_string(i), "16"));
  std::vector<std::size_t> seen;
  ValidationOptions options;
  options.threads = 4;
  options.progress = [&](std::size_t done, std::size_t all) {
    CHECK(all == 20);
    seen.push_back(done);
  };
  const auto results = validate_rows(rows, by_heads, options);
  CHECK(seen.size() == 20);
  CHECK(seen.back() == 20);
  for (std::size_t i = 0; i < rows.size(); ++i) CHECK(results[i].row.id == rows[i].id);
}
