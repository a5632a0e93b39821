// Compares the CPU backend with an independent PyTorch model: same weights, same batches, same
// losses. The tests are skipped, with the reason, if no Python with PyTorch is found.
#include "tests/oracle/oracle.hpp"

#include <cmath>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "backends/backends.hpp"
#include "core/checkpoint/checkpoint.hpp"
#include "core/data/token_source.hpp"
#include "core/lower/lower.hpp"
#include "core/spec/keys/choices.hpp"
#include "core/spec/validate/validate.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace lockstep;
using namespace lockstep::oracle;

namespace {

constexpr int kSteps = 10;

Scenario scenario_of(Architecture architecture, bool tied, DType dtype) {
  Scenario s;
  s.model.name = "oracle";
  s.model.architecture = architecture;
  s.model.layers = 3;
  s.model.hidden = 48;
  s.model.heads = 6;
  s.model.kv_heads = architecture == Architecture::Llama ? 2 : 6;  // grouped queries
  s.model.head_dim = 8;
  s.model.ffn_hidden = 112;
  s.model.vocab = 61;
  s.model.max_seq_len = 24;  // longer than the sequence: unused positions only decay
  s.model.tied_embeddings = tied;
  s.cluster.name = "one rank";
  s.cluster.device.memory = Bytes{std::int64_t{1} << 30};
  s.training.seq_len = 20;
  s.training.local_batch_size = 2;
  s.training.global_batch_size = 6;  // three passes of gradient accumulation
  s.training.steps = kSteps;
  s.training.max_norm = 1.0;
  s.training.dtype = dtype;
  s.optimizer.lr = 3e-3;
  s.lr_scheduler.warmup_steps = 3;
  s.lr_scheduler.decay_ratio = 0.4;
  return s;
}

template <class E>
std::string name_of(E value) {
  for (const auto& [name, choice] : choices(E{})) {
    if (choice == value) return std::string(name);
  }
  return "";
}

void write_job(const Scenario& s, const Program& program, const std::string& path) {
  std::vector<std::string> frozen;
  for (const Parameter& parameter : program.parameters) {
    if (!s.model.trains(parameter.name)) frozen.push_back(parameter.name);
  }
  std::vector<std::int64_t> windows;
  for (std::int64_t i = 0; i < s.model.layers; ++i) windows.push_back(s.model.window_of(i));
  const LocalSgdSpec& apart = s.strategy.local_sgd;
  const bool trains_apart = s.strategy.trains_apart();
  const nlohmann::json job = {
      {"replicas", trains_apart ? s.strategy.data_parallel_replicate_degree : 1},
      {"sync_steps", apart.sync_steps},
      {"semi_sync_method", apart.method == SemiSyncMethod::DiLoCo ? "diloco" : "local_sgd"},
      {"outer_lr", apart.outer_lr},
      {"outer_momentum", apart.outer_momentum},
      {"outer_nesterov", apart.outer_nesterov},
      {"weight_block",
       s.strategy.zero_quantized_weights ? s.strategy.zero_quantized_block_size : 0},
      {"gradient_block",
       s.strategy.zero_quantized_gradients ? s.strategy.zero_quantized_block_size : 0},
      {"gradient_levels", (1 << (s.strategy.zero_quantized_gradients_bits - 1)) - 1},
      {"gradient_ranks", s.strategy.zero_quantized_gradients ? s.strategy.state_shards() : 1},
      {"ddp_ranks", s.strategy.data_parallel_replicate_degree},
      {"power_sgd_rank", s.strategy.power_sgd.matrix_approximation_rank},
      {"power_sgd_rate", s.strategy.power_sgd.min_compression_rate},
      {"power_sgd_feedback", s.strategy.power_sgd.use_error_feedback},
      {"frozen", frozen},
      {"adapter_scale", s.model.lora.scale()},
      {"adapter_dropout", s.model.lora.dropout},
      {"norm", name_of(s.model.parts().norm)},
      {"norm_place", name_of(s.model.norm_place)},
      {"activation", name_of(s.model.parts().activation)},
      {"positions", name_of(s.model.parts().positions)},
      {"parallel_branches", s.model.parallel_branches},
      {"shared_norm", s.model.shared_norm},
      {"rotary_fraction", s.model.rotary_fraction},
      {"local_rope_theta", s.model.local_rope_theta},
      {"windows", windows},
      {"attention_multiplier", s.model.attention_multiplier},
      {"attention_softcap", s.model.attention_softcap},
      {"embedding_multiplier", s.model.embedding_multiplier},
      {"residual_multiplier", s.model.residual_multiplier},
      {"logit_multiplier", s.model.logit_multiplier},
      {"logit_softcap", s.model.logit_softcap},
      {"causal", s.model.causal},
      {"masked", s.masked_tokens()},
      {"mask_token", s.model.mask_token},
      {"vocab", s.model.vocab},
      {"embedding_norm", s.model.embedding_norm},
      {"token_types", s.model.token_types},
      {"head_transform", s.model.head_transform},
      {"layers", s.model.layers},
      {"heads", s.model.heads},
      {"kv_heads", s.model.kv_heads},
      {"head_dim", s.model.head_dim},
      {"norm_eps", s.model.norm_eps},
      {"rope_theta", s.model.rope_theta},
      {"experts", s.model.experts},
      {"experts_per_token", s.model.experts_per_token},
      {"expert_period", s.model.expert_period},
      {"dense_layers", s.model.dense_layers},
      {"kv_lora_rank", s.model.latent.kv_lora_rank},
      {"qk_nope_head_dim", s.model.latent.qk_nope_head_dim},
      {"qk_rope_head_dim", s.model.latent.qk_rope_head_dim},
      {"v_head_dim", s.model.latent.v_head_dim},
      {"capacity", s.model.experts == 0 ? 0
                   : s.model.is_dropless()
                       ? std::int64_t{s.microbatch_size()} * s.training.seq_len
                       : s.model.expert_capacity(
                             std::int64_t{s.microbatch_size()} * s.training.seq_len, 1)},
      {"sigmoid", s.model.router_score == RouterScore::Sigmoid},
      {"router_bias_update_rate", s.model.router_bias_update_rate},
      {"router_aux_loss_coef", s.model.router_aux_loss_coef},
      {"microbatch", s.microbatch_size()},
      {"seed", s.training.seed},
      {"residual_dropout", s.training.residual_dropout},
      {"embedding_dropout", s.training.embedding_dropout},
      {"attention_dropout", s.training.attention_dropout},
      {"lr", s.optimizer.lr},
      {"beta1", s.optimizer.beta1},
      {"beta2", s.optimizer.beta2},
      {"eps", s.optimizer.eps},
      {"weight_decay", s.optimizer.weight_decay},
      {"decays_all", s.optimizer.weight_decay_on == DecayedParameters::All},
      {"optimizer", s.optimizer.name == OptimizerKind::Adam ? "Adam"
                    : s.optimizer.is_muon()                 ? "Muon"
                    : s.optimizer.is_adafactor()            ? "Adafactor"
                                                            : "AdamW"},
      {"decay_rate", s.optimizer.decay_rate},
      {"clip_threshold", s.optimizer.clip_threshold},
      {"eps_square", s.optimizer.eps_square},
      {"eps_scale", s.optimizer.eps_scale},
      {"scale_parameter", s.optimizer.scale_parameter},
      {"relative_step", s.optimizer.relative_step},
      {"first_moment_decay", s.optimizer.first_moment_decay},
      {"momentum", s.optimizer.momentum},
      {"nesterov", s.optimizer.nesterov},
      {"ns_steps", s.optimizer.ns_steps},
      {"matches_adamw", s.optimizer.adjust_lr_fn == AdjustLr::MatchRmsAdamW},
      {"muon_lr_factor", s.optimizer.muon_lr_factor()},
      {"fp8", s.training.fp8 != Fp8Format::None},
      {"fp8_block", s.training.fp8_block()},
      {"fp8_gradient", s.training.fp8 == Fp8Format::Hybrid ? 2 : 3},
      {"fp8_square", s.training.fp8_recipe == Fp8Scaling::Blockwise},
      {"fp8_delayed", s.training.fp8_recipe == Fp8Scaling::Delayed},
      {"fp8_amax_history_len", s.training.fp8_amax_history_len},
      {"fp8_most_recent", s.training.fp8_amax_compute_algo == Fp8AmaxAlgo::MostRecent},
      {"fp8_margin", s.training.fp8_margin},
      {"qk_norm", s.model.qk_norm},
      {"max_norm", s.training.max_norm},
      {"warmup_steps", s.lr_scheduler.warmup_steps},
      {"decay_steps", std::lround(s.lr_scheduler.decay_ratio * s.training.steps)},
      {"steps", s.training.steps},
      {"batch", s.global_batch_size()},
      {"seq", s.training.seq_len}};
  std::ofstream(path) << job;
}

/// Step s trains on global samples [s·batch, (s + 1)·batch).
void write_batches(const Scenario& s, const TemporaryFolder& folder) {
  const Result<std::unique_ptr<TokenSource>> source = open_token_source(
      s.training.dataset, s.training.seq_len, static_cast<int>(s.model.vocab), s.training.seed);
  REQUIRE(source.ok());
  std::ofstream tokens_file(folder / "tokens.bin", std::ios::binary);
  std::ofstream targets_file(folder / "targets.bin", std::ios::binary);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(s.training.seq_len));
  std::vector<std::int32_t> targets(tokens.size());
  const auto bytes = static_cast<std::streamsize>(tokens.size() * sizeof(std::int32_t));
  for (int sample = 0; sample < s.training.steps * s.global_batch_size(); ++sample) {
    (*source)->fill(sample, tokens, targets);
    tokens_file.write(reinterpret_cast<const char*>(tokens.data()), bytes);
    targets_file.write(reinterpret_cast<const char*>(targets.data()), bytes);
  }
}

