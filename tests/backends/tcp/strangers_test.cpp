// Tests that nothing another process sends, or does not send, does more than end a run with a
// message.
#include <malloc.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "backends/tcp/hmac.hpp"
#include "backends/tcp/rendezvous.hpp"
#include "backends/tcp/wire.hpp"
#include "tests/backends/tcp/launch.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

using tcp::Header;
using tcp::Kind;
using test::free_port;
using test::launch_of;
using test::soon;

/// What processes 0 … size - 2 say of a last one that has joined and then does `act` with its
/// connections.
std::vector<std::string> said_of(int size, double timeout,
                                 const std::function<void(std::vector<tcp::Socket>&)>& act) {
  const int port = free_port();
  std::vector<std::string> said(static_cast<std::size_t>(size) - 1);
  std::vector<std::thread> threads;
  std::atomic<int> left = 0;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const TcpLaunch launch = launch_of(rank, size, port, timeout);
      if (rank == size - 1) {
        auto sockets = tcp::meet(launch);
        if (sockets) act(*sockets);
        while (left < size - 1) std::this_thread::yield();
        return;
      }
      const auto process = join_tcp(launch);
      if (process) {
        std::vector<std::byte> wanted(8);
        const Incoming in{size - 1, wanted.data(), 8};
        static_cast<void>((*process)->exchange(5, {}, {&in, 1}, Patience::Sleep));
        if (const auto failed = (*process)->failure().result(); !failed) {
          said[static_cast<std::size_t>(rank)] = failed.error().message;
        }
      }
      ++left;
      while (left < size - 1) std::this_thread::yield();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return said;
}

std::span<const std::byte> bytes_of(const Header& header) {
  return std::as_bytes(std::span(&header, 1));
}

