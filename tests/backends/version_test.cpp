#include "backends/version.hpp"

#include "backends/backends.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

TEST_CASE("the version names the commit, the backends and the launchers", "[backends]") {
  const std::string text = version_text("lockstep", {"1.2.3", "abc1234, dirty", "13.0", true});
  CHECK(text.starts_with("lockstep 1.2.3, commit abc1234, dirty\nbackends: sim, "));
  for (const std::string& name : backend_names()) CHECK_THAT(text, ContainsSubstring(name));
  CHECK_THAT(text, ContainsSubstring("mpirun"));
  const std::string without = version_text("lockstep-gui", {"1.2.3", "no git", "", false});
  CHECK_FALSE(without.find("mpirun") != std::string::npos);
  CHECK(without.starts_with("lockstep-gui 1.2.3, commit no git\n"));
}

TEST_CASE("this binary knows its version and commit", "[backends]") {
  CHECK(std::string(kBuildFacts.version).find('.') != std::string::npos);
  CHECK_FALSE(std::string(kBuildFacts.commit).empty());
}

}  // namespace
}  // namespace lockstep