std::vector<StepNumbers> run_oracle(const std::string& python, const Scenario& s,
                                    const Program& program, const TrainingState& weights) {
  const TemporaryFolder folder;
  write_job(s, program, folder / "job.json");
  write_batches(s, folder);
  REQUIRE(save_checkpoint(weights, folder.path.string()).ok());
  std::filesystem::rename(folder.path / "step-0/model.safetensors",
                          folder.path / "model.safetensors");
  const Outcome outcome = run_command(
      python + " " LOCKSTEP_SOURCE_DIR "/tests/oracle/" +
      (s.strategy.power_sgd.on() ? "power_sgd" : "gpt2") + "_oracle.py '" + folder.path.string() +
      "' 2>'" + (folder / "errors") + "' || { cat '" + (folder / "errors") + "'; exit 1; }");
  INFO(outcome.output);
  REQUIRE(outcome.status == 0);
  std::vector<StepNumbers> steps;
  std::istringstream lines(outcome.output);
  for (StepNumbers step; lines >> step.loss >> step.grad_norm;) steps.push_back(step);
  REQUIRE(steps.size() == static_cast<std::size_t>(s.training.steps));
  return steps;
}

std::vector<StepResult> run_ours(const Scenario& s, const Program& program,
                                 const TrainingState& weights) {
  Result<std::unique_ptr<Backend>> backend = make_backend("cpu");
  REQUIRE(backend.ok());
  RunOptions options;
  options.steps = s.training.steps;
  options.initial_state = &weights;
  const Result<RunResult> result = (*backend)->run(program, s.cluster, options);
  if (!result) FAIL(to_string(result.error()));
  return result->trace.steps;
}