std::string hex(const tcp::Digest& digest) {
  std::string text;
  for (const std::uint8_t byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

}  // namespace

TEST_CASE("the keyed hash is that of RFC 4231", "[backends][tcp]") {
  const auto text = [](std::string_view t) { return std::as_bytes(std::span(t)); };
  CHECK(hex(tcp::hmac("", text(""))) ==
        "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
  CHECK(hex(tcp::hmac("Jefe", text("what do ya want for nothing?"))) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hex(tcp::hmac(std::string(131, '\xaa'),
                      text("Test Using Larger Than Block-Size Key - Hash Key First"))) ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_CASE("a process that falls silent is named by all others within the timeout",
          "[backends][tcp]") {
  const auto begin = std::chrono::steady_clock::now();
  const auto said = said_of(4, 2, [](std::vector<tcp::Socket>&) {});
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  for (const std::string& text : said) {
    CHECK_THAT(text, ContainsSubstring("process 3") &&
                         ContainsSubstring("is silent: nothing has come from it for 1."));
  }
  CHECK(time.count() < 60);
}

TEST_CASE("processes that only compute for long are not taken for dead", "[backends][tcp]") {
  const int port = free_port();
  std::atomic<int> well = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto process = join_tcp(launch_of(rank, 2, port, 2));
      if (!process) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(rank == 1 ? 4000 : 0));
      well += all_gather(**process, {}).ok() && (*process)->finish().ok();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(well == 2);
}

TEST_CASE("an op that hangs ends the run and names its process", "[backends][tcp]") {
  const int port = free_port();
  std::vector<std::string> said(2);
  std::vector<std::thread> threads;
  std::atomic<int> left = 0;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto process = join_tcp(launch_of(rank, 2, port, 1.5));
      if (!process) return;
      if (rank == 1) {  // an op has begun there and never ends
        (*process)->activity->flight.begin(1, OpId{3}, 0, {});
        while (!(*process)->failure().is_set()) {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
      } else {
        static_cast<void>(all_gather(**process, {}));
      }
      const auto failed = (*process)->failure().result();
      said[static_cast<std::size_t>(rank)] = failed ? "" : failed.error().message;
      ++left;
      while (left < 2) std::this_thread::yield();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : said) {
    CHECK_THAT(text,
               ContainsSubstring("no process has ended an op for 1.2 s, and none computes; in "
                                 "an op hang the processes 1"));
  }
}

TEST_CASE("what a joined process sends is checked before it is used", "[backends][tcp]") {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const auto& [header, message] : std::vector<std::pair<Header, std::string>>{
           {{static_cast<Kind>(17), 0, 0}, "a message of the unknown kind 17"},
           {{static_cast<Kind>(-1), 0, 0}, "a message of the unknown kind -1"},
           {{Kind::Data, 0, -5}, "a message of -5 bytes"},
           {{Kind::Data, 0, most}, "bytes, which cannot be"},
           {{Kind::Data, -7, 8}, "the number -7"},
           {{Kind::Failure, 0, 0}, "a message of 0 bytes"},
           {{Kind::Failure, 0, 1 << 20}, "bytes, which cannot be"},
           {{Kind::Beat, 0, 3}, "a message of 3 bytes"},
           {{Kind::End, 4000, 0}, "the number 4000"},
           {{Kind::End, 0, 0}, "the number 0"},  // a success that nobody has had
           {{Kind::End, 3, 0}, "which only process 0 may"},
           {{Kind::Data, 9, 65 << 20}, "more than this run can mean"},
           {{Kind::Bye, 0, 1}, "a message of 1 bytes"}}) {
    INFO(message);
    const auto said = said_of(2, 10, [&h = header](std::vector<tcp::Socket>& sockets) {
      static_cast<void>(sockets[0].send(bytes_of(h), soon()));
    });
    CHECK_THAT(said[0], ContainsSubstring(message));
  }
}

TEST_CASE("messages that nobody waits for are bounded, however small they are", "[backends][tcp]") {
  const std::size_t before = ::mallinfo2().uordblks;
  const auto said = said_of(2, 10, [](std::vector<tcp::Socket>& sockets) {
    for (std::int32_t tag = 6; tag < 200'000; ++tag) {
      if (!sockets[0].send(bytes_of(Header{Kind::Data, tag, 0}), soon())) return;
    }
  });
  CHECK_THAT(said[0], ContainsSubstring("for which nobody waits, more than this run can mean"));
  CHECK(::mallinfo2().uordblks < before + (200 << 20));
}

TEST_CASE("a gather refuses an announced size that the run cannot mean", "[backends][tcp]") {
  const int port = free_port();
  std::string said;
  std::thread hostile([&] {
    auto sockets = tcp::meet(launch_of(1, 2, port));
    if (!sockets) return;
    const std::int64_t announced = std::int64_t{1} << 39;
    // The clock is set first: 16 questions, and what process 1 knows of its clock.
    for (int i = 0; i < 16; ++i) {
      const std::byte question{};
      std::int64_t now = 0;
      Header header{Kind::Data, 0, 1};
      static_cast<void>((*sockets)[0].send(bytes_of(header), soon()));
      static_cast<void>((*sockets)[0].send({&question, 1}, soon()));
      for (bool data = false; !data;) {
        if (!(*sockets)[0].receive(std::as_writable_bytes(std::span(&header, 1)), soon())) return;
        data = header.kind == Kind::Data;
        std::vector<std::byte> bytes(static_cast<std::size_t>(header.bytes));
        if (!(*sockets)[0].receive(bytes, soon())) return;
        if (data) std::memcpy(&now, bytes.data(), sizeof now);
      }
    }
    static_cast<void>((*sockets)[0].send(bytes_of(Header{Kind::Data, 0, 8}), soon()));
    static_cast<void>((*sockets)[0].send(std::as_bytes(std::span(&announced, 1)), soon()));
    std::byte more{};
    while ((*sockets)[0].receive({&more, 1}, soon())) {  // until the other side has had enough
    }
  });
  {
    const auto process = join_tcp(launch_of(0, 2, port, 5));
    if (process) {
      const auto failed = (*process)->failure().result();
      said = failed ? "" : failed.error().message;
    } else {
      said = process.error().message;
    }
  }  // closes the connection, for whose end the other waits
  hostile.join();
  CHECK_THAT(said, ContainsSubstring("announces 549755813888 bytes, more than this run can mean"));
}

TEST_CASE("a text from another process does not reach the terminal as it is", "[backends][tcp]") {
  const auto said = said_of(2, 10, [](std::vector<tcp::Socket>& sockets) {
    std::string text = "\xee\x1b[2J\x07 gone";
    const Header header{Kind::Failure, 0, static_cast<std::int64_t>(text.size())};
    static_cast<void>(sockets[0].send(bytes_of(header), soon()));
    static_cast<void>(sockets[0].send(std::as_bytes(std::span(text)), soon()));
  });
  CHECK(said[0] == "process 1: ?[2J? gone");
}

TEST_CASE("who waits for a process that says goodbye is told", "[backends][tcp]") {
  const bool closes = GENERATE(true, false);
  const auto said = said_of(2, 10, [&](std::vector<tcp::Socket>& sockets) {
    static_cast<void>(sockets[0].send(bytes_of(Header{Kind::Bye, 0, 0}), soon()));
    if (closes) sockets[0].close();
  });
  CHECK_THAT(said[0], ContainsSubstring("process 1") &&
                          ContainsSubstring("it has left, and something was still to come"));
}

TEST_CASE("random bytes from a joined process end the run with a message", "[backends][tcp]") {
  const unsigned seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 12; ++round) {
    std::vector<std::byte> bytes(random() % 400 + sizeof(Header));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    if (round % 2 == 0) {  // a good header before it
      const Header header{static_cast<Kind>(random() % 5), static_cast<std::int32_t>(random() % 9),
                          static_cast<std::int64_t>(random() % 64)};
      std::memcpy(bytes.data(), &header, sizeof header);
    }
    const auto said = said_of(2, 1, [&](std::vector<tcp::Socket>& sockets) {
      static_cast<void>(sockets[0].send(bytes, soon()));
      sockets[0].close();
    });
    CHECK_FALSE(said[0].empty());
  }
}

TEST_CASE("who does not know the secret of the job is not let in", "[backends][tcp]") {
  const int port = free_port();
  std::vector<TcpLaunch> launches(3, launch_of(0, 2, port, 10));
  for (TcpLaunch& launch : launches) launch.secret = "of this job";
  launches[1].rank = launches[2].rank = 1;
  launches[1].secret = "of another";
  std::vector<std::string> errors(3);
  const auto join = [&](std::size_t i) {
    const auto process = join_tcp(launches[i]);
    const auto left = process ? (*process)->finish() : process.error();
    if (!left) errors[i] = left.error().message;
  };
  std::thread leader(join, 0);
  join(1);  // is refused, and the place stays free for
  join(2);
  leader.join();
  CHECK(errors[0].empty());
  CHECK_THAT(errors[1], ContainsSubstring("does not know the secret of this job"));
  CHECK(errors[2].empty());

  // A stranger who shows no proof, or that of somebody else's greeting, is dropped.
  tcp::Hello hello;
  hello.world_size = 2;
  hello.rank = 1;
  const tcp::Nonce one{1}, other{2};
  const auto proof = tcp::proof_of("secret", "joiner", hello, one);
  CHECK_FALSE(tcp::same(proof, tcp::proof_of("secret", "joiner", hello, other)));
  CHECK_FALSE(tcp::same(proof, tcp::proof_of("secret", "listener", hello, one)));
  CHECK_FALSE(tcp::same(proof, tcp::proof_of("Secret", "joiner", hello, one)));
  CHECK(tcp::same(proof, tcp::proof_of("secret", "joiner", hello, one)));
}

TEST_CASE("the memory of a process does not grow with its transfers", "[backends][tcp]") {
  const int port = free_port();
  std::atomic<std::size_t> grown = 0;
  std::atomic<int> well = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto process = join_tcp(launch_of(rank, 2, port, 10));
      if (!process) return;
      const auto talk = [&](int from, int count) {  // each transfer has a tag of its own
        std::vector<std::byte> sent(64), got(64);
        for (int tag = from; tag < from + count; ++tag) {
          const Outgoing out{1 - rank, sent.data(), 64};
          const Incoming in{1 - rank, got.data(), 64};
          if (!(*process)->exchange(tag, {&out, 1}, {&in, 1}, Patience::Sleep)) return false;
        }
        return true;
      };
      bool good = talk(1, 1000);
      const std::size_t before = ::mallinfo2().uordblks;
      good &= talk(2000, 20000);
      const std::size_t after = ::mallinfo2().uordblks;
      if (rank == 0) grown = after > before ? after - before : 0;
      well += good && (*process)->finish().ok();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(well == 2);
  CHECK(grown < 200'000);  // it was 1 KB for each of them
}

}  // namespace lockstep
