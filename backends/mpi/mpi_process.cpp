#include "backends/mpi/mpi_process.hpp"

#ifdef LOCKSTEP_HAVE_MPI

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/index_vector.hpp"
#include "core/run/watch.hpp"

namespace lockstep {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr std::int64_t kLargestMessage = 1 << 30;  // bytes, because MPI counts in int
constexpr std::size_t kLargestText = 1000;         // small enough to be sent without the receiver
constexpr int kRoundsAwake = 64;                   // before the first sleep
constexpr microseconds kShortestSleep{10}, kLongestSleep{200};
constexpr std::chrono::seconds kFarewell{
    10};                                   // for the leader to end all, once this process failed
constexpr std::chrono::seconds kGrace{2};  // for the others to say why, once all are to end
enum FailureTag { Failure, Said };         // on the communicator of failures

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, static_cast<std::size_t>(length)};
}

/// Waits between two questions whether MPI is done. Open MPI's blocking calls would keep a core
/// busy that ranks need to compute.
class Pause {
 public:
  explicit Pause(Patience patience) : patience_(patience) {}
  void operator()() {
    if (patience_ == Patience::Awake || ++rounds_ < kRoundsAwake) return std::this_thread::yield();
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(2 * sleep_, kLongestSleep);
  }

 private:
  Patience patience_;
  int rounds_ = 0;
  microseconds sleep_ = kShortestSleep;
};

/// The beats of all processes, on a communicator of their own. At most one beat to a process is
/// under way, because one that is stopped takes none. Used from the thread of the watch.
class MpiBeats {
 public:
  void start(int index, int size) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    index_ = index;
    to_.resize(static_cast<std::size_t>(size));
  }
  void beat(const Pulse& pulse, Lookout& lookout) {
    while (hear(&lookout)) continue;
    for (int peer = 0; peer < static_cast<int>(to_.size()); ++peer) {
      Beat& beat = to_[static_cast<std::size_t>(peer)];
      int sent = 1;
      if (beat.request != MPI_REQUEST_NULL) MPI_Test(&beat.request, &sent, MPI_STATUS_IGNORE);
      if (peer == index_ || sent == 0) continue;
      beat.pulse = pulse;
      ++beat.count;
      MPI_Isend(&beat.pulse, sizeof(Pulse), MPI_BYTE, peer, 0, comm_, &beat.request);
    }
  }
  /// Receives what is under way; MPI cannot be finalized before. All processes call it together,
  /// after their last beat.
  Result<void> drain(Process& process) {
    std::vector<std::int64_t> sent;
    for (const Beat& beat : to_) sent.push_back(beat.count);
    const auto all = all_gather_values(process, sent);
    if (!all) return all.error();
    std::int64_t coming = -heard_;
    for (std::size_t i = to_size(index_); i < all->size(); i += to_.size()) coming += (*all)[i];
    while (coming > 0) coming -= hear(nullptr) ? 1 : 0;
    for (Beat& beat : to_) MPI_Wait(&beat.request, MPI_STATUS_IGNORE);
    MPI_Comm_free(&comm_);
    return {};
  }

 private:
  bool hear(Lookout* lookout) {
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    MPI_Improbe(MPI_ANY_SOURCE, 0, comm_, &found, &message, &status);
    if (found == 0) return false;
    Pulse pulse;
    MPI_Mrecv(&pulse, sizeof pulse, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    ++heard_;
    if (lookout != nullptr) lookout->heard(status.MPI_SOURCE, pulse);
    return true;
  }

  struct Beat {
    Pulse pulse;
    MPI_Request request = MPI_REQUEST_NULL;
    std::int64_t count = 0;
  };
  MPI_Comm comm_ = MPI_COMM_NULL;
  int index_ = 0;
  std::vector<Beat> to_;  // by process
  std::int64_t heard_ = 0;
};

