#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"

namespace lockstep::test {
namespace {

TEST_CASE("compare --json has both reports, and what differs between them", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "a.toml", kSynthetic);
  std::string other = kSynthetic;
  other.replace(other.find("1F1B"), 4, "ZB-H1");
  write_bytes(folder / "b.toml", other);
  const auto compared = lockstep({"compare", folder / "a.toml", folder / "b.toml", "--json"});
  INFO(compared.err);
  REQUIRE(compared.exit_code == 0);
  const auto json = nlohmann::json::parse(compared.out);
  CHECK(std::abs(json["a"]["step_time_s"].get<double>() - 33) < 1e-9);
  CHECK(std::abs(json["b"]["step_time_s"].get<double>() - 27) < 1e-9);
  CHECK(json["same_program"] == false);
  // 1F1B has backward passes of 2 s, ZB-H1 none: their names differ, and the sums do not.
  double a = 0, b = 0;
  for (const auto& kind : json["kinds"]) {
    a += kind["a_s"].get<double>();
    b += kind["b_s"].get<double>();
  }
  CHECK(std::abs(a - 96) < 1e-9);
  CHECK(std::abs(b - 96) < 1e-9);
  CHECK(!json["conclusion"].get<std::string>().empty());
}

TEST_CASE("verify --json counts what is there, and lists faults", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "a.toml", kTiny);
  const std::string program = lockstep({"show", "program", folder / "a.toml"}).out;
  write_bytes(folder / "a.program", program);
  const auto sound = lockstep({"verify", folder / "a.program", "--json"});
  REQUIRE(sound.exit_code == 0);
  CHECK(nlohmann::json::parse(sound.out)["ranks"] == 4);
  CHECK(nlohmann::json::parse(sound.out)["faults"].empty());
  write_bytes(folder / "b.program", program.substr(0, program.size() / 2));
  const auto cut = lockstep({"verify", folder / "b.program", "--json"});
  CHECK(cut.exit_code == 2);
  CHECK(nlohmann::json::parse(cut.out)["faults"].size() >= 1);
}

}  // namespace
}  // namespace lockstep::test
