// Tests that every schedule, depth, number of microbatches and way to post messages lowers to a
// sound program.
#include "core/ir/verify/verify.hpp"
#include "tests/catch.hpp"
#include "tests/core/lower/fixtures.hpp"

using namespace lockstep;

TEST_CASE("whatever the schedule and the way to post, a pipeline lowers or its circle is named",
          "[core][lower]") {
  int lowered = 0;
  int circles = 0;
  for (const ScheduleRules& rules : kSchedules) {
    for (const P2pPosting posting :
         {P2pPosting::Async, P2pPosting::Preposted, P2pPosting::Fused, P2pPosting::Blocking}) {
      for (const int p : {1, 2, 3, 4}) {
        for (const int m : {1, 2, 4, 6, 8, 9}) {
          Scenario s = test::tiny_scenario(Architecture::Gpt2, {1, 1, p, m});
          s.model.layers = 2 * p;
          s.model.tied_embeddings = false;
          s.strategy.pipeline_parallel_schedule = rules.schedule;
          s.strategy.pipeline_parallel_virtual_stages = rules.most_virtual_stages > 1 ? 2 : 1;
          s.strategy.pipeline_parallel_p2p = posting;
          if (rules.versions != WeightVersions::One) s.training.max_norm = 0;
          if (!validate(s).empty()) continue;
          INFO(rules.name << " p=" << p << " m=" << m << " p2p=" << static_cast<int>(posting));
          const auto program = lower(s);
          if (program) {
            CHECK(verify(*program).empty());
            ++lowered;
            continue;
          }
          INFO(program.error().message);
          // The schedule itself makes ranks wait in a circle if they wait in their messages.
          CHECK(program.error().kind == ErrorKind::InvalidSpec);
          CHECK((posting == P2pPosting::Fused || posting == P2pPosting::Blocking));
          ++circles;
        }
      }
    }
  }
  CHECK(lowered > 900);
  CHECK(circles > 50);
}

TEST_CASE("no receive of an exchange takes the bytes of what the same exchange sends",
          "[core][lower]") {
  // ZB-1p on four ranks: rank 2 sends its last result forward while it receives a gradient.
  Scenario s = test::tiny_scenario(Architecture::Gpt2, {1, 1, 4, 8});
  s.model.layers = 8;
  s.model.tied_embeddings = false;
  s.strategy.pipeline_parallel_schedule = PipelineSchedule::Zb1p;
  s.strategy.pipeline_parallel_p2p = P2pPosting::Fused;
  const Program program = test::lowered(s);
  for (const Role& role : program.roles) {
    std::vector<const Buffer*> sent;  // since the last pass
    for (const Op& op : role.ops) {
      if (op.kind == OpKind::Call) sent.clear();
      if (!is_p2p(op.kind)) continue;
      const Buffer& own = role.buffer(role.args_of(op)[0]);
      if (op.kind == OpKind::Send) sent.push_back(&own);
      for (const Buffer* other : sent) {
        if (op.kind == OpKind::Send) continue;
        const bool apart = own.offset + own.bytes.v <= other->offset ||
                           other->offset + other->bytes.v <= own.offset;
        CHECK(apart);
      }
    }
  }
}
