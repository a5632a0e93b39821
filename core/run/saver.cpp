#include "core/run/saver.hpp"

#include <algorithm>
#include <exception>

#include "core/run/state_transfer.hpp"

namespace lockstep {
namespace {

// The first byte of what processes say to each other.
constexpr std::byte kGives{0xff}, kRefuses{0xfe};

}  // namespace

Saver::~Saver() {
  if (thread_.joinable()) thread_.join();
}

Result<void> Saver::save(int step, std::int64_t samples,
                         const std::map<std::string, std::string>& notes) {
  if (auto before = wait(); !before) return before;
  snapshot_.begin();
  if (!snapshot_.beside_step()) {
    if (auto copied = snapshot_.copy(); !copied) return copied;
  }
  StateHead written = state_head(program_, step, samples);
  written.notes = notes;
  thread_ = std::thread([this, head = std::move(written)] {
    Result<void> done;
    try {
      done = write(head);
    } catch (const std::exception& exception) {
      done = Error{ErrorKind::Device, std::string("saving failed: ") + exception.what(), {}};
    }
    if (done) return;
    // The others wait for this process. It tells them itself, before any of them can send the same
    // error back as its own.
    process_.fail(done.error());
    const std::lock_guard lock(mutex_);
    error_ = done.error();
  });
  return {};
}

Result<void> Saver::check() const {
  const std::lock_guard lock(mutex_);
  if (error_) return *error_;
  return {};
}

Result<void> Saver::wait() {
  if (thread_.joinable()) thread_.join();
  return check();
}

std::optional<int> Saver::saved() const {
  const std::lock_guard lock(mutex_);
  return saved_;
}

std::optional<std::string> Saver::refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

Result<void> Saver::write(const StateHead& head) {
  const Counted occupied(process_.activity->occupied);  // nobody takes it for one that hangs
  const bool leads = process_.index() == 0;
  if (auto copied = snapshot_.copy(); !copied) return copied;
  if (leads) {
    if (auto begun = store_.begin(head); !begun) return begun;
  }
  // Nobody writes before the leader has made room.
  if (auto all = share({}); !all) return all.error();
  Result<void> written;
  for (const StateSnapshot::Piece& piece : snapshot_.pieces()) {
    if (written) written = process_.failure().result();
    if (!written) break;
    written = store_.write(head, piece.tensor, piece.begin, snapshot_.values(piece));
  }
  auto receipt = store_.finish_writing();  // closes its files, whatever happened
  if (!written) return written;
  if (!receipt) return receipt.error();
  const auto receipts = share({std::move(*receipt), store_.refusal()});
  if (!receipts) return receipts.error();
  if (!*receipts) return {};
  if (leads) {
    if (auto committed = store_.commit(head, **receipts); !committed) return committed;
  }
  if (auto all = share({}); !all) return all.error();
  const std::lock_guard lock(mutex_);
  saved_ = head.step;
  return {};
}

void Saver::refuse(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!refused_) refused_ = why;
}

Result<std::optional<Saver::Given>> Saver::share(const Said& own) {
  std::vector<std::byte> message{own.refusal.empty() ? kGives : kRefuses};
  const auto add = [&](const auto& text) {
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    message.insert(message.end(), bytes, bytes + text.size());
  };
  if (own.refusal.empty()) {
    add(own.given);
  } else {
    add(own.refusal);
  }
  auto all = all_gather(process_, message, process_.max_tag());
  if (!all) return all.error();
  bool refused = false;
  for (std::size_t i = 0; i < all->size(); ++i) {
    std::vector<std::byte>& said = (*all)[i];
    if (said.empty() || (said[0] != kGives && said[0] != kRefuses)) {
      return Error{ErrorKind::Device,
                   "process " + std::to_string(i) + " sends something else than its part of a save",
                   std::nullopt};
    }
    const bool refuses = said[0] == kRefuses;
    said.erase(said.begin());
    if (!refuses) continue;
    std::string text(said.size(), '\0');
    std::transform(said.begin(), said.end(), text.begin(),
                   [](std::byte b) { return static_cast<char>(b); });
    refuse(text);
    refused = true;
  }
  if (refused) return std::optional<Given>();
  return std::optional(std::move(*all));
}

}  // namespace lockstep
