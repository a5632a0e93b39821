// Network namespaces: networks of their own for processes of this machine, which a test can delay
// and cut. They need root and ip; where they cannot be made, tests do without.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <string>

namespace lockstep::test {

inline bool works(const std::string& command) {
  return std::system(("(" + command + ") >/dev/null 2>&1").c_str()) == 0;
}

/// A name that no other test process uses.
inline std::string namespace_name(const std::string& suffix) {
  return "lockstep-" + std::to_string(::getpid()) + "-" + suffix;
}

/// A network with nothing but a loopback.
class LoopbackNetwork {
 public:
  LoopbackNetwork()
      : well_(works("ip netns add " + name()) &&
              works("ip -n " + name() + " link set lo up mtu 1500")) {}
  ~LoopbackNetwork() { works("ip netns del " + name()); }
  LoopbackNetwork(const LoopbackNetwork&) = delete;
  LoopbackNetwork& operator=(const LoopbackNetwork&) = delete;

  bool well() const { return well_; }
  /// What comes before a command that is to run in it; nothing if it could not be made.
  std::string enter() const { return well_ ? "ip netns exec " + name() + " " : ""; }
  void cut() const { rule("replace dev lo root blackhole"); }
  void delay() const { rule("replace dev lo root tbf rate 4mbit burst 4kb latency 300ms"); }
  void mend() const { rule("del dev lo root"); }

 private:
  static std::string name() { return namespace_name("loopback"); }
  static void rule(const std::string& text) { works("tc -n " + name() + " qdisc " + text); }
  bool well_;
};

}  // namespace lockstep::test