void compare(const Scenario& scenario, double tolerance) {
  const std::string& python = find_python();
  if (python.empty()) {
    std::cout << "skipped: neither python3 nor /usr/bin/python3 can import torch and numpy\n";
    return;
  }
  REQUIRE(validate(scenario).empty());
  const Result<Program> program = lower(scenario);
  if (!program) FAIL(to_string(program.error()));
  const TrainingState weights = random_weights(*program);
  const std::vector<StepResult> ours = run_ours(scenario, *program, weights);
  const std::vector<StepNumbers> theirs = run_oracle(python, scenario, *program, weights);
  REQUIRE(ours.size() == theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    INFO("step " << i);
    CHECK(std::abs(ours[i].loss - theirs[i].loss) <= tolerance);
    CHECK(std::abs(ours[i].grad_norm - theirs[i].grad_norm) <=
          10 * tolerance * theirs[i].grad_norm);
  }
  // They are equal because both learn, not because neither does. What few parameters learn may be
  // less than batches differ, and so is what ten steps learn of masked tokens.
  if (!scenario.model.freezes() && !scenario.model.is_encoder())
    CHECK(theirs.back().loss < theirs.front().loss);
}

void compare(Architecture architecture, bool tied, DType dtype, double tolerance) {
  compare(scenario_of(architecture, tied, dtype), tolerance);
}

}  // namespace

