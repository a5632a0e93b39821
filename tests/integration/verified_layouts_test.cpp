// Every layout's program passes verify: those of the parity tables, and layouts drawn at random.
#include <algorithm>
#include <array>
#include <random>
#include <set>

#include "core/lower/lower.hpp"
#include "core/schedule/schedules.hpp"
#include "core/spec/validate/validate.hpp"
#include "tests/catch.hpp"
#include "tests/integration/parity_table.hpp"

using namespace lockstep;

namespace {

/// Draws layouts; most of them break a rule of the scenario's.
class RandomLayouts {
 public:
  explicit RandomLayouts(unsigned seed) : random_(seed) {}

  test::ParityRow next() {
    keys_.clear();
    const bool images = pick(6) == 0;
    const int replicas = often_one(3), shards = often_one(4), ranks = replicas * shards;
    number("dp_replicate", replicas);
    number("dp_shard", shards);
    if (pick(2) == 0) number("zero_stage", static_cast<int>(pick(4)));
    const int passes = often_one(3), microbatches = pipeline(images);
    number("accumulation", microbatches > 1 ? 1 : passes);
    number("batch",
           ranks * (microbatches > 1 ? microbatches : passes) * static_cast<int>(1 + pick(2)));
    const int tensor = often_one(2) * often_one(2);
    number("tp", tensor);
    sometimes({"accumulate_sharded_gradients=always", "accumulate_sharded_gradients=never",
               "overlap_param_gather=true", "fsdp_reshard_degree=2",
               "fsdp_persistence_threshold=1700", "offload=optimizer", "offload=parameters",
               "gradient_as_bucket_view=false", "fsdp_max_active_stages=1"});
    sometimes({"training.max_norm=0", "training.mixed_precision_param=bfloat16"});
    if (images) {
      sometimes({"sync_batch_norm=true", "optimizer.name=AdamW"});
    } else {
      const int context = often_one(2);
      number("cp", context);
      sometimes({"context_parallel_method=allgather"});
      const bool experts = pick(4) == 0, folded = experts && pick(2) == 0;
      if (folded) {  // experts over tensor-parallel ranks need their rows divided
        keys_ += " enable_sequence_parallel=true";
      } else {
        sometimes({"enable_sequence_parallel=true"});
      }
      sometimes({"activation_checkpoint.mode=full", "activation_checkpoint.mode=selective"});
      sometimes({"model.kv_heads=1", "model.kv_heads=2", "model.kv_heads=4"});
      if (experts) {
        keys_ += " model.experts=8 model.capacity_factor=0";
        if (folded) {
          keys_ += " expert_parallel_folding=true";
          number("ep", tensor * (pick(2) == 0 ? context * often_one(shards) : 1));
        } else {
          number("ep", often_one(2));
        }
        sometimes({"model.router_aux_loss_coef=0.1", "model.expert_period=2"});
      }
    }
    test::ParityRow row = test::parity_row(keys_, keys_);
    row.images = images;
    return row;
  }

 private:
  std::size_t pick(std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_);
  }
  int often_one(int most) {
    return pick(2) == 0 ? 1 : static_cast<int>(1 + pick(static_cast<std::size_t>(most)));
  }
  void number(const std::string& key, int value) {
    if (value != 1 || key == "zero_stage") keys_ += " " + key + "=" + std::to_string(value);
  }
  void sometimes(const std::vector<std::string>& one_of) {
    if (pick(3) == 0) keys_ += " " + one_of[pick(one_of.size())];
  }
  int pipeline(bool images) {
    if (pick(2) == 0) return 1;
    const int p = static_cast<int>(2 + pick(images ? 1 : 3));
    const int m = p * static_cast<int>(1 + pick(3));
    const ScheduleRules& rules = kSchedules[pick(kSchedules.size())];
    number("pp", p);
    number("mb", m);
    keys_ += " schedule=" + std::string(rules.name);
    if (rules.least_virtual_stages > 1) number("v", 2);
    if (!images && p * rules.least_virtual_stages > 4) number("model.layers", 8);
    sometimes({"pipeline_parallel_p2p=preposted", "pipeline_parallel_p2p=fused",
               "pipeline_parallel_p2p=blocking"});
    return m;
  }

  std::string keys_;
  std::mt19937 random_;
};

/// False: the scenario's rules refuse it.
bool lowers(Architecture architecture, const test::ParityRow& row, DType dtype) {
  std::optional<Scenario> scenario;
  try {
    scenario = test::parity_scenario(architecture, row, dtype);
  } catch (const std::runtime_error&) {
    return false;
  }
  if (!validate(*scenario).empty()) return false;
  INFO(row.keys);
  const auto program = lower(*scenario);  // verifies
  if (program) return true;
  // A schedule whose blocking messages wait in a circle is the user's to mend, a fault is ours.
  if (program.error().kind == ErrorKind::Internal) FAIL_CHECK(to_string(program.error()));
  return false;
}

}  // namespace

TEST_CASE("every program of the parity tables passes verify", "[integration]") {
  for (const DType dtype : {DType::F64, DType::F32}) {
    for (const test::ParityRow& row : test::parity_rows()) {
      if (row.within > 0 && dtype == DType::F64) continue;
      CHECK(lowers(Architecture::Gpt2, row, dtype));
      CHECK(lowers(Architecture::Llama, row, dtype));
    }
    for (const test::ParityRow& row : test::image_rows()) {
      if (row.within > 0 && dtype == DType::F64) continue;
      CHECK(lowers(Architecture::Resnet, row, dtype));
    }
  }
}

TEST_CASE("programs of random layouts pass verify", "[integration]") {
  RandomLayouts layouts(3);
  int passed = 0;
  for (int drawn = 0; drawn < 20000 && passed < 400; ++drawn) {
    const test::ParityRow row = layouts.next();
    const auto architecture = row.images       ? Architecture::Resnet
                              : drawn % 2 == 0 ? Architecture::Gpt2
                                               : Architecture::Llama;
    passed += lowers(architecture, row, DType::F32) ? 1 : 0;
  }
  CHECK(passed == 400);
}