class MpiProcess final : public Process {
 public:
  explicit MpiProcess(double timeout) : timeout_(timeout) {
    MPI_Comm_dup(MPI_COMM_WORLD, &messages_);
    MPI_Comm_dup(MPI_COMM_WORLD, &failures_);
    MPI_Comm_set_errhandler(messages_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(messages_, &index_);
    MPI_Comm_size(messages_, &size_);
    int* largest = nullptr;
    int found = 0;
    MPI_Comm_get_attr(messages_, MPI_TAG_UB, &largest, &found);
    if (found != 0) max_tag_ = *largest;
    beats_.start(index_, size_);
  }

  /// From now on the others are watched.
  void start_watch() {
    watch_.emplace(
        *this, timeout_,
        Watch::Ways{index_, size_, [](int i) { return "process " + std::to_string(i); },
                    [this](const Pulse& pulse) { beats_.beat(pulse, watch_->lookout()); }});
    watch_->start();
  }

  /// Makes now() the leader's clock, which begins at about this moment.
  Result<void> set_clock() {
    const auto shared = share_clock(*this, raw_clock);
    if (!shared) return shared.error();
    zero_ = shared->zero;
    clock_uncertainty_ = shared->uncertainty;
    return {};
  }

  int index() const override { return index_; }
  int size() const override { return size_; }
  int max_tag() const override { return max_tag_; }
  const FirstError& failure() const override { return failure_; }
  SimTime now() const override { return raw_clock() - zero_; }
  SimTime clock_uncertainty() const override { return clock_uncertainty_; }

  bool exchange(int tag, std::span<const Outgoing> out, std::span<const Incoming> in,
                Patience patience) override {
    std::vector<MPI_Request> requests;
    const auto post = [&](std::int64_t bytes, const auto& call) {
      std::int64_t at = 0;
      do {
        const std::int64_t count = std::min(bytes - at, kLargestMessage);
        requests.push_back(MPI_REQUEST_NULL);
        check(call(at, static_cast<int>(count), &requests.back()));
        at += count;
      } while (at < bytes);
    };
    for (const Incoming& message : in) {
      post(message.bytes, [&](std::int64_t at, int count, MPI_Request* request) {
        return MPI_Irecv(message.data + at, count, MPI_BYTE, message.from, tag, messages_, request);
      });
    }
    for (const Outgoing& message : out) {
      post(message.bytes, [&](std::int64_t at, int count, MPI_Request* request) {
        return MPI_Isend(message.data + at, count, MPI_BYTE, message.to, tag, messages_, request);
      });
    }
    return wait(requests, patience);
  }

  void fail(const Error& error) override {
    if (told_.test_and_set()) return;
    failure_.set(error);
    farewell_ = static_cast<char>(error.kind) + to_string(error).substr(0, kLargestText);
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == index_) continue;
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Isend(farewell_.data(), static_cast<int>(farewell_.size()), MPI_CHAR, peer,
                FailureTag::Failure, failures_, &request);
      // farewell_ outlives the request. A process that does not get the text is ended by end_all().
      MPI_Request_free(&request);
    }
  }

  Result<void> finish() override {
    const auto all = all_gather(*this, {});
    if (!all) return all.error();
    watch_->stop();
    if (auto drained = beats_.drain(*this); !drained) return drained;
    MPI_Comm_free(&messages_);
    MPI_Comm_free(&failures_);
    MPI_Finalize();
    return {};
  }

  void end_all(int exit_code) override {
    // The leader learns of this process's failure, reports it and ends all processes, once they
    // have said what they know. Only if it does not, this process ends them.
    watch_->end_looking();
    const bool leads = index_ == 0;
    int said = 0;
    const auto awaited = [&] {  // nobody waits for a process that is silent
      int others = 0;
      for (int peer = 1; peer < size_; ++peer) others += !watch_->lookout().silent(peer);
      return others - said;
    };
    if (!leads) {
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Isend(nullptr, 0, MPI_CHAR, 0, FailureTag::Said, failures_, &request);
      MPI_Request_free(&request);
    }
    const auto begin = steady_clock::now();
    const auto waits = [&] {
      const bool soon = leads || watch_->lookout().silent(0);
      return steady_clock::now() < begin + (soon ? kGrace : kFarewell);
    };
    while ((!leads || awaited() > 0) && waits()) {
      static_cast<void>(hear_failure());  // also lets MPI send this process's own failure
      if (leads) said += take(FailureTag::Said) ? 1 : 0;
      std::this_thread::sleep_for(kLongestSleep);
    }
    MPI_Abort(MPI_COMM_WORLD, exit_code);
  }

 private:
  static SimTime raw_clock() {
    return std::chrono::duration_cast<SimTime>(steady_clock::now().time_since_epoch());
  }

  void check(int code) {
    if (code == MPI_SUCCESS) return;
    fail(Error{ErrorKind::Device, "process " + std::to_string(index_) + ": MPI: " + text_of(code),
               std::nullopt});
  }

  bool wait(std::vector<MPI_Request>& requests, Patience patience) {
    const Counted waiting(activity->waiting);
    Pause pause(patience);
    for (;;) {
      if (failure_.is_set() || hear_failure()) break;
      int done = 0;
      check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done,
                        MPI_STATUSES_IGNORE));
      if (done != 0) return !failure_.is_set();
      pause();
    }
    for (MPI_Request& request : requests) {  // so that nothing is written into the buffers any more
      if (request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
    return false;
  }

  struct Text {
    int from = 0;
    std::string text;
  };
  /// The next message of this kind, if one has come.
  std::optional<Text> take(FailureTag tag) {
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    MPI_Improbe(MPI_ANY_SOURCE, tag, failures_, &found, &message, &status);
    if (found == 0) return std::nullopt;
    int count = 0;
    MPI_Get_count(&status, MPI_CHAR, &count);
    Text taken{status.MPI_SOURCE, std::string(static_cast<std::size_t>(count), '\0')};
    MPI_Mrecv(taken.text.data(), count, MPI_CHAR, &message, MPI_STATUS_IGNORE);
    return taken;
  }

  bool hear_failure() {
    const std::optional<Text> heard = take(FailureTag::Failure);
    if (!heard) return false;
    if (told_.test_and_set()) return true;
    const std::string& text = heard->text;
    failure_.set(Error{kind_on_wire(text.empty() ? 0xff : static_cast<unsigned char>(text[0])),
                       "process " + std::to_string(heard->from) + ": " +
                           text.substr(std::min<std::size_t>(1, text.size())),
                       std::nullopt});
    return true;
  }

  MPI_Comm messages_ = MPI_COMM_NULL, failures_ = MPI_COMM_NULL;
  int index_ = 0, size_ = 1, max_tag_ = 32767;
  SimTime zero_{};  // raw_clock() of this process when now() is 0
  SimTime clock_uncertainty_{};
  FirstError failure_;
  std::atomic_flag told_;  // this process has failed, or heard of another's failure
  std::string farewell_;   // the text of a failure that it sends to the others
  const double timeout_;
  MpiBeats beats_;
  std::optional<Watch> watch_;
};

}  // namespace

