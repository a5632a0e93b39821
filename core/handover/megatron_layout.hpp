// Megatron layout: what a script says in strings of its own: which program it starts, and which
// blocks a stage has. Internal to core/handover.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// What a program of Megatron-LM trains if it is no decoder of text alone: "images"; empty for a
/// decoder, for BERT, and for programs that are not known.
std::string_view foreign_subject(std::string_view program);

/// Whether a program is known by its name to generate, evaluate or prepare, which is no training.
bool trains_nothing(std::string_view program);

/// The blocks of every virtual stage that --pipeline-model-parallel-layout says: '|' parts stages,
/// 't' is a block, 'E' the embedding, 'L' the output layer, ',' nothing, and "x*3" or "(...)*3" is
/// what stands before it three times (core/transformer/pipeline_parallel_layer_layout.py). Empty if
/// it is not understood, or has blocks of other kinds ('m', which predict a second token).
std::vector<std::int64_t> blocks_of_layout(std::string_view layout);

/// The blocks of every stage of `stages` where embedding and output layer count as a block each, if
/// so. Empty if they do not divide.
std::vector<std::int64_t> blocks_beside(std::int64_t blocks, std::int64_t stages,
                                        bool counts_embedding, bool counts_output);

}  // namespace lockstep
