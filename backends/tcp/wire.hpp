// Wire: what stands in a connection between two processes. A message is a header, then its payload.
// Nothing that another process sends is used before check() has seen it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "backends/tcp/hmac.hpp"
#include "core/run/watch.hpp"

namespace lockstep::tcp {

enum class Kind : std::int32_t {
  Data,
  Failure,  // the sender has failed: kind and text of its error
  Bye,      // the sender has finished and sends nothing else
  End,      // the leader tells the receiver that the run has failed, and to exit with this code
  Beat,     // the sender is alive: its Pulse
};

struct Header {
  Kind kind = Kind::Data;
  std::int32_t tag = 0;
  std::int64_t bytes = 0;  // of the payload
};

inline constexpr std::int64_t kMostPayload = std::int64_t{1} << 50;  // see Process::most_unasked
inline constexpr std::int64_t kLongestFailure = 1 << 16;

/// What is wrong with a header; empty if nothing is.
std::string check(const Header& header);

constexpr std::array<char, 8> kMagic = {'l', 'o', 'c', 'k', 's', 't', 'e', 'p'};
constexpr std::uint32_t kVersion = 2;
using Nonce = std::array<std::uint8_t, 16>;
Nonce random_nonce();

/// The first message of who connects.
struct Hello {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::int32_t world_size = 0, rank = 0;
  std::uint32_t port = 0;  // at which it listens
  std::uint64_t run = 0;
  Nonce nonce{};
};
/// The answer of who listens: that it knows the secret, and a question for the other.
struct Challenge {
  Nonce nonce{};
  Digest proof{};
};

/// The keyed hash that shows one side of a greeting, "listener" or "joiner", to know the secret.
Digest proof_of(const std::string& secret, const char* side, const Hello& hello,
                const Nonce& nonce);

/// Why a process is refused; empty if it is welcome. `lowest` is the least index that may come.
std::string refusal_of(const Hello& hello, std::uint64_t run, int world_size, int lowest);

}  // namespace lockstep::tcp
