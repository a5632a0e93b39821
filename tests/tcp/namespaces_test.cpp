// Tests over a network of several machines: network namespaces of this machine, joined by a bridge,
// whose links are delayed, lossy, slow and cut. Where this machine does not let them be made (not
// root, or no ip), they are skipped.
#include <chrono>
#include <string>

#include "tests/catch.hpp"
#include "tests/process_runs.hpp"
#include "tests/tcp/network_namespace.hpp"
#include "tests/tcp/process_group.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

using test::Group;
using test::metrics;
using test::scenario;
using test::shell;
using test::works;

constexpr int kMachines = 3;
const std::string kLockstep = LOCKSTEP_BINARY;

/// Machines 10.77.0.1, 10.77.0.2, …, each a namespace with a link to a bridge in one more.
class Machines {
 public:
  Machines() {
    well_ = works("ip netns add " + bridge()) &&
            works("ip -n " + bridge() + " link add name br0 type bridge") &&
            works("ip -n " + bridge() + " link set br0 up");
    for (int i = 0; i < kMachines && well_; ++i) {
      const std::string inside = "ip -n " + name(i) + " ";
      well_ = works("ip netns add " + name(i)) && works(inside + "link set lo up") &&
              works("ip link add name eth0 netns " + name(i) + " type veth peer name p" +
                    std::to_string(i) + " netns " + bridge()) &&
              works(inside + "addr add 10.77.0." + std::to_string(i + 1) + "/24 dev eth0") &&
              works(inside + "link set eth0 up") &&
              works("ip -n " + bridge() + " link set p" + std::to_string(i) + " master br0 up");
    }
  }
  ~Machines() {
    for (int i = 0; i < kMachines; ++i) works("ip netns del " + name(i));
    works("ip netns del " + bridge());
  }
  Machines(const Machines&) = delete;
  Machines& operator=(const Machines&) = delete;

  bool well() const { return well_; }
  /// The command of every rank, each on the machine of its number.
  static std::string on_each(const std::string& command) {
    return "sh -c 'exec ip netns exec " + prefix() + "$RANK " + command + "'";
  }
  static std::string variables(int timeout) {
    return "MASTER_ADDR=10.77.0.1 LOCKSTEP_TIMEOUT_SECONDS=" + std::to_string(timeout);
  }
  /// What the links do to packets, by tc; false where this machine has no such rule.
  static bool rule(const std::string& text) {
    bool all = true;
    for (int i = 0; i < kMachines; ++i) {
      all &= works("tc -n " + name(i) + " qdisc replace dev eth0 root " + text);
    }
    return all;
  }
  static void cut(int i, bool up) {
    works("ip -n " + bridge() + " link set p" + std::to_string(i) + (up ? " up" : " down"));
  }

 private:
  static std::string prefix() { return test::namespace_name(""); }
  static std::string name(int i) { return prefix() + std::to_string(i); }
  static std::string bridge() { return prefix() + "b"; }
  bool well_ = false;
};

struct Training {
  TemporaryFolder folder;
  std::string command = kLockstep + " run " + scenario(folder, "data_parallel_shard_degree = 3\n") +
                        " --backend cpu --quiet --resume auto --out ";
};

std::string weights(const std::string& run, int step) {
  const std::string folder = run + "/checkpoints/step-" + std::to_string(step);
  return read_bytes(folder + "/model.safetensors") + read_bytes(folder + "/optimizer.safetensors");
}

}  // namespace

TEST_CASE("delayed, lossy and slow links change no bit", "[tcp][namespaces]") {
  const Machines machines;
  if (!machines.well()) {
    WARN("skipped: no network namespaces here (they need root and ip)");
    return;
  }
  const Training t;
  REQUIRE(shell(t.folder / "log.txt", t.command + t.folder / "whole").exit_code == 0);
  int ran = 0;
  // Token buckets stand for what netem does where the kernel lacks it: a long queue delays, a
  // queue of a few packets loses.
  for (const std::string rule :
       {"netem delay 20ms 5ms", "netem loss 2%", "tbf rate 40mbit burst 4kb latency 100ms",
        "tbf rate 60mbit burst 3kb limit 6kb"}) {
    if (!Machines::rule(rule)) continue;
    INFO(rule);
    const std::string out = t.folder / ("run-" + std::to_string(ran++));
    Group group(t.folder, kMachines, Machines::on_each(t.command + out), Machines::variables(10));
    for (int i = 0; i < kMachines; ++i) {
      const int code = group.wait(i);
      INFO(group.log(i));
      CHECK(code == 0);
    }
    CHECK(metrics(out) == metrics(t.folder / "whole"));
    const bool same = weights(out, 6) == weights(t.folder / "whole", 6);
    CHECK(same);
  }
  CHECK(ran > 0);
}

TEST_CASE("a machine that is cut off is named on every other, and names one of them",
          "[tcp][namespaces]") {
  const Machines machines;
  if (!machines.well()) {
    WARN("skipped: no network namespaces here (they need root and ip)");
    return;
  }
  const Training t;
  const std::string steps = " --set training.steps=300 --set checkpoint.interval=10";
  const std::string out = t.folder / "run";
  {
    Group group(t.folder, kMachines,
                Machines::on_each(t.command + out + steps + " --steps 1000000"),
                Machines::variables(3));
    REQUIRE(group.wait_for_text(out + "/checkpoints/latest", "step-"));
    const auto begin = std::chrono::steady_clock::now();
    Machines::cut(2, false);
    for (int i = 0; i < kMachines; ++i) CHECK(group.wait(i) == 4);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    CHECK(time.count() < 60);  // 3 s, and what a busy machine and a farewell add
    for (const int i : {0, 1}) {
      INFO(group.log(i));
      CHECK_THAT(group.log(i), ContainsSubstring("process 2") && ContainsSubstring("is silent"));
    }
    INFO(group.log(2));
    CHECK_THAT(group.log(2), ContainsSubstring("is silent"));
  }
  Machines::cut(2, true);
  Group again(t.folder, kMachines, Machines::on_each(t.command + out + steps),
              Machines::variables(10));
  for (int i = 0; i < kMachines; ++i) CHECK(again.wait(i) == 0);
  REQUIRE(shell(t.folder / "log.txt", t.command + t.folder / "whole" + steps).exit_code == 0);
  const bool same = weights(out, 300) == weights(t.folder / "whole", 300);
  CHECK(same);
}

}  // namespace lockstep
