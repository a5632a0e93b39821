#include "core/base/index_vector.hpp"

#include <string>

#include "tests/catch.hpp"

using namespace lockstep;

namespace {

enum class Colour : std::uint8_t { Red, Green, Blue };
enum class Taste : std::uint8_t { Sweet, Sour };

template <class Container, class I>
concept TakesIndex = requires(Container& c, const Container& constant, I i) {
  c[i];
  constant[i];
};

using ByOp = IndexVector<OpId, std::string>;
using ByRank = IndexVector<Rank, std::string>;
using ByColour = IndexVector<Colour, bool>;
using OfColours = IndexArray<Colour, int, 3>;

static_assert(TakesIndex<ByOp, OpId> && TakesIndex<ByOp, std::size_t>);
static_assert(!TakesIndex<ByOp, BufferId> && !TakesIndex<ByOp, Colour>);
static_assert(TakesIndex<ByRank, Rank> && TakesIndex<ByRank, std::int64_t>);
static_assert(!TakesIndex<ByRank, OpId> && !TakesIndex<ByRank, Colour>);
static_assert(TakesIndex<ByColour, Colour> && !TakesIndex<ByColour, Taste>);
static_assert(!TakesIndex<ByColour, OpId>);
static_assert(TakesIndex<OfColours, Colour> && TakesIndex<OfColours, std::size_t>);
static_assert(!TakesIndex<OfColours, Taste> && !TakesIndex<OfColours, OpId>);

}  // namespace

TEST_CASE("an id finds the element that push_back put where next() said") {
  ByOp names;
  const OpId first = names.next();
  names.push_back("a");
  const OpId second = names.next();
  names.push_back("b");
  CHECK(first == OpId{0});
  CHECK(names[first] == "a");
  CHECK(names[second] == "b");
  names[first] = "c";
  CHECK(names == std::vector<std::string>{"c", "b"});
}

TEST_CASE("ids() goes through all indices in order, and through none of an empty vector") {
  const ByOp names = {"a", "b", "c"};
  std::string seen;
  for (const OpId id : names.ids()) seen += names[id] + std::to_string(id.v);
  CHECK(seen == "a0b1c2");
  for (const OpId id : ByOp().ids()) FAIL("there is no element " << id.v);

  OfColours counts{};
  for (const Colour colour : OfColours::ids()) counts[colour] += static_cast<int>(colour) + 1;
  CHECK(counts == OfColours{1, 2, 3});
}

TEST_CASE("a signed count makes and resizes an index vector as an unsigned one does") {
  const int world = 3;
  ByRank labels(world, "x");
  CHECK(labels == std::vector<std::string>{"x", "x", "x"});
  labels.resize(world + 1);
  CHECK(labels.size() == 4);
  CHECK(labels[Rank{3}].empty());
  labels.assign(world - 1, "y");
  CHECK(labels == std::vector<std::string>{"y", "y"});
  CHECK(ByRank(std::size_t{2}, "y") == labels);
  CHECK(IndexVector<Rank, int>{3, 4} == std::vector<int>{3, 4});
}

TEST_CASE("an enumerator finds a bit of a vector of bool") {
  ByColour used(3, false);
  used[Colour::Blue] = true;
  CHECK(used == std::vector<bool>{false, false, true});
}