Result<std::unique_ptr<Process>> join_mpi(const Launch& launch) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  const auto timeout = watch_timeout();
  auto process = std::make_unique<MpiProcess>(timeout ? *timeout : 0);
  if (!timeout) return timeout.error();
  if (process->size() != launch.processes) {
    return Error{ErrorKind::Device,
                 launch.launcher + " (" + launch.variable + ") has started " +
                     std::to_string(launch.processes) + " processes, but the MPI of this binary " +
                     "sees " + std::to_string(process->size()) +
                     ": start it with the mpirun of the MPI that it was built with",
                 std::nullopt};
  }
  if (provided < MPI_THREAD_MULTIPLE) {
    return Error{ErrorKind::Unsupported,
                 "this MPI does not let several threads communicate (MPI_THREAD_MULTIPLE)",
                 std::nullopt};
  }
  if (auto set = process->set_clock(); !set) return set.error();
  process->start_watch();
  return std::unique_ptr<Process>(std::move(process));
}

}  // namespace lockstep

#else

namespace lockstep {

Result<std::unique_ptr<Process>> join_mpi(const Launch& launch) {
  return Error{ErrorKind::Unsupported,
               launch.launcher + " (" + launch.variable + ") has started " +
                   std::to_string(launch.processes) +
                   " processes, but this binary was built without MPI",
               std::nullopt};
}

}  // namespace lockstep

#endif
