// Tests the promise of the project: one program is simulated and trained, and every strategy equals
// one rank.
#include <cstdio>
#include <map>

#include "backends/backends.hpp"
#include "tests/integration/parity_runs.hpp"

using namespace lockstep;
using test::Distance;
using test::distance;
using test::Outcome;
using test::parity_row;
using test::parity_scenario;
using test::ParityRow;
using test::References;
using test::state_distance;
using test::train;

namespace {

RunResult simulate(const Program& program, const Scenario& s) {
  auto backend = make_backend("sim");
  REQUIRE(backend.ok());
  auto run = (*backend)->run(program, s.cluster, {});
  if (!run) FAIL(to_string(run.error()));
  return std::move(*run);
}

/// Trains every row, which must come where one rank comes; in float32, by the ops that are
/// simulated.
void check_parity(Architecture architecture, DType dtype, double loss_tolerance,
                  double weight_tolerance) {
  References references(architecture, dtype);
  const bool patches = architecture == Architecture::Vit;
  for (const ParityRow& row : patches ? test::patch_rows() : test::parity_rows()) {
    if (!row.trains_in(dtype)) continue;
    INFO(row.name);
    const Scenario s = parity_scenario(architecture, row, dtype);
    const Outcome outcome = train(s);
    if (dtype == DType::F32) {
      test::check_same_shape(simulate(outcome.program, s).trace, outcome.run.trace);
    }
    const Distance d = distance(outcome, references.of(row));
    const double loss = row.tolerance(dtype, loss_tolerance);
    // As ratios, because Catch prints small numbers as 0.0.
    CHECK(d.loss / loss <= 1);
    CHECK(d.norm / loss <= 20);
    CHECK(d.weights / row.tolerance(dtype, weight_tolerance) <= 1);
  }
}

/// Prints a row of a table for each of `rows`: for both types, a cell for each architecture.
void print_rows(const std::vector<ParityRow>& rows,
                const std::vector<Architecture>& architectures) {
  std::map<std::pair<Architecture, DType>, References> references;
  for (const ParityRow& row : rows) {
    std::string cells;
    int ranks = 0;
    for (DType dtype : {DType::F64, DType::F32}) {
      for (Architecture architecture : architectures) {
        if (!row.trains_in(dtype)) {
          cells += " – |";
          continue;
        }
        References& mine =
            references.try_emplace({architecture, dtype}, architecture, dtype).first->second;
        const Outcome outcome = train(parity_scenario(architecture, row, dtype));
        const Distance d = distance(outcome, mine.of(row));
        char text[64];
        std::snprintf(text, sizeof text, " %.1e / %.1e |", d.loss, d.weights);
        cells += text;
        ranks = outcome.program.mesh.world_size();
      }
    }
    std::printf("| %s | `%s` | %d |%s\n", row.name.c_str(), row.keys.c_str(), ranks, cells.c_str());
  }
}

}  // namespace

// These are not tests: they print the rows of transformers for scripts/parity-table.
TEST_CASE("the parity table", "[.parity-table]") {
  std::printf(
      "| layout | keys | ranks | float64: GPT-2 | Llama | float32: GPT-2 | Llama |\n"
      "| --- | --- | --: | --- | --- | --- | --- |\n");
  print_rows(test::parity_rows(), {Architecture::Gpt2, Architecture::Llama});
}
TEST_CASE("the parity table of vision transformers", "[.parity-table-patches]") {
  std::printf(
      "| layout | keys | ranks | float64 | float32 |\n"
      "| --- | --- | --: | --- | --- |\n");
  print_rows(test::patch_rows(), {Architecture::Vit});
}

TEST_CASE("every strategy equals one rank in float64 to 1e-11", "[integration]") {
  check_parity(Architecture::Gpt2, DType::F64, 1e-11, 1e-11);
  check_parity(Architecture::Llama, DType::F64, 1e-11, 1e-11);
  check_parity(Architecture::Vit, DType::F64, 1e-11, 1e-11);
}

TEST_CASE("every strategy is simulated as it runs and equals one rank in float32 to 1e-5, 1e-4",
          "[integration]") {
  check_parity(Architecture::Gpt2, DType::F32, 1e-5, 1e-4);
  check_parity(Architecture::Llama, DType::F32, 1e-5, 1e-4);
  check_parity(Architecture::Vit, DType::F32, 1e-5, 1e-4);
}

