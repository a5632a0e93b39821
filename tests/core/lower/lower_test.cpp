#include "core/lower/lower.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "core/ir/text/text.hpp"
#include "core/ir/verify/verify.hpp"
#include "core/lower/capacity.hpp"
#include "core/lower/passes/passes.hpp"
#include "core/schedule/schedules.hpp"
#include "tests/catch.hpp"
#include "tests/core/lower/fixtures.hpp"

using namespace lockstep;
using test::Layout;
using test::lowered;

namespace {

std::map<OpKind, int> count(const Role& role) {
  std::map<OpKind, int> counts;
  for (const Op& op : role.ops) ++counts[op.kind];
  return counts;
}

std::vector<std::string> stage_texts(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t at = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', at)) {
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string after_pass(const Scenario& s, const std::string& wanted) {
  std::string text;
  const auto program = lower(s, [&](std::string_view pass, const auto& print_state) {
    if (pass == wanted) text = print_state();
  });
  REQUIRE(program.ok());
  return text;
}

}  // namespace

TEST_CASE("every lowered program verifies", "[core][lower]") {
  for (Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const Layout& layout :
         {Layout{}, Layout{2}, Layout{4}, Layout{3, 1, 1, 1, 3}, Layout{1, 2}, Layout{1, 4},
          Layout{1, 3}, Layout{1, 3, 1, 1, 2}, Layout{1, 1, 2, 4}, Layout{1, 1, 4, 2},
          Layout{1, 1, 4, 7}, Layout{2, 1, 2, 4}, Layout{1, 2, 2, 4}, Layout{1, 3, 4, 8}}) {
      for (PipelineSchedule schedule : {PipelineSchedule::GPipe, PipelineSchedule::OneFOneB}) {
        for (ReshardAfterForward reshard :
             {ReshardAfterForward::Default, ReshardAfterForward::Always,
              ReshardAfterForward::Never}) {
          for (int prefetch : {0, 1, 3}) {
            Scenario s = test::tiny_scenario(architecture, layout);
            s.strategy.pipeline_parallel_schedule = schedule;
            s.strategy.fsdp_reshard_after_forward = reshard;
            s.strategy.fsdp_prefetch = prefetch;
            const Program program = lowered(s);
            CHECK(verify(program).empty());
          }
        }
      }
    }
  }
}

TEST_CASE("a program survives print, parse, print", "[core][lower]") {
  for (const Layout& layout : {Layout{}, Layout{2, 1, 2, 4}, Layout{1, 2, 2, 4}}) {
    const Program program = lowered(test::tiny_scenario(Architecture::Gpt2, layout));
    const auto parsed = parse_program(print(program));
    if (!parsed) FAIL(to_string(parsed.error()));
    CHECK(*parsed == program);
    CHECK(print(*parsed) == print(program));
  }
}

TEST_CASE("data-parallel ranks share a role, pipeline ranks do not", "[core][lower]") {
  const Program program = lowered(test::tiny_scenario(Architecture::Gpt2, {2, 1, 2, 4}));
  REQUIRE(program.roles.size() == 2);
  CHECK(program.roles[0].ranks == std::vector<Rank>{0, 1});
  CHECK(program.roles[1].ranks == std::vector<Rank>{2, 3});
}

TEST_CASE("1F1B and GPipe follow the published action orders", "[core][lower]") {
  // torch.distributed.pipelining's generators, p = 2, m = 4.
  Scenario s = test::synthetic_scenario(2, 4, 1, 1, 1, 0);
  CHECK(stage_texts(after_pass(s, "pipeline")) ==
        std::vector<std::string>{"pp0: 0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3",
                                 "pp1: 1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3"});
  s.strategy.pipeline_parallel_schedule = PipelineSchedule::GPipe;
  CHECK(stage_texts(after_pass(s, "pipeline")) ==
        std::vector<std::string>{"pp0: 0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3",
                                 "pp1: 1F0 1F1 1F2 1F3 1B0 1B1 1B2 1B3"});
}

TEST_CASE("stages are balanced by cost, the output layer counted", "[core][lower]") {
  // The head of this model costs as much as several blocks: the last stage gets fewer.
  Scenario s = test::tiny_scenario(Architecture::Llama, {1, 1, 2, 2});
  s.model.vocab = 2000;
  const auto lines = stage_texts(after_pass(s, "partition"));
  REQUIRE(lines.size() == 2);
  CHECK_THAT(lines[0], ContainsSubstring("embed blocks.0 blocks.1 blocks.2  cost"));
  CHECK_THAT(lines[1], ContainsSubstring("blocks.3 head"));
  s.strategy.pipeline_parallel_layers_per_stage = {1, 3};
  CHECK_THAT(stage_texts(after_pass(s, "partition"))[0], ContainsSubstring("embed blocks.0  cost"));
}

