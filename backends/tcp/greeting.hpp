// Greeting: what the side that listens knows of a connection until it is a process of the job. It
// has no socket, so that a test can be the other side.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "backends/tcp/wire.hpp"

namespace lockstep::tcp {

class Greeting {
 public:
  enum class State {
    Silent,    // the hello has not come whole
    Asked,     // it has, and the challenge must be answered
    Proven,    // the other side knows the secret; hello() is who it is
    Stranger,  // it is none of ours: the connection is to be closed
  };
  Greeting(std::string secret, const Nonce& nonce);

  State state() const { return state_; }
  /// How many bytes are to be received next; none of those behind them belong to the greeting.
  std::size_t wanted() const;
  /// Takes at most wanted() bytes that have come. Returns what to send, often nothing.
  std::vector<std::byte> take(std::span<const std::byte> bytes);
  const Hello& hello() const { return hello_; }  // requires a state behind Silent

 private:
  std::string secret_;
  State state_ = State::Silent;
  Hello hello_;
  Challenge challenge_;
  std::vector<std::byte> come_;  // of the message that is under way
};

}  // namespace lockstep::tcp
