#include "core/run/agreement.hpp"

#include <random>

#include "tests/catch.hpp"
#include "tests/core/run/loopback_process.hpp"

namespace lockstep {
namespace {

const std::vector<Fact> kFacts = {{"training.seed", "42"}, {"model.layers", "2"}, {"", ""}};

/// What the processes are told if their facts are these.
std::vector<std::string> told(const std::vector<std::vector<Fact>>& facts) {
  std::vector<std::string> messages(facts.size());
  testing::in_processes(static_cast<int>(facts.size()), [&](Process& process) {
    const auto i = static_cast<std::size_t>(process.index());
    const auto same = agree(process, facts[i]);
    if (!same) messages[i] = same.error().message;
  });
  return messages;
}

}  // namespace

TEST_CASE("processes with the same facts agree", "[core][run]") {
  CHECK(told({kFacts, kFacts, kFacts}) == std::vector<std::string>(3));
}

TEST_CASE("a process whose facts differ is named to all with the key and both values",
          "[core][run]") {
  std::vector<Fact> other = kFacts, fewer = kFacts, more = kFacts;
  other[0].value = "7\n\x1b[31m";
  fewer.erase(fewer.begin() + 1);
  more.push_back({"optimizer.lr", "1"});
  for (const std::string& message : told({kFacts, other, kFacts, fewer, more})) {
    CHECK(message ==
          "the processes do not agree: process 1 differs in training.seed: it has 7??[31m, process "
          "0 has 42; process 3 differs in model.layers, which it does not have; process 4 differs "
          "in optimizer.lr, which process 0 does not have");
  }
}

TEST_CASE("facts are read back as they were written, and nothing else is taken for facts",
          "[core][run]") {
  const std::vector<std::byte> bytes = encode(kFacts);
  CHECK(decode_facts(bytes) == kFacts);
  CHECK(decode_facts(encode({})) == std::vector<Fact>{});
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    CHECK_FALSE(decode_facts(std::span(bytes).first(n)).has_value());
  }
  const unsigned seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> changed = bytes;
    for (unsigned i = 0; i <= random() % 3; ++i) {
      changed[random() % changed.size()] = static_cast<std::byte>(random());
    }
    const auto read = decode_facts(changed);
    if (read) CHECK(encode(*read) == changed);
  }
}

}  // namespace lockstep
