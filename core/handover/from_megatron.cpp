#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>

#include "core/base/nearest.hpp"
#include "core/handover/megatron_account.hpp"
#include "core/handover/megatron_layout.hpp"
#include "core/spec/model.hpp"

namespace lockstep {
namespace {

class MegatronReader : MegatronAccount {
 public:
  MegatronReader(const std::vector<MegatronArgument>& arguments, MegatronProgram program,
                 const PlanOptions& options)
      : MegatronAccount(arguments), options_(options), program_(std::move(program)) {}

  Result<PlanImport> read(const std::string& file) {
    if (Result<void> model = read_model(file); !model) return model.error();
    read_degrees();
    read_training();
    read_optimizer();
    read_recomputation();
    account_for_rest();
    return plan_.finish(file);
  }

 private:
  Result<void> read_model(const std::string& file) {
    if (plan_.take_model(options_)) {
      for (const ForeignName& name : foreign_names()) {
        if (name.key.starts_with("model.") && !name.megatron.empty()) {
          know(std::string(name.megatron));
        }
      }
      for (const char* name :
           {"group-query-attention", "swiglu", "normalization", "position-embedding-type",
            "disable-bias-linear", "use-rope-scaling", "rotary-percent",
            "use-rotary-position-embeddings", "padded-vocab-size", "attention-dropout",
            "hidden-dropout", "make-vocab-size-divisible-by", "moe-ffn-hidden-size",
            "multi-latent-attention", "rope-type"}) {
        know(name);
      }
      return {};
    }
    for (const char* needed : {"num-layers", "hidden-size", "num-attention-heads"}) {
      if (!given(needed)) return lacks(needed);
      if (!number(needed)) {
        return invalid(from(needed) +
                       ": the script does not say this number: put it in, or name the model with "
                       "--model PRESET or --model config.json");
      }
    }
    if (const auto subject = foreign_subject(program_.name); !subject.empty()) {
      Error error =
          invalid(program_.name + " trains " + std::string(subject) +
                  ", and --num-layers and the like are not all of such a model: name "
                  "one with as much to compute with --model PRESET or --model config.json");
      error.where = SourceSpan{file, program_.line, 1};
      return error;
    }
    const bool swiglu = flag("swiglu");
    const std::string norm = word("normalization");
    const std::string positions = word("position-embedding-type");
    const bool rotary = flag("use-rotary-position-embeddings") || positions == "rope";
    const bool latent = flag("multi-latent-attention");
    const bool llama = swiglu || rotary || norm == "RMSNorm" || latent;
    llama_ = llama;
    plan_.text("model.name", "megatron");
    plan_.text("model.architecture", llama ? "llama" : "gpt2",
               swiglu              ? from("swiglu")
               : norm == "RMSNorm" ? from("normalization")
               : latent            ? from("multi-latent-attention")
                                   : "");
    if (llama && !(swiglu && rotary && norm == "RMSNorm")) {
      plan_.lose("a mixture of " + std::string(swiglu ? "SwiGLU" : "GELU") + ", " +
                 (norm.empty() ? "LayerNorm" : norm) + " and " + (rotary ? "rotary" : "learned") +
                 " positions: the model is of the Llama kind here, with SwiGLU, RMSNorm and rotary "
                 "positions");
    }
    flag("disable-bias-linear");
    if (llama && !given("disable-bias-linear")) {
      plan_.lose("biases of linear layers: the Llama kind has none");
    }
    take("model.layers", 0);
    const std::int64_t hidden = take("model.hidden", 0);
    const std::int64_t heads = take("model.heads", 1);
    const bool grouped = flag("group-query-attention");
    const std::int64_t groups = integer("num-query-groups", 1);
    if (latent) {
      read_latent_attention();
    } else {
      take("model.head_dim", hidden / std::max<std::int64_t>(heads, 1));
      plan_.set("model.kv_heads", grouped ? groups : heads,
                grouped ? from("group-query-attention") : "");
    }
    // --ffn-hidden-size: 4 × hidden, or with SwiGLU 2/3 of it, down to a multiple of 64.
    take("model.ffn_hidden", swiglu ? 4 * hidden * 2 / 3 / 64 * 64 : 4 * hidden);
    const bool learned = !rotary && (positions.empty() || positions == "learned_absolute");
    if (learned && !given("max-position-embeddings")) return lacks("max-position-embeddings");
    take("model.max_seq_len", 0);
    read_vocabulary();
    take_real("model.norm_eps", 1e-5);
    const bool untied = flag("untie-embeddings-and-output-weights");
    plan_.flag("model.tied_embeddings", !untied,
               untied ? from("untie-embeddings-and-output-weights") : "");
    if (llama) {
      take_real("model.rope_theta", 10000);
      plan_.flag("model.qkv_bias", flag("add-qkv-bias"));
      if (!latent) plan_.flag("model.qk_norm", flag("qk-layernorm"));
      if (flag("use-rope-scaling")) {
        take_real("model.rope_factor", 8);
        plan_.set("model.rope_original_length", 8192, from("use-rope-scaling"));
      }
      if (const auto part = number("rotary-percent"); part && *part != 1) {
        plan_.lose(from("rotary-percent") + ": rotary positions are for whole heads here");
      }
    }
    read_experts();
    if (is_bert()) read_bert();
    for (const auto& [key, option] :
         {std::pair{"training.residual_dropout", "hidden-dropout"},
          std::pair{"training.embedding_dropout", "hidden-dropout"},
          std::pair{"training.attention_dropout", "attention-dropout"}}) {
      const std::optional<double> share = number(option);
      if (share == 0.0) continue;
      plan_.number(key, share.value_or(0.1),
                   share ? from(option) : "--" + std::string(option) + ", unless given");
    }
    return {};
  }

