// libFuzzer target: the protocol's state machines, on any bytes in any pieces. The first byte
// chooses: a connection that greets, or two processes that have joined and send what they like to
// a third, which receives. Whatever comes, it ends with a message or with what was sent, and no
// process is told to end as if all had gone well.
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "backends/tcp/greeting.hpp"
#include "backends/tcp/tcp_peers.hpp"

namespace {

using namespace lockstep;

void require(bool good, const std::string& rule) {
  if (good) return;
  std::cerr << rule << "\n";
  std::abort();
}

/// Takes the next piece of the input: its first byte says how long it is.
std::span<const std::byte> piece(std::span<const std::byte>& bytes) {
  if (bytes.empty()) return {};
  const std::size_t wanted = 1 + std::to_integer<std::size_t>(bytes.front());
  bytes = bytes.subspan(1);
  const auto taken = bytes.first(std::min(wanted, bytes.size()));
  bytes = bytes.subspan(taken.size());
  return taken;
}

void greet(std::span<const std::byte> bytes) {
  const tcp::Nonce nonce{1, 2, 3};
  tcp::Greeting greeting("secret", nonce);
  std::vector<std::byte> all;
  while (!bytes.empty() && greeting.wanted() > 0) {
    auto next = piece(bytes);
    next = next.first(std::min(next.size(), greeting.wanted()));
    const auto before = greeting.state();
    const auto answer = greeting.take(next);
    all.insert(all.end(), next.begin(), next.end());
    require(answer.empty() || before == tcp::Greeting::State::Silent, "a second challenge");
  }
  if (greeting.state() != tcp::Greeting::State::Proven) return;
  tcp::Digest proof{};
  require(all.size() == sizeof(tcp::Hello) + proof.size(), "it is proven by other bytes");
  std::memcpy(proof.data(), all.data() + sizeof(tcp::Hello), proof.size());
  require(tcp::same(proof, tcp::proof_of("secret", "joiner", greeting.hello(), nonce)),
          "who does not know the secret was let in");
}

void join(int index, std::span<const std::byte> bytes) {
  constexpr int kSize = 3;
  constexpr int kTag = 5;
  TcpLaunch launch;
  launch.rank = index;
  launch.world_size = kSize;
  launch.timeout = 0;
  std::vector<tcp::Socket> own(kSize), others(kSize);
  for (int peer = 0; peer < kSize; ++peer) {
    if (peer == index) continue;
    int ends[2];
    require(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "no sockets");
    own[static_cast<std::size_t>(peer)] = tcp::Socket(ends[0]);
    others[static_cast<std::size_t>(peer)] = tcp::Socket(ends[1]);
  }
  tcp::TcpProcess process(launch, std::move(own));
  const int first = (index + 1) % kSize, second = (index + 2) % kSize;
  std::vector<std::byte> wanted(8);
  bool got = false;
  std::thread receives([&] {
    const Incoming in{first, wanted.data(), 8};
    got = process.exchange(kTag, {}, {&in, 1}, Patience::Sleep);
  });
  for (bool odd = false; !bytes.empty(); odd = !odd) {
    const auto next = piece(bytes);
    tcp::Socket& to = others[static_cast<std::size_t>(odd ? second : first)];
    static_cast<void>(to.send(next, tcp::Deadline::max()));
  }
  for (tcp::Socket& socket : others) {
    if (socket.open()) ::shutdown(socket.fd(), SHUT_RDWR);
  }
  receives.join();
  require(got || process.failure().is_set(), "a receive ended without its bytes or a failure");
  if (const auto failed = process.failure().result(); !failed) {
    require(!failed.error().message.empty(), "an error without a message");
  }
  require(process.end_code() != 0, "a process was told to end as if all had gone well");
  require(index != 0 || process.end_code() < 0, "the leader was told to end");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  if (data[0] % 4 == 3) {
    greet(bytes);
  } else {
    join(data[0] % 4, bytes);
  }
  return 0;
}
