// Users: who uses a range of bytes last on each stream.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "core/base/index_vector.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// The newest of its users on each stream, by a number that grows along the stream, such as the id
/// of the op. Most ranges have users on one stream or two, so that asking about these costs less
/// than a list of all streams.
class Users {
 public:
  bool none() const { return streams_ == 0; }
  bool on(Stream stream) const { return (streams_ & bit(stream)) != 0; }
  void clear() { streams_ = 0; }
  void add(Stream stream, std::int32_t number) {
    newest_[stream] = on(stream) ? std::max(newest_[stream], number) : number;
    streams_ |= bit(stream);
  }
  /// Calls visit(stream, number) for each of the streams.
  template <class Visit>
  void visit(Visit&& visit) const {
    for (std::uint32_t left = streams_; left != 0; left &= left - 1) {
      const auto stream = static_cast<Stream>(std::countr_zero(left));
      visit(stream, newest_[stream]);
    }
  }

 private:
  static std::uint32_t bit(Stream stream) { return 1u << static_cast<unsigned>(stream); }
  std::uint32_t streams_ = 0;                             // as bits
  IndexArray<Stream, std::int32_t, kNumStreams> newest_;  // of other streams it says nothing
};

}  // namespace lockstep
