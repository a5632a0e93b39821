#include "tests/integration/parity_table.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "core/scenario/scenario_file.hpp"

namespace lockstep::test {
namespace {

constexpr int kGlobalBatch = 12;  // sequences: 2, 3, 4 and 6 ranks and passes divide it

constexpr const char* kGpt2 = R"([model]
architecture = "gpt2"
layers = 4
hidden = 24
heads = 4
ffn_hidden = 96
vocab = 61
max_seq_len = 16
tied_embeddings = true
)";
constexpr const char* kLlama = R"([model]
architecture = "llama"
layers = 4
hidden = 24
heads = 4
kv_heads = 2
ffn_hidden = 40
vocab = 61
)";
constexpr const char* kResnet = R"([model]
architecture = "resnet"
blocks = [1, 2, 1]
width = 4
image_size = 12
classes = 10
small_stem = true
)";
constexpr const char* kVit = R"([model]
architecture = "vit"
layers = 4
hidden = 24
heads = 4
ffn_hidden = 96
image_size = 12
patch_size = 4
classes = 10
)";
constexpr const char* kRest = R"([training]
steps = 10
max_norm = 0.5

[optimizer]
lr = 1e-2

[lr_scheduler]
warmup_steps = 3
decay_ratio = 0.4

[parallelism]
bucket_cap_mb = 0.0076
first_bucket_cap_mb = 0.00095

[cluster]
ranks_per_device = 64
)";

