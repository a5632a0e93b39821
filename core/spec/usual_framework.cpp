#include "core/spec/usual_framework.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "core/base/lower_case.hpp"

namespace lockstep {
namespace {

using enum DataParallelOverlap;
using enum GradientType;

constexpr double kHopper = 9;  // compute capability
constexpr double kAnyCard = 1000;
constexpr int kNewest = kNewestReleases;

enum class Layout { Any, Divided, Whole, Sharded };
using enum Layout;

/// A row holds if the text has one of the alternatives of `words` ("a|b"; "a&b": both), the layout
/// is the one named, the year is at most `until`, and the card is NVIDIA's from before `before`.
struct When {
  std::string_view words;
  Layout layout = Any;
  int until = kNewest;
  double before = kAnyCard;  // compute capability
};
struct Rule {
  When when;
  UsualFramework usual;
};

// The columns of the last part are name, preset, overlap, distributed optimizer, sequence parallel,
// type of gradients and reason.
constexpr std::array kRules = {
    Rule{{"cuda_launch_blocking"},
         {"Megatron-DeepSpeed with launches that wait", "bigscience-2022", None, false, false,
          HalfAsParameters, "bigscience, tr11-176B-ml.slurm and chronicles-prequel.md"}},
    Rule{{"functional_tests|functional tests"},
         {"Megatron Core's functional tests", "megatron-tests", GradientsAndParameters, true, false,
          Float32, "Megatron-LM, tests/functional_tests, model_config.yaml"}},
    Rule{{"llm.c"},
         {"llm.c", "llm.c", Gradients, false, false, AsParameters,
          "llm.c adds gradients up in bfloat16"}},
    Rule{{"maxtext"},
         {"MaxText", "maxtext", GradientsAndParameters, false, false, AsParameters,
          "XLA sums a cast's gradient in the type of the products; its scheduler hides latencies"}},
    Rule{{"paxml|jax|xla|praxis|levanter"},
         {"Paxml", "paxml", GradientsAndParameters, false, false, AsParameters,
          "the same; praxis keeps nothing for the backward pass unless told"}},
    Rule{{"nanotron"},
         {"nanotron", "nanotron", Gradients, false, false, Float32,
          "nanotron, config: accumulate_grad_in_fp32"}},
    Rule{{"llm-foundry|llm foundry|composer"},
         {"llm-foundry", "llm-foundry", Gradients, false, false, AsParameters,
          "Composer's mixed precision DEFAULT and PURE reduce in the type of autocast"}},
    Rule{{"torchtitan"},
         {"torchtitan", "torchtitan", Gradients, false, true, Float32,
          "torchtitan, config: mixed_precision_reduce; its plans for TP are sequence parallel"}},
    Rule{{"megatron-deepspeed|megatron deepspeed|gpt-neox", Any, 2021},
         {"Megatron-DeepSpeed of 2021", "deepspeed-2021", None, false, false, HalfAsParameters,
          "deepspeed/runtime/pipe/engine.py reduces after the last microbatch"}},
    Rule{{"megatron-deepspeed|megatron deepspeed|gpt-neox"},
         {"Megatron-DeepSpeed", "deepspeed-2022", None, false, false, HalfAsParameters,
          "the same file; megatron/mpu/layers.py of September 2021 and later"}},
    // What is eager is not compiled, whoever shards it.
    Rule{{"fsdp&eager|fsdp1"},
         {"FSDP without compilation", "fsdp-eager", Gradients, false, false, AsParameters,
          "PyTorch, MixedPrecision: reduce_dtype takes param_dtype's value if it is not given"}},
    Rule{{"fsdp2|fully_shard|fsdp&torch.compile|fsdp&compile on"},
         {"torchtitan", "torchtitan", Gradients, false, true, Float32,
          "PyTorch's FSDP2, of which torchtitan is the example"}},
    Rule{
        {"nemo", Any, 2022},
        {"NeMo on Megatron-LM of 2022", "megatron-2023", Gradients, false, false, Float32,
         "NeMo of 2022: megatron_amp_O2 with async_grad_allreduce, masters' gradients in float32"}},
    Rule{{"nemo"},
         {"NeMo", "megatron-core", GradientsAndParameters, true, true, AsParameters,
          "NeMo's recipes: grad_sync_dtype bf16, later grad_reduce_in_fp32 = False"}},
    Rule{{"megatron-core|megatron core|mcore|megatron bridge|megatron-bridge|transformer engine"},
         {"Megatron Core", "megatron-core", GradientsAndParameters, true, true, Float32,
          "Megatron-LM, arguments.py: accumulate_allreduce_grads_in_fp32 is set with bf16"}},
    // "dist-opt" is Megatron-LM's name of ZeRO-1.
    Rule{{"megatron|dist-opt", Any, 2020},
         {"Megatron-LM of 2020", "megatron-2020", None, false, false, HalfAsParameters,
          "Megatron-LM of that year, arguments.py: --DDP-impl local reduces after the backward "
          "pass"}},
    Rule{{"megatron|dist-opt", Any, 2021},
         {"Megatron-LM of 2021", "megatron-2021", None, false, false, HalfAsParameters,
          "the same; gradients are summed in float32 with bf16 alone"}},
    Rule{{"megatron|dist-opt", Any, 2023},
         {"Megatron-LM of 2022 and 2023", "megatron-2023", None, false, false, HalfAsParameters,
          "the same; sequence parallelism only with --sequence-parallel"}},
    Rule{{"megatron|dist-opt", Any, kNewest, kHopper},
         {"Megatron-LM's pretrain_gpt.py", "megatron-2024", None, false, false, Float32,
          "Megatron-LM, arguments.py of 2024: --overlap-grad-reduce is off"}},
    Rule{{"megatron|dist-opt"},
         {"Megatron Core", "megatron-core", GradientsAndParameters, true, true, Float32,
          "NVIDIA's examples for Hopper, examples/llama: all overlaps, distributed optimizer"}},
    // Hugging Face's modules are eager, whatever trains them. DeepSpeed reduces in the type of the
    // parameters (communication_data_type); overlap_comm is true for stage 3 alone.
    Rule{{"deepspeed&hugging face", Sharded},
         {"Hugging Face on DeepSpeed", "fsdp-eager", Gradients, false, false, AsParameters,
          "deepspeed/runtime/zero/config.py: overlap_comm"}},
    Rule{{"hugging face|transformers|accelerate|axolotl|llama-factory|trl|xtuner"},
         {"Hugging Face", "fsdp-eager", Gradients, false, false, Float32,
          "transformers' modules on PyTorch's DDP or FSDP"}},
    Rule{{"deepspeed", Any, 2021},
         {"DeepSpeed of 2021", "deepspeed-2021", Gradients, false, false, AsParameters,
          "deepspeed/runtime/zero/stage3.py of that year"}},
    Rule{{"deepspeed", Any, 2022},
         {"DeepSpeed of 2022", "deepspeed-2022", Gradients, false, false, AsParameters,
          "the same of 2022"}},
    Rule{{"deepspeed", Divided},
         {"Megatron-DeepSpeed", "deepspeed-2022", None, false, false, AsParameters,
          "deepspeed/runtime/pipe/engine.py reduces after the last microbatch"}},
    Rule{{"deepspeed", Sharded},
         {"DeepSpeed", "fsdp-eager", Gradients, false, false, AsParameters,
          "deepspeed/runtime/zero/config.py: overlap_comm"}},
    Rule{{"deepspeed"},
         {"DeepSpeed", "fsdp-eager", None, false, false, AsParameters,
          "the same file: it is false for the other stages"}},
    Rule{{"fsdp", Any, kNewest, kHopper},
         {"FSDP without compilation", "fsdp-eager", Gradients, false, false, AsParameters,
          "most of what trained on A100s with FSDP was eager: torch.compile supports it since "
          "2024"}},
    Rule{{"fsdp"},
         {"torchtitan", "torchtitan", Gradients, false, true, Float32,
          "PyTorch's own way to train on Hopper and later cards"}},
    Rule{{"torch.compile|compile on", Whole},
         {"PyTorch with torch.compile", "torch-compile", Gradients, false, false, Float32,
          "PyTorch's DDP: buckets are reduced beside the backward pass"}},
    Rule{{"pytorch|ddp|lightning", Whole},
         {"PyTorch's DDP", "fsdp-eager", Gradients, false, false, Float32,
          "PyTorch's DDP: buckets are reduced beside the backward pass"}},
};

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

/// Whether `each` is true of a part of `text` between `separator`s.
template <class Each>
bool any_part(std::string_view text, char separator, Each each) {
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    if (each(text.substr(begin, end - begin))) return true;
    begin = end + 1;
  }
  return false;
}

bool says(std::string_view text, std::string_view alternatives) {
  return any_part(alternatives, '|', [&](std::string_view all) {
    return !any_part(all, '&', [&](std::string_view one) { return !has_words(text, one); });
  });
}

bool holds(const When& when, std::string_view words, int year, const KnownOfRun& run) {
  if (!says(words, when.words) || year > when.until) return false;
  if (when.before < kAnyCard &&
      (run.compute_capability == 0 || run.compute_capability >= when.before)) {
    return false;
  }
  switch (when.layout) {
    case Any:
      return true;
    case Divided:
      return run.divides_layers;
    case Whole:
      return !run.divides_layers;
    case Sharded:
      return run.zero_stage == 3;
  }
  return false;
}

std::optional<UsualFramework> first_that_holds(std::string_view words, int year,
                                               const KnownOfRun& run) {
  const auto* rule = std::find_if(kRules.begin(), kRules.end(),
                                  [&](const Rule& r) { return holds(r.when, words, year, run); });
  return rule == kRules.end() ? std::nullopt : std::optional(rule->usual);
}

/// The number of two digits at `at`; -1 if there is none, or if more digits follow.
int two_digits(std::string_view text, std::size_t at) {
  if (at + 2 > text.size() || !is_digit(text[at]) || !is_digit(text[at + 1])) return -1;
  if (at + 2 < text.size() && is_digit(text[at + 2])) return -1;
  return 10 * (text[at] - '0') + (text[at + 1] - '0');
}

/// The year of the number that begins at `at`, in one of the three ways; 0 if it is none.
int year_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && is_digit(text[end])) ++end;
  const auto month = [](int value) { return value >= 1 && value <= 12; };
  const bool dot = end < text.size() && text[end] == '.';
  if (end - at == 4) {
    const int four = 100 * (10 * (text[at] - '0') + text[at + 1] - '0') +
                     10 * (text[at + 2] - '0') + (text[at + 3] - '0');
    std::size_t behind = end + 1;
    while (dot && behind < text.size() && is_digit(text[behind])) ++behind;
    const bool arxiv = dot && behind - end == 6 && month(four % 100);
    if (arxiv) return 2000 + four / 100;
    return four >= 2018 && four <= 2035 && !dot ? four : 0;
  }
  const int years = two_digits(text, at);
  if (!dot || years < 18 || years > 35 || !month(two_digits(text, end + 1))) return 0;
  std::size_t before = at;
  if (before > 0 && text[before - 1] == ' ') --before;
  const char c = before > 0 ? text[before - 1] : ' ';
  return is_letter(c) || c == '(' ? 2000 + years : 0;
}

