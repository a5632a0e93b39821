#include "core/weights/merged_state.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "core/base/convert.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep {
namespace {

/// Elements [begin, begin + count) of a tensor.
Result<std::vector<double>> read_values(const StateReader& state, const std::string& name,
                                        std::int64_t begin, std::int64_t count) {
  const DType type = state.head().tensors.at(name).dtype;
  std::vector<std::byte> raw(to_size(count * size_of(type)));
  if (auto got = state.read(name, begin * size_of(type), raw); !got) return got.error();
  std::vector<double> values(to_size(count));
  convert(raw, type, std::as_writable_bytes(std::span(values)), DType::F64);
  return values;
}

class MergedState final : public StateReader {
 public:
  MergedState(const StateReader& state, const StateReader& adapters, LowRankTerms terms)
      : state_(state), adapters_(adapters), terms_(std::move(terms)) {
    head_ = state.head();
    for (const auto& [weight, of_weight] : terms_) {
      for (const LowRankTerm& term : of_weight) {
        head_.tensors.erase(term.down);
        head_.tensors.erase(term.up);
      }
    }
  }

  Result<void> read(const std::string& tensor, std::int64_t begin,
                    std::span<std::byte> to) const override {
    const auto terms = terms_.find(tensor);
    if (terms == terms_.end()) return state_.read(tensor, begin, to);
    const TensorInfo& info = head_.tensors.at(tensor);
    const std::int64_t size = size_of(info.dtype), first = begin / size;
    const std::int64_t count = static_cast<std::int64_t>(to.size()) / size;
    auto values = read_values(state_, tensor, first, count);
    if (!values) return values.error();
    for (const LowRankTerm& term : terms->second) {
      if (auto added = add(term, info.shape.back(), first, *values); !added) return added;
    }
    convert(std::as_bytes(std::span(*values)), DType::F64, to, info.dtype);
    return {};
  }

 private:
  /// Adds a term to the elements of W from `first` on.
  Result<void> add(const LowRankTerm& term, std::int64_t inputs, std::int64_t first,
                   std::vector<double>& values) const {
    const std::vector<std::int64_t>& shape = adapters_.head().tensors.at(term.up).shape;
    const std::int64_t rank = shape.back(), end = first + static_cast<std::int64_t>(values.size());
    const std::int64_t experts = shape.size() > 2 ? shape[0] : 1;
    const std::int64_t of_one = shape[shape.size() - 2];  // rows of B, of each expert
    const std::int64_t begin_row = std::max(first / inputs, term.first_row);
    const std::int64_t end_row =
        std::min((end + inputs - 1) / inputs, term.first_row + experts * of_one);
    if (begin_row >= end_row) return {};
    const auto up = read_values(adapters_, term.up, (begin_row - term.first_row) * rank,
                                (end_row - begin_row) * rank);
    if (!up) return up.error();
    const std::lock_guard lock(mutex_);
    if (auto known = keep_down(term.down, experts * rank * inputs); !known) return known;
    for (std::int64_t row = begin_row; row < end_row; ++row) {
      const std::int64_t from = std::max(first, row * inputs);
      const std::int64_t until = std::min(end, (row + 1) * inputs);
      const std::int64_t first_k = (row - term.first_row) / of_one * rank;  // of the expert's A
      for (std::int64_t k = 0; k < rank; ++k) {
        const double factor = term.scale * (*up)[to_size((row - begin_row) * rank + k)];
        for (std::int64_t i = from; i < until; ++i) {
          values[to_size(i - first)] +=
              factor * down_[to_size((first_k + k) * inputs + i - row * inputs)];
        }
      }
    }
    return {};
  }

  /// Keeps the A that was asked for last, because every piece of its weight needs the whole.
  Result<void> keep_down(const std::string& name, std::int64_t elements) const {
    if (down_name_ == name) return {};
    auto down = read_values(adapters_, name, 0, elements);
    if (!down) return down.error();
    down_ = std::move(*down);
    down_name_ = name;
    return {};
  }

  const StateReader& state_;
  const StateReader& adapters_;
  LowRankTerms terms_;
  mutable std::mutex mutex_;  // of the next two
  mutable std::string down_name_;
  mutable std::vector<double> down_;
};

}  // namespace

std::unique_ptr<StateReader> add_low_rank(const StateReader& state, const StateReader& adapters,
                                          LowRankTerms terms) {
  return std::make_unique<MergedState>(state, adapters, std::move(terms));
}

}  // namespace lockstep
