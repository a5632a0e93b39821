// TraceOps: what the ops of a role were, which a trace says once for all its spans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <vector>

#include "core/base/ids.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep {

/// What the op of a span was. It says enough to draw spans and to add them up without the program.
struct TraceOp {
  std::int32_t name = 0;     // into Trace::names: "block.F", "all_reduce dp"
  std::int32_t kind = 0;     // into Trace::names: the class by which compare adds up
                             // ("forward", "backward", "optimizer", "all_reduce", "send", …)
  std::uint16_t stream = 0;  // into Trace::streams; for our own programs, a Stream
  std::uint8_t phase = 0;    // Phase
  std::int16_t stage = -1;
  std::int32_t layer = -1;
  std::int32_t microbatch = -1;
  std::int64_t bytes = 0;  // payload of a transfer
  /// Transfers that belong together across ranks share (channel, seq): the n-th collective of a
  /// group, or the n-th message of a pair.
  std::int32_t channel = -1;
  std::int32_t seq = -1;
  bool operator==(const TraceOp&) const = default;
};

/// A list of ops by OpId. Most ops of a role differ from another one in microbatch and number
/// alone. What they share, their form, is kept once, so that an op takes 12 bytes; one is put
/// together when it is asked for.
class TraceOps {
 public:
  class Iterator;

  TraceOps() = default;
  TraceOps(std::initializer_list<TraceOp> ops);

  void reserve(std::size_t ops) { places_.reserve(ops); }
  void clear() { *this = {}; }
  void push_back(const TraceOp& op) { places_.push_back({form_of(op), op.microbatch, op.seq}); }
  /// Replaces an op. The form that nobody has any more stays.
  void set(OpId id, const TraceOp& op) { places_[id] = {form_of(op), op.microbatch, op.seq}; }

  std::size_t size() const { return places_.size(); }
  bool empty() const { return places_.empty(); }
  /// The forms, and which of them an op has, for who asks them for what all ops of a form share.
  const std::vector<TraceOp>& forms() const { return forms_; }
  std::uint32_t form(OpId id) const { return places_[id].form; }
  TraceOp operator[](std::size_t i) const {
    const Place& place = places_[i];
    TraceOp op = forms_[place.form];
    op.microbatch = place.microbatch;
    op.seq = place.seq;
    return op;
  }
  TraceOp operator[](OpId id) const { return (*this)[to_size(id)]; }
  Iterator begin() const;
  Iterator end() const;
  /// Whether the ops are the same, whichever forms there are.
  bool operator==(const TraceOps& other) const;

 private:
  struct Place {
    std::uint32_t form = 0;
    std::int32_t microbatch = -1, seq = -1;
  };
  /// The place in forms_ of what is left of an op without microbatch and number. If it is new, it
  /// is added.
  std::uint32_t form_of(TraceOp op);
  void make_slots(std::size_t count);

  IndexVector<OpId, Place> places_;
  std::vector<TraceOp> forms_;  // with a microbatch and a number of -1
  /// A hash table of forms_: at the first free slot from the one that the hash of a form names on
  /// is its place + 1; 0: the slot is free. The number of slots is a power of two.
  std::vector<std::uint32_t> slots_;
  std::uint32_t last_ = 0;  // the form that was asked for last
};

class TraceOps::Iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = TraceOp;
  using difference_type = std::ptrdiff_t;
  using pointer = const TraceOp*;
  using reference = TraceOp;

  Iterator() = default;
  Iterator(const TraceOps& ops, std::size_t place) : ops_(&ops), place_(place) {}
  TraceOp operator*() const { return (*ops_)[place_]; }
  Iterator& operator++() {
    ++place_;
    return *this;
  }
  Iterator operator++(int) {
    Iterator before = *this;
    ++place_;
    return before;
  }
  bool operator==(const Iterator& other) const { return place_ == other.place_; }

 private:
  const TraceOps* ops_ = nullptr;
  std::size_t place_ = 0;
};

inline TraceOps::Iterator TraceOps::begin() const { return {*this, 0}; }
inline TraceOps::Iterator TraceOps::end() const { return {*this, size()}; }

}  // namespace lockstep
