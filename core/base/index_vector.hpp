// IndexVector and IndexArray: containers whose elements are found by an id, an enumerator or a
// signed number, such as a rank; and the one place that makes a std::size_t of such an index.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/ids.hpp"

namespace lockstep {

/// An index as a place in a container, or a signed count as one. Requires i >= 0.
template <class I>
requires std::signed_integral<I> || std::is_enum_v<I>
constexpr std::size_t to_size(I i) { return static_cast<std::size_t>(i); }
template <class Tag>
constexpr std::size_t to_size(Id<Tag> id) {
  return static_cast<std::size_t>(id.v);
}

/// The index of the element at a place: what to_size() undoes.
template <class Index>
constexpr Index from_index(std::size_t place) {
  if constexpr (requires(Index i) { i.v; }) {
    return {static_cast<decltype(Index::v)>(place)};
  } else {
    return static_cast<Index>(place);
  }
}

/// Whether an `I` may stand where a container asks for an `Index`. Signed integers may stand for
/// each other (a rank is one, and so is a stage); an id or an enumerator for its own type alone.
template <class I, class Index>
concept IndexLike = std::same_as<I, Index> ||
    (std::signed_integral<I>&& std::signed_integral<Index>);

/// The indices 0, 1, … of `count` elements, for a loop.
template <class Index>
class Indices {
 public:
  class Iterator {
   public:
    explicit constexpr Iterator(std::size_t place) : place_(place) {}
    constexpr Index operator*() const { return from_index<Index>(place_); }
    constexpr Iterator& operator++() {
      ++place_;
      return *this;
    }
    constexpr bool operator==(const Iterator&) const = default;

   private:
    std::size_t place_;
  };
  explicit constexpr Indices(std::size_t count) : count_(count) {}
  constexpr Iterator begin() const { return Iterator(0); }
  constexpr Iterator end() const { return Iterator(count_); }

 private:
  std::size_t count_;
};

/// A std::vector by `Index`. A std::size_t finds an element, too, for a loop over all of them. As
/// of any std::vector, a place outside is caught where _GLIBCXX_ASSERTIONS is defined, as it is in
/// a build for a debugger. Counts may be signed; they are not negative.
template <class Index, class T>
class IndexVector : public std::vector<T> {
  using Base = std::vector<T>;

 public:
  using Base::Base;
  IndexVector() = default;
  IndexVector(Base&& elements) : Base(std::move(elements)) {}
  template <std::signed_integral I>
  explicit IndexVector(I count, const T& value = T()) : Base(to_size(count), value) {}

  using Base::operator[];
  template <IndexLike<Index> I>
  constexpr typename Base::reference operator[](I i) {
    return Base::operator[](to_size(i));
  }
  template <IndexLike<Index> I>
  constexpr typename Base::const_reference operator[](I i) const {
    return Base::operator[](to_size(i));
  }

  using Base::assign;
  template <std::signed_integral I>
  void assign(I count, const T& value) {
    Base::assign(to_size(count), value);
  }
  using Base::resize;
  template <std::signed_integral I>
  void resize(I count) {
    Base::resize(to_size(count));
  }

  /// The index of the element that is appended next.
  Index next() const { return from_index<Index>(this->size()); }
  Indices<Index> ids() const { return Indices<Index>(this->size()); }
};

/// A std::array of one element for each of `count` indices, such as the enumerators of a type.
template <class Index, class T, std::size_t count>
struct IndexArray : std::array<T, count> {
  using Base = std::array<T, count>;
  using Base::operator[];
  template <IndexLike<Index> I>
  constexpr T& operator[](I i) {
    return Base::operator[](to_size(i));
  }
  template <IndexLike<Index> I>
  constexpr const T& operator[](I i) const {
    return Base::operator[](to_size(i));
  }
  static constexpr Indices<Index> ids() { return Indices<Index>(count); }
};

}  // namespace lockstep
