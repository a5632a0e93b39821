#include "core/run/watch.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

namespace lockstep {
namespace {

using std::chrono::steady_clock;

constexpr double kIdle = 0.1;     // cores that a process may use and still count as idle
constexpr double kWanting = 0.9;  // the part of the time for which a thread that computes is ready

std::string seconds_text(Lookout::Duration time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", time.count());
  return text;
}

Error lost(const std::string& message) {
  return {ErrorKind::Device, message + " (LOCKSTEP_TIMEOUT_SECONDS)", std::nullopt};
}

}  // namespace

ProcessorUse ProcessorUse::now() {
  ProcessorUse use;
  rusage own{};
  ::getrusage(RUSAGE_SELF, &own);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  use.used = seconds(own.ru_utime) + seconds(own.ru_stime);
  std::error_code none;  // elsewhere than on Linux
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", none)) {
    std::ifstream file(thread.path() / "schedstat");
    if (double ran = 0, queued = 0; file >> ran >> queued) {
      use.wanted[thread.path().filename().string()] = 1e-9 * (ran + queued);
    }
  }
  return use;
}

bool ProcessorUse::idle_since(const ProcessorUse& before, double seconds) const {
  if (used - before.used >= kIdle * seconds) return false;
  return std::none_of(wanted.begin(), wanted.end(), [&](const auto& thread) {
    const auto earlier = before.wanted.find(thread.first);
    return earlier != before.wanted.end() && thread.second - earlier->second >= kWanting * seconds;
  });
}

bool is_quiet(const Pulse& before, const Pulse& now) {
  return now.progress == before.progress && now.idle != 0 && now.occupied == 0 &&
         (now.running != 0 || now.waiting != 0);
}

Result<double> watch_timeout() {
  constexpr double kDefault = 10;
  constexpr int kMost = 1'000'000;
  const char* const text = std::getenv("LOCKSTEP_TIMEOUT_SECONDS");
  if (text == nullptr) return kDefault;
  int value = 0;
  const char* const end = text + std::strlen(text);
  const auto read = std::from_chars(text, end, value);
  if (read.ec != std::errc() || read.ptr != end || value < 0 || value > kMost) {
    return invalid(std::string("LOCKSTEP_TIMEOUT_SECONDS=") + text + " is not a number of 0 to " +
                   std::to_string(kMost));
  }
  return value;
}

Lookout::Lookout(int index, int size, Duration timeout)
    : index_(index),
      timeout_(timeout),
      interval_(std::clamp(timeout / 10, Duration(0.02), Duration(1))),
      seen_(static_cast<std::size_t>(size)) {}

void Lookout::heard(int peer) { seen_[static_cast<std::size_t>(peer)].heard = true; }

void Lookout::heard(int peer, const Pulse& pulse) {
  Seen& seen = seen_[static_cast<std::size_t>(peer)];
  seen.heard = true;
  const std::lock_guard lock(seen.mutex);
  if (!is_quiet(seen.pulse, pulse)) seen.quiet = {};
  seen.pulse = pulse;
}

void Lookout::left(int peer) { seen_[static_cast<std::size_t>(peer)].left = true; }

bool Lookout::silent(int peer) const { return seen_[static_cast<std::size_t>(peer)].silent; }

Result<void> Lookout::look(Duration since, const Pulse& own,
                           const std::function<std::string(int)>& name_of) {
  const Duration counts = std::min(since, 2 * interval_);
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    Seen& seen = seen_[i];
    const bool self = static_cast<int>(i) == index_;
    if (self) heard(index_, own);
    seen.silence = seen.heard.exchange(false) ? Duration{} : seen.silence + counts;
    seen.silent = seen.silence > longest() && !seen.left;
    const std::lock_guard lock(seen.mutex);
    if (seen.silence <= 2 * interval_) seen.quiet += counts;  // who is silent is not known to hang
  }
  if (auto all = look_for_silent(name_of); !all) return all;
  return look_for_standstill();
}

Result<void> Lookout::look_for_silent(const std::function<std::string(int)>& name_of) const {
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    if (!seen_[i].silent) continue;
    return lost(name_of(static_cast<int>(i)) + " is silent: nothing has come from it for " +
                seconds_text(seen_[i].silence) +
                ", so it is stopped, or the network between is down");
  }
  return {};
}

Result<void> Lookout::look_for_standstill() {
  std::string running;
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    Seen& seen = seen_[i];
    const std::lock_guard lock(seen.mutex);
    if (seen.quiet <= longest()) return {};
    if (seen.pulse.running != 0) running += " " + std::to_string(i);
  }
  if (running.empty()) return {};
  const std::string most = seconds_text(longest());
  if (seen_.size() == 1) {
    return lost("no rank has ended an op for " + most + ", and none computes: an op hangs");
  }
  return lost("no process has ended an op for " + most +
              ", and none computes; in an op hang the processes" + running);
}

Watch::Watch(RunContext& run, double timeout, Ways ways)
    : run_(run),
      timeout_(timeout),
      ways_(std::move(ways)),
      lookout_(ways_.index, ways_.size, Lookout::Duration(timeout)) {}

void Watch::start() {
  if (timeout_ <= 0) return;
  use_ = ProcessorUse::now();
  last_ = steady_clock::now();
  thread_ = std::thread([this] { run(); });
}

void Watch::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Watch::run() {
  Pulse before;
  Lookout::Duration stuck{};  // for how long a run that has failed has not gone on to its end
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, lookout_.interval(), [&] { return stop_; })) {
    const auto last = last_;
    const Pulse own = pulse();
    const Lookout::Duration since = last_ - last;
    if (ways_.beat) ways_.beat(own);
    // It looks on after a failure and while the run ends: nobody waits for who is silent.
    const Result<void> all = lookout_.look(since, own, ways_.name_of);
    if (const auto failed = run_.failure().result(); !failed) {
      const bool waits = own.idle != 0 && own.occupied == 0 && own.progress == before.progress;
      stuck =
          waits && looks_ ? stuck + std::min(since, 2 * lookout_.interval()) : Lookout::Duration{};
      if (stuck > lookout_.longest()) give_up(failed.error());
    } else if (looks_ && !all) {
      run_.fail(all.error());
    }
    before = own;
  }
}

Pulse Watch::pulse() {
  const Activity& activity = *run_.activity;
  ProcessorUse use = ProcessorUse::now();
  const auto now = steady_clock::now();
  const Lookout::Duration since = now - last_;
  Pulse pulse;
  pulse.progress = activity.flight.ended();
  pulse.running = activity.flight.running();
  pulse.waiting = activity.waiting > 0;
  pulse.idle = use.idle_since(use_, since.count());
  pulse.occupied = activity.occupied > 0;
  use_ = std::move(use);
  last_ = now;
  return pulse;
}

void Watch::give_up(const Error& error) const {
  run_.activity->say_last_words(error);
  std::_Exit(
      exit_code(error.kind == ErrorKind::Internal ? ErrorKind::Internal : ErrorKind::Device));
}

}  // namespace lockstep
