#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backends/tcp/tcp_peers.hpp"

namespace lockstep::tcp {

namespace {

/// Whether a call that received `got` bytes went well; else `why` says the reason.
bool count(ssize_t got, std::string& why) {
  if (got > 0 || (got < 0 && would_block())) return true;
  why = got == 0 ? "the connection was closed" : std::strerror(errno);
  return false;
}

constexpr const char* kLeftTooSoon = "it has left, and something was still to come from it";

std::string wrong_size(std::int64_t sent, std::int64_t wanted) {
  return "it sent " + std::to_string(sent) + " B where " + std::to_string(wanted) + " were to come";
}

}  // namespace

void TcpProcess::post(const Incoming& message, int tag, Posted& posted) {
  Peer& from = peer(message.from);
  posted.data = message.data;
  posted.bytes = message.bytes;
  std::vector<std::byte> bytes;
  bool arrived = false, comes = true;
  {
    const std::lock_guard lock(from.mutex);
    const auto came = from.arrived.find(tag);
    arrived = came != from.arrived.end();
    if (arrived) {
      bytes = std::move(came->second.front());
      came->second.pop_front();
      if (came->second.empty()) from.arrived.erase(came);
      from.unasked -= static_cast<std::int64_t>(bytes.size()) + kPerMessage;
    } else {
      from.posted[tag].push_back(&posted);
      comes = !from.bye;
    }
  }
  if (!comes) return lost(from, kLeftTooSoon);
  if (!arrived) return;
  posted.done = true;
  const auto sent = static_cast<std::int64_t>(bytes.size());
  if (sent != posted.bytes) return lost(from, wrong_size(sent, posted.bytes));
  if (sent > 0) std::memcpy(posted.data, bytes.data(), bytes.size());
}

bool TcpProcess::wait(Peer& from, Posted& posted, int tag) {
  std::unique_lock lock(from.mutex);
  from.changed.wait(lock, [&] { return posted.done || failure_.is_set(); });
  if (posted.done) return true;
  from.changed.wait(lock, [&] { return !posted.busy; });  // the reader stops after a failure
  if (const auto all = from.posted.find(tag); all != from.posted.end()) {
    std::erase(all->second, &posted);
    if (all->second.empty()) from.posted.erase(all);
  }
  return posted.done;
}

bool TcpProcess::read_bytes(Peer& peer, void* to, std::int64_t bytes, std::string& why) {
  auto* at = static_cast<std::byte*>(to);
  while (bytes > 0) {
    if (!ready(peer.socket.fd(), POLLIN)) continue;
    const auto block = static_cast<std::size_t>(std::min(bytes, kBlock));
    const ssize_t got = ::recv(peer.socket.fd(), at, block, MSG_DONTWAIT);
    if (!count(got, why)) return false;
    if (got < 0) continue;
    watch_.lookout().heard(peer.index);
    at += got;
    bytes -= got;
  }
  return true;
}

void TcpProcess::read(Peer& peer) {
  std::string why;
  for (Header header; read_bytes(peer, &header, sizeof header, why);) {
    why = tcp::check(header);
    if (!why.empty() || !read_payload(peer, header, why)) break;
  }
  bool expected = closing_;
  {
    const std::lock_guard lock(peer.mutex);
    peer.gone = true;
    watch_.lookout().left(peer.index);
    expected |= peer.bye;
    peer.changed.notify_all();
  }
  if (!expected) lost(peer, why);
}

bool TcpProcess::read_payload(Peer& peer, const Header& header, std::string& why) {
  switch (header.kind) {
    case Kind::Data:
      return read_data(peer, header, why);
    case Kind::Bye: {
      const std::lock_guard lock(peer.mutex);
      if (!peer.posted.empty() && !closing_) {
        why = kLeftTooSoon;
        return false;
      }
      peer.bye = true;
      watch_.lookout().left(peer.index);
      return true;
    }
    case Kind::End:
      if (index_ == 0 || peer.index != 0) {
        why = "it told this process to end, which only process 0 may";
        return false;
      }
      end_code_ = header.tag;
      wake_all();
      return true;
    case Kind::Beat: {
      Pulse pulse;
      if (!read_bytes(peer, &pulse, sizeof pulse, why)) return false;
      watch_.lookout().heard(peer.index, pulse);
      return true;
    }
    case Kind::Failure:
      break;
  }
  std::string text(static_cast<std::size_t>(header.bytes), '\0');
  if (!read_bytes(peer, text.data(), header.bytes, why)) return false;
  hear(peer, text);
  return true;
}

void TcpProcess::hear(const Peer& peer, const std::string& text) {
  if (told_.test_and_set()) return;
  std::string message = text.substr(1);
  for (char& c : message) {  // it goes to a terminal
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n') c = '?';
  }
  failure_.set(Error{kind_on_wire(static_cast<unsigned char>(text[0])),
                     peer.name.substr(0, peer.name.find(" (")) + ": " + message, std::nullopt});
  wake_all();
}

bool TcpProcess::is_room(const Peer& peer, const Header& header, std::string& why) const {
  if (header.bytes + kPerMessage <= most_unasked - peer.unasked) return true;
  why = "it sends " + std::to_string(header.bytes) + " B beside " + std::to_string(peer.unasked) +
        " B for which nobody waits, more than this run can mean (" +
        std::to_string(most_unasked.load()) + " B)";
  return false;
}

/// Reads a message into the buffer of the receive that waits for it, or else into one of its own.
bool TcpProcess::read_data(Peer& peer, const Header& header, std::string& why) {
  if (Posted* const posted = take_posted(peer, header.tag)) {
    if (header.bytes == posted->bytes) return read_posted(peer, header.bytes, *posted, why);
    const std::lock_guard lock(peer.mutex);
    posted->busy = false;
    why = wrong_size(header.bytes, posted->bytes);
    return false;
  }
  if (!is_room(peer, header, why)) return false;
  // The memory grows with what has come, not with what is announced.
  std::vector<std::byte> bytes;
  for (std::int64_t left = header.bytes; left > 0; left -= std::min(left, kBlock)) {
    const std::size_t at = bytes.size();
    bytes.resize(at + static_cast<std::size_t>(std::min(left, kBlock)));
    if (!read_bytes(peer, bytes.data() + at, std::min(left, kBlock), why)) return false;
  }
  std::unique_lock lock(peer.mutex);
  // A receive may have been posted meanwhile.
  const auto come = peer.posted.find(header.tag);
  if (come == peer.posted.end() || failure_.is_set()) {
    if (!failure_.is_set()) {
      peer.arrived[header.tag].push_back(std::move(bytes));
      peer.unasked += header.bytes + kPerMessage;
    }
    return true;
  }
  Posted& posted = *come->second.front();
  come->second.pop_front();
  if (come->second.empty()) peer.posted.erase(come);
  if (header.bytes != posted.bytes) {
    why = wrong_size(header.bytes, posted.bytes);
    return false;
  }
  if (header.bytes > 0) std::memcpy(posted.data, bytes.data(), bytes.size());
  posted.done = true;
  lock.unlock();
  peer.changed.notify_all();
  return true;
}

/// The receive that waits for the next message with this tag, which is then busy; null if none
/// does.
Posted* TcpProcess::take_posted(Peer& peer, std::int32_t tag) {
  const std::lock_guard lock(peer.mutex);
  const auto waiting = peer.posted.find(tag);
  if (waiting == peer.posted.end() || failure_.is_set()) return nullptr;
  Posted* const posted = waiting->second.front();
  waiting->second.pop_front();
  if (waiting->second.empty()) peer.posted.erase(waiting);
  posted->busy = true;
  return posted;
}

/// Reads a message into the buffer of `posted`. Once the run has failed, nothing more is written
/// there, and the rest of the message is dropped.
bool TcpProcess::read_posted(Peer& peer, std::int64_t bytes, Posted& posted, std::string& why) {
  std::int64_t at = 0;
  bool well = true;
  while (at < bytes && well) {
    const bool some = ready(peer.socket.fd(), POLLIN);
    if (failure_.is_set()) break;
    if (!some) continue;
    const auto block = static_cast<std::size_t>(std::min(bytes - at, kBlock));
    const ssize_t got = ::recv(peer.socket.fd(), posted.data + at, block, MSG_DONTWAIT);
    well = count(got, why);
    if (got > 0) at += got;
    if (got > 0) watch_.lookout().heard(peer.index);
  }
  {
    const std::lock_guard lock(peer.mutex);
    posted.done = at == bytes && !failure_.is_set();
    posted.busy = false;
  }
  peer.changed.notify_all();
  std::vector<std::byte> rest(static_cast<std::size_t>(std::min(bytes - at, kBlock)));
  while (well && at < bytes) {
    const auto block = std::min(bytes - at, static_cast<std::int64_t>(rest.size()));
    well = read_bytes(peer, rest.data(), block, why);
    at += block;
  }
  return well;
}

}  // namespace lockstep::tcp
