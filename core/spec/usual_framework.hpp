// Usual framework: which software trains where a run says little or nothing of it, and what that
// software does without being told. One table for published rows, plans, questions and imports.
#pragma once

#include <string>
#include <string_view>

#include "core/spec/strategy.hpp"

namespace lockstep {

/// What data-parallel communication runs beside the backward or forward pass, instead of after it.
enum class DataParallelOverlap { None, Gradients, GradientsAndParameters };

/// In which type gradients are summed. HalfAsParameters: in float16 where that is the parameters'
/// type, otherwise in float32.
enum class GradientType { Float32, AsParameters, HalfAsParameters };

inline constexpr int kNewestReleases = 9999;  // as a year

/// What is known of a run.
struct KnownOfRun {
  /// The software as people write it, with its version or year ("NeMo 24.07", "PyTorch FSDP2"), or
  /// a text that mentions it. Empty if nothing is said.
  std::string words;
  double compute_capability = 0;  // of the card; 0: another maker's than NVIDIA
  bool divides_layers = false;    // tensor or pipeline parallelism
  int zero_stage = 0;             // 3: FSDP, too
  int year = 0;                   // 0: what the words say, or the card
};

struct UsualFramework {
  std::string_view name;    // "Megatron Core": the words "as … runs it" are completed with it
  std::string_view preset;  // frameworks/*.toml
  DataParallelOverlap overlap = DataParallelOverlap::Gradients;
  bool distributed_optimizer = false;  // ZeRO-1 where nothing is said of sharding
  bool sequence_parallel = false;      // with tensor parallelism
  GradientType gradients = GradientType::Float32;
  std::string_view because;  // where it is known from
};

/// The first row of the table that holds. Where the words name no software, the layout decides:
/// Megatron-LM divides layers, FSDP shards parameters, and otherwise it is PyTorch's DDP. Where
/// they say no year, it is that in which most runs on the card were: 2020 on V100s, 2022 on A100s,
/// the newest on others.
UsualFramework usual_framework(const KnownOfRun& run);

/// What a plan is simulated as if nobody says which software will run it: what the newest releases
/// do. FSDP is torchtitan's; what divides layers or experts, or shards optimizer states alone, is
/// Megatron Core's; and replicas alone are PyTorch's DDP with torch.compile.
UsualFramework framework_of_plan(const StrategySpec& strategy);

/// The year in a text: "March 2021", "2022-07-26", an arXiv number ("2104.04473"), or a version by
/// year and month behind a word or a bracket ("NeMo 24.07", "ngc23.04", "v25.03"). 0 if there is
/// none.
int stated_year(std::string_view text);

/// Whether a text has a phrase as whole words, whatever the case; digits may follow ("fsdp" in
/// "FSDP2"). Requires `phrase` in lower case.
bool has_words(std::string_view text, std::string_view phrase);

}  // namespace lockstep
