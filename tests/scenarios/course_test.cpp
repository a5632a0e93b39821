// Tests the course: docs/lessons has every page with the figures of the simulator, and these are
// the closed forms that the pages name.
#include <filesystem>
#include <map>

#include "core/lesson/lesson.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/session/simulation.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace lockstep;
namespace fs = std::filesystem;

namespace {

const fs::path kRoot = LOCKSTEP_SOURCE_DIR;

std::vector<Lesson> course() {
  Result<std::vector<Lesson>> pages = read_course((kRoot / "scenarios/course").string());
  if (!pages) FAIL(to_string(pages.error()));
  return *pages;
}

Report report_of(const std::string& name, const std::vector<std::string>& set = {}) {
  const LoadedScenario loaded =
      load_scenario((kRoot / "scenarios/lessons" / (name + ".toml")).string(), set);
  if (!loaded.ok()) FAIL(to_string(loaded.errors.front()));
  Result<Report> report = simulated_step(loaded.points.front().scenario);
  if (!report) FAIL(to_string(report.error()));
  return *report;
}

std::string key(const char* name, int value) {
  return "parallelism.pipeline_parallel_" + std::string(name) + "=" + std::to_string(value);
}

}  // namespace

TEST_CASE("docs/lessons has every page of the course, with the simulator's figures",
          "[scenarios]") {
  const std::vector<Lesson> pages = course();
  CHECK(pages.size() == 13);
  const std::string index = read_bytes((kRoot / "docs/lessons.md").string());
  for (const Lesson& lesson : pages) {
    INFO(lesson.name << ": scripts/course writes it anew");
    const Result<std::string> filled = fill_in(lesson, simulated_step);
    if (!filled) FAIL(to_string(filled.error()));
    const std::string picture = "../images/lessons/" + lesson.name + ".png";
    CHECK(read_bytes((kRoot / "docs/lessons" / (lesson.name + ".md")).string()) ==
          lesson_markdown(lesson, *filled, picture));
    CHECK(fs::exists(kRoot / "docs/images/lessons" / (lesson.name + ".png")));
    CHECK_THAT(index, ContainsSubstring("[" + lesson.title + "](lessons/" + lesson.name + ".md)"));
  }
}

TEST_CASE("no two lessons share a scenario, by which the application knows them", "[scenarios]") {
  std::map<std::string, int> uses;
  for (const Lesson& lesson : course()) ++uses[lesson.scenario];
  for (const auto& [scenario, count] : uses) {
    INFO(scenario);
    CHECK(count == 1);
  }
}

TEST_CASE("the bubble of the lessons on pipelines is the one of equal stages", "[scenarios]") {
  const auto bubble = [](double p, double m, double v) { return (p - 1) / (v * m + p - 1); };
  for (const int m : {4, 8, 16, 32}) {
    INFO(m << " microbatches");
    CHECK(report_of("pipeline", {key("microbatches", m)}).bubble_fraction ==
          Approx(bubble(4, m, 1)).margin(0.003));
  }
  CHECK(report_of("one-f-one-b").bubble_fraction == Approx(bubble(4, 8, 1)).margin(0.003));
  for (const int v : {2, 3, 6}) {
    INFO(v << " chunks");
    const Report report = report_of("interleaving-memory", {key("virtual_stages", v)});
    CHECK(report.bubble_fraction >= bubble(4, 8, v));
    CHECK(report.bubble_fraction < bubble(4, 8, v) + 0.012);  // messages that are waited for
    CHECK(report.ranks[0].peak_microbatches_in_flight == (v - 1) * 4 + 2 * 3 + 1);
  }
}

TEST_CASE("1F1B keeps p - r microbatches on rank r, GPipe all", "[scenarios]") {
  const Report gpipe = report_of("one-f-one-b");
  const Report one = report_of("one-f-one-b", {"parallelism.pipeline_parallel_schedule=1F1B"});
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(gpipe.ranks[rank].peak_microbatches_in_flight == 8);
    CHECK(one.ranks[rank].peak_microbatches_in_flight == 4 - rank);
  }
}

TEST_CASE("what ranks send under data parallelism and ZeRO-1 is what rings send", "[scenarios]") {
  // 50,304 words and 1,024 positions of 768, twelve blocks, one last norm.
  const double c = 768;
  const double gpt2 = (50304 + 1024) * c + 12 * (12 * c * c + 13 * c) + 2 * c;
  CHECK(static_cast<double>(report_of("ddp").ranks[0].comm_bytes_sent.v) ==
        Approx(2 * 7.0 / 8 * 4 * gpt2).epsilon(1e-4));
  // Gradients of four bytes scattered, parameters of two gathered, instead of gradients both ways.
  const Report whole = report_of("fsdp-beside-ddp");
  const Report shared = report_of("fsdp-beside-ddp", {"parallelism.zero_stage=1"});
  CHECK(static_cast<double>(shared.ranks[0].comm_bytes_sent.v) /
            static_cast<double>(whole.ranks[0].comm_bytes_sent.v) ==
        Approx(6.0 / 8).epsilon(1e-3));
}

TEST_CASE("recomputing everything costs at most a third of the work", "[scenarios]") {
  const Report kept = report_of("recomputation");
  const Report again = report_of("recomputation", {"activation_checkpoint.mode=full"});
  CHECK(again.step_time > kept.step_time);
  CHECK(again.step_time.v / kept.step_time.v < 4.0 / 3);
  CHECK(again.hfu / again.mfu > 1.2);
  CHECK(again.hfu / again.mfu < 4.0 / 3);
  CHECK(kept.hfu == kept.mfu);
}