TEST_CASE("ten losses of the GPT-2 kind equal PyTorch's within 1e-4 in float32", "[oracle]") {
  compare(Architecture::Gpt2, true, DType::F32, 1e-4);
}

TEST_CASE("ten losses of the Llama kind equal PyTorch's within 1e-4 in float32", "[oracle]") {
  compare(Architecture::Llama, false, DType::F32, 1e-4);
}

TEST_CASE("in float64 both kinds, tied and untied, equal PyTorch's within 1e-9", "[oracle]") {
  for (const bool tied : {true, false}) {
    INFO("tied " << tied);
    compare(Architecture::Gpt2, tied, DType::F64, 1e-9);
    compare(Architecture::Llama, tied, DType::F64, 1e-9);
  }
}

TEST_CASE("encoders that predict masked tokens equal PyTorch's within 1e-9", "[oracle][encoder]") {
  for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const bool bert : {true, false}) {
      INFO((bert ? "as BERT" : "norms before branches"));
      Scenario s = scenario_of(architecture, architecture == Architecture::Gpt2, DType::F64);
      s.model.causal = false;
      s.model.mask_token = 60;
      s.model.norm_place = bert ? NormPlace::BehindSum : NormPlace::Before;
      s.model.embedding_norm = s.model.head_transform = bert;
      s.model.token_types = bert ? 2 : 0;
      s.training.mask_prob = bert ? 0.4 : 0.15;
      compare(s, 1e-9);
      s.training.residual_dropout = s.training.attention_dropout = 0.2;
      s.training.embedding_dropout = 0.1;
      compare(s, 1e-9);
    }
  }
}

