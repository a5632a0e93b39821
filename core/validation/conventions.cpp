#include "core/validation/conventions.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "core/validation/hardware_words.hpp"

namespace lockstep {
namespace {

using enum DataParallelOverlap;
using enum GradientType;

bool says_any(std::string_view text, std::initializer_list<std::string_view> phrases) {
  return std::any_of(phrases.begin(), phrases.end(),
                     [&](std::string_view phrase) { return has_words(text, phrase); });
}

/// Letters and digits alone, in lower case, without "stage": "zero3" of "ZeRO stage 3".
std::string squeezed(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0) result += static_cast<char>(std::tolower(letter));
  }
  if (const std::size_t at = result.find("stage"); at != std::string::npos) result.erase(at, 5);
  return result;
}

KnownOfRun known_of(const TrainingRow& row) {
  KnownOfRun run;
  run.words = row.framework;
  if (run.words.empty()) run.words = row.fsdp_or_zero + "; " + row.notes + "; " + row.source;
  run.compute_capability = card_of(row.hw).compute_capability;
  run.divides_layers = row.tp.value_or(1) * row.pp.value_or(1) > 1;
  run.zero_stage = zero_stage_of(row).value_or(0);
  return run;
}

DataParallelOverlap overlap_of(const TrainingRow& row, DataParallelOverlap usual) {
  if (row.overlap) return *row.overlap;
  if (says_any(row.notes, {"not overlapped", "no overlap"})) return None;
  if (has_words(row.fsdp_or_zero, "overlapped")) return GradientsAndParameters;
  return usual;
}

bool is_megatron(std::string_view preset) {
  return preset.starts_with("megatron") || preset.starts_with("deepspeed") ||
         preset.starts_with("bigscience");
}

}  // namespace

RowConventions conventions_of(const TrainingRow& row) {
  RowConventions result{usual_framework(known_of(row))};
  UsualFramework& software = result.software;
  software.overlap = overlap_of(row, software.overlap);
  software.gradients = row.gradient_dtype.value_or(software.gradients);
  const bool counts_again = is_megatron(software.preset) && software.preset != "megatron-core" &&
                            software.preset != "megatron-tests";
  const bool bridge = says_any(known_of(row).words, {"megatron bridge", "megatron-bridge"});
  result.flops = row.flop_convention.value_or(counts_again ? FlopConvention::Narayanan
                                              : bridge     ? FlopConvention::CausalModel
                                                           : FlopConvention::Model);
  const bool process = says_any(row.notes, {"whole process", "nvidia-smi", "of the card"});
  result.memory =
      row.memory_measure.value_or(process ? MeasuredMemory::Process : MeasuredMemory::Allocated);
  return result;
}

std::optional<int> zero_stage_of(const TrainingRow& row) {
  const std::string words = squeezed(row.fsdp_or_zero);
  if (words.empty()) return std::nullopt;
  // The first that the text contains.
  constexpr std::array<std::pair<std::string_view, int>, 9> kStages = {{{"zero2", 2},
                                                                        {"gradop", 2},
                                                                        {"zero3", 3},
                                                                        {"fsdp", 3},
                                                                        {"fullshard", 3},
                                                                        {"hybridshard", 3},
                                                                        {"zero1", 1},
                                                                        {"distopt", 1},
                                                                        {"hsdp", 3}}};
  for (const auto& [name, stage] : kStages) {
    if (words.find(name) != std::string::npos) return stage;
  }
  return 0;
}

long shard_of(const TrainingRow& row, long replicas, long node) {
  const std::string words = squeezed(row.fsdp_or_zero);
  const bool hybrid =
      words.find("hybrid") != std::string::npos || words.find("hsdp") != std::string::npos;
  for (const std::string_view key : {"within", "fsdp", "hsdp"}) {
    const std::size_t at = words.find(key);
    if (at == std::string::npos) continue;
    long ranks = 0;
    std::from_chars(words.data() + at + key.size(), words.data() + words.size(), ranks);
    if (ranks > 2 && replicas % ranks == 0) return ranks;
  }
  return hybrid && replicas % node == 0 ? node : replicas;
}

