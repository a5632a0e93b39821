#include "backends/backends.hpp"

#include "tests/catch.hpp"

namespace lockstep {

TEST_CASE("every listed backend can be made and says its own name", "[backends]") {
  for (const std::string& name : backend_names()) {
    const auto backend = make_backend(name);
    REQUIRE(backend.ok());
    CHECK((*backend)->name() == name);
  }
}

TEST_CASE("a backend that is not built is told apart from one that does not exist", "[backends]") {
  const auto cuda = make_backend("cuda");
  if (!cuda) {
    CHECK(cuda.error().kind == ErrorKind::Unsupported);
    CHECK_THAT(cuda.error().message, ContainsSubstring("not built"));
  }
  const auto typo = make_backend("cpi");
  REQUIRE_FALSE(typo.ok());
  CHECK(typo.error().kind == ErrorKind::InvalidSpec);
  CHECK_THAT(typo.error().message, ContainsSubstring("did you mean 'cpu'?"));
  const auto unknown = make_backend("quantum");
  REQUIRE_FALSE(unknown.ok());
  CHECK_THAT(unknown.error().message, ContainsSubstring("known: sim, cpu, cuda"));
}

}  // namespace lockstep
