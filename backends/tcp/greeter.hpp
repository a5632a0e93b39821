// Greeter: greets all that connect to a listening port at the same time, so that none of them can
// hold up another.
#pragma once

#include <list>
#include <vector>

#include "backends/tcp/greeting.hpp"
#include "backends/tcp/socket.hpp"

namespace lockstep::tcp {

/// A connection whose other side knows the secret and says who it is.
struct Guest {
  Socket socket;
  Hello hello;
};

class Greeter {
 public:
  /// How many connections that have not shown that they belong here are kept. A further one takes
  /// the place of one that has said nothing, the oldest first: a process of the job speaks at once.
  static constexpr std::size_t kMostUnproven = 256;

  Greeter(const Socket& listener, std::string secret)
      : listener_(listener), secret_(std::move(secret)) {}

  /// Waits until some have proven who they are, or until the deadline. Error Device if nothing can
  /// be accepted any more.
  Result<std::vector<Guest>> next(Deadline deadline);

 private:
  struct Waiting {
    Socket socket;
    Greeting greeting;
    Deadline until;
  };
  Result<void> accept_one();
  bool drop_one();
  static void hear(Waiting& waiting);

  const Socket& listener_;
  std::string secret_;
  std::list<Waiting> waiting_;  // in the order in which they came
};

}  // namespace lockstep::tcp
