#include "core/lesson/lesson.hpp"

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

constexpr const char* kScenario =
    "[model]\npreset = \"synthetic\"\n[costs]\nforward = 1.0\nbackward_input = 1.0\n"
    "backward_weight = 1.0\n";

/// A page beside a scenario, in a folder of its own.
struct Page {
  explicit Page(const std::string& text) {
    write_bytes(folder / "s.toml", kScenario);
    write_bytes(folder / "01-a.md", text);
  }
  Result<Lesson> read() const { return read_lesson(folder / "01-a.md"); }
  TemporaryFolder folder;
};

const std::string kHead = "# Waiting\nscenario: s.toml\npicture: play 12%\n";

/// The number of microbatches as step time, and a bubble of a quarter.
Result<Report> counted(const Scenario& scenario) {
  Report report;
  report.step_time = Seconds{1.0 * scenario.strategy.pipeline_parallel_microbatches};
  report.bubble_fraction = 0.25;
  report.ranks.resize(2);
  report.ranks[1].peak_memory = Bytes{3 << 20};
  return report;
}

TEST_CASE("a page says its title, its scenario and its picture", "[core][lesson]") {
  const Page page(kHead + "\nWords.\n");
  const Result<Lesson> lesson = page.read();
  REQUIRE(lesson.ok());
  CHECK(lesson->name == "01-a");
  CHECK(lesson->title == "Waiting");
  CHECK(lesson->scenario == page.folder / "s.toml");
  CHECK(lesson->view == "play");
  CHECK(lesson->at == "12%");
  CHECK(lesson->text == "\nWords.\n");
}

TEST_CASE("a head that lacks a line is an error at that line", "[core][lesson]") {
  const auto message = [](const std::string& text) {
    const Page page(text);
    const Result<Lesson> lesson = page.read();
    REQUIRE_FALSE(lesson.ok());
    return to_string(lesson.error());
  };
  CHECK_THAT(message("Waiting\n"), ContainsSubstring("01-a.md:1:1: expected '# TITLE'"));
  CHECK_THAT(message("# Waiting\n\n"), ContainsSubstring(":2:1: expected 'scenario: FILE.toml'"));
  CHECK_THAT(message("# W\nscenario: s.toml\npicture: play\n"),
             ContainsSubstring(":3:1: expected 'picture: VIEW NN%'"));
}

TEST_CASE("figures are what the simulator says, each scenario simulated once", "[core][lesson]") {
  const Page page(kHead +
                  "{bubble_fraction %} {step_time_s s} {peak_memory_bytes.max B} {step_time_s n}\n"
                  "{step_time_s s; parallelism.pipeline_parallel_microbatches=4; "
                  "training.local_batch_size=4}\n"
                  "{step_time_s x; parallelism.pipeline_parallel_microbatches=4; "
                  "training.local_batch_size=4}\n");
  int simulated = 0;
  const auto simulate = [&](const Scenario& scenario) {
    ++simulated;
    return counted(scenario);
  };
  const Result<std::string> text = fill_in(*page.read(), simulate);
  INFO((text ? "" : to_string(text.error())));
  REQUIRE(text.ok());
  CHECK(*text == "25.0 % 1 s 3.146 MB 1\n4 s\n4\n");
  CHECK(simulated == 2);
  CHECK(without_figures(page.read()->text) == "… … … …\n…\n…\n");
}

TEST_CASE("a figure that is not there names its line and the nearest name", "[core][lesson]") {
  const auto message = [](const std::string& text) {
    const Page page(kHead + text);
    const Result<std::string> filled = fill_in(*page.read(), counted);
    REQUIRE_FALSE(filled.ok());
    return to_string(filled.error());
  };
  CHECK_THAT(message("\n{buble_fraction %}\n"),
             ContainsSubstring("01-a.md:5:1") && ContainsSubstring("'bubble_fraction'"));
  CHECK_THAT(message("{bubble_fraction ms}\n"), ContainsSubstring("there are %, s, B, n and x"));
  CHECK_THAT(message("{bubble_fraction %; parallelism.tensr=2}\n"), ContainsSubstring("tensr"));
}

TEST_CASE("questions are taken apart from what stands before them", "[core][lesson]") {
  const LessonParts parts = lesson_parts(
      "\nA.\n\n## Try\n### No question\n\n## Questions\n### Why?\nSo.\n\n### When?\nNow.\n");
  CHECK(parts.before == "A.\n\n## Try\n### No question");
  REQUIRE(parts.questions.size() == 2);
  CHECK(parts.questions[0].question == "Why?");
  CHECK(parts.questions[0].answer == "So.");
  CHECK(parts.questions[1].answer == "Now.");
}

TEST_CASE("without the application links are words, and answers fold", "[core][lesson]") {
  const Page page(kHead);
  const std::string text = lesson_markdown(
      *page.read(),
      "[Play](play:) it, [two](set:a.b=2&c.d=3), [back](set:), [web](https://x.y/z) [x]\n"
      "## Questions\n### Why?\nSo.\n",
      "p.png");
  CHECK(text ==
        "# Waiting\n\n![Waiting](p.png)\n\nPlay it, two (`--set a.b=2 --set c.d=3`), back, "
        "[web](https://x.y/z) [x]\n\n## Questions\n\n<details>\n<summary>Why?</summary>\n\nSo.\n\n"
        "</details>\n");
}

}  // namespace
}  // namespace lockstep