TEST_CASE("no other division of the blocks has a smaller largest stage", "[core][lower]") {
  std::uint64_t state = 3;
  const auto draw = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>((state >> 33) % 20 + 1);
  };
  for (int blocks = 1; blocks <= 8; ++blocks) {
    for (int stages = 1; stages <= std::min(blocks, 4); ++stages) {
      Scenario s = test::tiny_scenario(Architecture::Llama, {1, 1, stages, stages});
      Model model;
      for (int l = 0; l < blocks + 2; ++l) {  // embedding and head, too
        model.layers.emplace_back();
        model.layers.back().balance = draw();
      }
      const auto cost = [&](int first, int last) {
        double sum = 0;
        for (int l = first; l < last; ++l) {
          sum += model.layers[l].balance;
        }
        return sum;
      };
      const std::vector<StageLayers> found = partition(model, s.model, s.strategy);
      REQUIRE(found.size() == static_cast<std::size_t>(stages));
      double largest = 0;
      int covered = 0;
      for (const StageLayers& stage : found) {
        CHECK(stage.first == covered);
        covered = stage.last;
        largest = std::max(largest, cost(stage.first, stage.last));
      }
      CHECK(covered == blocks + 2);
      // Every way to cut: after block i exactly where bit i is set.
      double least = 1e9;
      for (unsigned cuts = 0; cuts < 1u << (blocks - 1); ++cuts) {
        if (std::popcount(cuts) != stages - 1) continue;
        double worst = 0;
        int first = 0;
        for (int block = 1; block <= blocks; ++block) {
          const bool end = block == blocks || (cuts >> (block - 1) & 1u) != 0;
          if (!end) continue;
          const int last = block == blocks ? blocks + 2 : block + 1;
          worst = std::max(worst, cost(first, last));
          first = last;
        }
        least = std::min(least, worst);
      }
      CHECK(largest == least);
    }
  }
}

TEST_CASE("accumulation of whole gradients communicates once", "[core][lower]") {
  for (int k : {1, 2, 8}) {
    const Program ddp = lowered(test::tiny_scenario(Architecture::Gpt2, {2, 1, 1, 1, k}));
    CHECK(count(ddp.roles[0])[OpKind::AllReduce] == 1 + 1);  // one bucket, the loss
    Scenario s = test::tiny_scenario(Architecture::Gpt2, {1, 2, 1, 1, k});
    s.strategy.accumulate_sharded_gradients = AccumulateShards::Never;
    const Program fsdp = lowered(s);
    CHECK(count(fsdp.roles[0])[OpKind::ReduceScatter] == 4 + 3);  // blocks; tied, embed, head
  }
}

TEST_CASE("FSDP gathers blocks 2n - 1 times, the root units once, and reduces each unit once",
          "[core][lower]") {
  for (int n : {1, 2, 4, 9}) {
    Scenario s = test::tiny_scenario(Architecture::Llama, {1, 2});
    s.model.layers = n;
    const Role role = lowered(s).roles[0];
    CHECK(count(role)[OpKind::AllGather] == 2 * n - 1 + 2 + 1);  // embedding, head; the norm's
    CHECK(count(role)[OpKind::ReduceScatter] == n + 2);
    s.strategy.fsdp_reshard_after_forward = ReshardAfterForward::Never;
    CHECK(count(lowered(s).roles[0])[OpKind::AllGather] == n + 2 + 1);
  }
}

TEST_CASE("FSDP keeps at most prefetch + 1 gathered blocks alive", "[core][lower]") {
  for (int prefetch : {0, 1, 2}) {
    Scenario s = test::tiny_scenario(Architecture::Gpt2, {1, 2});
    s.model.layers = 6;
    s.strategy.fsdp_prefetch = prefetch;
    const Program program = lowered(s);
    const Role& role = program.roles[0];
    int most = 0;
    for (std::size_t i = 0; i < role.ops.size(); ++i) {
      int alive = 0;
      for (const Buffer& b : role.buffers) {
        alive += b.kind == BufferKind::ParamFull && b.first().v <= static_cast<int>(i) &&
                 static_cast<int>(i) <= b.last().v &&
                 program.names[b.name].rfind("blocks.", 0) == 0;
      }
      most = std::max(most, alive);
    }
    CHECK(most == prefetch + 1);
  }
}

