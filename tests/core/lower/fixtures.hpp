// Small scenarios for tests of lowering.
#pragma once

#include <utility>

#include "core/lower/lower.hpp"
#include "core/spec/validate/validate.hpp"
#include "tests/catch.hpp"

namespace lockstep::test {

inline ModelSpec tiny_model(Architecture architecture) {
  ModelSpec model;
  model.architecture = architecture;
  model.layers = 4;
  if (architecture == Architecture::Resnet) {
    model.blocks = {1, 2, 1};
    model.width = 4;
    model.image_size = 12;
    model.classes = 10;
    model.small_stem = true;
    return model;
  }
  if (architecture == Architecture::Vit) {
    model.image_size = 12;
    model.patch_size = 4;
    model.classes = 10;
  }
  model.hidden = 24;
  model.heads = 4;
  model.kv_heads = architecture == Architecture::Llama ? 2 : 4;
  model.head_dim = 6;
  model.ffn_hidden = architecture == Architecture::Llama ? 40 : 96;
  if (model.is_vision()) return model;
  model.vocab = 61;
  model.max_seq_len = 16;
  model.tied_embeddings = architecture == Architecture::Gpt2;
  return model;
}

struct Layout {
  int replicate = 1, shard = 1, pp = 1, microbatches = 1, accumulation = 1;
};

inline Scenario tiny_scenario(Architecture architecture, const Layout& layout, int batch = 1) {
  Scenario s;
  s.name = "tiny";
  s.model = tiny_model(architecture);
  s.cluster.ranks_per_device = 64;
  s.training.seq_len = s.model.is_vision() ? 1 : 8;
  s.training.local_batch_size = layout.microbatches * batch;
  s.strategy.data_parallel_replicate_degree = layout.replicate;
  s.strategy.data_parallel_shard_degree = layout.shard;
  s.strategy.pipeline_parallel_degree = layout.pp;
  s.strategy.pipeline_parallel_microbatches = layout.microbatches;
  s.training.global_batch_size =
      s.training.local_batch_size * layout.replicate * layout.shard * layout.accumulation;
  return s;
}

inline Scenario synthetic_scenario(int p, int m, double forward, double input, double weight,
                                   double p2p) {
  Scenario s;
  s.name = "synthetic";
  s.model.name = "synthetic";
  s.model.architecture = Architecture::Synthetic;
  s.costs = CostsSpec{{forward}, {input}, {weight}, p2p};
  s.cluster.ranks_per_device = 64;
  s.cluster.device.concurrent_ranks = 64;
  s.strategy.pipeline_parallel_degree = p;
  s.strategy.pipeline_parallel_microbatches = m;
  return s;
}

/// The program of a sound scenario.
inline Program lowered(const Scenario& s) {
  REQUIRE(validate(s).empty());
  auto program = lower(s);
  if (!program) FAIL(to_string(program.error()));
  return std::move(*program);
}

}  // namespace lockstep::test
