// Masked language modelling (Devlin et al. 2018, BERT, section 3.1): which tokens of a sample are
// chosen to be predicted, and what the model sees in their place.
#pragma once

#include <cstdint>
#include <span>

#include "core/ir/input.hpp"

namespace lockstep {

/// Chooses Samples::masked of the tokens at random, puts the token mask_token in the place of about
/// 80 % of them and any other token of the vocabulary in that of 10 %; 10 % stay. Their targets
/// become what they were, all other targets kIgnoredTarget. What is drawn is a function of the
/// seed, the sample's number in the training and the token's position, so that it is the same on
/// every rank that reads the sample, in every layout and after a resume, and another when the
/// sample is read again. Ends of documents (Samples::document_end) are neither chosen nor drawn; a
/// sample with too few other tokens has fewer targets.
void mask_tokens(const Samples& samples, std::uint64_t seed, std::int64_t sample,
                 std::span<std::int32_t> tokens, std::span<std::int32_t> targets);

}  // namespace lockstep
