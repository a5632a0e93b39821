// Latest: does work on another thread than the GUI's, of which only the newest result matters.
#pragma once

#include <QObject>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace lockstep::gui {

/// Has one worker thread. A job that is submitted cancels the running job and replaces a waiting
/// one. A job returns a function that applies its result. It is called on the owner's thread,
/// through its event loop, unless a newer job has been submitted, or cancel() called, by then.
class Latest {
 public:
  using Apply = std::function<void()>;
  using Job = std::function<Apply(const std::atomic<bool>& cancelled)>;

  /// `owner` lives on the thread that calls submit(), and must outlive this object.
  explicit Latest(QObject& owner);
  ~Latest();  // cancels, and waits until the running job has ended
  Latest(const Latest&) = delete;
  Latest& operator=(const Latest&) = delete;

  void submit(Job job);
  void cancel();
  bool busy() const { return busy_; }  // a job was submitted and its result is not yet applied
  static bool any_busy() { return busy_objects > 0; }  // whether any object is; GUI thread only

 private:
  struct Ticket {
    Job job;
    Apply result;
    std::uint64_t number = 0;
    std::atomic<bool> cancelled = false;
  };
  void set_busy(bool busy);
  void work();
  void apply();

  QObject& owner_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::shared_ptr<Ticket> waiting_, running_, done_;
  bool stop_ = false;
  std::uint64_t newest_ = 0;  // used by the owner's thread only
  bool busy_ = false;         // used by the owner's thread only
  static inline int busy_objects = 0;
  std::thread thread_;
};

}  // namespace lockstep::gui
