// Installs what was built into a folder, and uses it from there.
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

struct Installed {
  Installed() {
    for (const char* component : {"program", "library"}) {
      shell(std::string(LOCKSTEP_CMAKE) + " --install " + LOCKSTEP_BUILD_DIR + " --component " +
            component + " --prefix " + prefix());
    }
  }
  std::string prefix() const { return folder / "usr"; }
  /// Runs a command outside the repository; returns what it printed. A command that fails fails
  /// the test.
  std::string shell(const std::string& command) const {
    const std::string log = folder / "log";
    const std::string clean = "cd " + folder.path.string() + " && env -u CXXFLAGS -u LDFLAGS ";
    const int status = std::system((clean + command + " > " + log + " 2>&1").c_str());
    std::string said = read_bytes(log);
    INFO(command << "\n" << said);
    REQUIRE(WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) == 0);
    return said;
  }
  TemporaryFolder folder;
};

TEST_CASE("an installed program finds its scenarios, and its library serves a program of its own",
          "[install]") {
  const Installed installed;
  const std::string usr = installed.prefix();
  for (const char* file :
       {"share/man/man1/lockstep.1", "share/bash-completion/completions/lockstep",
        "share/zsh/vendor-completions/_lockstep", "share/fish/vendor_completions.d/lockstep.fish",
        "share/lockstep/scenarios/quickstart.toml", "include/lockstep/lockstep.hpp"}) {
    INFO(file);
    CHECK(fs::file_size(fs::path(usr) / file) > 100);
  }
  CHECK(!fs::exists(fs::path(usr) / "include/lockstep/data.hpp"));
  CHECK_THAT(installed.shell(usr + "/bin/lockstep list scenarios"),
             ContainsSubstring("quickstart"));

  // Sanitizers of the library are those of its user.
  const std::string flags = std::string(LOCKSTEP_SANITIZED).empty()
                                ? ""
                                : " -DCMAKE_CXX_FLAGS=-fsanitize=" LOCKSTEP_SANITIZED;
  installed.shell(std::string(LOCKSTEP_CMAKE) +
                  " -S " LOCKSTEP_SOURCE_DIR
                  "/examples/library -B example -DCMAKE_CXX_COMPILER=" LOCKSTEP_CXX
                  " -DCMAKE_PREFIX_PATH=" +
                  usr + flags);
  installed.shell(std::string(LOCKSTEP_CMAKE) + " --build example");
  const std::string scenario = LOCKSTEP_SOURCE_DIR "/scenarios/quickstart.toml";
  const std::string said = installed.shell("example/half_network " + scenario);
  CHECK_THAT(said, ContainsSubstring("(1.000 times)"));
  // The library and the program say the same of the same scenario.
  const std::string report = installed.shell(usr + "/bin/lockstep run " + scenario +
                                             " --set what_if.bandwidth_factor=0.5 --json");
  const auto at = report.find("\"step_time_s\": ");
  REQUIRE(at != std::string::npos);
  const double from_program = std::strtod(report.c_str() + at + 15, nullptr);
  const auto second = said.find("x 0.5: step ");
  REQUIRE(second != std::string::npos);
  const double from_library = std::strtod(said.c_str() + second + 12, nullptr);
  CHECK(std::abs(from_library - from_program) <= 1e-5 * from_program);
  // It trains, too, and goes on where it stopped.
  const std::string tiny = LOCKSTEP_SOURCE_DIR "/scenarios/tiny/gpt2-ddp2.toml";
  const std::string whole = installed.shell("example/train " + tiny + " whole 4");
  CHECK_THAT(whole, ContainsSubstring("step 4 of 4: loss "));
  const std::string first = installed.shell("example/train " + tiny + " parts 2");
  CHECK_THAT(first, ContainsSubstring("step 2 of 2: loss "));
  const std::string rest = installed.shell("example/train " + tiny + " parts 4");
  CHECK_THAT(rest, ContainsSubstring("step 3 of 4: loss ") && !ContainsSubstring("step 2 of"));
  CHECK(whole.ends_with(rest));
}

}  // namespace
}  // namespace lockstep