const std::map<std::string, std::string>& short_names() {
  static const std::map<std::string, std::string> names = {
      {"dp_replicate", "data_parallel_replicate_degree"},
      {"dp_shard", "data_parallel_shard_degree"},
      {"cp", "context_parallel_degree"},
      {"tp", "tensor_parallel_degree"},
      {"ep", "expert_parallel_degree"},
      {"pp", "pipeline_parallel_degree"},
      {"schedule", "pipeline_parallel_schedule"},
      {"mb", "pipeline_parallel_microbatches"},
      {"v", "pipeline_parallel_virtual_stages"}};
  return names;
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

constexpr const char* kDivided = "expert_tensor_parallel_degree";  // experts without biases

/// Keys that the GPT-2 kind has not.
bool is_of_llama(const std::string& key) {
  return key.starts_with("model.qk_") || key.ends_with("_lora_rank") || key == "model.v_head_dim" ||
         key == kDivided;
}

std::string trim(const std::string& text) {
  const auto first = text.find_first_not_of(' ');
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

}  // namespace

/// Words of a row that stand for several keys.
const std::map<std::string, std::string>& long_words() {
  static const std::map<std::string, std::string> words = {
      {"packed",
       " training.reset_attention_mask=true training.eod_mask_loss=true training.eod_token=7"
       " training.mean_document_length=3"},
      {"repositioned", " training.reset_position_ids=true"},
      {"latent",
       " model.kv_heads=4 model.kv_lora_rank=10 model.q_lora_rank=14 model.qk_nope_head_dim=4"
       " model.qk_rope_head_dim=4 model.v_head_dim=6"},
      {"latent-keys",
       " model.kv_heads=4 model.kv_lora_rank=10 model.qk_nope_head_dim=6 model.qk_rope_head_dim=2"
       " model.v_head_dim=8"},
      // Heads and features that blocks of four divide on two ranks, too.
      {"fp8",
       " training.fp8=hybrid training.fp8_block_size=4 model.head_dim=8 model.ffn_hidden=48"},
      {"fp8-columns",
       " training.fp8=e4m3 training.fp8_recipe=mxfp8 training.fp8_block_size=2 model.head_dim=8"
       " model.ffn_hidden=48"},
      {"fp8-tensors",
       " training.fp8=hybrid training.fp8_recipe=tensorwise model.head_dim=8 model.kv_heads=4"},
      {"fp8-delayed",
       " training.fp8=hybrid training.fp8_recipe=delayed training.fp8_amax_history_len=3"
       " model.head_dim=8 model.kv_heads=4"},
      {"fp8-experts",
       " training.fp8=hybrid training.fp8_block_size=4 model.head_dim=8 model.ffn_hidden=48"
       " model.experts=4 model.experts_per_token=2 model.capacity_factor=2"},
      {"fp8-dropless",
       " training.fp8=hybrid training.fp8_block_size=4 model.head_dim=8 model.ffn_hidden=48"
       " model.experts=4 model.experts_per_token=2 model.capacity_factor=0"},
      {"encoder", " model.causal=false model.mask_token=60 training.mask_prob=0.4"},
      {"bert",
       " model.causal=false model.mask_token=60 training.mask_prob=0.4 model.norm_place=behind_sum"
       " model.embedding_norm=true model.token_types=2 model.head_transform=true"},
      {"gemma",
       " model.positions=rotary model.activation=geglu model.norm_place=around"
       " model.embedding_multiplier=4.9 model.attention_multiplier=0.3 model.attention_softcap=0.7"
       " model.logit_softcap=1.1 model.sliding_window=5 model.global_period=2"
       " model.local_rope_theta=100"},
      {"neox",
       " model.positions=rotary model.rotary_fraction=0.7 model.parallel_branches=true"
       " model.activation=squared_relu"},
      {"phi",
       " model.positions=none model.parallel_branches=true model.shared_norm=true"
       " model.norm=layer_norm model.biases=true model.activation=relu"},
      {"olmo",
       " model.norm=rms_norm model.norm_place=behind_branch model.residual_multiplier=0.4"
       " model.logit_multiplier=1.7"},
      {"documents",
       " training.reset_attention_mask=true training.eod_token=7 training.mean_document_length=3"},
      {"dropped", " training.residual_dropout=0.2 training.embedding_dropout=0.1"},
      {"attention-dropped", " training.attention_dropout=0.2"}};
  return words;
}

ParityRow parity_row(std::string name, const std::string& keys) {
  ParityRow row{std::move(name), "", 0, false};
  for (const std::string& word : words(keys)) {
    const auto several = long_words().find(word);
    if (several != long_words().end()) {
      row.keys += several->second;
    } else if (word.rfind("within=", 0) == 0) {
      row.within = std::stod(word.substr(7));
      row.in_float64 = false;
    } else if (word.rfind("within_float32=", 0) == 0) {
      row.within = std::stod(word.substr(15));
    } else {
      row.keys += (row.keys.empty() ? "" : " ") + word;
    }
  }
  return row;
}

namespace {

/// Into how many passes the batch is divided: data-parallel ranks × accumulation.
int passes_of(const std::string& keys) {
  int passes = 1;
  for (const std::string& word : words(keys)) {
    const auto equals = word.find('=');
    const std::string key = word.substr(0, equals);
    if (key == "dp_replicate" || key == "dp_shard" || key == "accumulation") {
      passes *= std::stoi(word.substr(equals + 1));
    }
  }
  return passes;
}

int value_of(const std::string& keys, const std::string& key, int otherwise) {
  for (const std::string& word : words(keys)) {
    if (word.rfind(key + "=", 0) == 0) return std::stoi(word.substr(key.size() + 1));
  }
  return otherwise;
}

}  // namespace

ParityRow ParityRow::single_rank() const {
  ParityRow row{"single rank", "", 0, images};
  const auto keep = [&](const std::string& word) {
    row.keys += (row.keys.empty() ? "" : " ") + word;
  };
  for (const std::string& word : words(keys)) {
    for (const char* shared :
         {"model.", "lora.", "optimizer.", "power_sgd.", "batch=", "training.seq_len=",
          "training.reset_", "training.eod_", "training.fp8", "training.num_layers_",
          "training.mean_document_length=", "training.residual_dropout=", "training.mask_prob=0.4",
          "training.embedding_dropout=", "training.attention_dropout="}) {
      if (word.rfind(shared, 0) == 0) keep(word);
    }
    // The single rank rounds the weights as those do that gather codes of them.
    if (keys.find("zero_quantized_weights=true") != std::string::npos) {
      for (const char* shared : {"zero_quantized_weights=", "zero_quantized_block_size=",
                                 "fsdp_persistence_threshold="}) {
        if (word.rfind(shared, 0) == 0) keep(word);
      }
    }
    // A step that overflows is skipped, by the single rank as well.
    const bool scaled = keys.find("loss_scale.") != std::string::npos;
    if (!scaled) continue;
    for (const char* type : {"loss_scale.", "training.mixed_precision_param="}) {
      if (word.rfind(type, 0) == 0) keep(word);
    }
  }
  // Replicas that train apart are compared with as many that are a rank each.
  if (keys.find("local_sgd.") != std::string::npos) {
    for (const std::string& word : words(keys)) {
      if (word.rfind("local_sgd.", 0) == 0 || word.rfind("dp_replicate=", 0) == 0) keep(word);
    }
    const int passes = passes_of(keys) / value_of(keys, "dp_replicate", 1);
    if (keys.find("model.experts=") != std::string::npos) {
      keep("accumulation=" + std::to_string(passes * value_of(keys, "mb", 1)));
    }
    return row;
  }
  const int accumulation = value_of(keys, "accumulation", 1) * value_of(keys, "mb", 1);
  const int replicas = passes_of(keys) / value_of(keys, "accumulation", 1);
  // The scale of a tensor is of what a microbatch has of it.
  const bool one_scale = keys.find("fp8_recipe=tensorwise") != std::string::npos;
  const bool joined = keys.find("sync_batch_norm=true") != std::string::npos;
  // Experts have room for a number of tokens of a microbatch, and batch norm is over its images.
  if (joined && accumulation > 1) {
    keep("sync_batch_norm=true dp_replicate=" + std::to_string(replicas));
    keep("accumulation=" + std::to_string(accumulation));
  } else if (!joined && (images || one_scale || keys.find("model.experts=") != std::string::npos)) {
    keep("accumulation=" + std::to_string(replicas * accumulation));
  }
  return row;
}

namespace {

std::vector<ParityRow> rows_of(const std::string& file_name) {
  // A binary that was carried to another machine is told where the sources are there.
  const char* elsewhere = std::getenv("LOCKSTEP_SOURCE_DIR");
  const std::string root = elsewhere != nullptr ? elsewhere : LOCKSTEP_SOURCE_DIR;
  const std::string path = root + "/tests/integration/" + file_name;
  std::ifstream file(path);
  std::vector<ParityRow> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    const auto bar = line.find('|');
    if (bar == std::string::npos) throw std::runtime_error("no | in: " + line);
    rows.push_back(parity_row(trim(line.substr(0, bar)), line.substr(bar + 1)));
  }
  if (rows.empty()) throw std::runtime_error("no rows in " + path);
  return rows;
}

}  // namespace

