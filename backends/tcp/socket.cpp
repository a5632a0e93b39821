#include "backends/tcp/socket.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kRetry{50};  // between attempts to connect
constexpr milliseconds kLongestAttempt{2000};

std::string reason() { return std::strerror(errno); }

/// Waits for `event` on `fd`; false if the deadline passes first.
bool wait_for(int fd, short event, Deadline deadline) {
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
    pollfd asked{fd, event, 0};
    const int found = ::poll(&asked, 1, std::max(0, static_cast<int>(left.count())));
    if (found > 0) return true;
    if (found == 0 || errno != EINTR) return false;
  }
}

void configure(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

const sockaddr* as_sockaddr(const Address& address) {
  return reinterpret_cast<const sockaddr*>(&address.bytes);
}

/// Tries once to connect; the result is not open if nobody listens there.
Socket try_connect(const Address& address, Deadline deadline) {
  Socket socket(::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.open()) return {};
  const int begun = ::connect(socket.fd(), as_sockaddr(address), address.length);
  if (begun != 0 && errno != EINPROGRESS) return {};
  if (!wait_for(socket.fd(), POLLOUT, std::min(deadline, steady_clock::now() + kLongestAttempt))) {
    errno = ETIMEDOUT;
    return {};
  }
  socklen_t length = sizeof errno;
  int status = 0;
  ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &status, &length);
  errno = status;
  if (status != 0) return {};
  configure(socket.fd());
  return socket;
}

/// What a name or number stands for; at least one. Error InvalidSpec.
Result<std::vector<Address>> addresses_of(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (status != 0) {
    return Error{ErrorKind::InvalidSpec, host + ": " + ::gai_strerror(status), std::nullopt};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, ::freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    if (at->ai_family != AF_INET && at->ai_family != AF_INET6) continue;
    Address address;
    std::memcpy(&address.bytes, at->ai_addr, at->ai_addrlen);
    address.length = at->ai_addrlen;
    addresses.push_back(address);
  }
  if (addresses.empty()) {
    return Error{ErrorKind::InvalidSpec, host + ": has no address", std::nullopt};
  }
  return addresses;
}

}  // namespace

Error device(const std::string& message) { return {ErrorKind::Device, message, std::nullopt}; }

std::uint16_t Address::port() const {
  return ntohs(bytes.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bytes).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(bytes).sin_port);
}

void Address::set_port(std::uint16_t port) {
  (bytes.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bytes).sin6_port
                               : reinterpret_cast<sockaddr_in&>(bytes).sin_port) = htons(port);
}

bool Address::is_loopback() const {
  if (bytes.ss_family == AF_INET) {
    return (ntohl(reinterpret_cast<const sockaddr_in&>(bytes).sin_addr.s_addr) >> 24) == 127;
  }
  const in6_addr& address = reinterpret_cast<const sockaddr_in6&>(bytes).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&address)) return address.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&address);
}

std::string Address::text() const {
  char name[INET6_ADDRSTRLEN] = "?";
  const void* const number =
      bytes.ss_family == AF_INET6
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6&>(bytes).sin6_addr)
          : &reinterpret_cast<const sockaddr_in&>(bytes).sin_addr;
  ::inet_ntop(bytes.ss_family, number, name, sizeof name);
  return std::string(name) + ":" + std::to_string(port());
}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = other.release();
  }
  return *this;
}

int Socket::release() { return std::exchange(fd_, -1); }

void Socket::close() {
  if (fd_ >= 0) ::close(release());
}

Address Socket::local() const {
  Address address;
  address.length = sizeof address.bytes;
  ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address.bytes), &address.length);
  return address;
}

Address Socket::peer() const {
  Address address;
  address.length = sizeof address.bytes;
  ::getpeername(fd_, reinterpret_cast<sockaddr*>(&address.bytes), &address.length);
  return address;
}

Result<void> Socket::send(std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
      return device("the connection is gone (" + reason() + ")");
    } else if (!wait_for(fd_, POLLOUT, deadline)) {
      return device("nothing can be sent in time");
    }
  }
  return {};
}

bool Socket::readable(Deadline deadline) const { return wait_for(fd_, POLLIN, deadline); }

Result<void> Socket::receive(std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    } else if (got == 0) {
      return device("the connection was closed");
    } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
      return device("the connection is gone (" + reason() + ")");
    } else if (!wait_for(fd_, POLLIN, deadline)) {
      return device("nothing has come in time");
    }
  }
  return {};
}

Result<Socket> listen_at(int port, const std::string& host) {
  const auto fail = [&] {
    return device("cannot listen at port " + std::to_string(port) +
                  (host.empty() ? "" : " of " + host) + ": " + reason());
  };
  Address at;
  Socket socket;
  if (!host.empty()) {
    auto found = addresses_of(host, port);
    if (!found) return found.error();
    at = found->front();
    socket = Socket(::socket(at.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket.open()) return fail();
  } else if (socket = Socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)); socket.open()) {
    // An IPv6 socket also accepts IPv4. Where IPv6 is switched off, an IPv4 socket is made.
    const int off = 0;
    ::setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    at.bytes.ss_family = AF_INET6;
    at.length = sizeof(sockaddr_in6);
  } else {
    socket = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket.open()) return fail();
    at.bytes.ss_family = AF_INET;
    at.length = sizeof(sockaddr_in);
  }
  const int on = 1;  // lets a port be taken whose last connections have not quite ended
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  at.set_port(static_cast<std::uint16_t>(port));
  if (::bind(socket.fd(), as_sockaddr(at), at.length) != 0) return fail();
  if (::listen(socket.fd(), SOMAXCONN) != 0) return fail();
  return socket;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

Result<Socket> accept_from(const Socket& listener, Deadline deadline) {
  while (wait_for(listener.fd(), POLLIN, deadline)) {
    Socket socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.open()) {
      configure(socket.fd());
      return socket;
    }
    if (errno != ECONNABORTED && errno != EINTR && errno != EAGAIN) {
      return device("accept: " + reason());
    }
  }
  return Socket();
}

Result<Socket> connect_to(const Address& address, Deadline deadline) {
  std::string why = "no attempt was made";
  do {
    Socket socket = try_connect(address, deadline);
    if (socket.open()) return socket;
    why = reason();
    std::this_thread::sleep_for(kRetry);
  } while (steady_clock::now() < deadline);
  return device(address.text() + ": " + why);
}

Result<Socket> connect_to(const std::string& host, int port, Deadline deadline) {
  const auto found = addresses_of(host, port);
  if (!found) return found.error();
  std::string why = "no address";
  do {
    for (const Address& address : *found) {
      Socket socket = try_connect(address, deadline);
      if (socket.open()) return socket;
      why = reason();
    }
    std::this_thread::sleep_for(kRetry);
  } while (steady_clock::now() < deadline);
  return device(host + ":" + std::to_string(port) + ": " + why);
}

}  // namespace lockstep::tcp
