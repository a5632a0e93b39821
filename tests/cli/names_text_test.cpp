#include "cli/names_text.hpp"

#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

// Two kernels of 30 and 10 us and one of 20, launched by a call that contains another.
constexpr const char* kTrace = R"({"traceEvents":[
  {"ph":"X","cat":"cpu_op","name":"outer","pid":1,"tid":1,"ts":0,"dur":100},
  {"ph":"X","cat":"cpu_op","name":"inner","pid":1,"tid":1,"ts":10,"dur":40},
  {"ph":"X","cat":"kernel","name":"gemm<a_very_long_template_argument,another_one,the_last>","pid":0,"tid":7,"ts":20,"dur":30},
  {"ph":"X","cat":"kernel","name":"gemm<a_very_long_template_argument,another_one,the_last>","pid":0,"tid":7,"ts":60,"dur":10},
  {"ph":"X","cat":"kernel","name":"gelu","pid":0,"tid":7,"ts":80,"dur":20}]})";

TEST_CASE("report --names lists kernels by their own time, then calls without those in them",
          "[cli]") {
  const TemporaryFolder folder;
  const std::string path = folder / "trace.json";
  write_bytes(path, kTrace);
  const test::CommandOutcome json = test::lockstep({"report", path, "--names", "9", "--json"});
  REQUIRE(json.exit_code == 0);
  const auto names = nlohmann::json::parse(json.out).at("names");
  REQUIRE(names.size() == 4);
  CHECK(names[0].at("self_s") == Approx(40e-6));
  CHECK(names[0].at("average_s") == Approx(20e-6));
  CHECK(names[0].at("share") == Approx(40.0 / 60));  // of the device's time
  CHECK(names[1].at("name") == "gelu");
  CHECK(names[2].at("name") == "outer");
  CHECK(names[2].at("total_s") == Approx(100e-6));
  CHECK(names[2].at("self_s") == Approx(60e-6));  // of the host's, without the inner call

  const test::CommandOutcome text = test::lockstep({"report", path, "--names", "1"});
  REQUIRE(text.exit_code == 0);
  CHECK_THAT(text.out, ContainsSubstring("gemm<a_very"));
  CHECK_THAT(text.out, ContainsSubstring("the_last>"));
  CHECK_THAT(text.out, !ContainsSubstring("gelu"));
}

}  // namespace
}  // namespace lockstep