TEST_CASE("FSDP parameters and optimizer states per rank are the total over dp", "[core][lower]") {
  for (int dp : {2, 3, 4}) {
    const Scenario s = test::tiny_scenario(Architecture::Gpt2, {1, dp});
    const Program program = lowered(s);
    const Role& role = program.roles[0];
    std::int64_t total = 0;
    for (const Parameter& p : program.parameters) total += p.elements();
    std::int64_t shards = 0;
    for (const Unit& unit : role.units) {
      CHECK(unit.shard_elements == ceil_div(unit.elements, dp));
      CHECK(role.buffer(unit.param()).bytes.v == 4 * unit.shard_elements);
      CHECK(role.buffer(unit.states[StateKind::Moment1]).bytes.v == 4 * unit.shard_elements);
      shards += unit.shard_elements;
    }
    CHECK(shards * dp >= total);
    CHECK(shards * dp < total + dp * static_cast<std::int64_t>(role.units.size()));
  }
}

TEST_CASE("DDP buckets close at their cap, in reverse order, the first one early",
          "[core][lower]") {
  // Llama blocks of one size; caps chosen so that the published rule gives these buckets.
  Scenario s = test::tiny_scenario(Architecture::Llama, {2});
  s.training.max_norm = 0;
  s.strategy.first_bucket_cap = Bytes{1};
  s.strategy.bucket_cap = Bytes{20000};
  const Program program = lowered(s);
  const Role& role = program.roles[0];
  std::vector<std::pair<std::int64_t, std::int64_t>> buckets;  // [offset, end) in the flat buffer
  std::int64_t total = 0;
  for (const Parameter& p : program.parameters) total += 4 * p.elements();
  for (const Op& op : role.ops) {
    if (op.kind != OpKind::AllReduce || op.phase == Phase::O) continue;
    const Buffer& b = role.buffer(role.args_of(op)[0]);
    buckets.emplace_back(b.offset, b.offset + b.bytes.v);
  }
  REQUIRE(buckets.size() > 2);
  CHECK(buckets[0].second == total);
  CHECK(buckets[0].second - buckets[0].first == 4 * 61 * 24);  // lm_head alone: it crosses 1 byte
  for (std::size_t i = 1; i < buckets.size(); ++i) {
    CHECK(buckets[i].second == buckets[i - 1].first);
    if (i + 1 < buckets.size()) CHECK(buckets[i].second - buckets[i].first >= 20000);
  }
  CHECK(buckets.back().first == 0);
}

TEST_CASE("a bucket is reduced while the backward pass goes on, unless told not to",
          "[core][lower]") {
  Scenario s = test::tiny_scenario(Architecture::Llama, {2});
  s.strategy.bucket_cap = Bytes{1000};
  const auto first_reduce = [](const Role& role) {
    return std::find_if(role.ops.begin(), role.ops.end(),
                        [](const Op& op) { return op.kind == OpKind::AllReduce; }) -
           role.ops.begin();
  };
  const auto last_backward = [](const Role& role) {
    std::ptrdiff_t last = -1;
    for (std::size_t i = 0; i < role.ops.size(); ++i) {
      if (role.ops[i].kind == OpKind::Call && role.ops[i].phase == Phase::B) {
        last = static_cast<std::ptrdiff_t>(i);
      }
    }
    return last;
  };
  const Program overlapped = lowered(s);
  CHECK(first_reduce(overlapped.roles[0]) < last_backward(overlapped.roles[0]));
  s.strategy.overlap_grad_reduce = false;
  const Program after = lowered(s);
  CHECK(first_reduce(after.roles[0]) > last_backward(after.roles[0]));
  // Its place in the list alone would not hold it back: it is on a stream of its own.
  const Role& role = after.roles[0];
  const auto waits = role.after_of(role.ops[OpId{static_cast<std::int32_t>(first_reduce(role))}]);
  const OpId last{static_cast<std::int32_t>(last_backward(role))};
  CHECK(std::any_of(waits.begin(), waits.end(), [&](OpId op) { return op >= last; }));
}

TEST_CASE("the tied embedding's gradient is added up between first and last stage",
          "[core][lower]") {
  const Program program = lowered(test::tiny_scenario(Architecture::Gpt2, {1, 1, 4, 4}));
  const auto reduces_over = [&](const Role& role, const std::string& group) {
    return std::count_if(role.ops.begin(), role.ops.end(), [&](const Op& op) {
      return is_collective(op.kind) && program.group(op.group()).name == group;
    });
  };
  CHECK(reduces_over(program.roles[0], "embed") == 1);
  CHECK(reduces_over(program.roles[1], "embed") == 0);
  CHECK(reduces_over(program.roles[3], "embed") == 1);
  const auto& last = program.roles[3].units;
  CHECK(std::any_of(last.begin(), last.end(), [](const Unit& u) { return u.tied_copy; }));
}

