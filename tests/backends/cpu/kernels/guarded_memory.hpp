// Guarded memory: the memory of one operand of a kernel under test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/base/bfloat16.hpp"
#include "core/base/dtype.hpp"

namespace lockstep::cpu::test {

using Values = std::vector<double>;

/// The memory of one operand: a guard, the elements (not aligned to more than their size), and a
/// guard.
class Memory {
 public:
  Memory(std::size_t n, DType dtype) : n_(n), dtype_(dtype), bytes_(guard() * 2 + n * size()) {
    std::memset(bytes_.data(), 0x5a, bytes_.size());
  }
  std::size_t guard() const { return 17 * size(); }
  std::size_t size() const { return static_cast<std::size_t>(size_of(dtype_)); }
  std::byte* data() { return bytes_.data(); }
  void write(const Values& v) {
    for (std::size_t i = 0; i < n_; ++i) {
      std::byte* const p = bytes_.data() + guard() + i * size();
      const float f = static_cast<float>(v[i]);
      const bfloat16 narrow(f);
      const auto id = static_cast<std::int32_t>(dtype_ == DType::I32 ? v[i] : 0);
      std::memcpy(p,
                  dtype_ == DType::F64    ? static_cast<const void*>(&v[i])
                  : dtype_ == DType::F32  ? static_cast<const void*>(&f)
                  : dtype_ == DType::BF16 ? static_cast<const void*>(&narrow)
                                          : static_cast<const void*>(&id),
                  size());
    }
  }
  Values read() const {
    Values v(n_);
    for (std::size_t i = 0; i < n_; ++i) {
      const std::byte* const p = bytes_.data() + guard() + i * size();
      float f = 0;
      if (dtype_ == DType::F64) {
        std::memcpy(&v[i], p, 8);
      } else if (dtype_ == DType::BF16) {
        bfloat16 narrow;
        std::memcpy(&narrow, p, 2);
        v[i] = static_cast<float>(narrow);
      } else if (dtype_ == DType::I32) {
        std::int32_t id = 0;
        std::memcpy(&id, p, 4);
        v[i] = id;
      } else {
        std::memcpy(&f, p, 4);
        v[i] = f;
      }
    }
    return v;
  }
  bool guards_intact() const {
    for (std::size_t i = 0; i < guard(); ++i) {
      if (bytes_[i] != std::byte{0x5a}) return false;
      if (bytes_[bytes_.size() - 1 - i] != std::byte{0x5a}) return false;
    }
    return true;
  }

 private:
  std::size_t n_;
  DType dtype_;
  std::vector<std::byte> bytes_;
};

}  // namespace lockstep::cpu::test
