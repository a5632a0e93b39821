// Socket: a TCP connection, or a listening port. Nothing here raises a signal, and nothing blocks
// for longer than its deadline.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/base/result.hpp"

namespace lockstep::tcp {

using Deadline = std::chrono::steady_clock::time_point;

/// An address with a port, in the form that system calls take.
struct Address {
  sockaddr_storage bytes{};
  socklen_t length = 0;
  std::uint16_t port() const;
  void set_port(std::uint16_t port);
  bool is_loopback() const;
  std::string text() const;  // "10.0.0.3:29500"
};

/// An error of kind Device.
Error device(const std::string& message);

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : fd_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  bool open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  void close();
  Address local() const;  // requires open()
  Address peer() const;   // requires a connection

  /// Send or receive all of `bytes`. Error Device if the deadline passes or the connection ends.
  Result<void> send(std::span<const std::byte> bytes, Deadline deadline);
  Result<void> receive(std::span<std::byte> bytes, Deadline deadline);
  /// Whether there is something to receive or to accept, or the connection has ended, before the
  /// deadline.
  bool readable(Deadline deadline) const;

 private:
  int release();
  int fd_ = -1;
};

/// A socket that listens at `port` on the address `host` of this machine, or on all of them if it
/// is empty; port 0 lets the system choose one. Errors: Device, naming the port; InvalidSpec for a
/// name that stands for no address.
Result<Socket> listen_at(int port, const std::string& host = "");
/// Whether `host` says "this machine" wherever it is read. The name of a machine does not, although
/// the machine itself may find a loopback address for it.
bool is_loopback(const std::string& host);
/// Accepts the next connection; the result is not open if the deadline passes first. Error Device.
Result<Socket> accept_from(const Socket& listener, Deadline deadline);
/// Connects, and tries again until somebody listens there. Errors: Device after the deadline,
/// naming the address; InvalidSpec for a name that stands for no address.
Result<Socket> connect_to(const std::string& host, int port, Deadline deadline);
Result<Socket> connect_to(const Address& address, Deadline deadline);

}  // namespace lockstep::tcp