std::vector<ParityRow> parity_rows() {
  std::vector<ParityRow> rows = rows_of("parity.txt");
  const char* part = std::getenv("LOCKSTEP_PARITY_ROWS");  // those whose names have it, to look at
  if (part != nullptr) {
    std::erase_if(rows,
                  [&](const ParityRow& row) { return row.name.find(part) == std::string::npos; });
  }
  return rows;
}

std::vector<ParityRow> image_rows(const std::string& more) {
  std::vector<ParityRow> rows = rows_of("parity_images.txt");
  for (ParityRow& row : rows) {
    if (!more.empty()) row.keys += " " + more;
    row.images = true;
  }
  return rows;
}

std::vector<ParityRow> patch_rows() { return rows_of("parity_patches.txt"); }

Scenario parity_scenario(Architecture architecture, const ParityRow& row, DType dtype) {
  const int batch = value_of(row.keys, "batch", kGlobalBatch);
  std::vector<std::string> overrides = {"training.dtype=" + std::string(to_string(dtype)),
                                        "training.global_batch_size=" + std::to_string(batch)};
  if (architecture == Architecture::Resnet) {
    overrides.insert(overrides.end(), {"optimizer.name=SGD", "optimizer.lr=0.05"});
  } else if (architecture != Architecture::Vit) {
    overrides.push_back("training.seq_len=8");
  }
  const auto has = [&](const std::string& key) {
    return row.keys.find(key + "=") != std::string::npos;
  };
  const bool with_experts = has("model.experts");
  // A grid of whole experts would be another.
  const bool grid = has(kDivided) && has("expert_parallel_folding");
  for (const std::string& word : words(row.keys)) {
    const auto equals = word.find('=');
    std::string key = word.substr(0, equals);
    const std::string value = word.substr(equals + 1);
    if (key == "accumulation" || key == "batch") continue;
    const bool narrow_experts = key.starts_with("training.fp8") && with_experts;
    // It has none of these, and its experts have biases, which have no products in 8 bits.
    const bool of_grid = grid && (key == "ep" || key == "expert_parallel_folding");
    const bool of_latents = value.starts_with("mla_up_proj");
    if (architecture == Architecture::Gpt2 &&
        (is_of_llama(key) || narrow_experts || of_grid || of_latents)) {
      // Whole experts need ranks of tensor parallelism with rows of their own.
      if (key == kDivided) overrides.push_back("parallelism.enable_sequence_parallel=true");
      continue;
    }
    const auto full = short_names().find(key);
    if (full != short_names().end()) key = full->second;
    if (key.find('.') == std::string::npos) key = "parallelism." + key;
    overrides.push_back(key + "=" + value);
  }
  overrides.push_back("training.local_batch_size=" + std::to_string(batch / passes_of(row.keys)));
  const char* const model = architecture == Architecture::Gpt2    ? kGpt2
                            : architecture == Architecture::Llama ? kLlama
                            : architecture == Architecture::Vit   ? kVit
                                                                  : kResnet;
  const std::string text = std::string(model) + kRest;
  const LoadedScenario loaded = parse_scenario(text, row.name, overrides);
  if (!loaded.ok()) throw std::runtime_error(row.name + ": " + to_string(loaded.errors.front()));
  return loaded.points.front().scenario;
}

}  // namespace lockstep::test
