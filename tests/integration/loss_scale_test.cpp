// Training in float16 with a loss scale: what a step does whose gradients overflow, on every
// layout, and what verify finds wrong with programs that forget the scale.
#include <cmath>
#include <functional>

#include "core/checkpoint/checkpoint.hpp"
#include "core/ir/text/text.hpp"
#include "core/ir/verify/verify.hpp"
#include "tests/integration/parity_runs.hpp"
#include "tests/temporary_folder.hpp"

using namespace lockstep;

using test::Outcome;
using test::parity_row;
using test::parity_scenario;
using test::train;

namespace {

constexpr const char* kHalf = " training.mixed_precision_param=float16 ";

/// With this scale the gradients of logits overflow: they are (p - 1) / 96 for 96 tokens.
constexpr const char* kOverflows = "loss_scale.init_scale=16777216 ";

Scenario half(const std::string& keys) {
  return parity_scenario(Architecture::Llama, parity_row("", keys + kHalf), DType::F32);
}

double largest_change(const TrainingState& a, const TrainingState& b) {
  double most = 0;
  for (const auto& [name, tensor] : b.tensors) {
    if (name.starts_with("adam_")) continue;
    const test::Numbers x = test::decoded(a.tensors.at(name).data, tensor.dtype);
    const test::Numbers y = test::decoded(tensor.data, tensor.dtype);
    for (std::size_t i = 0; i < x.size(); ++i) most = std::max(most, std::abs(x[i] - y[i]));
  }
  return most;
}

}  // namespace

TEST_CASE("a step whose gradients overflow changes nothing and halves the scale", "[integration]") {
  const Scenario s = half(std::string("dp_shard=2 ") + kOverflows);
  const Outcome none = train(s, 0);
  const Outcome one = train(s, 1);
  CHECK(one.run.state.tensors == none.run.state.tensors);
  CHECK(one.run.state.step == 1);
  const StepResult& step = one.run.trace.steps[0];
  CHECK(std::isfinite(step.loss));
  CHECK_FALSE(std::isfinite(step.grad_norm));
  CHECK(step.loss_scale == 16777216);
  CHECK(step.skipped_steps == 1);
  CHECK(one.run.state.loss_scale == LossScale{8388608, 0, 0, 1});
}

TEST_CASE("steps that are skipped do not count as updates of AdamW", "[integration]") {
  // The first update moves every weight by the learning rate, because then the moments' quotient is
  // 1; if it were counted as the third, by 0.62 of it.
  Scenario s = half(std::string(kOverflows) + "optimizer.weight_decay=0");
  s.lr_scheduler = {};
  const Outcome whole = train(s);
  int first = 0;  // step that is not skipped
  while (!std::isfinite(whole.run.trace.steps[first].grad_norm)) ++first;
  REQUIRE(first >= 2);
  const Outcome skipped = train(s, first);
  REQUIRE(skipped.run.trace.steps.back().skipped_steps == first);
  const Outcome updated = train(s, first + 1);
  const double change = largest_change(updated.run.state, skipped.run.state);
  CHECK(change == Approx(s.optimizer.lr).epsilon(1e-3));
}

TEST_CASE("float16 training that is resumed equals one that was not interrupted, bit for bit",
          "[integration]") {
  TemporaryFolder folder;
  for (const std::string keys : {"dp_shard=2", "pp=2 mb=2", "dp_replicate=2 tp=2"}) {
    const Scenario s = half(keys + " " + kOverflows + "loss_scale.growth_interval=3");
    const Outcome whole = train(s, 9);
    CHECK(whole.run.trace.steps.back().skipped_steps > 2);  // the scale grew and overflowed again
    for (const int cut : {1, 4}) {
      INFO(keys << ", cut after step " << cut);
      const Outcome first = train(s, cut);
      test::done(save_checkpoint(first.run.state, folder.path.string()));
      const TrainingState read = test::take(load_checkpoint(folder.path.string()));
      CHECK(read == first.run.state);
      const Outcome rest = train(s, 9 - cut, &read);
      CHECK(rest.run.state == whole.run.state);
      CHECK(rest.run.trace.steps.back().loss_scale == whole.run.trace.steps.back().loss_scale);
    }
  }
}

