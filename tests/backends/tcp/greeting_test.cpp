// Tests that who connects is greeted by rules that no order of bytes can get around, and that
// nobody who connects keeps a job from starting.
#include "backends/tcp/greeting.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/backends/tcp/launch.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

using test::free_port;
using test::launch_of;
using test::soon;
using State = tcp::Greeting::State;

constexpr tcp::Nonce kQuestion{7, 7, 7};

std::vector<std::byte> bytes_of(const auto& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  return {bytes.begin(), bytes.end()};
}

tcp::Hello hello_of(int rank) {
  tcp::Hello hello;
  hello.rank = rank;
  hello.world_size = 4;
  return hello;
}

/// Gives `bytes` in pieces of `piece` bytes, never more than is wanted.
std::vector<std::byte> feed(tcp::Greeting& greeting, std::vector<std::byte> bytes,
                            std::size_t piece) {
  std::vector<std::byte> answers;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t n = std::min({piece, greeting.wanted(), bytes.size() - at});
    if (n == 0) break;
    const auto answer = greeting.take(std::span(bytes).subspan(at, n));
    answers.insert(answers.end(), answer.begin(), answer.end());
    at += n;
  }
  return answers;
}

}  // namespace

TEST_CASE("a greeting takes its bytes in any pieces, and lets in who knows the secret",
          "[backends][tcp]") {
  for (const std::size_t piece : {1u, 7u, 1000u}) {
    tcp::Greeting greeting("secret", kQuestion);
    const auto answer = feed(greeting, bytes_of(hello_of(2)), piece);
    REQUIRE(answer.size() == sizeof(tcp::Challenge));
    REQUIRE(greeting.state() == State::Asked);
    tcp::Challenge challenge;
    std::memcpy(&challenge, answer.data(), sizeof challenge);
    CHECK(tcp::same(challenge.proof,
                    tcp::proof_of("secret", "listener", hello_of(2), challenge.nonce)));
    feed(greeting, bytes_of(tcp::proof_of("secret", "joiner", hello_of(2), challenge.nonce)),
         piece);
    CHECK(greeting.state() == State::Proven);
    CHECK(greeting.hello().rank == 2);
    CHECK(greeting.wanted() == 0);
  }
}

TEST_CASE("a greeting lets nobody in who repeats, reflects or guesses a proof", "[backends][tcp]") {
  const tcp::Nonce other{1};
  for (const tcp::Digest& proof : {
           tcp::Digest{},
           tcp::proof_of("secret", "listener", hello_of(2), kQuestion),  // our own, sent back
           tcp::proof_of("secret", "joiner", hello_of(1), kQuestion),    // of another process
           tcp::proof_of("secret", "joiner", hello_of(2), other),        // of an earlier greeting
           tcp::proof_of("guess", "joiner", hello_of(2), kQuestion),
       }) {
    tcp::Greeting greeting("secret", kQuestion);
    feed(greeting, bytes_of(hello_of(2)), 1000);
    feed(greeting, bytes_of(proof), 1000);
    CHECK(greeting.state() == State::Stranger);
  }
}

TEST_CASE("a greeting knows another protocol by its first wrong byte", "[backends][tcp]") {
  tcp::Greeting greeting("", kQuestion);
  const std::string text = "GET / HTTP/1.1";
  CHECK(feed(greeting,
             {std::as_bytes(std::span(text)).begin(), std::as_bytes(std::span(text)).end()}, 1)
            .empty());
  CHECK(greeting.state() == State::Stranger);
}

TEST_CASE("silent strangers do not keep a job from starting", "[backends][tcp]") {
  const int port = free_port();
  const bool has_secret = GENERATE(true, false);
  std::atomic<bool> joined = false;
  std::vector<std::string> errors(2);
  const auto begin = std::chrono::steady_clock::now();
  const auto join = [&](int rank) {
    TcpLaunch launch = launch_of(rank, 2, port);
    if (has_secret) launch.secret = "of this job";
    const auto process = join_tcp(launch);
    const auto left = process ? (*process)->finish() : process.error();
    if (!left) errors[static_cast<std::size_t>(rank)] = left.error().message;
  };
  std::thread leader(join, 0);
  std::vector<tcp::Socket> strangers;  // more than are kept, some of which begin as we do
  for (int i = 0; i < 400; ++i) {
    auto stranger = tcp::connect_to("127.0.0.1", port, soon());
    if (!stranger) break;
    if (i % 3 == 0) {
      static_cast<void>(stranger->send(std::as_bytes(std::span("lockstep", 8)), soon()));
    }
    if (has_secret && i % 3 == 1) {
      static_cast<void>(stranger->send(bytes_of(hello_of(1)), soon()));
    }
    strangers.push_back(std::move(*stranger));
  }
  CHECK(strangers.size() == 400);
  join(1);
  leader.join();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  CHECK(errors == std::vector<std::string>(2));
  CHECK(time.count() < 15);  // it was 5 s for each of them
}

TEST_CASE("a job without a secret is open to anyone beyond loopback, and only there",
          "[backends][tcp]") {
  struct Case {
    const char *address, *bind, *secret;
    bool open;
  };
  for (const Case& c : std::vector<Case>{{"127.0.0.1", "", "", false},
                                         {"localhost", "", "", false},
                                         {"10.0.0.3", "", "", true},
                                         {"node0", "", "", true},
                                         {"10.0.0.3", "", "secret", false},
                                         {"10.0.0.3", "127.0.0.1", "", false},
                                         {"127.0.0.1", "10.0.0.3", "", true},
                                         {"127.0.0.1", "0.0.0.0", "", true}}) {
    TcpLaunch launch;
    launch.address = c.address;
    launch.bind = c.bind;
    launch.secret = c.secret;
    INFO(c.address << " " << c.bind << " " << c.secret);
    CHECK(is_open_to_anyone(launch) == c.open);
  }
}

}  // namespace lockstep