TEST_CASE("blocks of other parts equal PyTorch's within 1e-9", "[oracle]") {
  const std::pair<const char*, void (*)(ModelSpec&)> models[] = {
      {"Gemma 2",
       [](ModelSpec& m) {
         m.activation = Activation::Geglu;
         m.norm_place = NormPlace::Around;
         m.embedding_multiplier = 7;
         m.attention_multiplier = 0.4;
         m.attention_softcap = 0.8;
         m.logit_softcap = 1.3;
         m.sliding_window = 6;
         m.global_period = 2;
         m.local_rope_theta = 50;
         m.positions = Positions::Rotary;
       }},
      {"GPT-NeoX",
       [](ModelSpec& m) {
         m.positions = Positions::Rotary;
         m.rotary_fraction = 0.5;
         m.parallel_branches = true;
       }},
      {"Phi",
       [](ModelSpec& m) {
         m.positions = Positions::None;
         m.parallel_branches = m.shared_norm = true;
         m.activation = Activation::Relu;
         m.biases = true;
       }},
      {"OLMo 2 with factors",
       [](ModelSpec& m) {
         m.norm_place = NormPlace::BehindBranch;
         m.residual_multiplier = 0.3;
         m.logit_multiplier = 2.5;
         m.qk_norm = true;
       }},
      {"Nemotron",
       [](ModelSpec& m) {
         m.norm = NormKind::LayerNorm;
         m.activation = Activation::SquaredRelu;
         m.positions = Positions::Rotary;
         m.rotary_fraction = 0.7;
       }},
  };
  for (const auto& [name, change] : models) {
    for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
      INFO(name << (architecture == Architecture::Gpt2 ? " of gpt2" : " of llama"));
      Scenario s = scenario_of(architecture, architecture == Architecture::Gpt2, DType::F64);
      change(s.model);
      compare(s, 1e-9);
      s.training.residual_dropout = s.training.embedding_dropout = 0.1;
      compare(s, 1e-9);
    }
  }
}

TEST_CASE("norms of queries and keys equal PyTorch's within 1e-9", "[oracle]") {
  Scenario s = scenario_of(Architecture::Llama, false, DType::F64);
  s.model.qk_norm = true;
  compare(s, 1e-9);
}

TEST_CASE("Adam, and decay of matrices alone, equal PyTorch's parameter groups within 1e-9",
          "[oracle]") {
  for (const OptimizerKind kind : {OptimizerKind::AdamW, OptimizerKind::Adam}) {
    for (const DecayedParameters decayed : {DecayedParameters::All, DecayedParameters::Matrices}) {
      Scenario s = scenario_of(Architecture::Gpt2, true, DType::F64);
      s.optimizer.name = kind;
      s.optimizer.weight_decay_on = decayed;
      s.optimizer.weight_decay = 0.3;
      compare(s, 1e-9);
    }
  }
}

TEST_CASE("Muon equals one written out in PyTorch within 1e-9", "[oracle]") {
  for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const bool original : {true, false}) {
      for (const int experts : {0, 4}) {
        INFO((original ? "original" : "match_rms_adamw") << ", " << experts << " experts");
        Scenario s = scenario_of(architecture, architecture == Architecture::Gpt2, DType::F64);
        s.optimizer.name = OptimizerKind::Muon;
        s.optimizer.momentum = original ? 0.95 : 0.8;
        s.optimizer.nesterov = original;
        s.optimizer.ns_steps = original ? 5 : 4;
        s.optimizer.adjust_lr_fn = original ? AdjustLr::Original : AdjustLr::MatchRmsAdamW;
        s.optimizer.muon_lr = original ? 0.02 : 0;
        s.optimizer.weight_decay_on =
            original ? DecayedParameters::All : DecayedParameters::Matrices;
        s.model.experts = experts;
        if (experts > 0) s.model.capacity_factor = 0;
        compare(s, 1e-9);
      }
    }
  }
}

TEST_CASE("Adafactor equals one written out in PyTorch within 1e-9", "[oracle]") {
  for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const bool plain : {true, false}) {
      const int experts = architecture == Architecture::Llama && !plain ? 4 : 0;
      INFO((plain ? "plain" : "relative, with a first moment") << ", " << experts << " experts");
      Scenario s = scenario_of(architecture, architecture == Architecture::Gpt2, DType::F64);
      s.optimizer.name = OptimizerKind::Adafactor;
      s.optimizer.lr = 0.05;
      s.optimizer.eps_scale = plain ? 1e-3 : 0.1;
      s.optimizer.scale_parameter = !plain;
      s.optimizer.relative_step = !plain;
      s.optimizer.decay_rate = plain ? -0.8 : -0.5;
      s.optimizer.clip_threshold = plain ? 1 : 0.5;
      s.optimizer.first_moment_decay = plain ? 0 : 0.9;
      s.optimizer.weight_decay_on = plain ? DecayedParameters::All : DecayedParameters::Matrices;
      s.model.experts = experts;
      if (experts > 0) s.model.capacity_factor = 0;
      compare(s, 1e-9);
    }
  }
}

