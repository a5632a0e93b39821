#include "core/validation/mapping.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "core/base/index_vector.hpp"
#include "core/base/lower_case.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/validation/conventions.hpp"
#include "core/validation/hardware_words.hpp"
#include "core/validation/scenario_text.hpp"

namespace lockstep {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// The fraction of a wire's rate on which the profiles in hardware/*.toml count between nodes
/// (b200.toml says where it was measured).
constexpr double kWireShare = 0.74;

/// A port of InfiniBand HDR, in Gb/s: nodes of A100s with less for each GPU have fewer ports.
constexpr double kPortGigabits = 200;
/// What NCCL counts on between the processors of a node, in GB/s (src/graph/topo.h, AMD_BW).
constexpr double kSocketsGigabytes = 16;

/// How many GPUs NVLink connects: those of the domain that is named, whatever a tray holds, or of
/// the node, or 8. Jobs get as many GPUs of every domain, in whole trays of four (Slurm's block
/// topology), so that no group straddles two: 64 of 72 where the number of GPUs is a power of two.
long gpus_of_node(const TrainingRow& row) {
  const auto domain = nvlink_domain(row.hw, row.interconnect);
  if (!domain) return row.gpus_per_node.value_or(8);
  for (long used = *domain; used > 4; used -= 4) {
    if (*row.gpus % used == 0) return used;
  }
  return *domain;
}

/// The degrees and the batch of a row, with what it leaves out filled in.
struct Layout {
  long tp = 1, pp = 1, vpp = 1, cp = 1, dp = 1, ep = 1;
  long micro_batch = 1, microbatches = 1;  // sequences; number per rank and step
  int zero_stage = 0;
  long shard = 1;  // number of ranks that share states
};

/// Fills in `layout`. Returns the name of what is missing, or an empty text.
std::string read_layout(const TrainingRow& row, Layout& layout) {
  layout.tp = row.tp.value_or(1);
  layout.pp = row.pp.value_or(1);
  layout.cp = row.noted_count("cp=", 1);
  layout.ep = row.experts ? row.noted_count("ep=", 1) : 1;
  layout.vpp = row.vpp.value_or(1);
  const long model_ranks = layout.tp * layout.pp * layout.cp;
  layout.dp = row.dp.value_or(*row.gpus / model_ranks);
  if (layout.dp * model_ranks != *row.gpus) return "tp, pp, dp and cp that make up the GPUs";
  layout.micro_batch = row.micro_batch.value_or(1);
  const long pass = layout.micro_batch * layout.dp;
  long global = row.global_batch_seqs.value_or(0);
  if (global == 0) global = pass * row.noted_count("grad accumulation ", 0);
  if (global == 0) return "global_batch_seqs";
  if (global % pass != 0) return "a batch that the ranks can share";
  layout.microbatches = global / pass;

  const bool usually_sharded = conventions_of(row).software.distributed_optimizer;
  layout.zero_stage = zero_stage_of(row).value_or(usually_sharded ? 1 : 0);
  layout.shard = layout.zero_stage > 0 ? shard_of(row, layout.dp, gpus_of_node(row)) : 1;
  return "";
}

/// The scenario's name of the schedule that the source names.
std::string schedule_name(const TrainingRow& row, const Layout& layout) {
  std::string named = row.noted("schedule=");
  if (named == "1F1B-I") return "Interleaved1F1B";
  if (named == "ZB") return "ZB-1p";  // its rows have no more microbatches than either limit
  if (!named.empty()) return named;
  return layout.vpp > 1 ? "Interleaved1F1B" : "1F1B";
}

/// The number of blocks of each virtual stage; empty if they are balanced by work.
std::vector<long> layers_per_stage(const TrainingRow& row, long stages) {
  if (row.noted("method=") == "redis") return {};  // its authors balanced by work
  const long layers = *row.layers;
  if (layers % stages == 0) {
    return std::vector<long>(to_size(stages), layers / stages);
  }
  if ((layers + 2) % stages != 0) return {};
  // Embedding and output layer count as one block each.
  std::vector<long> blocks(to_size(stages), (layers + 2) / stages);
  --blocks.front();
  --blocks.back();
  return blocks;
}

/// How many more microbatches are in flight than in 1F1B where the row's method divides the
/// vocabulary over the stages; 0 if it does not. Programs here have the two meetings of all ranks
/// of the paper's algorithm 1 (Yeung et al. 2024), "synctwice", which take p + 2; "vocab" has one,
/// and p + 1. "interlaced", where ranks stop for the output layer as in nnScaler, has 1.5 p.
long vocabulary_lag(const TrainingRow& row, const Layout& layout) {
  const std::string method = row.noted("method=");
  if (method == "vocab" || method == "synctwice") return 2;
  return method == "interlaced" ? layout.pp / 2 : 0;
}

void write_model(const TrainingRow& row, ScenarioText& out) {
  const bool llama = is_llama(row);
  const long ffn_hidden = ffn_hidden_of(row);
  out.section("model");
  out.key("name", row.model);
  out.key("architecture", llama ? "llama" : "gpt2");
  out.key("layers", *row.layers);
  out.key("hidden", *row.hidden);
  out.key("heads", *row.heads);
  out.key("kv_heads", row.kv_heads.value_or(*row.heads));
  if (row.head_dim) out.key("head_dim", *row.head_dim);
  out.key("ffn_hidden", row.experts ? row.expert_ffn.value_or(ffn_hidden) : ffn_hidden);
  out.key("vocab", vocabulary(row));
  if (row.experts) {  // no choice is dropped, and ranks get equal numbers of them
    out.key("experts", *row.experts);
    out.key("experts_per_token", row.experts_per_token.value_or(1));
    out.number("capacity_factor", 0);
    out.number("router_imbalance", 1);
  }
  if (is_encoder(row)) {
    out.flag("causal", false);
    out.key("mask_token", 0L);
  }
  const bool nemotron = contains(lower_case(row.model), "nemotron");
  const bool tied = contains(row.notes, "tied embeddings") && !contains(row.notes, "untied");
  out.flag("tied_embeddings", tied || (!llama && !nemotron && !contains(row.notes, "untied")));
  if (!row.lora_rank) return;
  out.section("lora");
  out.key("rank", *row.lora_rank);
}

/// Software from before NCCL 2.12 (2022), which let a GPU reach a port through a neighbour on
/// NVLink (PXN). vTrain's is younger, but its rings do not do so either, as its runs with TP 16
/// show.
bool before_pxn(const TrainingRow& row) {
  const std::string_view framework = conventions_of(row).software.preset;
  return framework == "megatron-2020" || framework == "megatron-2021" ||
         framework.starts_with("deepspeed") || framework == "bigscience-2022";
}

/// As the row says. Praxis keeps nothing of a block for its backward pass unless told
/// (AutodiffCheckpointType.SAVE_NOTHING).
std::string recompute_of(const TrainingRow& row) {
  const bool praxis = row.recompute.empty() && conventions_of(row).software.preset == "paxml";
  return praxis ? "full" : row.recompute;
}

void write_training(const TrainingRow& row, const Layout& layout, ScenarioText& out) {
  out.section("training");
  out.key("seq_len", *row.seq);
  // A pipeline takes its microbatches from one local batch. Without a pipeline, gradients are
  // accumulated over them.
  out.key("local_batch_size", layout.micro_batch * (layout.pp > 1 ? layout.microbatches : 1));
  out.key("global_batch_size", layout.micro_batch * layout.microbatches * layout.dp);
  if (row.precision.starts_with("fp32")) {
    out.key("dtype", "float32");
  } else {
    const bool half =
        contains(lower_case(row.precision), "fp16") && !contains(lower_case(row.precision), "bf16");
    const char* const type = half ? "float16" : "bfloat16";
    out.key("mixed_precision_param", type);
    if (sums_in_16_bits(row)) out.key("mixed_precision_reduce", type);
  }
  const std::string recompute = recompute_of(row);
  if (recompute != "full" && recompute != "selective") return;
  out.section("activation_checkpoint");
  out.key("mode", recompute);
  if (recompute == "selective") out.key("selective_ac_option", "attention");
}

/// As Megatron Core does it, but where the notes say "Ulysses" and every rank gets a head of keys.
const char* context_parallel_method(const TrainingRow& row, const Layout& layout) {
  const long kv_heads = row.kv_heads.value_or(*row.heads);
  const bool ulysses = has_words(row.notes, "ulysses");
  return ulysses && kv_heads % (layout.tp * layout.cp) == 0 ? "ulysses" : "allgather";
}

void write_parallelism(const TrainingRow& row, Layout layout, ScenarioText& out) {
  const UsualFramework software = conventions_of(row).software;
  out.section("parallelism");
  out.key("tensor_parallel_degree", layout.tp);
  const bool unsaid = row.sp.empty() && software.sequence_parallel;
  if (layout.tp > 1) out.flag("enable_sequence_parallel", row.sp == "yes" || unsaid);
  out.key("context_parallel_degree", layout.cp);
  if (layout.cp > 1) out.key("context_parallel_method", context_parallel_method(row, layout));
  out.key("data_parallel_replicate_degree", layout.dp / layout.shard);
  out.key("data_parallel_shard_degree", layout.shard);
  out.key("zero_stage", layout.zero_stage);
  if (layout.ep > 1) {
    out.key("expert_parallel_degree", layout.ep);
    // Beyond the data-parallel ranks, experts lie on those that divide layers, too.
    if (layout.shard % layout.ep != 0) out.flag("expert_parallel_folding", true);
  }
  out.key("pipeline_parallel_degree", layout.pp);
  const std::string schedule = schedule_name(row, layout);
  if (layout.pp > 1) {
    if (schedule == "Interleaved1F1B" && !row.vpp) {  // "uses the max chunks": of one block each
      layout.vpp = std::max(1L, (*row.layers + 2) / layout.pp);
    }
    out.key("pipeline_parallel_schedule", schedule);
    out.key("pipeline_parallel_microbatches", layout.microbatches);
    out.key("pipeline_parallel_virtual_stages", layout.vpp);
    const std::vector<long> blocks = layers_per_stage(row, layout.pp * layout.vpp);
    if (!blocks.empty()) out.list("pipeline_parallel_layers_per_stage", blocks);
    if (const long lag = vocabulary_lag(row, layout); lag > 0) {
      out.flag("vocabulary_parallel_pipeline", true);
      out.key("vocabulary_parallel_lag", lag);
    }
  }
  const bool sharded = layout.shard * layout.cp > 1;
  out.flag("overlap_grad_reduce", software.overlap != DataParallelOverlap::None);
  if (sharded && layout.zero_stage < 3 && layout.zero_stage > 0) {
    out.flag("overlap_param_gather",
             software.overlap == DataParallelOverlap::GradientsAndParameters);
  }
  if (contains(row.fsdp_or_zero, "offload")) out.key("offload", "optimizer");
}

void write_cluster(const TrainingRow& row, ScenarioText& out) {
  const long node = std::min(gpus_of_node(row), *row.gpus);
  out.section("cluster");
  out.key("preset", profile_of(row.hw));
  out.key("nodes", (*row.gpus + node - 1) / node);
  out.key("devices_per_node", node);
  if (contains(row.hw, "16GB")) {
    out.section("cluster.device");
    out.number("memory_gb", 16.9);  // 15.78 GiB, as PyTorch's messages say
  }
  const auto gigabits =
      gpu_gigabits(row.interconnect, row.gpus_per_node.value_or(gpus_of_node(row)));
  if (!gigabits) return;
  if (*gigabits < kPortGigabits && before_pxn(row)) {
    out.section("cluster.network");
    out.number("sockets_gb_s", kSocketsGigabytes);
  }
  out.section("cluster.inter_node");
  out.number("bandwidth_gb_s", *gigabits / 8 * kWireShare);
}

/// How the scales of fp8 are found, as sources abbreviate it in a precision of lower case: "fp8_cs"
/// (current scaling), "mxfp8" and "sub-channel" (blocks); Transformer Engine's first way was
/// delayed.
const char* fp8_recipe(std::string_view precision) {
  const auto says = [&](std::initializer_list<std::string_view> words) {
    return std::any_of(words.begin(), words.end(),
                       [&](std::string_view word) { return contains(precision, word); });
  };
  if (says({"mx", "block", "sub"})) return "block";
  return says({"cs", "current"}) ? "current" : "delayed";
}

/// Whether a row says that FlashAttention computed attention, where its software of the time stores
/// scores unless told.
bool asks_for_flash(const TrainingRow& row, std::string_view preset) {
  constexpr std::string_view kStoresScores[] = {"megatron-2020",  "megatron-2021",
                                                "megatron-2023",  "deepspeed-2021",
                                                "deepspeed-2022", "bigscience-2022"};
  if (std::find(std::begin(kStoresScores), std::end(kStoresScores), preset) ==
      std::end(kStoresScores)) {
    return false;
  }
  return has_words(row.notes, "flash attention") && !has_words(row.notes, "no flash attention");
}

void write_framework(const TrainingRow& row, ScenarioText& out) {
  const UsualFramework software = conventions_of(row).software;
  out.section("framework");
  out.key("preset", software.preset);
  if (asks_for_flash(row, software.preset)) out.key("attention", "flash2");
  const std::string precision = lower_case(row.precision);
  if (contains(precision, "fp8")) out.key("fp8", fp8_recipe(precision));
  if (contains(precision, "fp4")) out.key("fp4", contains(precision, "mx") ? "mxfp4" : "nvfp4");
  if (row.optimizer_bytes) out.number("optimizer_bytes", *row.optimizer_bytes);
  // Notes such as SimuMax's "no TP/PP overlap".
  const bool none = software.overlap == DataParallelOverlap::None;
  if (none || contains(row.notes, "no TP")) out.flag("overlaps_products", false);
}

/// Why a row cannot be written as a scenario, as far as its columns tell; nullopt if it can.
std::optional<std::pair<Unexpressed, std::string>> lacking(const TrainingRow& row) {
  if (profile_of(row.hw).empty()) return {{Unexpressed::NoProfile, row.hw}};
  const std::string model = lower_case(row.model);
  for (const char* experts : {"deepseek", "mixtral", "moe", "a3b", "a22b"}) {
    if (!row.experts && contains(model, experts)) return {{Unexpressed::NotDense, row.model}};
  }
  std::string missing;
  const auto need = [&](const char* name, const std::optional<long>& value) {
    if (!value) missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
  need("hidden", row.hidden);
  need("layers", row.layers);
  need("heads", row.heads);
  need("seq", row.seq);
  need("gpus", row.gpus);
  if (trains_adapters(row)) need("lora_rank", row.lora_rank);
  if (!missing.empty()) return {{Unexpressed::Unsaid, missing}};
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Unexpressed reason) {
  switch (reason) {
    case Unexpressed::NoProfile:
      return "no profile of the card";
    case Unexpressed::Unsaid:
      return "shape, length, batch or layout not given";
    case Unexpressed::NotDense:
      return "experts, of which the columns say nothing";
    case Unexpressed::Refused:
      return "layout refused";
  }
  return "";
}

MappedRow map_row(const TrainingRow& row, const std::vector<std::string>& overrides,
                  const std::string& given_by) {
  const auto unexpressed = [](Unexpressed reason, std::string detail) {
    return MappedRow{std::nullopt, reason, std::move(detail)};
  };
  if (auto fault = lacking(row)) return unexpressed(fault->first, fault->second);
  Layout layout;
  const std::string missing = read_layout(row, layout);
  if (!missing.empty()) return unexpressed(Unexpressed::Unsaid, missing);
  ScenarioText out;
  write_model(row, out);
  write_training(row, layout, out);
  write_parallelism(row, layout, out);
  write_cluster(row, out);
  write_framework(row, out);
  LoadedScenario loaded = parse_scenario(out.text(), row.id, overrides, given_by);
  if (!loaded.ok()) return unexpressed(Unexpressed::Refused, loaded.errors.front().message);
  MappedRow mapped;
  mapped.scenario = std::move(loaded.points.front().scenario);
  mapped.scenario->name = row.id;
  return mapped;
}

}  // namespace lockstep
