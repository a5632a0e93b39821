#include "core/trace/trace_ops.hpp"

#include <algorithm>

#include "core/base/mix.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kFewestSlots = 16;

std::uint64_t hash_of(const TraceOp& form) {
  std::uint64_t hash = 0;
  for (const std::int64_t field :
       {std::int64_t{form.name}, std::int64_t{form.kind}, std::int64_t{form.stream},
        std::int64_t{form.phase}, std::int64_t{form.stage}, std::int64_t{form.layer}, form.bytes,
        std::int64_t{form.channel}}) {
    hash = mix64(hash ^ static_cast<std::uint64_t>(field));
  }
  return hash;
}

}  // namespace

TraceOps::TraceOps(std::initializer_list<TraceOp> ops) {
  for (const TraceOp& op : ops) push_back(op);
}

std::uint32_t TraceOps::form_of(TraceOp op) {
  op.microbatch = op.seq = -1;
  // The ops of a microbatch follow each other as those of the one before it did, whose forms lie
  // one behind the other.
  for (const std::uint32_t guess : {last_ + 1, last_}) {
    if (guess < forms_.size() && forms_[guess] == op) return last_ = guess;
  }
  if (2 * forms_.size() >= slots_.size()) make_slots(std::max(kFewestSlots, 2 * slots_.size()));
  std::size_t slot = hash_of(op) & (slots_.size() - 1);
  while (slots_[slot] > 0) {
    last_ = slots_[slot] - 1;
    if (forms_[last_] == op) return last_;
    slot = (slot + 1) & (slots_.size() - 1);
  }
  last_ = static_cast<std::uint32_t>(forms_.size());
  forms_.push_back(op);
  slots_[slot] = last_ + 1;
  return last_;
}

void TraceOps::make_slots(std::size_t count) {
  slots_.assign(count, 0);
  for (std::uint32_t form = 0; form < forms_.size(); ++form) {
    std::size_t slot = hash_of(forms_[form]) & (count - 1);
    while (slots_[slot] > 0) slot = (slot + 1) & (count - 1);
    slots_[slot] = form + 1;
  }
}

bool TraceOps::operator==(const TraceOps& other) const {
  return size() == other.size() && std::equal(begin(), end(), other.begin());
}

}  // namespace lockstep
