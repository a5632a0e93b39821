#include "backends/tcp/greeter.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kForProof{5};  // who has shown nothing for so long is none of ours

}  // namespace

Result<std::vector<Guest>> Greeter::next(Deadline deadline) {
  std::vector<Guest> guests;
  do {
    const Deadline now = steady_clock::now();
    std::erase_if(waiting_, [&](const Waiting& w) { return w.until <= now; });
    Deadline wakes = deadline;
    std::vector<pollfd> asked{{listener_.fd(), POLLIN, 0}};
    for (const Waiting& waiting : waiting_) {
      asked.push_back({waiting.socket.fd(), POLLIN, 0});
      wakes = std::min(wakes, waiting.until);
    }
    const auto left = std::chrono::ceil<milliseconds>(wakes - now);
    const int found = ::poll(asked.data(), asked.size(),
                             static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (found <= 0) continue;
    auto at = waiting_.begin();
    for (std::size_t i = 1; i < asked.size(); ++i, ++at) {
      if (asked[i].revents != 0) hear(*at);
    }
    for (Waiting& waiting : waiting_) {
      if (waiting.greeting.state() != Greeting::State::Proven) continue;
      guests.push_back({std::move(waiting.socket), waiting.greeting.hello()});
    }
    std::erase_if(waiting_, [](const Waiting& w) { return !w.socket.open(); });
    if (asked[0].revents != 0) {
      if (auto accepted = accept_one(); !accepted) return accepted.error();
    }
  } while (guests.empty() && steady_clock::now() < deadline);
  return guests;
}

Result<void> Greeter::accept_one() {
  auto socket = accept_from(listener_, steady_clock::now());
  if (!socket) {  // too many files are open: those that show nothing give way
    if (drop_one()) return {};
    return socket.error();
  }
  if (!socket->open()) return {};
  if (waiting_.size() >= kMostUnproven) drop_one();
  waiting_.push_back(
      {std::move(*socket), Greeting(secret_, random_nonce()), steady_clock::now() + kForProof});
  return {};
}

bool Greeter::drop_one() {
  if (waiting_.empty()) return false;
  const auto silent = std::find_if(waiting_.begin(), waiting_.end(), [](const Waiting& w) {
    return w.greeting.state() == Greeting::State::Silent;
  });
  waiting_.erase(silent != waiting_.end() ? silent : waiting_.begin());
  return true;
}

/// Takes what has come, and answers. A connection that is none of ours, or that has ended, is
/// closed.
void Greeter::hear(Waiting& waiting) {
  std::array<std::byte, std::max(sizeof(Hello), sizeof(Digest))> bytes{};
  const std::size_t wanted = std::min(waiting.greeting.wanted(), bytes.size());
  const ssize_t got = ::recv(waiting.socket.fd(), bytes.data(), wanted, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  if (got <= 0) return waiting.socket.close();
  const auto answer = waiting.greeting.take(std::span(bytes).first(static_cast<std::size_t>(got)));
  // The answer finds room in a new connection; who has filled it has not read what came before.
  const bool sent = answer.empty() || waiting.socket.send(answer, steady_clock::now()).ok();
  if (!sent || waiting.greeting.state() == Greeting::State::Stranger) waiting.socket.close();
}

}  // namespace lockstep::tcp