int year_of(const KnownOfRun& run) {
  if (run.year != 0) return run.year;
  const int stated = stated_year(run.words);
  if (stated != 0) return stated;
  if (run.compute_capability == 0 || run.compute_capability >= kHopper) return kNewest;
  return run.compute_capability < 8 ? 2020 : 2022;
}

}  // namespace

bool has_words(std::string_view text, std::string_view phrase) {
  const std::string lower = lower_case(text);
  for (std::size_t at = lower.find(phrase); at != std::string::npos;
       at = lower.find(phrase, at + 1)) {
    const std::size_t end = at + phrase.size();
    const bool begins = at == 0 || !is_letter(lower[at - 1]);
    if (begins && (end == lower.size() || !is_letter(lower[end]))) return true;
  }
  return false;
}

int stated_year(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!is_digit(text[at]) || (at > 0 && (is_digit(text[at - 1]) || text[at - 1] == '.')))
      continue;
    if (const int year = year_at(text, at)) return year;
  }
  return 0;
}

UsualFramework usual_framework(const KnownOfRun& run) {
  const int year = year_of(run);
  if (const auto named = first_that_holds(run.words, year, run)) return *named;
  const std::string_view word = run.divides_layers    ? "megatron"
                                : run.zero_stage >= 2 ? "fsdp"
                                                      : "ddp";
  return *first_that_holds(word, year, run);
}

UsualFramework framework_of_plan(const StrategySpec& strategy) {
  const bool sharded = strategy.state_shards() > 1 && strategy.zero_stage > 0;
  const bool divided = strategy.tensor_parallel_degree > 1 ||
                       strategy.pipeline_parallel_degree > 1 || strategy.expert_parallel_degree > 1;
  const std::string_view word = sharded && strategy.zero_stage == 3 ? "torchtitan"
                                : sharded || divided                ? "megatron-core"
                                                                    : "torch.compile";
  return *first_that_holds(word, kNewest, {});
}

}  // namespace lockstep
