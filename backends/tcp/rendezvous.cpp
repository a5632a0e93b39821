#include "backends/tcp/rendezvous.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "backends/tcp/greeter.hpp"
#include "backends/tcp/wire.hpp"
#include "core/base/hash.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep::tcp {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kForLeader{5};  // for which the others wait longer than process 0
constexpr std::chrono::milliseconds kCancelLook{500};  // between two looks whether to go on
constexpr std::chrono::milliseconds kAgain{100};       // between two attempts to say hello
constexpr std::uint32_t kLongestRefusal = 4096;

/// Where a process listens, as an IPv6 address; an IPv4 address is written ::ffff:a.b.c.d.
struct Place {
  std::array<std::uint8_t, 16> address{};
  std::uint32_t port = 0;
};

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <class T>
std::span<std::byte> writable(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

/// Whether the other side has closed a connection. What it has sent before is not touched.
bool is_closed(const Socket& socket) {
  char next = 0;
  const ssize_t got = ::recv(socket.fd(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

Place place_of(const Address& address, std::uint32_t port) {
  Place place;
  place.port = port;
  if (address.bytes.ss_family == AF_INET6) {
    std::memcpy(place.address.data(),
                &reinterpret_cast<const sockaddr_in6&>(address.bytes).sin6_addr, 16);
  } else {
    place.address[10] = place.address[11] = 0xff;
    std::memcpy(place.address.data() + 12,
                &reinterpret_cast<const sockaddr_in&>(address.bytes).sin_addr, 4);
  }
  return place;
}

Address address_of(const Place& place) {
  static constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255};
  Address address;
  if (std::equal(kMapped.begin(), kMapped.end(), place.address.begin())) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(address.bytes);
    v4.sin_family = AF_INET;
    std::memcpy(&v4.sin_addr, place.address.data() + 12, 4);
    address.length = sizeof v4;
  } else {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(address.bytes);
    v6.sin6_family = AF_INET6;
    std::memcpy(&v6.sin6_addr, place.address.data(), 16);
    address.length = sizeof v6;
  }
  address.set_port(static_cast<std::uint16_t>(place.port));
  return address;
}

class Meeting {
 public:
  explicit Meeting(const TcpLaunch& launch)
      : launch_(launch),
        deadline_(steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(
                                            std::chrono::duration<double>(launch.seconds))),
        sockets_(launch.world_size),
        places_(sockets_.size()) {}

  Result<std::vector<Socket>> run() {
    const bool leads = launch_.rank == 0;
    if (launch_.listener >= 0) {
      listener_ = Socket(launch_.listener);
    } else {
      const bool local = launch_.bind.empty() && is_loopback(launch_.address);
      auto listener = listen_at(leads ? launch_.port : 0, local ? launch_.address : launch_.bind);
      if (!listener) return listener.error();
      listener_ = std::move(*listener);
    }
    if (leads) {
      if (auto all = accept_all(); !all) return all.error();
      if (auto told = tell_places(); !told) return told.error();
      return std::move(sockets_);
    }
    if (auto led = join_leader(); !led) return led.error();
    for (int rank = 1; rank < launch_.rank; ++rank) {
      auto socket = greet([&] { return connect_to(address_of(places_[rank]), deadline_); });
      if (!socket) return apart(rank, socket.error());
      sockets_[rank] = std::move(*socket);
    }
    if (auto all = accept_all(); !all) return all.error();
    return std::move(sockets_);
  }

 private:
  Error apart(int rank, const Error& why) const {
    return {why.kind,
            "process " + std::to_string(launch_.rank) + " does not reach process " +
                std::to_string(rank) + ": " + why.message,
            std::nullopt};
  }

  /// Error Device if this process is to stop, or if one of those that have come has gone: then the
  /// others will not all come.
  Result<void> may_go_on() const {
    const std::string waited =
        "while process " + std::to_string(launch_.rank) + " waited for the others";
    const auto gone = std::find_if(sockets_.begin(), sockets_.end(), [](const Socket& socket) {
      return socket.open() && is_closed(socket);
    });
    // This is asked last, because whoever has gone may have been stopped together with this
    // process.
    if (launch_.cancel != nullptr && *launch_.cancel) return device("stopped " + waited);
    if (gone == sockets_.end()) return {};
    return device("process " + std::to_string(gone - sockets_.begin()) + " has gone " + waited);
  }

  /// Waits until another process does something, or the time is up.
  Result<void> wait_at(const Socket& socket) const {
    Result<void> waits = may_go_on();
    while (waits && !socket.readable(std::min(deadline_, steady_clock::now() + kCancelLook)) &&
           steady_clock::now() < deadline_) {
      waits = may_go_on();
    }
    return waits;
  }

  /// Connects to process 0, which may not listen yet.
  Result<Socket> reach_leader() const {
    for (;;) {
      auto socket = connect_to(launch_.address, launch_.port,
                               std::min(deadline_, steady_clock::now() + kCancelLook));
      const bool again = !socket && socket.error().kind == ErrorKind::Device;
      if (!again || steady_clock::now() >= deadline_) return socket;
      if (auto waits = may_go_on(); !waits) return waits.error();
    }
  }

  /// Accepts a connection from every process above this one, in whatever order they come.
  Result<void> accept_all() {
    Greeter greeter(listener_, launch_.secret);
    for (int missing = launch_.world_size - 1 - launch_.rank; missing > 0;) {
      if (auto waits = may_go_on(); !waits) return waits;
      if (steady_clock::now() >= deadline_) return too_few();
      auto guests = greeter.next(std::min(deadline_, steady_clock::now() + kCancelLook));
      if (!guests) return guests.error();
      for (Guest& guest : *guests) missing -= let_in(guest) ? 1 : 0;
    }
    return {};
  }

  /// Tells a process that knows the secret that it is welcome, or why it is not.
  bool let_in(Guest& guest) {
    const Hello& hello = guest.hello;
    std::string refusal =
        refusal_of(hello, fnv1a(launch_.run), launch_.world_size, launch_.rank + 1);
    if (refusal.empty() && sockets_[hello.rank].open()) {
      refusal = "there is a process with RANK=" + std::to_string(hello.rank) + " already";
    }
    const Deadline now = steady_clock::now();  // there is room in a new connection
    const auto length = static_cast<std::uint32_t>(refusal.size());
    if (!guest.socket.send(bytes_of(length), now)) return false;
    if (!refusal.empty()) {
      refused_ = "; one from " + guest.socket.peer().text() + " was refused: " + refusal;
      static_cast<void>(guest.socket.send(std::as_bytes(std::span(refusal)), now));
      return false;
    }
    places_[hello.rank] = place_of(guest.socket.peer(), hello.port);
    sockets_[hello.rank] = std::move(guest.socket);
    return true;
  }

  Error too_few() const {
    std::string names;
    for (int rank = launch_.rank + 1; rank < launch_.world_size; ++rank) {
      if (!sockets_[rank].open()) {
        names += (names.empty() ? "" : ", ") + std::to_string(rank);
      }
    }
    return device("of " + std::to_string(launch_.world_size) +
                  " processes these have not come to process " + std::to_string(launch_.rank) +
                  " in " + std::to_string(static_cast<int>(launch_.seconds)) + " s: " + names +
                  refused_);
  }

  Result<void> say_hello(Socket& socket) const {
    Hello hello;
    hello.world_size = launch_.world_size;
    hello.rank = launch_.rank;
    hello.port = listener_.local().port();
    hello.run = fnv1a(launch_.run);
    hello.nonce = random_nonce();
    if (auto sent = socket.send(bytes_of(hello), deadline_); !sent) return sent;
    Challenge challenge;
    if (auto got = socket.receive(writable(challenge), deadline_); !got) return got;
    if (!same(challenge.proof, proof_of(launch_.secret, "listener", hello, challenge.nonce))) {
      return Error{ErrorKind::InvalidSpec,
                   "what listens there does not know the secret of this job (LOCKSTEP_SECRET, or "
                   "the file LOCKSTEP_SECRET_FILE, must be the same for all processes)",
                   std::nullopt};
    }
    const Digest proof = proof_of(launch_.secret, "joiner", hello, challenge.nonce);
    if (auto sent = socket.send(bytes_of(proof), deadline_); !sent) return sent;
    std::uint32_t length = 0;
    if (auto got = socket.receive(writable(length), deadline_); !got) return got;
    if (length == 0) return {};
    if (length > kLongestRefusal) return device("what listens there is not this program");
    std::string refusal(length, '\0');
    if (auto got = socket.receive(std::as_writable_bytes(std::span(refusal)), deadline_); !got) {
      return got;
    }
    return Error{ErrorKind::InvalidSpec, "it refuses this one: " + refusal, std::nullopt};
  }

  /// Connects and says hello. A connection that ends before there is an answer is made again: who
  /// listens may have had to make room for others that connect.
  template <class Connect>
  Result<Socket> greet(const Connect& connect) const {
    for (;;) {
      Result<Socket> socket = connect();
      if (!socket) return socket;
      const Result<void> welcome = say_hello(*socket);
      if (welcome) return socket;
      if (welcome.error().kind != ErrorKind::Device || steady_clock::now() >= deadline_) {
        return welcome.error();
      }
      if (auto waits = may_go_on(); !waits) return waits.error();
      std::this_thread::sleep_for(kAgain);
    }
  }

  Result<void> join_leader() {
    auto socket = greet([&] { return reach_leader(); });
    if (!socket) return apart(0, socket.error());
    const auto bytes = std::as_writable_bytes(std::span(places_));
    if (auto waits = wait_at(*socket); !waits) return waits;
    // This process waits a little longer than the leader, which then can still say who is missing.
    if (auto got = socket->receive(bytes, deadline_ + kForLeader); !got) {
      return apart(0, got.error());
    }
    // A process that reached the leader by a loopback address is on the leader's machine.
    for (Place& place : places_) {
      if (place.port > 65535) return device("process 0 sent addresses that cannot be");
      if (address_of(place).is_loopback()) place.address = place_of(socket->peer(), 0).address;
    }
    sockets_[0] = std::move(*socket);
    return {};
  }

  Result<void> tell_places() {
    for (int rank = 1; rank < launch_.world_size; ++rank) {
      auto told = sockets_[rank].send(std::as_bytes(std::span(places_)), deadline_);
      if (!told) return apart(rank, told.error());
    }
    return {};
  }

  const TcpLaunch& launch_;
  const Deadline deadline_;
  Socket listener_;
  std::vector<Socket> sockets_;
  std::vector<Place> places_;
  std::string refused_;  // who came last and does not belong here, and why
};

}  // namespace

Result<std::vector<Socket>> meet(const TcpLaunch& launch) { return Meeting(launch).run(); }

}  // namespace lockstep::tcp
