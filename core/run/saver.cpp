#include "core/run/saver.hpp"

#include <algorithm>
#include <exception>

#include "core/run/state_transfer.hpp"

namespace lockstep {
namespace {

// The first byte of what processes say to each other; else it is the kind of an error.
constexpr std::byte kFine{0xff}, kRefuses{0xfe};

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
      process_.fail(done.error());  // the others wait for this process
    }
    if (done) return;
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
  const std::vector<std::byte> nothing;
  const auto done = [&](const Result<void>& result) {
    return result ? Said{nothing, ""} : Said{result.error(), ""};
  };
  Result<void> step = snapshot_.copy();
  if (step && leads) step = store_.begin(head);
  // Nobody writes before the leader has made room.
  if (auto all = share(done(step)); !all) return all.error();
  for (const StateSnapshot::Piece& piece : snapshot_.pieces()) {
    if (!step || process_.failure().is_set()) break;
    step = store_.write(head, piece.tensor, piece.begin, snapshot_.values(piece));
  }
  const Result<std::vector<std::byte>> receipt = store_.finish_writing();
  const auto receipts = share(step ? Said{receipt, store_.refusal()} : done(step));
  if (!receipts) return receipts.error();
  if (!*receipts) return {};
  if (leads) step = store_.commit(head, **receipts);
  if (auto all = share(done(step)); !all) return all.error();
  const std::lock_guard lock(mutex_);
  saved_ = head.step;
  return {};
}

void Saver::refuse(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!refused_) refused_ = why;
}

Result<std::optional<Saver::Given>> Saver::share(const Said& own) {
  std::vector<std::byte> message{kFine};
  const auto add = [&](const auto& text) {
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    message.insert(message.end(), bytes, bytes + text.size());
  };
  if (!own.given) {
    message[0] = static_cast<std::byte>(own.given.error().kind);
    add(to_string(own.given.error()));
  } else if (!own.refusal.empty()) {
    message[0] = kRefuses;
    add(own.refusal);
  } else {
    add(*own.given);
  }
  auto all = all_gather(process_, message, process_.max_tag());
  // A process that heard this one's error may have failed before the exchange ended here.
  if (!all) return own.given ? all.error() : own.given.error();
  bool refused = false;
  for (std::size_t i = 0; i < all->size(); ++i) {
    std::vector<std::byte>& said = (*all)[i];
    const std::byte first =
        said.empty() ? std::byte{static_cast<unsigned char>(ErrorKind::Device)} : said[0];
    if (!said.empty()) said.erase(said.begin());
    if (first == kFine) continue;
    std::string text(said.size(), '\0');
    std::transform(said.begin(), said.end(), text.begin(),
                   [](std::byte b) { return static_cast<char>(b); });
    if (first == kRefuses) {
      refuse(text);
      refused = true;
    } else if (static_cast<int>(i) == process_.index() && !own.given) {
      return own.given.error();
    } else {
      return Error{kind_on_wire(std::to_integer<unsigned char>(first)),
                   "process " + std::to_string(i) + ": " + text, std::nullopt};
    }
  }
  if (refused) return std::optional<Given>();
  return std::optional(std::move(*all));
}

}  // namespace lockstep