bool sums_in_16_bits(const TrainingRow& row) {
  const GradientType type = conventions_of(row).software.gradients;
  return type == AsParameters ||
         (type == HalfAsParameters && row.precision.find("fp16") != std::string::npos);
}

long vocabulary(const TrainingRow& row) {
  if (row.vocab && !is_megatron(conventions_of(row).software.preset)) return *row.vocab;
  const bool bloom = row.notes.find("250k") != std::string::npos;
  const long words = row.vocab.value_or(bloom ? 250680 : 50257);
  const long multiple = 128 * row.tp.value_or(1);
  return (words + multiple - 1) / multiple * multiple;
}

long ffn_hidden_of(const TrainingRow& row) {
  constexpr double kStep = 256;
  if (row.ffn_hidden) return *row.ffn_hidden;
  const auto h = static_cast<double>(*row.hidden);
  if (!is_llama(row)) return 4 * *row.hidden;
  double f = h * 8 / 3;
  if (row.params_b && row.layers && row.heads && row.vocab) {
    const auto l = static_cast<double>(*row.layers);
    const double groups =
        static_cast<double>(row.kv_heads.value_or(*row.heads)) / static_cast<double>(*row.heads);
    const double rest = 2 * static_cast<double>(*row.vocab) * h + l * h * h * (2 + 2 * groups);
    const double left = (*row.params_b * 1e9 - rest) / (3 * l * h);
    if (left > h / 2 && left < 8 * h) f = left;
  }
  return static_cast<long>(std::round(f / kStep) * kStep);
}

std::optional<double> counted_flops(const TrainingRow& row, FlopConvention convention) {
  if (!row.seq || !row.global_batch_seqs) return std::nullopt;
  const auto s = static_cast<double>(*row.seq);
  const double tokens = s * static_cast<double>(*row.global_batch_seqs);
  if (convention == FlopConvention::ParametersOnly) {
    if (!row.params_b) return std::nullopt;
    return (row.recompute == "full" ? 8 : 6) * *row.params_b * 1e9 * tokens;
  }
  if (!row.layers || !row.hidden) return std::nullopt;
  const auto l = static_cast<double>(*row.layers), h = static_cast<double>(*row.hidden);
  const auto v = static_cast<double>(vocabulary(row));
  if (convention == FlopConvention::Narayanan) {
    return 96 * tokens * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
  }
  const bool llama = is_llama(row);
  const double groups = row.kv_heads && row.heads
                            ? static_cast<double>(*row.kv_heads) / static_cast<double>(*row.heads)
                            : 1;
  const long chosen = row.experts ? row.experts_per_token.value_or(1) : 1;
  const double f = row.ffn_hidden
                       ? static_cast<double>(chosen * row.expert_ffn.value_or(*row.ffn_hidden))
                       : 4 * h;
  const double products = l * (h * h * (2 + 2 * groups) + (llama ? 3 : 2) * h * f) + v * h;
  const double seen = convention == FlopConvention::CausalModel ? 6 : 12;
  return tokens * (6 * products + seen * l * h * s);
}

std::optional<double> measured_step_time(const TrainingRow& row) {
  if (row.iter_time_s) return row.iter_time_s;
  if (!row.gpus) return std::nullopt;
  const auto gpus = static_cast<double>(*row.gpus);
  if (row.tokens_per_s_per_gpu && row.seq && row.global_batch_seqs) {
    return static_cast<double>(*row.seq * *row.global_batch_seqs) /
           (gpus * *row.tokens_per_s_per_gpu);
  }
  if (!row.tflops_per_gpu) return std::nullopt;
  const auto flops = counted_flops(row, conventions_of(row).flops);
  if (!flops) return std::nullopt;
  return *flops / (gpus * *row.tflops_per_gpu * 1e12);
}

}  // namespace lockstep