TEST_CASE("replicas that train apart equal as many models in PyTorch within 1e-9", "[oracle]") {
  struct Apart {
    LocalSgdSpec spec;
    int replicas;
  };
  const auto method = SemiSyncMethod::DiLoCo;
  for (const Apart& apart :
       {Apart{{SemiSyncMethod::LocalSgd, 3}, 3}, Apart{{SemiSyncMethod::LocalSgd, 1}, 2},
        Apart{{method, 3, 0.7, 0.9, true}, 2}, Apart{{method, 4, 0.5, 0.8, false}, 3},
        Apart{{method, 2, 1.0, 0.0, false}, 2}, Apart{{method, 3, 0.6, 0.5, true, true}, 1}}) {
    for (const OptimizerKind optimizer : {OptimizerKind::AdamW, OptimizerKind::Muon}) {
      INFO(apart.replicas << " replicas, " << apart.spec.sync_steps << " steps");
      Scenario s = scenario_of(Architecture::Llama, false, DType::F64);
      s.cluster.ranks_per_device = 4;
      s.strategy.local_sgd = apart.spec;
      s.strategy.data_parallel_replicate_degree = apart.replicas;
      s.training.local_batch_size = 6 / apart.replicas;
      s.training.global_batch_size = 6;
      s.optimizer.name = optimizer;
      s.optimizer.muon_lr = optimizer == OptimizerKind::Muon ? 0.02 : 0;
      compare(s, 1e-9);
    }
  }
}

TEST_CASE("weights rounded by blocks equal those of a model in PyTorch within 1e-9", "[oracle]") {
  for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const int shards : {1, 2}) {
      Scenario s = scenario_of(architecture, architecture == Architecture::Gpt2, DType::F64);
      s.cluster.ranks_per_device = 4;
      s.training.local_batch_size = 3;
      s.strategy.data_parallel_shard_degree = shards;
      s.strategy.zero_quantized_weights = true;
      s.strategy.zero_quantized_block_size = 8;  // divides every parameter
      compare(s, 1e-9);
    }
  }
}

TEST_CASE(
    "gradients exchanged as codes equal rounded ones of as many models in PyTorch within 1e-9",
    "[oracle]") {
  for (const int bits : {4, 8}) {
    for (const int shards : {2, 3}) {
      INFO(bits << " bits, " << shards << " shards");
      Scenario s = scenario_of(Architecture::Llama, false, DType::F64);
      s.cluster.ranks_per_device = 4;
      s.training.local_batch_size = 6 / shards;
      s.strategy.data_parallel_shard_degree = shards;
      s.strategy.zero_quantized_gradients = true;
      s.strategy.zero_quantized_gradients_bits = bits;
      s.strategy.zero_quantized_block_size = 8;
      compare(s, 1e-9);
    }
  }
}

TEST_CASE("PowerSGD equals PyTorch's powerSGD_hook in as many processes within 1e-8", "[oracle]") {
  struct Case {
    int rank;
    bool feedback;
    double rate;
    int ranks;
  };
  for (const Case& c : {Case{2, true, 2, 2}, Case{4, true, 1, 3}, Case{1, false, 2, 2}}) {
    for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
      INFO("rank " << c.rank << " on " << c.ranks << " ranks");
      Scenario s = scenario_of(architecture, architecture == Architecture::Gpt2, DType::F64);
      s.cluster.ranks_per_device = 4;
      s.training.local_batch_size = 6 / c.ranks;
      s.strategy.data_parallel_replicate_degree = c.ranks;
      s.strategy.power_sgd = {c.rank, c.feedback, c.rate};
      compare(s, 1e-8);
    }
  }
}

