#include "backends/tcp/tcp_process.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backends/tcp/rendezvous.hpp"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using tcp::Socket;

constexpr milliseconds kLook{50};         // between two looks for a failure while waiting
constexpr std::int64_t kBlock = 1 << 18;  // bytes that are received at a time
constexpr std::chrono::seconds kFarewell{10};

enum class Kind : std::int32_t {
  Data,
  Failure,  // the sender has failed: kind and text of its error
  Bye,      // the sender has finished and sends nothing else
  End,      // the leader tells the receiver to exit with this code
};

struct Header {
  Kind kind = Kind::Data;
  std::int32_t tag = 0;
  std::int64_t bytes = 0;
};

/// A receive that waits for its message.
struct Posted {
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
  bool done = false;
  bool busy = false;  // the reader thread is writing into `data`
};

bool ready(int fd, short event) {
  pollfd asked{fd, event, 0};
  return ::poll(&asked, 1, static_cast<int>(kLook.count())) > 0;
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

/// The connection to another process.
struct Peer {
  Socket socket;
  std::string name;     // "process 2 (10.0.0.3:40112)"
  std::thread reader;   // the only thread that receives
  std::mutex writing;   // held while a message is sent
  bool broken = false;  // guarded by `writing`: a message was cut off, so nothing can follow it
  std::mutex mutex;     // guards what follows
  std::condition_variable changed;
  std::map<std::int32_t, std::deque<Posted*>> posted;  // by tag
  std::map<std::int32_t, std::deque<std::vector<std::byte>>> arrived;
  bool bye = false, gone = false;
};

class TcpProcess final : public Process {
 public:
  TcpProcess(const TcpLaunch& launch, std::vector<Socket> sockets) : index_(launch.rank) {
    for (std::size_t i = 0; i < sockets.size(); ++i) {
      auto& peer = *peers_.emplace_back(std::make_unique<Peer>());
      peer.socket = std::move(sockets[i]);
      if (!peer.socket.open()) continue;
      peer.name = "process " + std::to_string(i) + " (" + peer.socket.peer().text() + ")";
    }
    for (auto& peer : peers_) {
      if (peer->socket.open()) peer->reader = std::thread([this, p = peer.get()] { read(*p); });
    }
  }
  ~TcpProcess() override {
    closing_ = true;
    for (auto& peer : peers_) {
      if (peer->socket.open()) ::shutdown(peer->socket.fd(), SHUT_RDWR);
      if (peer->reader.joinable()) peer->reader.join();
    }
  }

  Result<void> set_clock() {
    const auto shared = share_clock(*this, raw_clock);
    if (!shared) return shared.error();
    zero_ = shared->zero;
    clock_uncertainty_ = shared->uncertainty;
    return {};
  }

  int index() const override { return index_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  int max_tag() const override { return std::numeric_limits<std::int32_t>::max(); }
  const FirstError& failure() const override { return failure_; }
  SimTime now() const override { return raw_clock() - zero_; }
  SimTime clock_uncertainty() const override { return clock_uncertainty_; }

  bool exchange(int tag, std::span<const Outgoing> out, std::span<const Incoming> in,
                Patience) override {
    std::vector<Posted> posted(in.size());
    for (std::size_t i = 0; i < in.size(); ++i) post(in[i], tag, posted[i]);
    for (const Outgoing& message : out) {
      send(peer(message.to), {Kind::Data, tag, message.bytes}, message.data);
    }
    bool all = true;
    for (std::size_t i = 0; i < in.size(); ++i) all &= wait(peer(in[i].from), tag, posted[i]);
    return all && !failure_.is_set();
  }

  void fail(const Error& error) override {
    if (told_.test_and_set()) return;
    failure_.set(error);
    const std::string text = static_cast<char>(error.kind) + to_string(error);
    tell_all({Kind::Failure, 0, static_cast<std::int64_t>(text.size())}, text);
    wake_all();
  }

  Result<void> finish() override {
    const auto all = all_gather(*this, {});
    if (!all) return all.error();
    closing_ = true;
    tell_all({Kind::Bye, 0, 0}, "");
    for (auto& peer : peers_) {
      if (!peer->socket.open()) continue;
      ::shutdown(peer->socket.fd(), SHUT_WR);
      peer->reader.join();  // it ends, because the other process shuts down its side, too
    }
    return {};
  }

  void end_all(int exit_code) override {
    if (size() == 1) return;
    if (index_ == 0) {
      closing_ = true;
      tell_all({Kind::End, exit_code, 0}, "");
      for (auto& peer : peers_) {
        if (peer->socket.open()) ::shutdown(peer->socket.fd(), SHUT_WR);
      }
    }
    // The leader learns of a failure, reports it and ends the others. They wait for its message,
    // and it waits until they have left.
    const auto until = steady_clock::now() + kFarewell;
    for (auto& peer : peers_) {
      if (!peer->socket.open() || (index_ != 0 && peer != peers_.front())) continue;
      std::unique_lock lock(peer->mutex);
      peer->changed.wait_until(lock, until, [&] { return peer->gone || end_code_ >= 0; });
    }
    std::_Exit(end_code_ >= 0 ? end_code_.load() : exit_code);
  }

 private:
  static SimTime raw_clock() {
    return std::chrono::duration_cast<SimTime>(steady_clock::now().time_since_epoch());
  }
  Peer& peer(int process) { return *peers_[process]; }

  void lost(const Peer& peer, const std::string& why) {
    fail(Error{ErrorKind::Device, peer.name + " has gone: " + why, std::nullopt});
  }

  // ---------------------------------------------------------------- sending

  /// Sends bytes. A message of data is cut off at a failure, because the connection is then needed
  /// to tell of the failure.
  bool send_bytes(Peer& peer, const void* from, std::int64_t bytes, bool data) {
    const auto* at = static_cast<const std::byte*>(from);
    const auto until = steady_clock::now() + kFarewell;
    while (bytes > 0) {
      const ssize_t sent = ::send(peer.socket.fd(), at, static_cast<std::size_t>(bytes),
                                  MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) {
        at += sent;
        bytes -= sent;
      } else if ((sent < 0 && !would_block()) ||
                 (data ? failure_.is_set() : steady_clock::now() > until)) {
        return false;
      } else {
        static_cast<void>(ready(peer.socket.fd(), POLLOUT));
      }
    }
    return true;
  }

  void send(Peer& peer, const Header& header, const std::byte* payload) {
    const bool data = header.kind == Kind::Data;
    bool sent = false;
    std::string why;
    {
      const std::lock_guard lock(peer.writing);
      if (peer.broken || (data && failure_.is_set())) return;
      sent = send_bytes(peer, &header, sizeof header, data) &&
             send_bytes(peer, payload, header.bytes, data);
      why = std::strerror(errno);
      peer.broken = !sent;
    }
    if (!sent && data && !failure_.is_set()) lost(peer, why);
  }

  void tell_all(const Header& header, const std::string& text) {
    for (auto& peer : peers_) {
      if (peer->socket.open()) send(*peer, header, std::as_bytes(std::span(text)).data());
    }
  }

  // ---------------------------------------------------------------- receiving

  void post(const Incoming& message, int tag, Posted& posted) {
    Peer& from = peer(message.from);
    posted.data = message.data;
    posted.bytes = message.bytes;
    const std::lock_guard lock(from.mutex);
    auto& waiting = from.arrived[tag];
    if (waiting.empty()) {
      from.posted[tag].push_back(&posted);
      return;
    }
    posted.done = true;
    if (check_size(from, tag, static_cast<std::int64_t>(waiting.front().size()), posted.bytes) &&
        posted.bytes > 0) {
      std::memcpy(posted.data, waiting.front().data(), waiting.front().size());
    }
    waiting.pop_front();
    if (waiting.empty()) from.arrived.erase(tag);
  }

  bool check_size(const Peer& from, int tag, std::int64_t sent, std::int64_t wanted) {
    if (sent == wanted) return true;
    failure_.set(Error{ErrorKind::Internal,
                       from.name + " sent " + std::to_string(sent) + " B with tag " +
                           std::to_string(tag) + ", not " + std::to_string(wanted),
                       std::nullopt});
    return false;
  }

  bool wait(Peer& from, int tag, Posted& posted) {
    std::unique_lock lock(from.mutex);
    from.changed.wait(lock, [&] { return posted.done || failure_.is_set(); });
    if (posted.done) return true;
    from.changed.wait(lock, [&] { return !posted.busy; });  // the reader stops after a failure
    auto& all = from.posted[tag];
    all.erase(std::remove(all.begin(), all.end(), &posted), all.end());
    return posted.done;
  }

  void wake_all() {
    for (auto& peer : peers_) {
      const std::lock_guard lock(peer->mutex);
      peer->changed.notify_all();
    }
  }

  /// Reads bytes; false if the connection has ended, and `why` then says the reason.
  bool read_bytes(Peer& peer, void* to, std::int64_t bytes, std::string& why) {
    auto* at = static_cast<std::byte*>(to);
    while (bytes > 0) {
      if (!ready(peer.socket.fd(), POLLIN)) continue;
      const auto block = static_cast<std::size_t>(std::min(bytes, kBlock));
      const ssize_t got = ::recv(peer.socket.fd(), at, block, MSG_DONTWAIT);
      if (!count(got, why)) return false;
      if (got < 0) continue;
      at += got;
      bytes -= got;
    }
    return true;
  }
  static bool count(ssize_t got, std::string& why) {
    if (got > 0 || (got < 0 && would_block())) return true;
    why = got == 0 ? "the connection was closed" : std::strerror(errno);
    return false;
  }

  void read(Peer& peer) {
    std::string why;
    for (Header header; read_bytes(peer, &header, sizeof header, why);) {
      if (header.kind == Kind::Data) {
        if (!read_data(peer, header, why)) break;
        continue;
      }
      if (header.kind == Kind::Bye) {
        const std::lock_guard lock(peer.mutex);
        peer.bye = true;
      } else if (header.kind == Kind::End) {
        end_code_ = header.tag;
        wake_all();
      } else {
        std::string text(static_cast<std::size_t>(header.bytes), '\0');
        if (!read_bytes(peer, text.data(), header.bytes, why)) break;
        hear(peer, text);
      }
    }
    bool expected = closing_;
    {
      const std::lock_guard lock(peer.mutex);
      peer.gone = true;
      expected |= peer.bye;
      peer.changed.notify_all();
    }
    if (!expected) lost(peer, why);
  }

  void hear(const Peer& peer, const std::string& text) {
    if (told_.test_and_set()) return;
    failure_.set(Error{static_cast<ErrorKind>(text[0]),
                       peer.name.substr(0, peer.name.find(" (")) + ": " + text.substr(1),
                       std::nullopt});
    wake_all();
  }

  /// Reads a message into the buffer of the receive that waits for it, or else into one of its own.
  bool read_data(Peer& peer, const Header& header, std::string& why) {
    std::unique_lock lock(peer.mutex);
    auto& waiting = peer.posted[header.tag];
    if (!waiting.empty() && !failure_.is_set()) {
      Posted& posted = *waiting.front();
      waiting.pop_front();
      if (waiting.empty()) peer.posted.erase(header.tag);
      posted.busy = true;
      lock.unlock();
      if (!check_size(peer, header.tag, header.bytes, posted.bytes)) wake_all();
      return read_posted(peer, header.bytes, posted, why);
    }
    lock.unlock();
    std::vector<std::byte> bytes(static_cast<std::size_t>(header.bytes));
    if (!read_bytes(peer, bytes.data(), header.bytes, why)) return false;
    lock.lock();
    // A receive may have been posted meanwhile.
    auto& come = peer.posted[header.tag];
    if (come.empty() || failure_.is_set()) {
      peer.arrived[header.tag].push_back(std::move(bytes));
      return true;
    }
    Posted& posted = *come.front();
    come.pop_front();
    if (check_size(peer, header.tag, header.bytes, posted.bytes) && header.bytes > 0) {
      std::memcpy(posted.data, bytes.data(), bytes.size());
    }
    posted.done = true;
    peer.changed.notify_all();
    return true;
  }

  /// Reads a message into the buffer of `posted`. Once the run has failed, nothing more is written
  /// there, and the rest of the message is dropped.
  bool read_posted(Peer& peer, std::int64_t bytes, Posted& posted, std::string& why) {
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
    }
    {
      const std::lock_guard lock(peer.mutex);
      posted.done = at == bytes && !failure_.is_set();
      posted.busy = false;
      peer.changed.notify_all();
    }
    std::vector<std::byte> rest(static_cast<std::size_t>(std::min(bytes - at, kBlock)));
    while (well && at < bytes) {
      const auto block = std::min(bytes - at, static_cast<std::int64_t>(rest.size()));
      well = read_bytes(peer, rest.data(), block, why);
      at += block;
    }
    return well;
  }

  int index_ = 0;
  std::vector<std::unique_ptr<Peer>> peers_;  // by index; this process's own is not connected
  SimTime zero_{};                            // raw_clock() of this process when now() is 0
  SimTime clock_uncertainty_{};
  FirstError failure_;
  std::atomic_flag told_;  // this process has failed, or heard of another's failure
  std::atomic<bool> closing_ = false;
  std::atomic<int> end_code_ = -1;
};

}  // namespace

Result<std::unique_ptr<Process>> join_tcp(const TcpLaunch& launch) {
  auto sockets = tcp::meet(launch);
  if (!sockets) return sockets.error();
  auto process = std::make_unique<TcpProcess>(launch, std::move(*sockets));
  // If another process has failed already, this one still counts as joined: the run then ends by
  // end_all(), with one exit code for all.
  const Result<void> set = process->set_clock();
  if (!set && !process->failure().is_set()) return set.error();
  return std::unique_ptr<Process>(std::move(process));
}

}  // namespace lockstep
