// Counts what pipeline ranks that divide the vocabulary hold and send.
#include <map>

#include "tests/catch.hpp"
#include "tests/core/lower/fixtures.hpp"

using namespace lockstep;
using test::lowered;

namespace {

Scenario divided(Architecture architecture, int pp, int tp = 1) {
  Scenario s = test::tiny_scenario(architecture, {1, 1, pp, 5});
  s.model.kv_heads = s.model.heads;
  s.strategy.tensor_parallel_degree = tp;
  s.strategy.vocabulary_parallel_pipeline = true;
  return s;
}

const Unit& unit_of(const Program& program, const Role& role, const std::string& parameter) {
  for (const Unit& unit : role.units) {
    for (const UnitParameter& p : unit.parameters) {
      if (program.parameters[p.parameter].name == parameter) return unit;
    }
  }
  FAIL(parameter);
  return role.units[0];
}

/// The roles that hold the parameter, by their coordinates along "pp".
std::vector<int> holds(const Program& program, const std::string& parameter) {
  std::vector<int> found;
  for (const Role& role : program.roles) {
    for (const Unit& unit : role.units) {
      for (const UnitParameter& p : unit.parameters) {
        if (program.parameters[p.parameter].name != parameter) continue;
        found.push_back(program.mesh.coordinate(role.ranks[0], program.mesh.index_of("pp")));
      }
    }
  }
  return found;
}

}  // namespace

TEST_CASE("every pipeline rank holds its part of the vocabulary, the ends positions and norm",
          "[core][lower]") {
  for (const int tp : {1, 2}) {
    for (const int pp : {2, 4}) {
      const Program program = lowered(divided(Architecture::Llama, pp, tp));
      const std::int64_t rows = (61 + pp * tp - 1) / (pp * tp);
      for (const Role& role : program.roles) {
        for (const char* table : {"embed.wte", "head.lm_head"}) {
          const Unit& unit = unit_of(program, role, table);
          CHECK(unit.elements == rows * 24);
          CHECK(group_size(program.mesh, program.group(unit.split_group)) == pp * tp);
        }
      }
      CHECK(holds(program, "head.norm.weight") == std::vector<int>{pp - 1});
    }
  }
  const Program tied = lowered(divided(Architecture::Gpt2, 4));
  for (const Role& role : tied.roles) {
    CHECK(unit_of(tied, role, "embed.wte").elements == 16 * 24);
  }
  CHECK(holds(tied, "embed.wpe") == std::vector<int>{0});
}

TEST_CASE("a microbatch takes five collectives of all stages, whose bytes do not grow with words",
          "[core][lower]") {
  for (const int pp : {2, 4}) {
    const Scenario s = divided(Architecture::Llama, pp);
    const Program program = lowered(s);
    const std::int64_t rows = s.training.seq_len, m = s.num_microbatches();
    for (const Role& role : program.roles) {
      std::map<OpKind, std::int64_t> count, bytes;
      for (const Op& op : role.ops) {
        if (!is_collective(op.kind) || op.microbatch < 0) continue;
        ++count[op.kind];
        bytes[op.kind] += payload_bytes(program, role, op).v;
        // The output layer's input comes from the last stage, the embedding's gradient from the
        // first.
        const bool forward = op.phase == Phase::F;
        if (op.kind == OpKind::Broadcast) CHECK(op.root == (forward ? pp - 1 : 0));
      }
      // Rows of the embedding and the gradient of the output layer's input are summed; three
      // numbers of a row and rank make the loss.
      const std::int64_t row_bytes = rows * s.model.hidden * 4;
      CHECK(count == std::map<OpKind, std::int64_t>{{OpKind::AllReduce, 2 * m},
                                                    {OpKind::AllGather, m},
                                                    {OpKind::Broadcast, 2 * m}});
      CHECK(bytes[OpKind::AllReduce] == 2 * m * row_bytes);
      CHECK(bytes[OpKind::Broadcast] == 2 * m * row_bytes);
      CHECK(bytes[OpKind::AllGather] == m * pp * rows * 3 * 4);
    }
  }
}

TEST_CASE("ranks that share a vocabulary never wait for each other's memory, however far one sends",
          "[core][lower]") {
  // lowered() verifies. Of these, GPipe once had 14 that hung: a collective took over the bytes of
  // a message that the peer received after that collective.
  for (const auto schedule :
       {PipelineSchedule::GPipe, PipelineSchedule::OneFOneB, PipelineSchedule::LoopedBFS}) {
    for (const int pp : {2, 3, 4, 5}) {
      for (const int m : {1, 3, 7, 8, 9, 10, 11, 13, 16}) {
        CAPTURE(static_cast<int>(schedule), pp, m);
        Scenario s = test::tiny_scenario(Architecture::Llama, {1, 1, pp, m});
        s.model.layers = 10;
        s.strategy.pipeline_parallel_schedule = schedule;
        if (schedule == PipelineSchedule::LoopedBFS)
          s.strategy.pipeline_parallel_virtual_stages = 2;
        s.strategy.vocabulary_parallel_pipeline = true;
        CHECK(lowered(s).roles.size() == to_size(pp));
      }
    }
  }
}

TEST_CASE("the gradient of a tied table is not summed over stages that hold parts of it",
          "[core][lower]") {
  Scenario s = divided(Architecture::Gpt2, 4);
  const auto sums = [&] {
    const Program program = lowered(s);
    int count = 0;
    for (const Op& op : program.roles[0].ops) {
      count += op.kind == OpKind::AllReduce && op.microbatch < 0 && op.phase == Phase::None;
    }
    return count;
  };
  CHECK(sums() == 0);
  s.strategy.vocabulary_parallel_pipeline = false;
  CHECK(sums() == 1);
}