TEST_CASE("one configuration twice, and DDP and every ZeRO stage, agree to the last bit",
          "[integration]") {
  for (Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const std::string layout :
         {"2", "3", "4", "2 pp=2 mb=3", "3 accumulation=2 accumulate_sharded_gradients=never",
          "3 training.mixed_precision_param=bfloat16"}) {
      INFO(layout);
      const auto run = [&](const std::string& keys) {
        return train(parity_scenario(architecture, parity_row("", keys), DType::F32));
      };
      const Outcome ddp = run("dp_replicate=" + layout);
      const std::string shards = "dp_shard=" + layout + " ";
      check_same_bits(ddp, run("dp_replicate=" + layout));
      for (const char* stage : {"0", "1", "2", "3"}) {
        INFO("ZeRO-" << stage);
        check_same_bits(ddp, run(shards + "zero_stage=" + stage));
      }
      check_same_bits(ddp, run(shards + "fsdp_persistence_threshold=1700"));
      check_same_bits(ddp, run(shards + "offload=parameters"));
      for (const char* stage : {"0", "1", "2", "3"}) {
        INFO("ZeRO-" << stage << ", the optimizer on the host");
        check_same_bits(ddp, run(shards + "offload=optimizer zero_stage=" + stage));
      }
      if (layout.front() % 2 == 0) check_same_bits(ddp, run(shards + "fsdp_reshard_degree=2"));
    }
  }
}

TEST_CASE("weights rounded at random agree to the last bit, whatever divides them",
          "[integration]") {
  for (const std::string layout :
       {"2", "3 accumulation=2 accumulate_sharded_gradients=never", "2 pp=2 mb=3", "2 tp=2"}) {
    INFO(layout);
    const auto run = [&](const std::string& keys, const char* at_random) {
      return train(parity_scenario(
          Architecture::Llama, parity_row("", keys + " training.stochastic_rounding=" + at_random),
          DType::BF16));
    };
    const Outcome ddp = run("dp_replicate=" + layout, "true");
    for (const char* stage : {"1", "2", "3", "1 offload=optimizer"}) {
      INFO("ZeRO-" << stage);
      check_same_bits(ddp, run("dp_shard=" + layout + " zero_stage=" + stage, "true"));
    }
    CHECK(ddp.run.state != run("dp_replicate=" + layout, "false").run.state);
  }
}

TEST_CASE("the ZeRO stages agree to the last bit over slices of sequences, too", "[integration]") {
  for (Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const std::string layout : {"cp=2", "cp=2 dp_shard=2", "cp=2 pp=2 mb=3"}) {
      INFO(layout);
      const auto run = [&](int stage) {
        const std::string keys = layout + " zero_stage=" + std::to_string(stage);
        return train(parity_scenario(architecture, parity_row("", keys), DType::F32));
      };
      const Outcome whole = run(0);
      for (const int stage : {1, 2, 3}) check_same_bits(whole, run(stage));
    }
  }
}

TEST_CASE("recomputation changes no bit", "[integration]") {
  for (Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const std::string layout :
         {"", "pp=2 mb=3 ", "cp=2 context_parallel_method=allgather ",
          "cp=4 context_parallel_method=ring ", "cp=2 accumulation=12 ",
          "cp=2 tp=2 model.kv_heads=4 ", "dp_shard=2 pp=2 mb=6 v=2 schedule=ZBVZeroBubble ",
          "dp_shard=3 training.mixed_precision_param=bfloat16 "}) {
      INFO(layout);
      const auto run = [&](const std::string& keys) {
        return train(parity_scenario(architecture, parity_row("", layout + keys), DType::F32));
      };
      const Outcome kept = run("");
      check_same_bits(kept, run("activation_checkpoint.mode=full"));
      for (const char* option :
           {"2", "op", "norm", "activation", "attention", "torchtitan", "layernorm,mlp"}) {
        INFO(option);
        check_same_bits(kept, run(std::string("activation_checkpoint.mode=selective "
                                              "activation_checkpoint.selective_ac_option=") +
                                  option));
      }
      if (layout.starts_with("pp=2")) {
        check_same_bits(kept, run("activation_checkpoint.mode=full "
                                  "activation_checkpoint.recomputed_layers_per_stage=[1,0]"));
      }
    }
  }
}