TEST_CASE("mixtures of experts equal PyTorch's within 1e-9: full experts, gates, losses, biases",
          "[oracle]") {
  struct Mixture {
    std::int64_t experts, choices, period;
    double capacity_factor, auxiliary, bias_rate = 0;
    RouterScore score = RouterScore::Softmax;
  };
  // Forty tokens of a microbatch choose experts: all find room, few do, or each has only one
  // choice.
  for (const Mixture& m :
       {Mixture{4, 2, 1, 0, 0}, Mixture{6, 2, 1, 0.8, 0.05}, Mixture{3, 1, 2, 1.0, 0.1},
        Mixture{5, 3, 1, 1.25, 0.02}, Mixture{6, 2, 1, 0, 0, 0.01},
        Mixture{4, 1, 2, 1.25, 0.02, 0.05}, Mixture{6, 2, 1, 0, 0.1, 0.01, RouterScore::Sigmoid},
        Mixture{4, 1, 2, 1.0, 0, 0.05, RouterScore::Sigmoid}}) {
    INFO(m.experts << " experts, " << m.choices << " choices");
    for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
      Scenario s = scenario_of(architecture, false, DType::F64);
      s.model.experts = m.experts;
      s.model.experts_per_token = m.choices;
      s.model.expert_period = m.period;
      s.model.capacity_factor = m.capacity_factor;
      s.model.router_aux_loss_coef = m.auxiliary;
      s.model.router_bias_update_rate = m.bias_rate;
      s.model.router_score = m.score;
      compare(s, 1e-9);
    }
  }
}

TEST_CASE("dropout equals a model that multiplies by the same masks within 1e-9", "[oracle]") {
  for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const int experts : {0, 4}) {
      INFO(experts << " experts");
      Scenario s = scenario_of(architecture, architecture == Architecture::Gpt2, DType::F64);
      s.training.residual_dropout = 0.3;
      s.training.embedding_dropout = 0.15;
      s.model.experts = experts;
      if (experts > 0) s.model.capacity_factor = 0;
      compare(s, 1e-9);
    }
  }
}

TEST_CASE("dropout of attention's probabilities equals a model that multiplies by the same masks",
          "[oracle]") {
  for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const bool latent : {false, true}) {
      if (latent && architecture == Architecture::Gpt2) continue;
      INFO((latent ? "latent attention" : "attention"));
      Scenario s = scenario_of(architecture, architecture == Architecture::Gpt2, DType::F64);
      s.training.attention_dropout = 0.25;
      if (!latent) s.training.residual_dropout = 0.1;
      if (latent) {
        s.model.latent = {20, 28, 8, 4, 6};
        s.model.kv_heads = s.model.heads;
        s.model.head_dim = s.model.latent.qk_head_dim();
      }
      compare(s, 1e-9);
    }
  }
}

TEST_CASE("products in 8 bits equal those of a model that rounds by the formats' definition",
          "[oracle]") {
  for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const Fp8Format format : {Fp8Format::E4M3, Fp8Format::Hybrid}) {
      for (const Fp8Scaling recipe :
           {Fp8Scaling::Blockwise, Fp8Scaling::Mxfp8, Fp8Scaling::Tensorwise}) {
        INFO((format == Fp8Format::Hybrid ? "hybrid" : "E4M3")
             << ", recipe " << static_cast<int>(recipe));
        Scenario s = scenario_of(architecture, architecture == Architecture::Gpt2, DType::F64);
        s.training.fp8 = format;
        s.training.fp8_recipe = recipe;
        const bool blocks = recipe != Fp8Scaling::Tensorwise;
        s.training.fp8_block_size = !blocks ? 0 : recipe == Fp8Scaling::Mxfp8 ? 2 : 4;
        compare(s, 1e-9);
      }
    }
  }
}

