// What the files of RoBERTa (Liu et al. 2019) in Hugging Face's layout have beside BERT's.
#pragma once

#include <cstdint>

namespace lockstep {

/// Their table of positions begins with rows that no token has: positions count from behind the row
/// of the padding token, whose id is 1. No model here has these rows.
inline constexpr std::int64_t kRobertaPaddingRows = 2;

}  // namespace lockstep
