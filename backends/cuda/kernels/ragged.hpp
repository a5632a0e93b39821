// Rows of experts that stand one behind the other, as many as counts on the device say
// (ragged_gemm).
#pragma once

#include "backends/cuda/kernels/device.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {

/// The rows of one part: `count` from `first` on, of group `group`.
struct RaggedPart {
  int64_t first, count, group;
};

/// How rows lie in places.
struct RaggedLayout {
  const std::int32_t* counts;
  int64_t groups, parts, blocks, places;
  /// Where the rows of a part begin, if those of the part before end at `row`.
  __device__ __forceinline__ int64_t begin(int64_t part, int64_t row) const {
    const int64_t of_block = parts / blocks;
    return part % of_block == 0 ? part / of_block * (places / blocks) : row;
  }
  /// Whether the place has a row.
  __device__ __forceinline__ bool has_row(int64_t place) const {
    const int64_t of_block = parts / blocks, block = place / (places / blocks);
    int64_t rows = 0;
    for (int64_t part = 0; part < of_block; ++part) rows += counts[block * of_block + part];
    return place % (places / blocks) < rows;
  }
  /// Which part the tile of number `tile` belongs to, where every part begins a new tile of `rows`
  /// rows; it becomes the number within the part. Returns an empty part behind the last one.
  __device__ __forceinline__ RaggedPart part_of(int64_t& tile, int64_t rows) const {
    int64_t first = 0;
    for (int64_t part = 0; part < parts; ++part) {
      first = begin(part, first);
      const int64_t count = counts[part], tiles = (count + rows - 1) / rows;
      if (tile < tiles) return {first, count, part % groups};
      tile -= tiles;
      first += count;
    }
    return {first, 0, 0};
  }
};

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
