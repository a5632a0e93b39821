// Tests what lowered programs are given: every token of a step is read once, in whatever layout.
#include <array>
#include <map>
#include <numeric>
#include <set>

#include "tests/core/lower/fixtures.hpp"

namespace lockstep {
namespace {

using test::Layout;
using test::tiny_scenario;

Program lowered(const Scenario& s) {
  for (const Fault& fault : validate(s)) FAIL(fault.error.message);
  auto program = lower(s);
  if (!program) FAIL(to_string(program.error()));
  return std::move(*program);
}

std::vector<std::int32_t> filled(const Program& program, TableKind kind, Rank rank,
                                 std::int64_t elements) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(elements));
  const IndexTable* const table = program.input.table(kind);
  REQUIRE(table != nullptr);
  table->lists[position_over(program.mesh, table->dims, rank)].fill(values);
  return values;
}

int coordinate(const Program& program, const char* dim, Rank rank) {
  const int index = program.mesh.index_of(dim);
  return index < 0 ? 0 : program.mesh.coordinate(rank, index);
}

/// The positions in a sample of the tokens that `rank` takes.
std::vector<std::int32_t> own_tokens(const Program& program, Rank rank, std::int64_t own) {
  if (program.input.table(TableKind::Order) != nullptr) {
    return filled(program, TableKind::Order, rank, own);
  }
  std::vector<std::int32_t> all;
  for (std::int32_t i = 0; i < own; ++i) all.push_back(i);
  return all;
}

/// How often each (sample of the step, token of it) is read, counting ranks that divide a
/// vocabulary once.
std::map<std::pair<std::int64_t, std::int32_t>, int> reads(const Program& program) {
  std::map<std::pair<std::int64_t, std::int32_t>, int> count;
  const Samples& samples = program.input.samples;
  const std::int64_t share = samples.per_step / size_over(program.mesh, samples.over);
  for (Rank rank = 0; rank < program.mesh.world_size(); ++rank) {
    if (coordinate(program, "tp", rank) != 0) continue;
    const std::int64_t first = position_over(program.mesh, samples.over, rank) * share;
    const Role& role = program.role_of(rank);
    for (const Op& op : role.ops) {
      if (op.kind != OpKind::HostToDevice || op.host() != HostData::Tokens) continue;
      const std::int64_t bytes = role.buffer(role.args_of(op)[0]).bytes.v;
      for (std::int64_t row = 0; row < samples.microbatch; ++row) {
        for (const std::int32_t token : own_tokens(program, rank, bytes / 4 / samples.microbatch)) {
          ++count[{first + op.microbatch * samples.microbatch + row, token}];
        }
      }
    }
  }
  return count;
}

}  // namespace

TEST_CASE("the ranks of every layout read each token of a step's samples once", "[core][lower]") {
  int layouts = 0;
  for (const Architecture kind : {Architecture::Gpt2, Architecture::Llama}) {
    for (const int cp : {1, 2, 4}) {
      for (const int tp : {1, 2}) {
        for (const Layout& layout : {Layout{}, Layout{2, 2, 1, 1, 2}, Layout{1, 4, 2, 4, 1}}) {
          Scenario s = tiny_scenario(kind, layout, 2);
          s.strategy.context_parallel_degree = cp;
          if (kind == Architecture::Llama && cp > 1) {
            s.strategy.context_parallel_method = ContextParallelMethod::AllGather;
          }
          s.strategy.tensor_parallel_degree = tp;
          s.training.seq_len = 16;
          if (cp * tp > s.model.kv_heads && kind == Architecture::Gpt2) continue;
          const Program program = lowered(s);
          const auto count = reads(program);
          CHECK(static_cast<std::int64_t>(count.size()) == program.tokens_per_step);
          std::set<int> often;
          for (const auto& [place, times] : count) often.insert(times);
          CHECK(often == std::set<int>{1});
          CHECK(count.rbegin()->first == std::pair(program.input.samples.per_step - 1, 15));
          ++layouts;
        }
      }
    }
  }
  CHECK(layouts >= 30);
}

