#include "core/validation/training_row.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "core/base/lower_case.hpp"

namespace lockstep {

std::string TrainingRow::group() const {
  const std::size_t dash = id.find_last_of("-_");
  return dash == std::string::npos ? id : id.substr(0, dash);
}

std::string TrainingRow::noted(std::string_view key) const {
  std::size_t at = notes.find(key);
  while (at != std::string::npos && at > 0 && notes[at - 1] != ' ' && notes[at - 1] != ';' &&
         notes[at - 1] != '(') {
    at = notes.find(key, at + 1);  // this was the end of a longer word
  }
  if (at == std::string::npos) return "";
  const std::size_t begin = at + key.size();
  const std::size_t end = notes.find_first_of("; ,)", begin);
  return notes.substr(begin, end == std::string::npos ? end : end - begin);
}

long TrainingRow::noted_count(std::string_view key, long otherwise) const {
  const std::string text = noted(key);
  long value = 0;
  const auto [stop, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  return fault == std::errc() && value > 0 ? value : otherwise;
}

bool TrainingRow::ran_out_of_memory() const {
  return notes.find("OOM") != std::string::npos && !iter_time_s && !tflops_per_gpu &&
         !tokens_per_s_per_gpu;
}

bool TrainingRow::max_allocated() const {
  return mem_gb && notes.find("max allocated") != std::string::npos;
}

bool is_llama(const TrainingRow& row) {
  if (!row.architecture.empty()) return row.architecture == "llama";
  const std::string name = lower_case(row.model);
  // Families with rotary positions, RMS norms and SwiGLU.
  constexpr std::string_view kFamilies[] = {"llama",    "qwen",    "mistral",  "mixtral",
                                            "internlm", "smollm",  "baichuan", "deepseek",
                                            "olmo-2",   "granite", "yi-"};
  return std::any_of(std::begin(kFamilies), std::end(kFamilies), [&](std::string_view family) {
    return name.find(family) != std::string::npos;
  });
}

bool is_encoder(const TrainingRow& row) {
  if (!row.architecture.empty()) return row.architecture == "bert";
  return row.model.find("BERT") != std::string::npos || row.model.starts_with("bert");
}

bool trains_adapters(const TrainingRow& row) {
  return row.lora_rank || row.notes.find("LoRA") != std::string::npos;
}

namespace {

template <class Value, std::size_t Count>
using Words = std::array<std::pair<const char*, Value>, Count>;

using enum DataParallelOverlap;
constexpr Words<DataParallelOverlap, 3> kOverlaps = {
    {{"none", None}, {"gradients", Gradients}, {"all", GradientsAndParameters}}};
constexpr Words<GradientType, 3> kGradientTypes = {{{"fp32", GradientType::Float32},
                                                    {"fp16", GradientType::AsParameters},
                                                    {"bf16", GradientType::AsParameters}}};
constexpr Words<FlopConvention, 4> kFlopConventions = {
    {{"model", FlopConvention::Model},
     {"causal", FlopConvention::CausalModel},
     {"narayanan", FlopConvention::Narayanan},
     {"parameters", FlopConvention::ParametersOnly}}};
constexpr Words<MeasuredMemory, 3> kMemoryMeasures = {
    {{"allocated", MeasuredMemory::Allocated},
     {"allocated decimal", MeasuredMemory::AllocatedDecimal},
     {"process", MeasuredMemory::Process}}};

/// The value of a column's word; nullopt for an empty field, and for one that is none of them.
template <class Value, std::size_t Count>
std::optional<Value> value_of(CsvRowReader& read, std::string_view column,
                              const Words<Value, Count>& words) {
  std::vector<std::string> names;
  for (const auto& [name, value] : words) names.emplace_back(name);
  const std::string word = read.word(column, names);
  for (const auto& [name, value] : words) {
    if (word == name) return value;
  }
  return std::nullopt;
}

/// What older tables have in their notes, for want of a column.
void read_notes(TrainingRow& row) {
  const auto noted = [&](std::optional<long>& value, std::initializer_list<std::string_view> keys) {
    for (const std::string_view key : keys) {
      const long count = row.noted_count(key, 0);
      if (!value && count > 0) value = count;
    }
  };
  noted(row.experts, {"experts "});
  if (row.experts) noted(row.experts_per_token, {"top "});
  noted(row.expert_ffn, {"expert ffn "});
  noted(row.head_dim, {"head size "});
  noted(row.lora_rank, {"LoRA dim ", "LoRA rank ", "LoRA r="});
}

}  // namespace

TrainingRows read_training_rows(const CsvTable& table) {
  TrainingRows result;
  require_columns(
      table,
      {"id", "source", "model", "hidden", "layers", "heads", "seq", "hw", "gpus", "tp", "pp", "dp",
       "micro_batch", "global_batch_seqs", "precision", "iter_time_s", "notes"},
      result.errors);
  if (!result.errors.empty()) return result;
  for (const std::vector<CsvField>& fields : table.rows) {
    CsvRowReader read(table, fields, result.errors);
    TrainingRow row;
    row.line = fields.front().line;
    row.id = read.needed("id");
    row.source = read.text("source");
    row.model = read.text("model");
    row.params_b = read.number("params_b");
    row.hidden = read.count("hidden");
    row.layers = read.count("layers");
    row.heads = read.count("heads");
    row.kv_heads = read.count("kv_heads");
    row.ffn_hidden = read.count("ffn_hidden");
    row.vocab = read.count("vocab");
    row.architecture = read.word("architecture", {"llama", "gpt", "bert"});
    row.head_dim = read.count("head_dim");
    row.experts = read.count("experts");
    row.experts_per_token = read.count("experts_per_token");
    row.expert_ffn = read.count("expert_ffn");
    row.lora_rank = read.count("lora_rank");
    row.seq = read.count("seq");
    row.hw = read.needed("hw");
    row.gpus = read.count("gpus");
    row.gpus_per_node = read.count("gpus_per_node");
    row.interconnect = read.text("interconnect");
    row.tp = read.count("tp");
    row.pp = read.count("pp");
    row.vpp = read.count("vpp");
    row.dp = read.count("dp");
    row.fsdp_or_zero = read.text("fsdp_or_zero");
    row.sp = read.text("sp");
    row.recompute = read.text("recompute");
    row.micro_batch = read.count("micro_batch");
    row.global_batch_seqs = read.count("global_batch_seqs");
    row.precision = read.text("precision");
    row.framework = read.text("framework");
    row.overlap = value_of(read, "overlap", kOverlaps);
    row.gradient_dtype = value_of(read, "gradient_dtype", kGradientTypes);
    row.optimizer_bytes = read.number("optimizer_bytes");
    row.flop_convention = value_of(read, "flop_convention", kFlopConventions);
    row.memory_measure = value_of(read, "memory_measure", kMemoryMeasures);
    row.iter_time_s = read.number("iter_time_s");
    row.tflops_per_gpu = read.number("tflops_per_gpu");
    row.tokens_per_s_per_gpu = read.number("tokens_per_s_per_gpu");
    row.mem_gb = read.number("mem_gb");
    row.notes = read.text("notes");
    read_notes(row);
    result.rows.push_back(std::move(row));
  }
  return result;
}

}  // namespace lockstep
