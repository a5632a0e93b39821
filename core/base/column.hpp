// Column: one field of millions of elements, such as the ends of spans.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <vector>

#include "core/base/huge_pages.hpp"

namespace lockstep {

/// Leaves elements that resize() adds as the memory is: who fills a column, maybe on several
/// threads, is the first to touch it. Hundreds of megabytes go into huge pages, of which the system
/// gives hundreds of times as much at once.
template <class T>
struct ColumnAllocator {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
  using value_type = T;
  ColumnAllocator() = default;
  template <class U>
  explicit(false) ColumnAllocator(const ColumnAllocator<U>& /*other*/) {}

  T* allocate(std::size_t count) {
    return is_large(count) ? HugePageAllocator<T>().allocate(count)
                           : static_cast<T*>(::operator new(count * sizeof(T)));
  }
  void deallocate(T* memory, std::size_t count) {
    is_large(count) ? HugePageAllocator<T>().deallocate(memory, count) : ::operator delete(memory);
  }
  template <class U>
  void construct(U* /*element*/) const {}
  friend bool operator==(ColumnAllocator /*a*/, ColumnAllocator /*b*/) { return true; }

 private:
  static bool is_large(std::size_t count) { return count * sizeof(T) >= 32 * kHugePage; }
};

/// What resize() adds must be written before it is read.
template <class T>
using Column = std::vector<T, ColumnAllocator<T>>;

}  // namespace lockstep