  Error lacks(const std::string& needed) const {
    const std::string near = nearest(needed, names(), std::size_t{2});
    const bool encoder = given("encoder-num-layers");
    return invalid("there is no --" + needed + " here" + (near.empty() ? "" : ", only --" + near) +
                   (encoder ? "; --encoder-num-layers is of models with an encoder and a decoder, "
                              "which no scenario has"
                            : "") +
                   ": name the model with --model PRESET or --model config.json");
  }

  bool is_bert() const {
    return program_.name == "pretrain_bert.py" || given("bert-no-binary-head");
  }

  /// BERT of Megatron-LM has norms before its branches, and a head for masked tokens.
  void read_bert() {
    const std::string from_program =
        program_.name.empty() ? from("bert-no-binary-head") : program_.name;
    constexpr std::int64_t kMask = 103;
    plan_.flag("model.causal", false, from_program);
    plan_.flag("model.head_transform", true, from_program);
    plan_.set("model.mask_token", kMask);
    plan_.assume("that token " + std::to_string(kMask) +
                 " stands for masked ones, [MASK] of BERT's vocabularies (model.mask_token)");
    const bool pairs = !flag("bert-no-binary-head");
    plan_.set("model.token_types", std::int64_t{pairs ? 2 : 0},
              pairs ? "" : from("bert-no-binary-head"));
    if (pairs) {
      plan_.lose(
          "the head that tells whether two texts follow each other, which BERT has without "
          "--bert-no-binary-head: only masked tokens are predicted here");
    }
    if (const auto share = number("mask-prob")) {
      plan_.number("training.mask_prob", *share, from("mask-prob"));
    }
  }

  /// Sizes that are not given are those of its arguments' defaults.
  void read_latent_attention() {
    take("model.kv_lora_rank", 32);
    if (given("q-lora-rank")) take("model.q_lora_rank", 0);
    take("model.qk_nope_head_dim", 128);
    take("model.qk_rope_head_dim", 64);
    take("model.v_head_dim", 128);
    know("kv-channels");  // latent attention has sizes of its own
    if (!flag("qk-layernorm")) {
      plan_.lose("latent attention without --qk-layernorm: here its narrow rows have norms");
    }
    if (word("rope-type") != "rope") {
      plan_.lose(
          "rotary positions of YaRN, which latent attention has without --rope-type rope: they are "
          "not slowed down here");
    }
  }

  /// Blocks with experts, of a list in Python such as "([0]*3+[1]*58)"; empty if it is none.
  static std::vector<bool> blocks_of(const std::string& text) {
    std::vector<bool> blocks;
    std::string::size_type at = 0;
    while ((at = text.find('[', at)) != std::string::npos) {
      const auto end = text.find(']', at);
      if (end == std::string::npos) return {};
      std::vector<bool> part;
      for (const char c : text.substr(at + 1, end - at - 1)) {
        if (c == '0' || c == '1') part.push_back(c == '1');
      }
      at = end + 1;
      std::int64_t times = 1;
      if (at < text.size() && text[at] == '*') {
        times = std::strtoll(text.c_str() + at + 1, nullptr, 10);
      }
      constexpr std::size_t kMost = 1 << 14;
      for (std::int64_t i = 0; i < times && blocks.size() < kMost; ++i) {
        blocks.insert(blocks.end(), part.begin(), part.end());
      }
    }
    return blocks;
  }