TEST_CASE("the overflow of a single element is noticed on every rank of every layout",
          "[integration]") {
  // Gradients are added up in float16, and the scale is raised to where the largest sum, and that
  // one alone, overflows: it lies in the shard of one rank.
  const std::string fixed =
      " training.mixed_precision_reduce=float16 loss_scale.growth_factor=1 "
      "loss_scale.backoff_factor=1 loss_scale.init_scale=";
  const auto skips = [&](const std::string& layout, double scale) {
    const Outcome run = train(half(layout + fixed + std::to_string(scale)), 1);
    return run.run.trace.steps[0].skipped_steps == 1;
  };
  double low = 65536, high = 16777216;
  REQUIRE_FALSE(skips("dp_replicate=2", low));
  REQUIRE(skips("dp_replicate=2", high));
  while (high / low > 1.001) {
    const double middle = std::sqrt(low * high);
    (skips("dp_replicate=2", middle) ? high : low) = middle;
  }
  // These add the same numbers in the same order as the two replicas.
  for (const char* layout : {"dp_shard=2", "dp_shard=2 zero_stage=1", "dp_shard=2 zero_stage=2",
                             "dp_shard=2 zero_stage=1 offload=optimizer"}) {
    INFO(layout);
    CHECK(skips(layout, high));
    CHECK_FALSE(skips(layout, low));
    const std::string scale = fixed + std::to_string(high);
    CHECK(train(half(layout + scale), 3).run.state ==
          train(half("dp_replicate=2" + scale), 3).run.state);
  }
}

TEST_CASE("replicas and every ZeRO stage agree to the last bit in float16, through overflows",
          "[integration]") {
  for (const std::string layout : {"2", "3 accumulation=2", "2 pp=2 mb=3"}) {
    for (const char* gradients : {"", "training.mixed_precision_reduce=float16 "}) {
      INFO(layout << " " << gradients);
      const auto run = [&](const std::string& keys) {
        return train(half(keys + " accumulate_sharded_gradients=never " + gradients + kOverflows));
      };
      const Outcome ddp = run("dp_replicate=" + layout);
      CHECK(ddp.run.trace.steps.back().skipped_steps >= 2);
      for (const char* stage : {"1", "2", "3"}) {
        INFO("ZeRO-" << stage);
        const Outcome zero = run("dp_shard=" + layout + " zero_stage=" + stage);
        CHECK(zero.run.state == ddp.run.state);
      }
    }
  }
}

TEST_CASE("verify finds a loss scale that is not multiplied in, not divided out, or not there",
          "[integration]") {
  const Scenario s = half("dp_shard=2 model.experts=2 model.router_aux_loss_coef=0.01");
  const Program good = test::take(lower(s));
  REQUIRE(verify(good).empty());
  CHECK(test::take(parse_program(print(good))) == good);
  const auto faults = [&](const std::function<void(Program&)>& change) {
    Program bad = good;
    change(bad);
    std::string text;
    for (const Error& error : verify(bad)) text += error.message + "\n";
    return text;
  };
  // As a library would emit it that forgets the last operand of some kernel.
  const auto drop = [](Program& program, KernelKind kind) {
    for (Function& function : program.functions) {
      for (Kernel& kernel : function.kernels) {
        if (kernel.kind == kind) kernel.in.back() = {};
      }
      function.emitted = fingerprint(function);
    }
  };
  CHECK_THAT(faults([&](Program& p) { drop(p, KernelKind::CrossEntropy); }),
             ContainsSubstring("cross_entropy does not multiply its gradient by the loss scale"));
  CHECK_THAT(faults([&](Program& p) { drop(p, KernelKind::RouteBackward); }),
             ContainsSubstring("route_backward does not multiply its gradient by the loss scale"));
  CHECK_THAT(faults([&](Program& p) { drop(p, KernelKind::ClipCoefficient); }),
             ContainsSubstring("does not divide by the loss scale"));
  CHECK_THAT(faults([&](Program& p) { drop(p, KernelKind::AdamW); }),
             ContainsSubstring("reads no coefficient, which divides the loss scale out"));
  CHECK_THAT(faults([](Program& p) { p.training.loss_scaling.reset(); }),
             ContainsSubstring("the training has no loss scale"));
}
