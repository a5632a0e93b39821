#include "backends/tcp/tcp_process.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "backends/tcp/rendezvous.hpp"
#include "backends/tcp/tcp_peers.hpp"

namespace lockstep {
namespace tcp {

bool ready(int fd, short event) {
  pollfd asked{fd, event, 0};
  return ::poll(&asked, 1, static_cast<int>(kLook.count())) > 0;
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

TcpProcess::TcpProcess(const TcpLaunch& launch, std::vector<Socket> sockets)
    : index_(launch.rank),
      watch_(*this, launch.timeout,
             {index_, static_cast<int>(sockets.size()), [this](int i) { return peers_[i]->name; },
              [this](const Pulse& pulse) { beat(pulse); }}) {
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    auto& peer = *peers_.emplace_back(std::make_unique<Peer>());
    peer.index = static_cast<int>(i);
    peer.socket = std::move(sockets[i]);
    if (!peer.socket.open()) continue;
    peer.name = "process " + std::to_string(i) + " (" + peer.socket.peer().text() + ")";
  }
  try {
    for (auto& peer : peers_) {
      if (peer->socket.open()) peer->reader = std::thread([this, p = peer.get()] { read(*p); });
    }
    watch_.start();
  } catch (...) {  // the system has no more threads: those that it gave have to end first
    end_threads();
    throw;
  }
}

TcpProcess::~TcpProcess() { end_threads(); }

void TcpProcess::end_threads() {
  closing_ = true;
  watch_.stop();
  for (auto& peer : peers_) {
    if (peer->socket.open()) ::shutdown(peer->socket.fd(), SHUT_RDWR);
    if (peer->reader.joinable()) peer->reader.join();
  }
}

Result<void> TcpProcess::set_clock() {
  const auto shared = share_clock(*this, raw_clock);
  if (!shared) return shared.error();
  zero_ = shared->zero;
  clock_uncertainty_ = shared->uncertainty;
  return {};
}

bool TcpProcess::exchange(int tag, std::span<const Outgoing> out, std::span<const Incoming> in,
                          Patience) {
  std::vector<Posted> posted(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) post(in[i], tag, posted[i]);
  for (const Outgoing& message : out) {
    send(peer(message.to), {Kind::Data, tag, message.bytes}, message.data);
  }
  bool all = true;
  const Counted waiting(activity->waiting);
  for (std::size_t i = 0; i < in.size(); ++i) all &= wait(peer(in[i].from), posted[i], tag);
  return all && !failure_.is_set();
}

void TcpProcess::fail(const Error& error) {
  if (told_.test_and_set()) return;
  const std::lock_guard lock(telling_);
  failure_.set(error);
  wake_all();
  const std::string text = (static_cast<char>(error.kind) + to_string(error))
                               .substr(0, static_cast<std::size_t>(kLongestFailure));
  tell_all({Kind::Failure, 0, static_cast<std::int64_t>(text.size())}, text);
}

Result<void> TcpProcess::finish() {
  const auto all = all_gather(*this, {});
  if (!all) return all.error();
  closing_ = true;
  watch_.end_looking();
  tell_all({Kind::Bye, 0, 0}, "");
  const auto until = steady_clock::now() + kFarewell;
  for (auto& peer : peers_) {
    if (!peer->socket.open()) continue;
    ::shutdown(peer->socket.fd(), SHUT_WR);
    {  // its reader ends, because the other process shuts down its side, too
      std::unique_lock lock(peer->mutex);
      peer->changed.wait_until(lock, until, [&] { return peer->gone; });
    }
    ::shutdown(peer->socket.fd(), SHUT_RDWR);
    peer->reader.join();
  }
  return {};
}

void TcpProcess::end_all(int exit_code) {
  if (size() == 1) return;
  watch_.end_looking();
  // Another thread may have failed, woken this one, and not have told the others why yet.
  { const std::lock_guard lock(telling_); }
  if (index_ == 0) {
    closing_ = true;
    tell_all({Kind::End, exit_code, 0}, "");
    for (auto& peer : peers_) {
      if (peer->socket.open()) ::shutdown(peer->socket.fd(), SHUT_WR);
    }
  }
  // The leader learns of a failure, reports it and ends the others. They wait for its message,
  // and it waits until they have left. Nobody waits for a process that is silent.
  const auto until = steady_clock::now() + kFarewell;
  for (auto& peer : peers_) {
    if (!peer->socket.open() || (index_ != 0 && peer != peers_.front())) continue;
    std::unique_lock lock(peer->mutex);
    const auto left = [&] {
      return peer->gone || end_code_ >= 0 || watch_.lookout().silent(peer->index);
    };
    while (!left() && steady_clock::now() < until) peer->changed.wait_for(lock, kLook);
  }
  std::_Exit(end_code_ > 0 ? end_code_.load() : exit_code);  // check() lets no 0 through
}

void TcpProcess::lost(const Peer& peer, const std::string& why) {
  fail(Error{ErrorKind::Device, peer.name + " has gone: " + why, std::nullopt});
}

void TcpProcess::wake_all() {
  for (auto& peer : peers_) {
    const std::lock_guard lock(peer->mutex);
    peer->changed.notify_all();
  }
}

bool TcpProcess::send_bytes(Peer& peer, const void* from, std::int64_t bytes, bool data) {
  const auto* at = static_cast<const std::byte*>(from);
  const auto until = steady_clock::now() + kFarewell;
  while (bytes > 0) {
    const ssize_t sent =
        ::send(peer.socket.fd(), at, static_cast<std::size_t>(bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      at += sent;
      bytes -= sent;
    } else if ((sent < 0 && !would_block()) || watch_.lookout().silent(peer.index) ||
               (data ? failure_.is_set() : steady_clock::now() > until)) {
      return false;
    } else {
      static_cast<void>(ready(peer.socket.fd(), POLLOUT));
    }
  }
  return true;
}

void TcpProcess::send(Peer& peer, const Header& header, const std::byte* payload) {
  const bool data = header.kind == Kind::Data;
  bool sent = false;
  std::string why;
  {
    const std::lock_guard lock(peer.writing);
    if (peer.broken || (data && failure_.is_set())) return;
    sent = send_bytes(peer, peer.rest.data(), std::ssize(peer.rest), data) &&
           send_bytes(peer, &header, sizeof header, data) &&
           send_bytes(peer, payload, header.bytes, data);
    why = std::strerror(errno);
    peer.rest.clear();
    peer.broken = !sent;
  }
  if (!sent && data && !failure_.is_set()) lost(peer, why);
}

void TcpProcess::tell_all(const Header& header, const std::string& text) {
  for (auto& peer : peers_) {
    if (peer->socket.open()) send(*peer, header, std::as_bytes(std::span(text)).data());
  }
}

void TcpProcess::beat(const Pulse& pulse) {
  for (auto& peer : peers_) {
    if (peer->socket.open()) beat(*peer, pulse);
  }
}

/// A message that waits in the way shows as well that this process lives.
void TcpProcess::beat(Peer& peer, const Pulse& pulse) {
  const std::unique_lock lock(peer.writing, std::try_to_lock);
  if (!lock.owns_lock() || peer.broken) return;
  if (peer.rest.empty()) {
    const Header header{Kind::Beat, 0, sizeof pulse};
    peer.rest.resize(sizeof header + sizeof pulse);
    std::memcpy(peer.rest.data(), &header, sizeof header);
    std::memcpy(peer.rest.data() + sizeof header, &pulse, sizeof pulse);
  }
  const ssize_t sent =
      ::send(peer.socket.fd(), peer.rest.data(), peer.rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) peer.rest.erase(peer.rest.begin(), peer.rest.begin() + sent);
  if (sent <= 0 && peer.rest.size() == sizeof(Header) + sizeof pulse) peer.rest.clear();
}

}  // namespace tcp

Result<std::unique_ptr<Process>> join_tcp(const TcpLaunch& launch) {
  auto sockets = tcp::meet(launch);
  if (!sockets) return sockets.error();
  auto process = std::make_unique<tcp::TcpProcess>(launch, std::move(*sockets));
  // If another process has failed already, this one still counts as joined: the run then ends by
  // end_all(), with one exit code for all.
  const Result<void> set = process->set_clock();
  if (!set && !process->failure().is_set()) return set.error();
  return std::unique_ptr<Process>(std::move(process));
}

}  // namespace lockstep
