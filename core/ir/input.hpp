// Input: what a program says beside its ops of the training it is a step of: which samples a rank
// reads, the tables of integers that the host gives to its ranks, seed and learning rate.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/learning_rate.hpp"

namespace lockstep {

struct Mesh;  // core/ir/program.hpp

enum class SampleKind : std::uint8_t { None, Tokens, Images };
inline constexpr int kNumSampleKinds = 3;
std::string_view to_string(SampleKind kind);

/// The samples of a step and how the ranks divide them. Row r of microbatch m of global step s is,
/// on a rank at position d of D over the mesh dimensions `over` (in the order listed, the last one
/// varies fastest), global sample
///     s × per_step + d × (per_step / D) + m × microbatch + r.
/// Data are a function of (seed, global sample) alone, never of the rank.
struct Samples {
  SampleKind kind = SampleKind::None;  // None: the program reads no data
  std::int64_t length = 0;    // tokens of a sequence, with as many targets; of images their height
                              // and width, with one target, the class
  std::int64_t classes = 0;   // size of the vocabulary; or of images, their classes
  std::int64_t per_step = 0;  // of all ranks
  std::int64_t microbatch = 0;  // samples of one microbatch on one rank
  std::vector<int> over;        // mesh dimensions whose members read different samples
  bool shuffled = true;         // another order of the data set's samples every epoch
  // An intensity i of 0 … 255 in channel c (red, green, blue) is given to the model as
  // (i / 255 - mean[c]) / deviation[c].
  std::array<double, 3> mean{}, deviation{};

  std::int64_t targets() const { return kind == SampleKind::Tokens ? length : 1; }
  /// Integers that a data source gives for the input of one sample: ids, or intensities.
  std::int64_t inputs() const { return kind == SampleKind::Tokens ? length : length * length * 3; }
  bool operator==(const Samples&) const = default;
};

/// Consecutive integers.
struct IndexRange {
  std::int32_t first = 0, last = 0;  // inclusive; first <= last
  bool operator==(const IndexRange&) const = default;
};

/// A list of integers as ranges: 0-31,96-127.
struct IndexList {
  std::vector<IndexRange> ranges;
  std::int64_t size() const;
  /// All of `to`; a list that is shorter begins again at its end. Requires size() > 0.
  void fill(std::span<std::int32_t> to) const;
  bool operator==(const IndexList&) const = default;
};
/// Adds one more integer at the end, to the last range if it follows on it.
void append(IndexList& list, std::int32_t value);

/// What a table says, and what it is for if there is none.
enum class TableKind : std::uint8_t {
  Order,      // which tokens of a sample a rank takes, in its order; none: all of them
  Shift,      // one integer, subtracted from ids of tokens and targets: the first one of the rank's
              // part of the vocabulary; none: 0
  Positions,  // what copies of `positions`, `starts` and `columns` bring; see HostData
  Starts,
  Columns,
};
inline constexpr int kNumTableKinds = static_cast<int>(TableKind::Columns) + 1;
std::string_view to_string(TableKind kind);

/// Lists of integers that depend on a rank's coordinates along `dims`: one for each, the last
/// dimension varies fastest. Without dimensions: one list, the same for all ranks.
struct IndexTable {
  TableKind kind = TableKind::Order;
  std::vector<int> dims;  // of the mesh
  std::vector<IndexList> lists;
  bool operator==(const IndexTable&) const = default;
};

struct Input {
  Samples samples;
  std::vector<IndexTable> tables;                 // of each kind at most one
  const IndexTable* table(TableKind kind) const;  // null: there is none
  bool operator==(const Input&) const = default;
};

/// The training that the program is one step of.
struct Training {
  std::string model;       // its name, for reports; empty: none
  int steps = 0;           // of the whole training; 0: not said
  double tokens = 0;       // likewise, tokens or images; 0: not said
  std::uint64_t seed = 0;  // of initial values, of the order of the data, of rounding at random
  LearningRate learning_rate;
  bool operator==(const Training&) const = default;
};

/// Position of `rank` over some dimensions of the mesh, the last of which varies fastest.
int position_over(const Mesh& mesh, std::span<const int> dims, std::int32_t rank);
/// Positions over these dimensions.
std::int64_t size_over(const Mesh& mesh, std::span<const int> dims);

}  // namespace lockstep
