// Input: what a program says beside its ops of the training of which it is a step: the samples that
// a rank reads, the tables of integers that the host gives to ranks, the seed and the learning
// rate.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/learning_rate.hpp"
#include "core/base/loss_scale.hpp"

namespace lockstep {

struct Mesh;  // core/ir/mesh.hpp

enum class SampleKind : std::uint8_t { None, Tokens, Images };
inline constexpr int kNumSampleKinds = 3;
std::string_view to_string(SampleKind kind);

/// The samples of a step and how the ranks divide them. On a rank at position d of D over the mesh
/// dimensions `over` (in the order listed, of which the last varies fastest), row r of microbatch m
/// of global step s is global sample
///     s × per_step + d × (per_step / D) + m × microbatch + r.
/// Data are a function of (seed, global sample) alone, never of the rank.
struct Samples {
  SampleKind kind = SampleKind::None;  // None: the program reads no data
  /// Tokens of a sequence, which has as many targets; or height and width of an image, which has
  /// one target, its class.
  std::int64_t length = 0;
  std::int64_t classes = 0;     // size of the vocabulary, or number of classes of images
  std::int64_t per_step = 0;    // samples of a step on all ranks together
  std::int64_t microbatch = 0;  // samples of one microbatch on one rank
  std::vector<int> over;        // mesh dimensions whose members read different samples
  /// The token that ends a document, of which a sequence holds several; -1: there are none.
  std::int64_t document_end = -1;
  double mean_document = 0;   // tokens of a document, on average, if the data are synthetic
  std::int64_t window = 0;    // tokens that a query sees where HostData::Windows says so
  bool ignores_ends = false;  // the token behind such an end is not a target (kIgnoredTarget)
  /// Of so many tokens of every sample, and of no others, the token itself is the target, and most
  /// of them are hidden behind mask_token (core/data/masked_tokens.hpp); 0: the target of a token
  /// is the next one.
  std::int64_t masked = 0;
  std::int64_t mask_token = -1;
  bool shuffled = true;  // every epoch has another order of the data set's samples
  // An intensity i of 0 … 255 in channel c (red, green, blue) is given to the model as
  // (i / 255 - mean[c]) / deviation[c].
  std::array<double, 3> mean{}, deviation{};

  std::int64_t targets() const { return kind == SampleKind::Tokens ? length : 1; }
  /// How many integers a data source gives for the input of one sample: ids, or intensities.
  std::int64_t inputs() const { return kind == SampleKind::Tokens ? length : length * length * 3; }
  bool operator==(const Samples&) const = default;
};

/// A range of consecutive integers.
struct IndexRange {
  std::int32_t first = 0, last = 0;  // inclusive; first <= last
  bool operator==(const IndexRange&) const = default;
};

/// A list of integers, kept as ranges: 0-31,96-127.
struct IndexList {
  std::vector<IndexRange> ranges;
  std::int64_t size() const;
  /// Fills all of `to`; a list that is shorter is repeated. Requires size() > 0.
  void fill(std::span<std::int32_t> to) const;
  bool operator==(const IndexList&) const = default;
};
/// Adds a range at the end; the last one is extended if the new one follows it.
void append(IndexList& list, IndexRange range);

/// What a table says, and what is assumed if there is none.
enum class TableKind : std::uint8_t {
  Order,      // the tokens of a sample that a rank takes, in its order; without a table, all
  Shift,      // one integer, subtracted from ids of tokens and targets: the first id of the
              // rank's part of the vocabulary; without a table, 0
  Queries,    // the tokens of a sample that the rank attends with; without a table, all
  Rows,       // of a microbatch's rows, counted over all its samples, where those begin that the
              // rank holds between layers: equally many from each of these on; without a table, 0
  Heads,      // which of the model's query heads it attends with; without a table, all
  Positions,  // the last five: what copies of these names bring (see HostData)
  Starts,
  Columns,
  Parts,
  Shards,
};
inline constexpr int kNumTableKinds = static_cast<int>(TableKind::Shards) + 1;
std::string_view to_string(TableKind kind);

/// Lists of integers, one for each position along `dims`, of which the last varies fastest. Without
/// dimensions there is one list, the same for all ranks.
struct IndexTable {
  TableKind kind = TableKind::Order;
  std::vector<int> dims;  // of the mesh
  std::vector<IndexList> lists;
  bool operator==(const IndexTable&) const = default;
};

struct Input {
  Samples samples;
  std::vector<IndexTable> tables;                 // at most one of each kind
  const IndexTable* table(TableKind kind) const;  // null if there is none
  bool operator==(const Input&) const = default;
};

/// The training that the program is one step of.
struct Training {
  std::string model;       // name of the model, for reports; may be empty
  int steps = 0;           // of the whole training; 0 if not said
  double tokens = 0;       // tokens or images of the whole training; 0 if not said
  std::uint64_t seed = 0;  // for initial values, the order of the data, and rounding at random
  LearningRate learning_rate;
  std::optional<LossScaling> loss_scaling = std::nullopt;  // none: gradients are not scaled
  bool operator==(const Training&) const = default;
};

/// The position of `rank` over some dimensions of the mesh, of which the last varies fastest.
int position_over(const Mesh& mesh, std::span<const int> dims, std::int32_t rank);
/// How many positions there are over these dimensions.
std::int64_t size_over(const Mesh& mesh, std::span<const int> dims);

}  // namespace lockstep
