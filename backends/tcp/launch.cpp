#include "backends/tcp/launch.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>

#include "backends/tcp/socket.hpp"
#include "core/base/read_file.hpp"
#include "core/base/result.hpp"
#include "core/run/watch.hpp"

namespace lockstep {
namespace {

constexpr int kHighestPort = 65535;
constexpr int kMostProcesses = 1 << 14;  // each has a connection to, and a thread for, every other

/// The value of an environment variable, which must be a number in [least, most].
Result<int> number(const char* name, int least, int most) {
  const char* text = std::getenv(name);
  if (text == nullptr) {
    return invalid(std::string(name) +
                   " is not set, but WORLD_SIZE and RANK are: a launcher sets RANK, WORLD_SIZE, "
                   "MASTER_ADDR and MASTER_PORT");
  }
  int value = 0;
  const char* const end = text + std::strlen(text);
  const auto read = std::from_chars(text, end, value);
  if (read.ec != std::errc() || read.ptr != end || value < least || value > most) {
    return invalid(std::string(name) + "=" + text + " is not a number of " + std::to_string(least) +
                   " to " + std::to_string(most));
  }
  return value;
}

bool is_true(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && std::strcmp(text, "True") == 0;
}

std::string text_of(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? text : "";
}

/// The secret of the job, without white space at its end.
Result<std::string> find_secret() {
  std::string secret = text_of("LOCKSTEP_SECRET");
  const std::string path = text_of("LOCKSTEP_SECRET_FILE");
  if (secret.empty() && !path.empty()) {
    std::ifstream file = open_file(path);
    constexpr std::size_t kMost = 4096;
    secret.resize(kMost);
    file.read(secret.data(), kMost);
    secret.resize(static_cast<std::size_t>(file.gcount()));
    secret.erase(secret.find_last_not_of(" \t\r\n") + 1);
    if (secret.empty()) return invalid("LOCKSTEP_SECRET_FILE=" + path + " holds no secret");
  }
  return secret;
}

}  // namespace

bool is_open_to_anyone(const TcpLaunch& launch) {
  const std::string& listens = launch.bind.empty() ? launch.address : launch.bind;
  return launch.secret.empty() && !tcp::is_loopback(listens);
}

Result<std::optional<TcpLaunch>> find_tcp_launch() {
  if (std::getenv("RANK") == nullptr || std::getenv("WORLD_SIZE") == nullptr) {
    return std::optional<TcpLaunch>();
  }
  const auto size = number("WORLD_SIZE", 1, kMostProcesses);
  if (!size) return size.error();
  if (*size == 1) return std::optional<TcpLaunch>();
  TcpLaunch launch;
  launch.world_size = *size;
  const auto rank = number("RANK", 0, *size - 1);
  if (!rank) return rank.error();
  launch.rank = *rank;
  const bool chosen = std::getenv("LOCKSTEP_PORT") != nullptr;
  const auto port = number(chosen ? "LOCKSTEP_PORT" : "MASTER_PORT", 1, kHighestPort);
  if (!port) return port.error();
  const bool taken = !chosen && is_true("TORCHELASTIC_USE_AGENT_STORE");
  launch.port = taken ? (*port == kHighestPort ? *port - 1 : *port + 1) : *port;
  launch.address = text_of("MASTER_ADDR");
  if (launch.address.empty()) {
    return invalid(
        "MASTER_ADDR is not set, but WORLD_SIZE and RANK are: it names the machine of "
        "process 0");
  }
  if (std::getenv("LOCKSTEP_JOIN_SECONDS") != nullptr) {
    const auto seconds = number("LOCKSTEP_JOIN_SECONDS", 1, std::numeric_limits<int>::max());
    if (!seconds) return seconds.error();
    launch.seconds = *seconds;
  }
  const auto timeout = watch_timeout();
  if (!timeout) return timeout.error();
  launch.timeout = *timeout;
  if (std::getenv("LOCKSTEP_LISTENER") != nullptr && launch.rank == 0) {
    const auto descriptor = number("LOCKSTEP_LISTENER", 3, 1'000'000);
    if (!descriptor) return descriptor.error();
    launch.listener = *descriptor;
  }
  const auto secret = find_secret();
  if (!secret) return secret.error();
  launch.secret = *secret;
  launch.bind = text_of("LOCKSTEP_BIND");
  launch.run = text_of("TORCHELASTIC_RUN_ID") + "/" + text_of("TORCHELASTIC_RESTART_COUNT");
  return std::optional(launch);
}

}  // namespace lockstep