TEST_CASE("recomputation of experts and latents changes no bit", "[integration]") {
  const auto run = [](const std::string& keys) {
    return train(parity_scenario(Architecture::Llama, parity_row("", keys), DType::F32));
  };
  const auto check = [&](const std::string& layout, const std::vector<std::string>& options) {
    const Outcome kept = run(layout);
    for (const std::string& option : options) {
      INFO(layout << " " << option);
      const std::string keys =
          " activation_checkpoint.mode=selective activation_checkpoint.selective_ac_option=";
      check_same_bits(kept, run(layout + keys + option));
      check_same_bits(kept, run(layout + " framework.recomputes_all=true" + keys + option));
    }
  };
  for (const std::string layout :
       {"accumulation=3 model.capacity_factor=0", "dp_shard=2 ep=2 model.shared_expert_hidden=24",
        "dp_shard=2 ep=2 tp=2 enable_sequence_parallel=true expert_tensor_parallel_degree=2 "
        "model.shared_expert_hidden=24 model.capacity_factor=0",
        "pp=2 mb=3 schedule=ZB-H1 model.capacity_factor=0"}) {
    check(layout + " model.experts=4",
          {"torchtitan", "moe", "moe_act,layernorm", "shared_experts,core_attn"});
  }
  check("tp=2 enable_sequence_parallel=true latent", {"torchtitan", "mla_up_proj"});
  check("pp=2 mb=3 schedule=ZB-H1 latent-keys", {"torchtitan", "mla_up_proj,mlp"});
}

TEST_CASE("the ZeRO stages agree to the last bit with replicas of the shards, too",
          "[integration]") {
  // The sums are of another order than over four replicas: first within, then across.
  for (Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    const auto run = [&](int stage) {
      return train(parity_scenario(
          architecture,
          parity_row("", "dp_replicate=2 dp_shard=2 zero_stage=" + std::to_string(stage)),
          DType::F32));
    };
    const Outcome hybrid = run(3);
    for (int stage : {1, 2}) check_same_bits(hybrid, run(stage));
  }
}

TEST_CASE("networks of images are simulated op by op as they run", "[integration]") {
  for (const ParityRow& row : test::image_rows()) {
    INFO(row.name);
    const Scenario s = parity_scenario(Architecture::Resnet, row, DType::F32);
    const Outcome real = train(s);
    test::check_same_shape(simulate(real.program, s).trace, real.run.trace);
  }
}

TEST_CASE("training resumes where another layout stopped", "[integration]") {
  // Six steps on DDP 2, then four on FSDP 3 or ZeRO-1 3 from its state, against ten on one rank.
  const Outcome reference = train(parity_scenario(Architecture::Gpt2, {}, DType::F64));
  const auto part = [&](const char* keys, int steps, const TrainingState* from) {
    const Scenario s = parity_scenario(Architecture::Gpt2, parity_row("", keys), DType::F64);
    return train(s, steps, from).run.state;
  };
  const TrainingState first = part("dp_replicate=2", 6, nullptr);
  CHECK(first.step == 6);
  const TrainingState second = part("dp_shard=3", 4, &first);
  CHECK(second.step == 10);
  CHECK(state_distance(second, reference.run.state) <= 1e-11);
  const TrainingState third = part("dp_shard=3 zero_stage=1", 4, &first);
  CHECK(state_distance(third, reference.run.state) <= 1e-11);
  CHECK(third == second);
  // Goes through tensor parallel layouts, with parts of heads and of a padded vocabulary, and back.
  const TrainingState fourth = part("tp=2 enable_sequence_parallel=true", 2, &first);
  for (const char* last : {"", "tp=4", "tp=2 dp_shard=2", "dp_shard=4 zero_stage=2",
                           "cp=2 dp_shard=2", "cp=2 zero_stage=0"}) {
    INFO(last);
    CHECK(state_distance(part(last, 2, &fourth), reference.run.state) <= 1e-11);
  }
}

TEST_CASE("moments in 8 bits go on exactly in another layout", "[integration]") {
  const auto part = [](const std::string& keys, int steps, const TrainingState* from) {
    const ParityRow row =
        parity_row("", "optimizer.state_dtype=uint8 optimizer.block_size=4 " + keys);
    return train(parity_scenario(Architecture::Llama, row, DType::F64), steps, from).run.state;
  };
  const TrainingState whole = part("", 10, nullptr);
  CHECK(whole.tensors.at("adam_m.blocks.0.attn.wqkv").dtype == DType::F32);
  const TrainingState first = part("dp_replicate=2", 6, nullptr);
  for (const char* next : {"", "dp_shard=3", "tp=2 dp_shard=2 zero_stage=1", "pp=2 mb=3"}) {
    INFO(next);
    CHECK(state_distance(part(next, 4, &first), whole) <= 1e-11);
  }
}