TEST_CASE("positions are those of a rank's own rows, shared between tp ranks with the rows",
          "[core][lower]") {
  for (const int cp : {1, 2}) {
    for (const bool shared : {false, true}) {
      Scenario s = tiny_scenario(Architecture::Gpt2, {}, 3);  // 3 rows of 8 / cp tokens
      s.strategy.context_parallel_degree = cp;
      s.strategy.tensor_parallel_degree = 2;
      s.strategy.enable_sequence_parallel = shared;
      const Program program = lowered(s);
      for (Rank rank = 0; rank < program.mesh.world_size(); ++rank) {
        std::vector<std::int32_t> rows;
        const auto one = own_tokens(program, rank, 8 / cp);
        for (int r = 0; r < 3; ++r) rows.insert(rows.end(), one.begin(), one.end());
        if (shared) {  // its half of all rows
          const auto half = static_cast<std::ptrdiff_t>(rows.size() / 2);
          const bool second = coordinate(program, "tp", rank) == 1;
          rows = {rows.begin() + (second ? half : 0), second ? rows.end() : rows.begin() + half};
        }
        const auto given =
            filled(program, TableKind::Positions, rank, static_cast<std::int64_t>(rows.size()));
        CHECK(given == rows);
      }
    }
  }
}

/// What the table of that kind lists for `rank`; 0, 1, … up to `otherwise` without a table.
std::vector<std::int32_t> listed(const Program& program, TableKind kind, Rank rank,
                                 std::int64_t otherwise) {
  const IndexTable* const table = program.input.table(kind);
  if (table != nullptr) {
    const auto at = static_cast<std::size_t>(position_over(program.mesh, table->dims, rank));
    return filled(program, kind, rank, table->lists[at].size());
  }
  std::vector<std::int32_t> all(static_cast<std::size_t>(otherwise));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST_CASE("each rank draws the fate of probabilities of its own, by their heads and positions",
          "[core][lower]") {
  constexpr int kTokens = 24;
  using Method = ContextParallelMethod;
  struct Division {
    Method method;
    int cp, sharers, tp;
    std::int64_t kv_heads;
  };
  for (const Division& d : {Division{Method::Ulysses, 1, 1, 1, 4},
                            {Method::Ulysses, 1, 1, 4, 2},
                            {Method::Ulysses, 2, 1, 1, 4},
                            {Method::Ulysses, 2, 1, 2, 8},
                            {Method::AllGather, 3, 1, 2, 2},
                            {Method::AllGather, 4, 2, 2, 8},
                            {Method::Ring, 3, 1, 1, 1},
                            {Method::Ring, 2, 1, 4, 1},
                            {Method::Ring, 6, 2, 2, 4}}) {
    INFO("cp " << d.cp << ", " << d.sharers << " by heads, tp " << d.tp);
    Scenario s = tiny_scenario(Architecture::Llama, {}, 2);
    s.model.heads = 8;
    s.model.kv_heads = d.kv_heads;
    s.training.seq_len = kTokens;
    s.training.attention_dropout = 0.25;
    s.strategy.context_parallel_method = d.method;
    s.strategy.context_parallel_degree = d.cp;
    s.strategy.context_parallel_ulysses_degree = d.sharers;
    s.strategy.tensor_parallel_degree = d.tp;
    const Program program = lowered(s);
    std::map<std::array<std::int32_t, 3>, int> drawn;  // by head, query and key
    for (Rank rank = 0; rank < program.mesh.world_size(); ++rank) {
      const auto heads = listed(program, TableKind::Heads, rank, s.model.heads);
      const auto queries = listed(program, TableKind::Queries, rank, kTokens);
      std::vector<std::int32_t> keys;
      const auto starts = listed(program, TableKind::Starts, rank, 0);
      const std::size_t half = queries.size() / 2;
      for (std::size_t i = 0; i < starts.size(); ++i) {
        const bool own = d.method == Method::Ring ? i % 4 < 2 : i < 2;  // of queries, not of keys
        for (std::size_t t = 0; t < half; ++t) {
          const auto position = starts[i] + static_cast<std::int32_t>(t);
          if (own) CHECK(queries[i % 2 * half + t] == position);
          if (!own) keys.push_back(position);
        }
      }
      if (starts.empty()) keys = listed(program, TableKind::Starts, rank, kTokens);
      for (const std::int32_t head : heads) {
        for (const std::int32_t query : queries) {
          for (const std::int32_t key : keys) ++drawn[{head, query, key}];
        }
      }
    }
    CHECK(drawn.size() == 8U * kTokens * kTokens);
    for (const auto& [place, times] : drawn) {
      if (times != 1) FAIL_CHECK("head " << place[0] << ": " << times << " times");
    }
  }
}

TEST_CASE("the parts of a vocabulary follow each other and cover it", "[core][lower]") {
  for (const int tp : {2, 4}) {
    Scenario s = tiny_scenario(Architecture::Gpt2, {}, 2);
    s.strategy.tensor_parallel_degree = tp;  // 61 tokens: the last part is shorter
    const Program program = lowered(s);
    std::int32_t next = 0;
    for (Rank rank = 0; rank < tp; ++rank) {
      CHECK(filled(program, TableKind::Shift, rank, 1)[0] == next);
      next += filled(program, TableKind::Columns, rank, 1)[0];
    }
    CHECK(next == 61);
  }
}

TEST_CASE("ranks that divide what an adapter reads know their part, and the keys of all rows",
          "[core][lower]") {
  for (const bool sequence : {false, true}) {
    Scenario s = tiny_scenario(Architecture::Llama, {2, 1, 1, 1, 1}, 4);
    s.strategy.tensor_parallel_degree = 2;
    s.strategy.enable_sequence_parallel = sequence;
    s.model.lora.rank = 2;
    s.model.lora.dropout = 0.25;
    const Program program = lowered(s);
    const IndexTable* const parts = program.input.table(TableKind::Parts);
    REQUIRE(parts != nullptr);
    CHECK(parts->dims == std::vector<int>{program.mesh.index_of("tp")});
    for (Rank rank = 0; rank < 4; ++rank) {
      CHECK(filled(program, TableKind::Parts, rank, 1)[0] == rank % 2);
    }
    const HostData wanted = sequence ? HostData::AllDropoutKeys : HostData::DropoutKeys;
    int copies = 0;
    for (const Op& op : program.roles[0].ops) {
      if (op.kind != OpKind::HostToDevice) continue;
      if (op.host() != HostData::DropoutKeys && op.host() != HostData::AllDropoutKeys) continue;
      CHECK(op.host() == wanted);
      const std::int64_t rows = s.microbatch_size() * s.training.seq_len;
      CHECK(program.roles[0].buffer(program.roles[0].args_of(op)[0]).bytes == Bytes{4 * rows});
      ++copies;
    }
    CHECK(copies == s.num_microbatches());
    s.model.lora.target_modules = {"linear_qkv", "linear_fc1"};  // whose inputs no rank divides
    CHECK(lowered(s).input.table(TableKind::Parts) == nullptr);
  }
}

TEST_CASE("tables say nothing about dimensions that they do not depend on", "[core][lower]") {
  Scenario s = tiny_scenario(Architecture::Gpt2, {2, 1, 1, 1, 1}, 2);
  s.strategy.tensor_parallel_degree = 2;
  const Program program = lowered(s);
  CHECK(program.input.table(TableKind::Order) == nullptr);
  const IndexTable* const shift = program.input.table(TableKind::Shift);
  REQUIRE(shift != nullptr);
  CHECK(shift->dims == std::vector<int>{program.mesh.index_of("tp")});
  CHECK(program.input.samples.over == std::vector<int>{program.mesh.index_of("dp_replicate")});
}

TEST_CASE("a synthetic program is given nothing", "[core][lower]") {
  const Program program = lowered(test::synthetic_scenario(2, 4, 1, 1, 1, 0));
  CHECK(program.input == Input{});
  CHECK(program.training.learning_rate == LearningRate{});
  CHECK(program.training.seed == 0);
}

}  // namespace lockstep
