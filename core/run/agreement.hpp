// Agreement: before the first step all processes compare what they are about to do. Each was given
// its command line, files and folders by itself, so that nothing else makes them equal.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/ir/program.hpp"
#include "core/run/process.hpp"

namespace lockstep {

/// Something that must be the same in all processes, under the name that a user knows it by:
/// {"training.seed", "42"}.
struct Fact {
  std::string key, value;
  bool operator==(const Fact&) const = default;
};

/// All processes call it together. Error InvalidSpec, the same in all of them, if the facts of any
/// process differ from the leader's: it names the process, the first key that differs, and both
/// values. Device if what another process sent is no list of facts.
Result<void> agree(Process& process, const std::vector<Fact>& facts);

/// The most bytes that one process can send to another ahead of its receives, or give in a gather,
/// when they run this program for so many steps: two steps of its transfers, its whole state in the
/// widest type, and the spans of all steps.
std::int64_t most_sent(const Program& program, int steps);

/// Facts as bytes, and back. The reader takes any bytes; nullopt if they are no list of facts.
std::vector<std::byte> encode(const std::vector<Fact>& facts);
std::optional<std::vector<Fact>> decode_facts(std::span<const std::byte> bytes);

}  // namespace lockstep
