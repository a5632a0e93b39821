// TcpPeers: TcpProcess as its own sources see it: tcp_process.cpp sends and ends, tcp_reader.cpp
// receives.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backends/tcp/launch.hpp"
#include "backends/tcp/socket.hpp"
#include "backends/tcp/wire.hpp"
#include "core/run/process.hpp"
#include "core/run/watch.hpp"

namespace lockstep::tcp {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLook{50};              // between two looks for a failure while waiting
constexpr std::int64_t kBlock = 1 << 18;       // bytes that are received at a time
constexpr std::int64_t kPerMessage = 1 << 10;  // what is counted for a message beside its bytes
constexpr std::chrono::seconds kFarewell{10};

/// A receive that waits for its message.
struct Posted {
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
  bool done = false;
  bool busy = false;  // the reader thread is writing into `data`
};

/// Waits a little until something can be read (POLLIN) or written (POLLOUT).
bool ready(int fd, short event);
/// After a call that gave -1: whether it only has to be tried again.
bool would_block();

/// The connection to another process.
struct Peer {
  int index = 0;
  Socket socket;
  std::string name;     // "process 2 (10.0.0.3:40112)"
  std::thread reader;   // the only thread that receives
  std::mutex writing;   // held while a message is sent
  bool broken = false;  // guarded by `writing`: a message was cut off, so nothing can follow it
  std::vector<std::byte> rest;  // guarded by `writing`: of a beat, sent before what follows
  std::mutex mutex;             // guards what follows
  std::condition_variable changed;
  std::map<std::int32_t, std::deque<Posted*>> posted;  // by tag
  std::map<std::int32_t, std::deque<std::vector<std::byte>>> arrived;
  std::atomic<std::int64_t> unasked = 0;  // what the messages in `arrived` take, in bytes
  bool bye = false, gone = false;
};

class TcpProcess final : public Process {
 public:
  TcpProcess(const TcpLaunch& launch, std::vector<Socket> sockets);
  ~TcpProcess() override;
  void end_threads();
  Result<void> set_clock();

  int index() const override { return index_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  int max_tag() const override { return std::numeric_limits<std::int32_t>::max(); }
  const FirstError& failure() const override { return failure_; }
  SimTime now() const override { return raw_clock() - zero_; }
  SimTime clock_uncertainty() const override { return clock_uncertainty_; }
  bool exchange(int tag, std::span<const Outgoing> out, std::span<const Incoming> in,
                Patience patience) override;
  void fail(const Error& error) override;
  Result<void> finish() override;
  void end_all(int exit_code) override;
  /// With which the leader has told this process to end; -1 if it has not.
  int end_code() const { return end_code_; }

 private:
  static SimTime raw_clock() {
    return std::chrono::duration_cast<SimTime>(steady_clock::now().time_since_epoch());
  }
  Peer& peer(int process) { return *peers_[process]; }
  void lost(const Peer& peer, const std::string& why);
  void wake_all();

  /// Sends bytes. A message of data is cut off at a failure, because the connection is then needed
  /// to tell of the failure.
  bool send_bytes(Peer& peer, const void* from, std::int64_t bytes, bool data);
  void send(Peer& peer, const Header& header, const std::byte* payload);
  void tell_all(const Header& header, const std::string& text);

  void post(const Incoming& message, int tag, Posted& posted);
  bool wait(Peer& from, Posted& posted, int tag);

  // On the reader's thread. They return false if the connection has ended, or sends what cannot
  // be; `why` then says the reason.
  void read(Peer& peer);
  bool read_bytes(Peer& peer, void* to, std::int64_t bytes, std::string& why);
  bool read_payload(Peer& peer, const Header& header, std::string& why);
  bool read_data(Peer& peer, const Header& header, std::string& why);
  /// Whether a message for which nobody waits yet may be kept.
  bool is_room(const Peer& peer, const Header& header, std::string& why) const;
  bool read_posted(Peer& peer, std::int64_t bytes, Posted& posted, std::string& why);
  Posted* take_posted(Peer& peer, std::int32_t tag);
  void hear(const Peer& peer, const std::string& text);

  // On the watching thread.
  void beat(const Pulse& pulse);
  void beat(Peer& peer, const Pulse& pulse);

  int index_ = 0;
  std::vector<std::unique_ptr<Peer>> peers_;  // by index; this process's own is not connected
  SimTime zero_{};                            // raw_clock() of this process when now() is 0
  SimTime clock_uncertainty_{};
  FirstError failure_;
  std::atomic_flag told_;  // this process has failed, or heard of another's failure
  std::mutex telling_;     // held while the others are told why
  std::atomic<bool> closing_ = false;
  std::atomic<int> end_code_ = -1;
  Watch watch_;
};

}  // namespace lockstep::tcp
