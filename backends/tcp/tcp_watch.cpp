#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>

#include "backends/tcp/tcp_peers.hpp"

namespace lockstep::tcp {
namespace {

constexpr double kIdle = 0.1;  // cores that a process may use and still count as idle

/// Seconds of processor time of this process.
double processor_time() {
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

}  // namespace

bool is_quiet(const Pulse& before, const Pulse& now) {
  return now.progress == before.progress && now.idle != 0 && now.occupied == 0 &&
         (now.running != 0 || now.waiting != 0);
}

std::string TcpProcess::timeout_text() const {
  const std::chrono::duration<double> seconds = timeout_;
  char text[32];
  std::snprintf(text, sizeof text, "%g s", seconds.count());
  return text;
}

/// Tells the others that this process lives, and looks whether they do.
void TcpProcess::watch() {
  const auto interval =
      std::clamp<steady_clock::duration>(timeout_ / 10, milliseconds(20), std::chrono::seconds(1));
  auto last = steady_clock::now();
  double used = processor_time();
  Pulse before;
  auto quiet_since = last;
  std::unique_lock lock(watch_mutex_);
  while (!watch_changed_.wait_for(lock, interval, [&] { return stop_watching_; })) {
    const auto now = steady_clock::now();
    const std::chrono::duration<double> time = now - last;
    // A process that was stopped itself cannot know what the others did meanwhile.
    const bool was_stopped = now - last > timeout_ / 2;
    const double use = processor_time();
    const Pulse pulse = own_pulse((use - used) / time.count() < kIdle);
    if (was_stopped || !is_quiet(before, pulse)) quiet_since = now;
    before = pulse;
    used = use;
    last = now;
    for (auto& peer : peers_) {
      if (peer->socket.open()) beat(*peer, pulse);
    }
    if (closing_ || failure_.is_set()) continue;
    if (was_stopped) {
      for (auto& peer : peers_) peer->heard = ticks();
    }
    look_for_silent(timeout_ - interval);
    if (now - quiet_since > timeout_) look_for_standstill();
  }
}

Pulse TcpProcess::own_pulse(bool idle) const {
  Pulse pulse;
  pulse.progress = flight.ended();
  pulse.running = flight.running();
  pulse.waiting = waiting_ > 0;
  pulse.idle = idle;
  pulse.occupied = occupied > 0;
  return pulse;
}

/// A message that waits in the way shows as well that this process lives.
void TcpProcess::beat(Peer& peer, const Pulse& pulse) {
  const std::unique_lock lock(peer.writing, std::try_to_lock);
  if (!lock.owns_lock() || peer.broken) return;
  struct {
    Header header{Kind::Beat, 0, sizeof(Pulse)};
    Pulse pulse;
  } message;
  message.pulse = pulse;
  const ssize_t sent =
      ::send(peer.socket.fd(), &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent <= 0) return;  // whether it is gone shows when nothing comes from it
  peer.broken = !send_bytes(peer, reinterpret_cast<const std::byte*>(&message) + sent,
                            static_cast<std::int64_t>(sizeof message) - sent, true);
}

void TcpProcess::look_for_silent(steady_clock::duration longest) {
  for (auto& peer : peers_) {
    if (!peer->socket.open()) continue;
    const steady_clock::duration silent(ticks() - peer->heard);
    if (silent <= longest) continue;
    {
      const std::lock_guard lock(peer->mutex);
      if (peer->bye || peer->gone) continue;
    }
    peer->silent = true;
    return fail(Error{ErrorKind::Device,
                      peer->name + " is silent: nothing has come from it for " + timeout_text() +
                          ", so it is stopped, or the network between is down "
                          "(LOCKSTEP_TIMEOUT_SECONDS)",
                      std::nullopt});
  }
}

/// Fails if no process has made progress for the timeout, although each of them is in an op or
/// waits for another, and none computes.
void TcpProcess::look_for_standstill() {
  std::string running;
  if (flight.running()) running = " " + std::to_string(index_);
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    Peer& peer = *peers_[i];
    if (!peer.socket.open()) continue;
    const std::lock_guard lock(peer.mutex);
    if (steady_clock::now() - peer.quiet_since <= timeout_) return;
    if (peer.pulse.running != 0) running += " " + std::to_string(i);
  }
  if (running.empty()) return;
  fail(Error{ErrorKind::Device,
             "no process has ended an op for " + timeout_text() +
                 ", and none computes; in an op hang the processes" + running +
                 " (LOCKSTEP_TIMEOUT_SECONDS)",
             std::nullopt});
}

void TcpProcess::stop_watching() {
  {
    const std::lock_guard lock(watch_mutex_);
    stop_watching_ = true;
    watch_changed_.notify_all();
  }
  if (watch_.joinable()) watch_.join();
}

}  // namespace lockstep::tcp