TEST_CASE("Muon agrees to the last bit over DDP and every ZeRO stage, and goes on in other layouts",
          "[integration]") {
  const auto row = [](const std::string& keys) {
    return parity_row("", "optimizer.name=Muon optimizer.muon_lr=0.02 " + keys);
  };
  for (const std::string layout : {"2", "3 accumulation=2 accumulate_sharded_gradients=never",
                                   "3 training.mixed_precision_param=bfloat16 "
                                   "optimizer.ns_dtype=bfloat16"}) {
    INFO(layout);
    const auto run = [&](const std::string& keys) {
      return train(parity_scenario(Architecture::Llama, row(keys), DType::F32));
    };
    const Outcome ddp = run("dp_replicate=" + layout);
    for (const char* stage : {"1", "2", "3"}) {
      INFO("ZeRO-" << stage);
      check_same_bits(ddp, run("dp_shard=" + layout + " zero_stage=" + stage));
    }
  }
  const auto part = [&](const std::string& keys, int steps, const TrainingState* from) {
    const Scenario s =
        parity_scenario(Architecture::Llama, row("model.kv_heads=2 " + keys), DType::F64);
    return train(s, steps, from).run.state;
  };
  const TrainingState whole = part("", 10, nullptr);
  CHECK(whole.tensors.count("adam_v.blocks.0.attn.wqkv") == 0);
  CHECK(whole.tensors.count("adam_v.blocks.0.norm1.weight") == 1);
  const TrainingState first = part("tp=4 dp_shard=3", 6, nullptr);
  for (const char* next : {"", "dp_shard=3 zero_stage=1", "tp=2 dp_replicate=2", "pp=2 mb=3"}) {
    INFO(next);
    CHECK(state_distance(part(next, 4, &first), whole) <= 1e-11);
  }
}

TEST_CASE("Adafactor goes on in other layouts, with or without a first moment", "[integration]") {
  for (const char* moment : {"", " optimizer.first_moment_decay=0.9"}) {
    const auto part = [&](const std::string& keys, int steps, const TrainingState* from) {
      const ParityRow row = parity_row(
          "", "model.kv_heads=4 optimizer.name=Adafactor optimizer.lr=0.02 " + keys + moment);
      return train(parity_scenario(Architecture::Llama, row, DType::F64), steps, from).run.state;
    };
    const TrainingState whole = part("", 10, nullptr);
    CHECK(whole.tensors.at("adafactor_rows.blocks.0.attn.wo").shape ==
          std::vector<std::int64_t>{24});
    CHECK(whole.tensors.count("adam_m.blocks.0.attn.wo") == (*moment != '\0' ? 1 : 0));
    CHECK(whole.tensors.count("adam_v.blocks.0.attn.wo") == 0);
    const TrainingState first = part("tp=4 dp_shard=3", 6, nullptr);
    for (const char* next : {"", "dp_shard=3 zero_stage=1", "tp=2 dp_replicate=2", "pp=2 mb=3"}) {
      INFO(next << moment);
      CHECK(state_distance(part(next, 4, &first), whole) <= 1e-11);
    }
  }
}

TEST_CASE("factors of experts that ranks divide each go on in other layouts", "[integration]") {
  const auto part = [&](const std::string& keys, int steps, const TrainingState* from) {
    const ParityRow row =
        parity_row("",
                   "model.kv_heads=4 model.experts=4 model.capacity_factor=0 batch=4 "
                   "optimizer.name=Adafactor optimizer.lr=0.02 " +
                       keys);
    return train(parity_scenario(Architecture::Llama, row, DType::F64), steps, from).run.state;
  };
  const std::string tensor = "tp=2 enable_sequence_parallel=true ";
  const TrainingState whole = part("", 10, nullptr);
  CHECK(whole.tensors.at("adafactor_columns.blocks.0.moe.experts.w2").shape ==
        std::vector<std::int64_t>{4, 40});
  const TrainingState first =
      part(tensor + "expert_tensor_parallel_degree=2 dp_shard=2 ep=2", 6, nullptr);
  for (const std::string& next :
       {std::string(), tensor + "expert_tensor_parallel_degree=2", tensor + "dp_shard=4 ep=4"}) {
    INFO(next);
    CHECK(state_distance(part(next, 4, &first), whole) <= 1e-11);
  }
}

TEST_CASE("training resumes where fewer or more ranks share key heads", "[integration]") {
  const auto part = [](const std::string& keys, int steps, const TrainingState* from) {
    const ParityRow row = parity_row("", "model.kv_heads=2 " + keys);
    return train(parity_scenario(Architecture::Llama, row, DType::F64), steps, from).run.state;
  };
  const TrainingState whole = part("", 10, nullptr);
  const TrainingState first = part("tp=4 dp_shard=3", 4, nullptr);
  for (const char* next : {"", "tp=2", "tp=4 enable_sequence_parallel=true dp_shard=2 zero_stage=1",
                           "tp=4 pp=2 mb=4"}) {
    INFO(next);
    const TrainingState second = part(next, 3, &first);
    CHECK(state_distance(part("tp=4 dp_replicate=2", 3, &second), whole) <= 1e-11);
  }
}