TEST_CASE("the compute stream never waits for the reduce-scatter of the unit before",
          "[core][lower]") {
  Scenario s = test::tiny_scenario(Architecture::Gpt2, {1, 2});
  s.model.layers = 6;
  const Program program = lowered(s);
  const Role& role = program.roles[0];
  int reduces = 0;  // reduce-scatters listed so far
  std::map<int, int> number;
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    const Op& op = role.ops[i];
    if (op.kind == OpKind::ReduceScatter) number[static_cast<int>(i)] = ++reduces;
    if (op.phase != Phase::B) continue;
    for (OpId before : role.after_of(op)) {
      if (number.count(before.v)) CHECK(number[before.v] < reduces);
    }
  }
  CHECK(reduces == 6 + 3);
}

TEST_CASE("what does not fit is lowered, but refused to who runs it, with rank, op and buffers",
          "[core][lower]") {
  Scenario s = test::tiny_scenario(Architecture::Gpt2, {});
  s.model.layers = 40;
  s.model.hidden = 240;
  s.model.head_dim = 60;
  s.cluster.device.memory = Bytes{1'000'000};
  s.cluster.ranks_per_device = 1;
  const auto program = lower_to_fit(s);
  REQUIRE(!program.ok());
  CHECK(program.error().kind == ErrorKind::OutOfMemory);
  // Whoever only wants to see it gets the program, and the same words beside it.
  const Program shown = lowered(s);
  CHECK(check_capacity(shown, s.cluster).error().message == program.error().message);
  s.cluster.device.memory = shown.roles[0].arena;
  CHECK(check_capacity(shown, s.cluster).ok());
  s.cluster.device.memory.v -= 1;
  CHECK(!check_capacity(shown, s.cluster).ok());
  CHECK_THAT(program.error().message, ContainsSubstring("rank 0 needs"));
  CHECK_THAT(program.error().message, ContainsSubstring("the peak is at op %"));
  CHECK_THAT(program.error().message, ContainsSubstring("largest buffers: "));
}

TEST_CASE("one microbatch more costs a 1F1B pipeline no memory once it is full", "[core][lower]") {
  const auto arena = [](int m) {
    return lowered(test::tiny_scenario(Architecture::Gpt2, {1, 1, 2, m})).roles[0].arena;
  };
  CHECK(arena(4) == arena(16));
  CHECK(arena(16) < lowered([] {
                      Scenario s = test::tiny_scenario(Architecture::Gpt2, {1, 1, 2, 16});
                      s.strategy.pipeline_parallel_schedule = PipelineSchedule::GPipe;
                      return s;
                    }())
                        .roles[0]
                        .arena);
}

TEST_CASE("roles that are long enough to be worked on side by side come out alike every time",
          "[core][lower]") {
  const Scenario s = test::tiny_scenario(Architecture::Gpt2, {1, 1, 2, 3000});
  Program program = lowered(s);
  CHECK(program.roles[0].ops.size() + program.roles[1].ops.size() > 50'000);
  CHECK(program == lowered(s));
  // What is wrong with the second role is told after what is wrong with the first one.
  for (Role& role : program.roles) {
    const auto last_waiting = std::find_if(role.ops.rbegin(), role.ops.rend(), [](const Op& op) {
      return op.kind == OpKind::Call && op.after_count > 0;
    });
    REQUIRE(last_waiting != role.ops.rend());
    last_waiting->after_count = 0;
  }
  std::vector<std::string> ranks;
  for (const Error& fault : verify(program)) ranks.push_back(fault.message.substr(0, 6));
  CHECK(std::is_sorted(ranks.begin(), ranks.end()));
  CHECK(std::count(ranks.begin(), ranks.end(), "rank 0") > 0);
  CHECK(std::count(ranks.begin(), ranks.end(), "rank 1") > 0);
}

TEST_CASE("a schedule runs whichever rank has which of its rows", "[core][lower]") {
  constexpr int kRanks = 4, kMicrobatches = 8;
  const Schedule usual =
      generate(rules_of(PipelineSchedule::DualPipeV), {kRanks, 2, kMicrobatches, kRanks});
  std::vector<int> row(kRanks);  // of each rank
  std::iota(row.begin(), row.end(), 0);
  do {
    CAPTURE(row);
    Schedule permuted = usual;
    for (int rank = 0; rank < kRanks; ++rank)
      permuted.actions[rank] = usual.actions[row[to_size(rank)]];
    for (int& rank : permuted.rank_of_stage) {
      rank = static_cast<int>(std::find(row.begin(), row.end(), rank) - row.begin());
    }
    Scenario s = test::synthetic_scenario(kRanks, kMicrobatches, 1, 1, 1, 0);
    s.strategy.pipeline_parallel_virtual_stages = 2;
    s.strategy.pipeline_parallel_schedule_actions = permuted;
    const auto program = lower(s);
    if (!program) FAIL_CHECK(to_string(program.error()));
  } while (std::next_permutation(row.begin(), row.end()));
}