  /// --moe-layer-freq is a number of blocks, or a list of zeros and ones.
  void read_blocks_with_experts() {
    if (!given("moe-layer-freq")) return;
    const std::vector<bool> blocks = blocks_of(words("moe-layer-freq"));
    if (blocks.empty()) {
      take("model.expert_period", 1);
      return;
    }
    know("moe-layer-freq");
    ModelSpec m;
    m.experts = 1;
    const auto layers = static_cast<std::int64_t>(blocks.size());
    const auto is_that = [&] {
      for (std::int64_t i = 0; i < layers; ++i) {
        if (m.has_experts(i) != blocks[static_cast<std::size_t>(i)]) return false;
      }
      return true;
    };
    const auto first = std::find(blocks.begin(), blocks.end(), true);
    for (m.expert_period = 1; m.expert_period <= layers; ++m.expert_period) {
      m.dense_layers = first - blocks.begin();
      if (!is_that()) continue;
      m.dense_layers = is_periodic(blocks, m.expert_period) ? 0 : m.dense_layers;
      plan_.set("model.expert_period", m.expert_period, from("moe-layer-freq"));
      plan_.set("model.dense_layers", m.dense_layers, from("moe-layer-freq"));
      return;
    }
    plan_.lose(from("moe-layer-freq") +
               ": after the first blocks, every so many have experts here, or all of them");
  }
  /// Whether the last of every `period` blocks is set, from the first on.
  static bool is_periodic(const std::vector<bool>& blocks, std::int64_t period) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i] != ((static_cast<std::int64_t>(i) + 1) % period == 0)) return false;
    }
    return true;
  }

  void read_vocabulary() {
    const std::int64_t divisor = product_of(
        {integer("make-vocab-size-divisible-by", 128), integer("tensor-model-parallel-size", 1)});
    if (const auto padded = number("padded-vocab-size")) {
      plan_.set("model.vocab", whole_number(*padded), from("padded-vocab-size"));
      return;
    }
    constexpr std::int64_t kGpt2 = 50257, kBert = 30522, kBertWithCase = 28996;
    const std::optional<double> size = number("vocab-size");
    const bool with_case =
        given("tokenizer-type") && words("tokenizer-type") == "BertWordPieceCase";
    const std::int64_t usual = !is_bert() ? kGpt2 : with_case ? kBertWithCase : kBert;
    const std::int64_t tokens = size ? whole_number(*size) : usual;
    const std::int64_t padded = (tokens + divisor - 1) / divisor * divisor;
    plan_.set("model.vocab", padded, size ? from("vocab-size") : "");
    if (!size) {
      plan_.assume("a vocabulary of " + std::to_string(tokens) +
                   (is_bert() ? ", BERT's" : ", GPT-2's") +
                   ", because only the tokenizer knows (--vocab-size), rounded up to a "
                   "multiple of " +
                   std::to_string(divisor));
    }
  }

  void read_experts() {
    if (!given("num-experts")) return;
    take("model.experts", 0);
    take("model.experts_per_token", 2);
    read_blocks_with_experts();
    if (given("moe-shared-expert-intermediate-size")) {
      take("model.shared_expert_hidden", 0);
      if (flag("moe-shared-expert-gate")) {
        plan_.flag("model.shared_expert_gate", true, from("moe-shared-expert-gate"));
      }
    }
    take_real("model.capacity_factor", 0);  // without one Megatron drops no token, too
    if (given("moe-expert-rank-capacity-factor")) {
      take_real("model.expert_rank_capacity_factor", 0);
    }
    const std::string score = word("moe-router-score-function");
    if (!score.empty()) plan_.text("model.router_score", score, from("moe-router-score-function"));
    if (flag("moe-router-enable-expert-bias")) take_real("model.router_bias_update_rate", 0.001);
    const std::string balance = word("moe-router-load-balancing-type");
    const bool has_loss = balance.empty() || balance.find("aux_loss") != std::string::npos;
    if (has_loss) take_real("model.router_aux_loss_coef", 0);
    if (const auto width = number("moe-ffn-hidden-size")) {
      plan_.set("model.ffn_hidden", whole_number(*width), from("moe-ffn-hidden-size"));
      if (plan_.has("model.dense_layers") && given("ffn-hidden-size")) {
        plan_.set("model.dense_ffn_hidden", integer("ffn-hidden-size", 0), from("ffn-hidden-size"));
      }
    }
  }

  void read_degrees() {
    const std::int64_t tp = take("parallelism.tensor_parallel_degree", 1);
    const std::int64_t pp = take("parallelism.pipeline_parallel_degree", 1);
    const std::int64_t cp = take("parallelism.context_parallel_degree", 1);
    if (cp > 1) {
      const std::string how = word("cp-comm-type");
      plan_.text("parallelism.context_parallel_method",
                 how == "a2a"          ? "ulysses"
                 : how == "all_gather" ? "allgather"
                                       : "ring",
                 how.empty() ? "" : from("cp-comm-type"));
      const std::int64_t heads = integer("hierarchical-context-parallel-sizes", 1);
      if (heads > 1) {
        plan_.set("parallelism.context_parallel_ulysses_degree", heads,
                  from("hierarchical-context-parallel-sizes"));
      }
    }
    const bool sequence = flag("sequence-parallel") && tp > 1;
    plan_.flag("parallelism.enable_sequence_parallel", sequence,
               sequence ? from("sequence-parallel") : "");
    if (given("sequence-parallel") && tp == 1) plan_.ignore("sequence-parallel");
    divides_rows_ = sequence;
    read_pipeline(pp);
    const std::int64_t per_node = PlanWriter::ranks_of_node(options_);
    const std::int64_t launched =
        product_of({integer("nnodes", integer("num-nodes", 1)),
                    integer("nproc-per-node", integer("nproc", per_node))});
    const bool knows = given("nnodes") || given("nproc-per-node");
    const std::int64_t ep = integer("expert-model-parallel-size", 1);
    const std::int64_t etp = integer("expert-tensor-parallel-size", tp);
    // Experts lie on the same ranks in a grid of their own, which has to fit, too.
    const std::int64_t divided =
        std::lcm(product_of({tp, pp, cp}), ep > 1 ? product_of({etp, ep, pp}) : 1);
    std::int64_t ranks = options_.nodes > 0 ? options_.nodes * per_node
                         : knows            ? launched
                                            : (divided + per_node - 1) / per_node * per_node;
    if (ranks < divided || ranks % divided != 0) {
      plan_.assume(std::to_string(divided) + " GPUs, because the degrees do not divide " +
                   std::to_string(ranks));
      ranks = divided;
    } else if (options_.nodes == 0 && !knows) {
      // As many as can share the batch: a script for one GPU does not say so.
      const std::int64_t rows =
          integer("global-batch-size", 0) / product_of({integer("micro-batch-size", 1)});
      while (rows > 0 && ranks > divided && rows % (ranks / product_of({tp, pp, cp})) != 0) {
        ranks -= divided;
      }
      plan_.assume(std::to_string(ranks) +
                   " GPUs, because no --nnodes and --nproc-per-node is here "
                   "(--nodes)");
    }
    const std::int64_t replicas = ranks / product_of({tp, pp, cp});
    read_data_parallel(replicas, ep > 1);
    if (given("num-experts")) read_grid_of_experts(tp, cp, replicas);
    plan_.take_cluster(options_, ranks, (ranks + per_node - 1) / per_node);
  }

  /// Megatron divides experts over the ranks of tensor parallelism that do not divide each of them,
  /// then over those of context and data parallelism.
  void read_grid_of_experts(std::int64_t tp, std::int64_t cp, std::int64_t replicas) {
    const std::int64_t ep = integer("expert-model-parallel-size", 1);
    std::int64_t etp = integer("expert-tensor-parallel-size", tp);
    const std::string said = from_if_given("expert-tensor-parallel-size");
    if (etp > 1 && !llama_) {
      plan_.lose("experts with biases that " + std::to_string(etp) +
                 " ranks of tensor parallelism divide: here each of these ranks holds them whole");
      etp = 1;
      const std::int64_t both = tp * cp;
      if (replicas % ep != 0 && ep != tp && ep % both != 0) {
        return plan_.lose(from("expert-model-parallel-size") + ": whole experts are divided over " +
                          std::to_string(tp) + " or " + std::to_string(both) +
                          " ranks first: here every rank holds all");
      }
      if (replicas % ep == 0) tp = cp = 1;  // over these alone, as many on each
    }
    if (etp > 1) plan_.set("parallelism.expert_tensor_parallel_degree", etp, said);
    if (ep == 1) return;
    plan_.set("parallelism.expert_parallel_degree", ep, from("expert-model-parallel-size"));
    plan_.flag("parallelism.expert_parallel_folding", tp / std::max<std::int64_t>(1, etp) * cp > 1,
               said);
  }

  void read_pipeline(std::int64_t pp) {
    if (pp == 1) return;
    std::int64_t chunks = 1;
    std::string said;
    if (const auto stages = number("num-virtual-stages-per-pipeline-rank")) {
      chunks = whole_number(*stages);
      said = from("num-virtual-stages-per-pipeline-rank");
    } else if (const auto layers = number("num-layers-per-virtual-pipeline-stage")) {
      chunks = std::max<std::int64_t>(1, integer("num-layers", 0) / std::max<std::int64_t>(1, pp) /
                                             std::max<std::int64_t>(1, whole_number(*layers)));
      said = from("num-layers-per-virtual-pipeline-stage");
    }
    const std::string layout =
        given("pipeline-model-parallel-layout") ? words("pipeline-model-parallel-layout") : "";
    const std::vector<std::int64_t> laid_out = blocks_of_layout(layout);
    if (!laid_out.empty() && static_cast<std::int64_t>(laid_out.size()) % pp == 0) {
      chunks = static_cast<std::int64_t>(laid_out.size()) / pp;
      said = from("pipeline-model-parallel-layout");
    }
    stages_ = pp * chunks;
    plan_.text("parallelism.pipeline_parallel_schedule", chunks > 1 ? "Interleaved1F1B" : "1F1B");
    plan_.set("parallelism.pipeline_parallel_virtual_stages", chunks, said);
    if (chunks > 1 && given("microbatch-group-size-per-virtual-pipeline-stage")) {
      take("parallelism.pipeline_parallel_microbatch_group_size", 0);
    }
    const std::int64_t layers = integer("num-layers", 0);
    const std::int64_t first = integer("decoder-first-pipeline-num-layers", 0);
    const std::int64_t last = integer("decoder-last-pipeline-num-layers", 0);
    const bool beside_first = flag("account-for-embedding-in-pipeline-split");
    const bool beside_last = flag("account-for-loss-in-pipeline-split");
    if (!laid_out.empty() && chunks * pp == static_cast<std::int64_t>(laid_out.size())) {
      set_blocks(laid_out, said);
      know("pipeline-model-parallel-layout");
    } else if (beside_first || beside_last) {
      set_blocks(blocks_beside(layers, stages_, beside_first, beside_last),
                 from(beside_first ? "account-for-embedding-in-pipeline-split"
                                   : "account-for-loss-in-pipeline-split"));
    } else if (chunks == 1 && (first > 0 || last > 0)) {
      const std::int64_t others = pp - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0);
      const std::int64_t each = others > 0 ? (layers - first - last) / others : 0;
      std::string list;
      for (std::int64_t stage = 0; stage < std::min(pp, layers); ++stage) {
        const std::int64_t blocks = stage == 0 && first > 0       ? first
                                    : stage == pp - 1 && last > 0 ? last
                                                                  : each;
        list += (stage == 0 ? "[" : ", ") + std::to_string(blocks);
      }
      plan_.set("parallelism.pipeline_parallel_layers_per_stage", list + "]",
                from(first > 0 ? "decoder-first-pipeline-num-layers"
                               : "decoder-last-pipeline-num-layers"));
    }
  }

  void set_blocks(const std::vector<std::int64_t>& blocks, const std::string& said) {
    if (blocks.empty()) return plan_.lose(said + ": the blocks do not divide over the stages");
    std::string list;
    for (const std::int64_t n : blocks) list += (list.empty() ? "[" : ", ") + std::to_string(n);
    plan_.set("parallelism.pipeline_parallel_layers_per_stage", list + "]", said);
  }

  /// Replicas that divide experts among them are shards here, though they share nothing else.
  void read_data_parallel(std::int64_t replicas, bool divide_experts) {
    const bool sharded = flag("use-distributed-optimizer");
    int stage = sharded ? 1 : 0;
    if (flag("use-megatron-fsdp") || flag("use-custom-fsdp") || flag("use-torch-fsdp2")) {
      const std::string what = word("data-parallel-sharding-strategy");
      stage = what == "optim_grads" ? 2 : what == "optim" ? 1 : what == "no_shard" ? 0 : 3;
    }
    word("data-parallel-sharding-strategy");
    const std::int64_t copies = stage > 0        ? integer("num-distributed-optimizer-instances", 1)
                                : divide_experts ? 1
                                                 : replicas;
    plan_.set("parallelism.zero_stage", std::int64_t{stage},
              sharded ? from("use-distributed-optimizer") : "");
    plan_.set("parallelism.data_parallel_replicate_degree", copies,
              given("num-distributed-optimizer-instances")
                  ? from("num-distributed-optimizer-instances")
                  : "");
    const std::int64_t shards =
        std::max<std::int64_t>(1, replicas / std::max<std::int64_t>(1, copies));
    plan_.set("parallelism.data_parallel_shard_degree", shards);
    const bool reduces = flag("overlap-grad-reduce"), gathers = flag("overlap-param-gather");
    plan_.flag("parallelism.overlap_grad_reduce", reduces,
               reduces ? from("overlap-grad-reduce") : "");
    plan_.flag("parallelism.overlap_param_gather", gathers && stage > 0 && stage < 3 && shards > 1,
               gathers ? from("overlap-param-gather") : "");
    if (flag("optimizer-cpu-offload")) {
      plan_.text("parallelism.offload", "optimizer", from("optimizer-cpu-offload"));
    }
    replicas_ = replicas;
    pipelined_ = integer("pipeline-model-parallel-size", 1) > 1;
  }

  void read_training() {
    if (options_.seq_len > 0) plan_.set("training.seq_len", options_.seq_len);
    word("seq-length");
    if (options_.seq_len == 0 && (given("seq-length") || options_.model.empty())) {
      take("training.seq_len", 1024);
    }
    const std::int64_t micro = integer("micro-batch-size", 1);
    const std::int64_t batch = integer("global-batch-size", product_of({micro, replicas_}));
    const std::int64_t microbatches =
        std::max<std::int64_t>(1, batch / product_of({micro, replicas_}));
    // In a pipeline all microbatches of a step are in one flush.
    plan_.set("training.local_batch_size", pipelined_ ? product_of({micro, microbatches}) : micro,
              from_if_given("micro-batch-size"));
    plan_.set("parallelism.pipeline_parallel_microbatches", pipelined_ ? microbatches : 1);
    plan_.set("training.global_batch_size", batch, from_if_given("global-batch-size"));
    for (const char* ramp : {"rampup-batch-size", "step-batch-size-schedule"}) {
      if (given(ramp)) {
        word(ramp);
        plan_.lose(from(ramp) + ": a step has the same batch from the first to the last");
      }
    }
    if (given("train-iters")) {
      take("training.steps", 10);
    } else if (const auto samples = number("train-samples")) {
      plan_.set(
          "training.steps",
          std::max<std::int64_t>(1, whole_number(*samples) / std::max<std::int64_t>(1, batch)),
          from("train-samples"));
    }
    take("training.seed", 1234);
    for (const char* name : {"reset-attention-mask", "reset-position-ids", "eod-mask-loss"}) {
      if (!flag(name)) continue;
      plan_.lose(from(name) + ": which token ends a document, and how long documents are, is not " +
                 "said here: give " + std::string(key_for(Trainer::Megatron, name)) +
                 " with eod_token and mean_document_length");
    }
    take_real("training.max_norm", 1);
    const bool bf16 = flag("bf16"), fp16 = flag("fp16");
    plan_.text("training.dtype", "float32");
    plan_.text("training.mixed_precision_param",
               bf16   ? "bfloat16"
               : fp16 ? "float16"
                      : "float32",
               bf16   ? from("bf16")
               : fp16 ? from("fp16")
                      : "");
    // Megatron sums bfloat16's gradients in float32 unless it is told otherwise.
    const bool narrow = flag("grad-reduce-in-bf16");
    const bool wide = flag("accumulate-allreduce-grads-in-fp32") || (bf16 && !narrow);
    plan_.text("training.mixed_precision_reduce",
               wide   ? "float32"
               : bf16 ? "bfloat16"
               : fp16 ? "float16"
                      : "float32",
               narrow ? from("grad-reduce-in-bf16") : "");
    if (fp16) {
      if (given("initial-loss-scale")) take_real("loss_scale.init_scale", 1);
      if (given("loss-scale-window")) take("loss_scale.growth_interval", 1);
      if (given("hysteresis")) take("loss_scale.hysteresis", 1);
      if (given("min-loss-scale")) take_real("loss_scale.min_scale", 1);
    }
    if (given("fp8-format")) read_fp8();
    if (flag("tp-comm-overlap")) read_overlap();
  }

  void read_overlap() {
    if (!divides_rows_) return plan_.ignore("tp-comm-overlap");
    if (one_scale_) {
      return plan_.lose(from("tp-comm-overlap") +
                        ": beside products in 8 bits with one scale of a tensor nothing is "
                        "gathered in parts here; [framework] overlaps_products = true simulates "
                        "that it is");
    }
    // Transformer Engine has 4 splits where no file says otherwise.
    plan_.set("parallelism.tensor_parallel_chunks", std::int64_t{4}, from("tp-comm-overlap"));
  }

  void read_fp8() {
    const std::string format = word("fp8-format"), given_recipe = word("fp8-recipe");
    const std::string recipe =
        given_recipe.empty() ? "delayed" : given_recipe;  // Megatron's default
    const bool blocks = recipe == "blockwise" || recipe == "mxfp8";
    // Rows of each expert are always padded to blocks here.
    const std::string padding = "moe-router-padding-for-fp8";
    if (given(padding)) flag(padding);
    if (given("num-experts") && !blocks && recipe != "delayed") {
      plan_.lose(
          from("fp8-format") + ", recipe " + recipe +
          ": experts multiply in 8 bits with scales of blocks, or of earlier steps; simulate "
          "others with [framework] fp8 = \"current\"");
    } else {
      one_scale_ = !blocks;
      plan_.text("training.fp8", format, from("fp8-format"));
      plan_.text("training.fp8_recipe", recipe, from_if_given("fp8-recipe"));
      if (recipe == "delayed") {
        take("training.fp8_amax_history_len", 1);
        const std::string algo = word("fp8-amax-compute-algo");
        plan_.text("training.fp8_amax_compute_algo", algo.empty() ? "most_recent" : algo,
                   from_if_given("fp8-amax-compute-algo"));
        take("training.fp8_margin", 0);
      }
      if (flag("first-last-layers-bf16")) {
        take("training.num_layers_at_start_in_bf16", 1);
        take("training.num_layers_at_end_in_bf16", 1);
      }
      if (flag("fp8-param-gather")) {
        plan_.lose(from("fp8-param-gather") + ": parameters are gathered in their own type");
      }
    }
    know_all("fp8-");
  }

  void read_optimizer() {
    const std::string kind = word("optimizer");
    const bool muon = kind == "muon" || kind == "dist_muon";
    plan_.text("optimizer.name",
               kind == "sgd" ? "SGD"
               : muon        ? "Muon"
                             : "AdamW",
               kind.empty() ? "" : from("optimizer"));
    if (!kind.empty() && kind != "sgd" && kind != "adam" && !muon) {
      plan_.lose(from("optimizer") + ": it is AdamW here");
    }
    const double lr = given("lr") ? take_real("optimizer.lr", 0) : 0;
    const double decay = take_real("optimizer.weight_decay", 0.01);
    if (muon) read_muon(kind);
    if (kind == "sgd") {
      take_real("optimizer.momentum", 0.9);
    } else {
      take_real("optimizer.beta1", 0.9);
      take_real("optimizer.beta2", 0.999);
      take_real("optimizer.eps", 1e-8);
    }
    read_moments();
    if (decay > 0) plan_.text("optimizer.weight_decay_on", "matrices");  // as its groups do
    read_schedule(lr);
  }

  void read_muon(const std::string& kind) {
    const auto momentum = number("muon-momentum");
    plan_.number("optimizer.momentum", momentum.value_or(0.9),
                 momentum ? from("muon-momentum") : "");
    const bool nesterov = flag("muon-use-nesterov");
    plan_.flag("optimizer.nesterov", nesterov, nesterov ? from("muon-use-nesterov") : "");
    take("optimizer.ns_steps", 5);
    const std::string mode = word("muon-scale-mode");
    const double extra = number("muon-extra-scale-factor").value_or(1);
    const bool original = mode == "shape_scaling" && extra == 1;
    const bool matched = (mode.empty() || mode == "spectral") && extra == 0.2;
    plan_.text("optimizer.adjust_lr_fn", original ? "original" : "match_rms_adamw",
               mode.empty() ? "" : from("muon-scale-mode"));
    if (!original && !matched) {
      plan_.lose(
          "its factor of Muon's updates: it is that of shape_scaling here, or that of "
          "spectral with an extra factor of 0.2");
    }
    const std::string precision = word("muon-fp32-matmul-prec");
    const bool bf16 = precision.empty() || precision == "medium" || precision == "low";
    plan_.text("optimizer.ns_dtype", bf16 ? "bfloat16" : "default",
               precision.empty() ? "" : from("muon-fp32-matmul-prec"));
    const std::string parts = word("muon-tp-mode");
    if (integer("tensor-model-parallel-size", 1) > 1 && parts != "duplicated" &&
        parts != "distributed") {
      plan_.lose(
          "blockwise Muon: a matrix that ranks divide is gathered here, and orthogonalized "
          "as a whole");
    }
    if (flag("muon-no-split-qkv")) {
      plan_.lose(from("muon-no-split-qkv") + ": queries, keys and values are matrices apart here");
    }
    if (kind == "dist_muon") {
      plan_.lose(from("optimizer") +
                 ": whole matrices are divided over data-parallel ranks there; give zero_stage = 1 "
                 "to divide the states of each");
    }
  }

  /// Its precision-aware optimizer has a type for each moment; here both have one.
  void read_moments() {
    const std::string first = word("exp-avg-dtype"), second = word("exp-avg-sq-dtype");
    if (first.empty() && second.empty()) return;
    know_all("use-precision-aware-optimizer");
    if (first == "bf16" && second == "bf16") {
      plan_.text("optimizer.state_dtype", "bfloat16", from("exp-avg-dtype"));
    } else if (first != second || first != "fp32") {
      plan_.lose(from(first.empty() ? "exp-avg-sq-dtype" : "exp-avg-dtype") +
                 ": moments are both in float32, both in bfloat16 or both in 8 bits here");
    }
  }

  void read_schedule(double lr) {
    const std::int64_t batch = std::max<std::int64_t>(1, integer("global-batch-size", 1));
    std::int64_t steps = integer("train-iters", integer("train-samples", 0) / batch);
    if (given("lr-warmup-iters")) {
      take("lr_scheduler.warmup_steps", 0);
    } else if (const auto samples = number("lr-warmup-samples")) {
      plan_.set("lr_scheduler.warmup_steps", whole_number(*samples) / batch,
                from("lr-warmup-samples"));
    } else if (const auto part = number("lr-warmup-fraction")) {
      const std::int64_t all = integer("lr-decay-iters", steps);
      plan_.set("lr_scheduler.warmup_steps", whole_number(*part * static_cast<double>(all)),
                from("lr-warmup-fraction"));
    }
    const std::string style = word("lr-decay-style");
    const std::int64_t decay = integer("lr-decay-iters", integer("lr-decay-samples", 0) / batch);
    const std::optional<double> least = number("min-lr");
    if (style == "constant") return;
    if (style == "cosine" || style == "linear" || style.empty()) {
      plan_.text("lr_scheduler.decay_type", style == "cosine" ? "cosine" : "linear",
                 style.empty() ? "" : from("lr-decay-style"));
      plan_.number("lr_scheduler.decay_ratio", 1);
      if (decay > 0 && steps > 0 && decay != steps) {
        plan_.lose("a decay over " + std::to_string(decay) + " of " + std::to_string(steps) +
                   " steps: it ends with the last step here");
      }
    } else {
      plan_.lose(from("lr-decay-style") + ": it has linear and cosine");
    }
    if (lr > 0 && least) plan_.number("lr_scheduler.min_lr_factor", *least / lr, from("min-lr"));
  }

  void read_recomputation() {
    // Before 2022 its arguments had other names, which mean whole blocks.
    const bool flagged = flag("checkpoint-activations");
    const bool old = flagged || given("activations-checkpoint-method");
    const std::string method = old ? "activations-checkpoint-method" : "recompute-method";
    const std::string count = flagged ? "checkpoint-num-layers"
                              : old   ? "activations-checkpoint-num-layers"
                                      : "recompute-num-layers";
    const std::string how = old ? "full" : word("recompute-granularity");
    const bool selective = flag("recompute-activations") || how == "selective";
    if (how == "full") {
      plan_.text("activation_checkpoint.mode", "full",
                 from(flagged ? "checkpoint-activations"
                      : old   ? method
                              : "recompute-granularity"));
      const bool by_block = word(method) == "block";
      const auto layers = number(count);
      if (layers && by_block) {  // so many blocks of every virtual stage, from its first one on
        std::string list;
        for (std::int64_t stage = 0; stage < stages_; ++stage) {
          list += (stage == 0 ? "[" : ", ") + std::to_string(whole_number(*layers));
        }
        plan_.set("activation_checkpoint.recomputed_layers_per_stage", list + "]", from(count));
      } else if (layers && *layers != 1) {
        plan_.lose(from(count) + ": every block recomputes itself here");
      }
      return;
    }
    if (!selective) return;
    plan_.text("activation_checkpoint.mode", "selective",
               how.empty() ? from("recompute-activations") : from("recompute-granularity"));
    std::string what = given("recompute-modules") ? words("recompute-modules") : "";
    std::erase_if(what, [](char c) { return c == '[' || c == ']' || c == ','; });  // YAML's list
    word("recompute-modules");
    const std::string_view option = what.empty() || what == "core_attn" ? "attention"
                                    : what == "layernorm"               ? "norm"
                                    : what == "layernorm mlp"           ? "op"
                                                                        : "";
    if (option.empty()) plan_.lose("--recompute-modules " + what + ": core attention is here");
    plan_.text("activation_checkpoint.selective_ac_option", option.empty() ? "attention" : option,
               what.empty() ? "" : from("recompute-modules"));
  }

  const PlanOptions& options_;
  MegatronProgram program_;
  std::int64_t replicas_ = 1;
  bool llama_ = false;       // the kind of the model
  std::int64_t stages_ = 1;  // virtual ones, of all pipeline ranks
  bool pipelined_ = false;
  bool divides_rows_ = false;  // sequence parallelism
  bool one_scale_ = false;     // of each tensor, for products in 8 bits
};

}  // namespace

Result<PlanImport> from_megatron(std::string_view text, const std::string& file,
                                 const PlanOptions& options) {
  const std::vector<MegatronArgument> arguments = megatron_arguments(text);
  if (arguments.empty()) {
    return Error{ErrorKind::Parse, "there is no --argument here", SourceSpan{file, 1, 1}};
  }
  return MegatronReader(arguments, megatron_program(text), options).read(file);
}

}  // namespace lockstep