TEST_CASE("scales that follow from earlier steps equal those of Transformer Engine's rule",
          "[oracle]") {
  for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const Fp8AmaxAlgo algo : {Fp8AmaxAlgo::Max, Fp8AmaxAlgo::MostRecent}) {
      Scenario s = scenario_of(architecture, architecture == Architecture::Gpt2, DType::F64);
      s.training.fp8 = algo == Fp8AmaxAlgo::Max ? Fp8Format::Hybrid : Fp8Format::E4M3;
      s.training.fp8_recipe = Fp8Scaling::Delayed;
      s.training.fp8_amax_history_len = 3;
      s.training.fp8_amax_compute_algo = algo;
      s.training.fp8_margin = algo == Fp8AmaxAlgo::Max ? 0 : 2;
      compare(s, 1e-9);
    }
  }
}

TEST_CASE("latent attention, and experts behind dense blocks, equal PyTorch's within 1e-9",
          "[oracle]") {
  // With narrow queries and without, with values narrower than keys and as wide.
  for (const LatentSpec& latent : {LatentSpec{20, 28, 8, 4, 6}, LatentSpec{16, 0, 6, 6, 12}}) {
    for (const std::int64_t experts : {0, 4}) {
      INFO("queries of " << latent.q_lora_rank << ", " << experts << " experts");
      Scenario s = scenario_of(Architecture::Llama, false, DType::F64);
      s.model.latent = latent;
      s.model.head_dim = latent.qk_head_dim();
      s.model.kv_heads = s.model.heads;
      s.model.experts = experts;
      if (experts > 0) {
        s.model.dense_layers = 1;
        s.model.dense_ffn_hidden = 72;
        s.model.router_score = RouterScore::Sigmoid;
        s.model.router_bias_update_rate = 0.01;
      }
      compare(s, 1e-9);
    }
  }
}

TEST_CASE("adapters of experts, and those whose inputs are dropped, equal PyTorch's within 1e-9",
          "[oracle]") {
  for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    Scenario s = scenario_of(architecture, false, DType::F64);
    s.model.lora.rank = 5;
    s.model.lora.alpha = 7;
    s.model.lora.dropout = 0.2;
    compare(s, 1e-9);
    s.model.lora.dropout = 0;
    s.model.lora.target_modules = {"linear_proj", "linear_fc1", "linear_fc2"};
    for (const double capacity : {0.0, 1.25}) {
      s.model.experts = 4;
      s.model.capacity_factor = capacity;
      compare(s, 1e-9);
    }
  }
}

TEST_CASE("products by scales from earlier steps beside adapters equal PyTorch's within 1e-9",
          "[oracle]") {
  Scenario s = scenario_of(Architecture::Llama, false, DType::F64);
  s.training.fp8 = Fp8Format::Hybrid;
  s.training.fp8_recipe = Fp8Scaling::Delayed;
  s.training.fp8_amax_history_len = 3;
  s.model.lora.rank = 5;
  s.model.lora.alpha = 7;
  compare(s, 1e-9);
}

TEST_CASE("adapters, and frozen parameters, equal PyTorch's requires_grad within 1e-9",
          "[oracle]") {
  for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const char* modules : {"", "linear_qkv", "linear_fc2"}) {
      INFO("adapters of " << modules);
      Scenario s = scenario_of(architecture, architecture == Architecture::Gpt2, DType::F64);
      s.model.lora.rank = 5;
      s.model.lora.alpha = 7;
      if (*modules != 0) s.model.lora.target_modules = {modules};
      compare(s, 1e-9);
    }
    for (const char* pattern : {"embed.*", "*.attn.*", "*norm*.weight", "head.*", "*.bias"}) {
      if (architecture == Architecture::Llama && std::string(pattern) == "*.bias") continue;
      INFO("frozen " << pattern);
      Scenario s = scenario_of(architecture, false, DType::F64);
      s.model.frozen = {pattern};
      compare(s, 1e-9);
    }
  }
}
