#include "core/trace/trace_ops.hpp"

#include <random>
#include <vector>

#include "tests/catch.hpp"

namespace lockstep {
namespace {

/// An op with few values for each field, so that many ops share a form and many differ in one
/// field.
TraceOp random_op(std::mt19937& random) {
  const auto one_of = [&](int count) { return static_cast<int>(random() % to_size(count)) - 1; };
  TraceOp op;
  op.name = one_of(4) + 1;
  op.kind = one_of(3) + 1;
  op.stream = static_cast<std::uint16_t>(one_of(3) + 1);
  op.phase = static_cast<std::uint8_t>(one_of(3) + 1);
  op.stage = static_cast<std::int16_t>(one_of(3));
  op.layer = one_of(5);
  op.microbatch = one_of(100);
  op.bytes = one_of(2) == 0 ? std::int64_t{1} << 40 : 0;
  op.channel = one_of(3);
  op.seq = one_of(1000);
  return op;
}

std::vector<TraceOp> random_ops(std::uint32_t seed, int count) {
  std::mt19937 random(seed);
  std::vector<TraceOp> ops;
  for (int i = 0; i < count; ++i) ops.push_back(random_op(random));
  return ops;
}

TraceOps list_of(const std::vector<TraceOp>& ops) {
  TraceOps list;
  for (const TraceOp& op : ops) list.push_back(op);
  return list;
}

}  // namespace

TEST_CASE("a list of ops gives back each op that was put in, whatever it shares with others",
          "[core][trace]") {
  for (const std::uint32_t seed : {1u, 2u, 3u}) {
    CAPTURE(seed);
    const std::vector<TraceOp> ops = random_ops(seed, 5000);
    const TraceOps list = list_of(ops);
    REQUIRE(list.size() == ops.size());
    std::size_t i = 0;
    for (const TraceOp& op : list) {
      REQUIRE(op == ops[i]);
      REQUIRE(list[i] == ops[i]);
      REQUIRE(list[OpId{static_cast<std::int32_t>(i)}] == ops[i]);
      ++i;
    }
    CHECK(i == ops.size());
  }
}

TEST_CASE("ops that differ in microbatch and number alone share a form", "[core][trace]") {
  TraceOps list;
  for (int microbatch = 0; microbatch < 100; ++microbatch) {
    for (int layer = 0; layer < 7; ++layer) {
      TraceOp op;
      op.layer = layer;
      op.microbatch = microbatch;
      op.seq = 7 * microbatch + layer;
      list.push_back(op);
    }
  }
  CHECK(list.size() == 700);
  CHECK(list.forms().size() == 7);
}

TEST_CASE("an op that is replaced leaves those that shared its form as they were",
          "[core][trace]") {
  std::vector<TraceOp> ops = random_ops(4, 500);
  TraceOps list = list_of(ops);
  std::mt19937 random(5);
  for (int i = 0; i < 500; ++i) {
    const OpId at{static_cast<std::int32_t>(random() % ops.size())};
    const TraceOp op = random_op(random);
    ops[to_size(at)] = op;
    list.set(at, op);
  }
  for (std::size_t i = 0; i < ops.size(); ++i) REQUIRE(list[i] == ops[i]);
  CHECK(list == list_of(ops));  // whose forms come in another order
}

TEST_CASE("lists are equal if their ops are, and differ with one field of one op",
          "[core][trace]") {
  const std::vector<TraceOp> ops = random_ops(6, 50);
  const TraceOps list = list_of(ops);
  const auto differs = [&](auto&& change) {
    TraceOps other = list;
    TraceOp op = other[OpId{20}];
    change(op);
    other.set({20}, op);
    return !(other == list);
  };
  CHECK_FALSE(differs([](TraceOp&) {}));
  CHECK(differs([](TraceOp& op) { ++op.name; }));
  CHECK(differs([](TraceOp& op) { ++op.kind; }));
  CHECK(differs([](TraceOp& op) { ++op.stream; }));
  CHECK(differs([](TraceOp& op) { ++op.phase; }));
  CHECK(differs([](TraceOp& op) { ++op.stage; }));
  CHECK(differs([](TraceOp& op) { ++op.layer; }));
  CHECK(differs([](TraceOp& op) { ++op.microbatch; }));
  CHECK(differs([](TraceOp& op) { ++op.bytes; }));
  CHECK(differs([](TraceOp& op) { ++op.channel; }));
  CHECK(differs([](TraceOp& op) { ++op.seq; }));
  TraceOps longer = list;
  longer.push_back(TraceOp{});
  CHECK_FALSE(longer == list);
  longer.clear();
  CHECK(longer.empty());
  longer.push_back(ops[0]);
  CHECK(longer[0] == ops[0]);
}

}  // namespace lockstep
