// Quantized: gradients that ranks exchange as codes of few bits (Wang et al. 2023, ZeRO++).
#pragma once

#include "core/lower/draft/op_writer.hpp"

namespace lockstep {

/// Writes a reduce-scatter of the gradient `whole` to `shard` by codes: those of its pieces go to
/// the ranks that own these, which add up what they stand for. Where neighbours exchange first,
/// each of them is sent the pieces of all that have its place elsewhere, and their sums are then
/// exchanged between these. A shard has so many elements.
void exchange_quantized(const OpWriter& writer, GroupId shards, std::int64_t elements,
                        BufferId whole, BufferId shard);

}  // namespace lockstep
