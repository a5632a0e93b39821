// Pickle: reads the values of a file that Python's pickle module wrote. Nothing of it is executed:
// what would make an object of a class, or call a function, is an error.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/index_vector.hpp"
#include "core/base/result.hpp"

namespace lockstep {

/// Values of protocols 2 to 5, as far as plain data needs them: None, bool, int, float, str, bytes,
/// list, tuple and dict. The opcodes are those of CPython's Lib/pickletools.py. A value is at least
/// a byte of the file, so that what is kept is bounded by the file's size; no value is visited
/// recursively, so that nesting costs no stack. Values can be shared, so that a short file can hold
/// a tree of any size: what may be looked at is bounded, too, in proportion to the file.
class Pickle {
 public:
  enum class Type : std::uint8_t { None, Bool, Int, Float, Text, List, Tuple, Dict };
  using Id = std::int32_t;  // of a value
  static constexpr Id kNothing = -1;

  /// Reads all of `bytes`. Error Parse, with the byte: it is cut off, no pickle, or has an opcode
  /// that would run code.
  static Result<Pickle> parse(std::string_view bytes, const std::string& file);

  Id root() const { return root_; }
  std::size_t size() const { return values_.size(); }  // how many values there are
  /// Whether more was looked at than a file of this size can mean. From then on, nothing is found.
  bool exhausted() const { return work_ < 0; }
  Type type(Id id) const { return values_[id].type; }
  /// The number of an Int, a Bool or a Float (cut); `otherwise` of anything else.
  std::int64_t integer(Id id, std::int64_t otherwise = 0) const;
  std::string_view text(Id id) const;  // empty unless it is a Text
  /// The elements of a List or Tuple; of a Dict, keys and values in turn. Empty otherwise.
  std::span<const Id> items(Id id) const;
  /// The value of a key in a Dict; kNothing if there is none, or `dict` is no Dict.
  Id find(Id dict, std::string_view key) const;

 private:
  friend class PickleMachine;
  struct Value {
    Type type = Type::None;
    std::int64_t number = 0;  // of an Int or Bool; of the others the index into what holds them
  };
  IndexVector<Id, Value> values_;
  std::vector<double> reals_;
  std::vector<std::string> texts_;
  std::vector<std::vector<Id>> items_;
  Id root_ = kNothing;
  mutable std::int64_t work_ = 0;  // that is left
};

}  // namespace lockstep
