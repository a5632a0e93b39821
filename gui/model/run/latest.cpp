#include "gui/model/run/latest.hpp"

#include <QMetaObject>
#include <utility>

namespace lockstep::gui {

Latest::Latest(QObject& owner) : owner_(owner), thread_([this] { work(); }) {}

Latest::~Latest() {
  cancel();
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Latest::submit(Job job) {
  auto ticket = std::make_shared<Ticket>();
  ticket->job = std::move(job);
  ticket->number = ++newest_;
  set_busy(true);
  {
    const std::lock_guard lock(mutex_);
    if (running_) running_->cancelled = true;
    waiting_ = std::move(ticket);
  }
  wake_.notify_one();
}

void Latest::set_busy(bool busy) {
  busy_objects += int{busy} - int{busy_};
  busy_ = busy;
}

void Latest::cancel() {
  ++newest_;
  set_busy(false);
  const std::lock_guard lock(mutex_);
  if (running_) running_->cancelled = true;
  waiting_.reset();
}

void Latest::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || waiting_; });
    if (stop_) return;
    running_ = std::move(waiting_);
    const std::shared_ptr<Ticket> ticket = running_;
    lock.unlock();
    ticket->result = ticket->job(ticket->cancelled);
    lock.lock();
    running_.reset();
    if (stop_ || ticket->cancelled) continue;
    done_ = ticket;
    // The call is queued to the owner. Qt drops it if the owner is gone, and apply() if it is
    // outdated.
    QMetaObject::invokeMethod(
        &owner_, [this] { apply(); }, Qt::QueuedConnection);
  }
}

void Latest::apply() {
  std::shared_ptr<Ticket> done;
  {
    const std::lock_guard lock(mutex_);
    done = std::exchange(done_, nullptr);
  }
  if (!done || done->number != newest_) return;
  set_busy(false);
  if (done->result) done->result();
}

}  // namespace lockstep::gui
