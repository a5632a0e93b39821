#include "backends/tcp/tcp_process.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "backends/tcp/socket.hpp"
#include "tests/backends/tcp/launch.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

using test::free_port;
using test::launch_of;
using test::soon;
using Joined = Result<std::unique_ptr<Process>>;

/// Calls body(process) on `size` threads, each of which is a process. The body counts its results,
/// because threads must not make assertions.
void in_processes(int size, const std::function<void(Process&)>& body) {
  const int port = free_port();
  std::vector<std::thread> threads;
  std::atomic<int> joined = 0;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const Joined process = join_tcp(launch_of(rank, size, port));
      if (!process) return;
      ++joined;
      body(**process);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(joined == size);
}

std::vector<std::byte> bytes_of(int seed, std::size_t n) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<std::byte> bytes(n);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// Runs these launches. Returns the error of each, or an empty text.
std::vector<std::string> errors_of(const std::vector<TcpLaunch>& launches) {
  std::vector<std::string> errors(launches.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    threads.emplace_back([&, i] {
      const Joined process = join_tcp(launches[i]);
      const Result<void> left = process ? (*process)->finish() : process.error();
      if (!left) errors[i] = left.error().message;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

struct Environment {
  Environment(std::initializer_list<std::pair<const char*, const char*>> given) : variables(given) {
    for (const auto& [name, value] : variables) ::setenv(name, value, 1);
  }
  ~Environment() {
    for (const auto& [name, value] : variables) ::unsetenv(name);
  }
  std::vector<std::pair<const char*, const char*>> variables;
};

}  // namespace

TEST_CASE("processes over TCP know each other and share a clock", "[backends][tcp]") {
  for (const int size : {2, 3, 6}) {
    std::atomic<int> well = 0;
    in_processes(size, [&](Process& process) {
      const auto all = all_gather_values(process, std::vector<int>{process.index() * 10});
      bool good = all.ok() && process.size() == size;
      for (int i = 0; good && i < size; ++i) good = (*all)[i] == i * 10;
      // Clocks differ by no more than they say, plus the time of the exchange.
      const auto before = all_gather_values(process, std::vector<SimTime>{process.now()});
      const SimTime after = process.now();
      for (const SimTime at : *before) good &= at <= after + process.clock_uncertainty();
      good &= process.clock_uncertainty() > SimTime{0};
      well += process.finish().ok() && good;
    });
    CHECK(well == size);
  }
}

TEST_CASE("messages of every size and tag arrive whole and in order", "[backends][tcp]") {
  constexpr int kSize = 3, kRounds = 12;
  std::atomic<int> wrong = 0;
  in_processes(kSize, [&](Process& process) {
    const auto seed = [](int from, int to, int tag, int round) {
      return ((from * kSize + to) * 8 + tag % 8) * kRounds + round;
    };
    const auto length = [&](int message) {
      return message % 5 == 0 ? std::size_t{0} : bytes_of(message, 4).size() * 40000u + 3u;
    };
    const auto talk = [&](int tag) {
      for (int round = 0; round < kRounds; ++round) {
        std::vector<std::vector<std::byte>> sent, got(kSize);
        std::vector<Outgoing> out;
        std::vector<Incoming> in;
        sent.reserve(kSize);
        for (int peer = 0; peer < kSize; ++peer) {
          if (peer == process.index()) continue;
          const int mine = seed(process.index(), peer, tag, round);
          const int theirs = seed(peer, process.index(), tag, round);
          sent.push_back(bytes_of(mine, length(mine)));
          out.push_back({peer, sent.back().data(), std::ssize(sent.back())});
          auto& to = got[peer];
          to.resize(length(theirs));
          in.push_back({peer, to.data(), std::ssize(to)});
        }
        if (!process.exchange(tag, out, in, Patience::Sleep)) ++wrong;
        for (int peer = 0; peer < kSize; ++peer) {
          if (peer == process.index()) continue;
          const int theirs = seed(peer, process.index(), tag, round);
          wrong += got[peer] != bytes_of(theirs, length(theirs));
        }
      }
    };
    std::thread first(talk, 1), second(talk, 2);  // do not wait for each other
    talk(process.max_tag());
    first.join();
    second.join();
    wrong += !process.finish().ok();
  });
  CHECK(wrong == 0);
}

TEST_CASE("a message may come before anyone waits for it", "[backends][tcp]") {
  std::atomic<int> well = 0;
  in_processes(2, [&](Process& process) {
    const auto big = bytes_of(1, 3 << 20);
    if (process.index() == 0) {
      const Outgoing out{1, big.data(), std::ssize(big)};
      well += process.exchange(7, {&out, 1}, {}, Patience::Sleep);
      well += all_gather(process, {}).ok();
    } else {
      well += all_gather(process, {}).ok();
      std::vector<std::byte> got(big.size());
      const Incoming in{0, got.data(), std::ssize(got)};
      well += process.exchange(7, {}, {&in, 1}, Patience::Sleep) && got == big;
    }
    well += process.finish().ok();
  });
  CHECK(well == 6);
}

TEST_CASE("an error of one process is that of all", "[backends][tcp]") {
  std::atomic<int> heard = 0, left = 0;
  in_processes(3, [&](Process& process) {
    static_cast<void>(all_gather(process, {}));  // all have joined; it may fail already
    if (process.index() == 2) {
      process.fail(Error{ErrorKind::OutOfMemory, "no room", std::nullopt});
    }
    std::byte byte{};
    const Incoming in{(process.index() + 1) % 3, &byte, 1};
    if (process.exchange(1, {}, {&in, 1}, Patience::Sleep)) return;
    const auto failed = process.failure().result();
    heard += failed.error().kind == ErrorKind::OutOfMemory &&
             failed.error().message == (process.index() == 2 ? "no room" : "process 2: no room");
    ++left;
    // Nobody leaves before all have heard: a closed connection would be another error.
    while (left < 3) std::this_thread::yield();
  });
  CHECK(heard == 3);
}

TEST_CASE("all have joined, however soon one of them fails", "[backends][tcp]") {
  // The others may still be comparing clocks; who has not joined cannot be told an exit code.
  for (int i = 0; i < 30; ++i) {
    std::atomic<int> heard = 0;
    in_processes(3, [&](Process& process) {
      if (process.index() != 0) process.fail({ErrorKind::InvalidSpec, "at once", std::nullopt});
      heard += !process.finish().ok();
    });
    CHECK(heard == 3);
  }
}

TEST_CASE("a process that goes without a word ends the others", "[backends][tcp]") {
  std::atomic<int> noticed = 0, left = 0;
  in_processes(3, [&](Process& process) {
    static_cast<void>(all_gather(process, {}));
    if (process.index() == 1) return;
    std::vector<std::byte> much(1 << 20);
    const Incoming in{1, much.data(), std::ssize(much)};
    if (process.exchange(1, {}, {&in, 1}, Patience::Sleep)) return;
    const std::string message = process.failure().result().error().message;
    noticed += message.find("process 1") != std::string::npos &&
               message.find("has gone: the connection was closed") != std::string::npos;
    ++left;
    while (left < 2) std::this_thread::yield();
  });
  CHECK(noticed == 2);
}

TEST_CASE("processes that wait for others notice at once that one of them has gone",
          "[backends][tcp]") {
  // Of four, the last never comes, and process 1 leaves.
  const int port = free_port();
  std::atomic<bool> cancel = false;
  std::vector<TcpLaunch> launches;
  for (int rank = 0; rank < 3; ++rank) launches.push_back(launch_of(rank, 4, port));
  for (TcpLaunch& launch : launches) launch.seconds = 60;
  launches[1].cancel = &cancel;
  std::thread leaves([&] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    cancel = true;
  });
  const auto begin = std::chrono::steady_clock::now();
  const auto errors = errors_of(launches);
  leaves.join();
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
  CHECK_THAT(errors[0], ContainsSubstring("process 1 has gone while process 0 waited"));
  CHECK_THAT(errors[1], ContainsSubstring("stopped while process 1 waited for the others"));
  CHECK_THAT(errors[2], ContainsSubstring("process 0"));
}

TEST_CASE("processes that do not belong together are turned away", "[backends][tcp]") {
  const int port = free_port();
  {
    TcpLaunch leader = launch_of(0, 2, port), other = launch_of(1, 3, port);
    leader.seconds = other.seconds = 1;
    const auto errors = errors_of({leader, other});
    CHECK_THAT(errors[0], ContainsSubstring("of 2 processes these have not come to process 0 in "
                                            "1 s: 1; one from 127.0.0.1:") &&
                              ContainsSubstring("was refused: it was told WORLD_SIZE=3, process 0 "
                                                "2"));
    CHECK_THAT(errors[1], ContainsSubstring("process 1 does not reach process 0: it refuses this "
                                            "one: it was told WORLD_SIZE=3, process 0 2"));
  }
  {
    TcpLaunch other = launch_of(1, 2, port);
    other.run = "yesterday's";
    other.seconds = 5;
    const auto errors = errors_of({launch_of(0, 2, port), other, launch_of(1, 2, port)});
    CHECK(errors[0].empty());
    CHECK_THAT(errors[1], ContainsSubstring("does not reach process 0"));
    CHECK(errors[2].empty());
  }
  {
    TcpLaunch leader = launch_of(0, 3, port), twice = launch_of(2, 3, port);
    leader.seconds = twice.seconds = 1;
    const auto errors = errors_of({leader, twice, twice});
    CHECK_THAT(errors[0], ContainsSubstring("in 1 s: 1"));
    CHECK_THAT(errors[1] + errors[2], ContainsSubstring("there is a process with RANK=2 already"));
  }
  TcpLaunch alone = launch_of(1, 2, port);
  alone.seconds = 1;
  CHECK_THAT(errors_of({alone})[0], ContainsSubstring("process 1 does not reach process 0"));
  alone.address = "no.such.host.invalid";
  CHECK_THAT(errors_of({alone})[0], ContainsSubstring("no.such.host.invalid"));
}

TEST_CASE("who waits for others stops when it is told to", "[backends][tcp]") {
  const int port = free_port();
  std::atomic<bool> cancel = false;
  TcpLaunch leader = launch_of(0, 3, port), joined = launch_of(1, 3, port);
  TcpLaunch lost = launch_of(1, 2, free_port());  // nobody leads it
  for (TcpLaunch* const launch : {&leader, &joined, &lost}) {
    launch->seconds = 60;
    launch->cancel = &cancel;
  }
  const auto begin = std::chrono::steady_clock::now();
  std::thread signal([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    cancel = true;
  });
  const auto errors = errors_of({leader, joined, lost});
  signal.join();
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
  CHECK_THAT(errors[0], ContainsSubstring("stopped while process 0 waited for the others"));
  CHECK_FALSE(errors[1].empty());  // the leader has gone, or it is stopped itself
  CHECK_THAT(errors[2], ContainsSubstring("stopped while process 1 waited for the others"));
}

TEST_CASE("a stranger at the port does not keep processes from meeting", "[backends][tcp]") {
  const int port = free_port();
  std::thread stranger([port] {
    auto socket = tcp::connect_to("127.0.0.1", port, soon());
    if (!socket) return;
    const std::string hello(64, 'G');
    static_cast<void>(socket->send(std::as_bytes(std::span(hello)), soon()));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  });
  std::vector<std::string> leader;
  std::thread leading([&] { leader = errors_of({launch_of(0, 2, port)}); });
  stranger.join();  // has come first
  CHECK(errors_of({launch_of(1, 2, port)})[0].empty());
  leading.join();
  CHECK(leader[0].empty());
}

TEST_CASE("the leader's port may be taken", "[backends][tcp]") {
  const auto taken = tcp::listen_at(0);
  REQUIRE(taken.ok());
  const auto errors = errors_of({launch_of(0, 2, taken->local().port())});
  CHECK_THAT(errors[0], ContainsSubstring("cannot listen at port"));
}

TEST_CASE("a launch is read from torchrun's variables", "[backends][tcp]") {
  CHECK_FALSE(find_tcp_launch()->has_value());
  {
    const Environment alone{{"RANK", "0"}, {"WORLD_SIZE", "1"}};
    CHECK_FALSE(find_tcp_launch()->has_value());
  }
  const Environment two{{"RANK", "1"}, {"WORLD_SIZE", "2"}};
  const auto message = [] {
    const auto launch = find_tcp_launch();
    return launch.ok() ? std::string() : launch.error().message;
  };
  CHECK_THAT(message(), ContainsSubstring("MASTER_PORT is not set, but WORLD_SIZE and RANK are"));
  const Environment port{{"MASTER_PORT", "29500"}};
  CHECK_THAT(message(), ContainsSubstring("MASTER_ADDR is not set"));
  const Environment address{{"MASTER_ADDR", "node-0"}};
  {
    const auto launch = find_tcp_launch();
    REQUIRE((launch.ok() && launch->has_value()));
    CHECK((*launch)->rank == 1);
    CHECK((*launch)->world_size == 2);
    CHECK((*launch)->address == "node-0");
    CHECK((*launch)->port == 29500);
  }
  {
    const Environment agent{{"TORCHELASTIC_USE_AGENT_STORE", "True"}};
    CHECK((*find_tcp_launch())->port == 29501);
    const Environment chosen{{"LOCKSTEP_PORT", "4711"}};
    CHECK((*find_tcp_launch())->port == 4711);
  }
  {
    const Environment rank{{"LOCKSTEP_JOIN_SECONDS", "soon"}};
    CHECK_THAT(message(), ContainsSubstring("LOCKSTEP_JOIN_SECONDS=soon is not a number"));
  }
  CHECK((*find_tcp_launch())->timeout == 10);
  CHECK((*find_tcp_launch())->secret.empty());
  {
    const Environment watch{{"LOCKSTEP_TIMEOUT_SECONDS", "3"},
                            {"LOCKSTEP_SECRET", "s3cret"},
                            {"LOCKSTEP_BIND", "10.0.0.7"}};
    const auto launch = find_tcp_launch();
    REQUIRE((launch.ok() && launch->has_value()));
    CHECK((*launch)->timeout == 3);
    CHECK((*launch)->secret == "s3cret");
    CHECK((*launch)->bind == "10.0.0.7");
  }
  {
    const TemporaryFolder folder;
    write_bytes(folder / "secret", "of a file \n");
    const std::string path = folder / "secret", missing = folder / "missing";
    const Environment file{{"LOCKSTEP_SECRET_FILE", path.c_str()}};
    CHECK((*find_tcp_launch())->secret == "of a file");
    const Environment none{{"LOCKSTEP_SECRET_FILE", missing.c_str()}};
    CHECK_THAT(message(), ContainsSubstring("holds no secret"));
  }
  ::setenv("RANK", "2", 1);
  CHECK_THAT(message(), ContainsSubstring("RANK=2 is not a number of 0 to 1"));
}

}  // namespace lockstep
