// The parts of the rows of products whose rows are counted (ragged_gemm). In an unnamed namespace,
// because files of several instruction sets include it.
#pragma once

#include <cstdint>

namespace lockstep::cpu {
namespace {

/// Calls body(group, first row, rows) for every part of the rows that counts list, in order. Every
/// block of parts begins at its own part of the places.
template <class Body>
void for_ragged_parts(const std::int32_t* counts, std::int64_t parts, std::int64_t groups,
                      std::int64_t blocks, std::int64_t places, const Body& body) {
  std::int64_t row = 0;
  for (std::int64_t part = 0; part < parts; ++part) {
    if (part % (parts / blocks) == 0) row = part / (parts / blocks) * (places / blocks);
    if (counts[part] > 0) body(part % groups, row, std::int64_t{counts[part]});
    row += counts[part];
  }
}

}  // namespace
}  // namespace lockstep::cpu
