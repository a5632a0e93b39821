#include "core/ir/text/text.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <utility>

#include "tests/catch.hpp"
#include "tests/core/ir/sample.hpp"

using namespace lockstep;
using sample::Sample;

namespace {

std::string error_of(const std::string& text) {
  const Result<Program> result = parse_program(text, "p.txt");
  return result.ok() ? "" : to_string(result.error());
}

/// Makes programs with any values that fields can hold, whether or not they make sense; the text
/// must not lose them.
class RandomProgram {
 public:
  explicit RandomProgram(unsigned seed) : random_(seed) {}

  Program make() {
    Program p;
    const std::vector<std::string> dims = {"pp", "dp_replicate", "dp_shard", "tp"};
    for (const std::string& name : dims) {
      if (coin()) p.mesh.dims.push_back({name, below(3) + 1});
    }
    const int world = p.mesh.world_size();
    p.dtype = pick<DType>(6);
    p.tokens_per_step = wide();
    p.model_flops_per_step = Flops{real()};
    p.p2p_latency = Seconds{coin() ? -1 : real()};
    give_input(p);
    for (int i = below(4); i-- > 0;) p.groups.push_back(group(p.mesh));
    for (int i = below(5); i-- > 0;) p.names.push_back(name());
    for (int i = below(4); i-- > 0;) {
      p.parameters.push_back({name(), shape(), pick<InitKind>(3), real(), below(4) - 1});
      for (int k = below(3); k-- > 0;) p.parameters.back().sections.push_back(wide());
    }
    for (int i = below(5); i-- > 0;) p.functions.push_back(function());
    const int roles = below(world) + 1;
    p.roles.resize(roles);
    for (Rank rank = 0; rank < world; ++rank) {
      const RoleId role{below(roles)};
      p.role_of_rank.push_back(role);
      p.roles[role].ranks.push_back(rank);
    }
    for (Role& role : p.roles) fill(p, role);
    return p;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(std::max(1, n))); }
  bool coin() { return below(2) == 0; }
  std::int64_t wide() {
    switch (below(4)) {
      case 0:
        return std::numeric_limits<std::int64_t>::max();
      case 1:
        return -below(100);
      default:
        return below(1 << 30);
    }
  }
  double real() {
    const std::vector<double> special = {0.,  -0., 0.1, 1e-308, 5e-324, 1.7976931348623157e308,
                                         -3.5};
    if (coin()) return special[below(7)];
    return std::ldexp(static_cast<double>(random_()), below(200) - 100) / 3;
  }
  template <class Enum>
  Enum pick(int count) {
    return static_cast<Enum>(below(count));
  }
  std::string name() {
    static const std::vector<std::string> names = {
        "a",      "blocks.3.attn", "",       "with blank", "q\"uote", "back\\s", "line\nbreak",
        "9digit", "a-b",           "ümlaut", "#hash",      "@1",      "x=y",     "block.F"};
    const std::string& chosen = names[below(static_cast<int>(names.size()))];
    return coin() ? chosen + std::to_string(below(5)) : chosen;
  }
  std::vector<std::int64_t> shape() {
    std::vector<std::int64_t> extents;
    for (int i = below(4); i-- > 0;) extents.push_back(below(1000));
    return extents;
  }
  std::vector<int> some_dims(const Mesh& mesh) {
    std::vector<int> dims;
    for (std::size_t d = 0; d < mesh.dims.size(); ++d) {
      if (coin()) dims.push_back(static_cast<int>(d));
    }
    std::shuffle(dims.begin(), dims.end(), random_);
    return dims;
  }
  void give_input(Program& p) {
    Training& t = p.training;
    if (coin()) t.model = name();
    t.steps = coin() ? below(100) : 0;
    t.tokens = coin() ? real() : 0;
    t.seed = coin() ? std::numeric_limits<std::uint64_t>::max() - random_() : 0;
    if (coin()) {
      t.learning_rate = {real(),
                         coin() ? 1 : real(),
                         below(9),
                         coin() ? DecayType::Linear : DecayType::Cosine,
                         below(9),
                         below(9),
                         coin() ? 0 : real()};
    }
    if (const int kind = below(3); kind > 0) {
      Samples& s = p.input.samples;
      s.kind = static_cast<SampleKind>(kind);
      for (std::int64_t* value : {&s.length, &s.classes, &s.per_step, &s.microbatch}) {
        *value = 1 + below(1 << 14);
      }
      s.over = some_dims(p.mesh);
      s.shuffled = coin();
      if (s.kind == SampleKind::Tokens && coin()) {
        s.document_end = below(99);
        s.mean_document = 1 + below(9) / 4.0;
        s.ignores_ends = coin();
      }
      if (s.kind == SampleKind::Tokens && !s.ignores_ends && coin()) {
        s.masked = 1 + below(static_cast<int>(s.length));
        s.mask_token = below(static_cast<int>(s.classes));
      }
      if (s.kind == SampleKind::Images) {
        s.mean = {real(), real(), real()};
        s.deviation = {0.5, -1.0 / 3, 1e9};
      }
    }
    for (int kind = 0; kind < kNumTableKinds; ++kind) {
      if (coin()) continue;
      IndexTable table;
      table.kind = static_cast<TableKind>(kind);
      table.dims = some_dims(p.mesh);
      table.lists.resize(to_size(size_over(p.mesh, table.dims)));
      for (IndexList& list : table.lists) {
        for (int i = below(4); i-- >= 0;) {
          const int first = below(1000);
          list.ranges.push_back({first, first + (coin() ? 0 : below(1 << 30))});
        }
      }
      p.input.tables.push_back(table);
    }
  }
  Group group(const Mesh& mesh) {
    Group g;
    g.name = name();
    for (std::size_t d = 0; d < mesh.dims.size(); ++d) {
      if (coin()) g.dims.push_back(static_cast<int>(d));
    }
    for (int i = below(3); i-- > 0;) g.only.push_back(below(5));
    return g;
  }
  Operand operand(std::size_t formals) {
    Operand o;
    if (formals > 0 && below(5) != 0)
      o.formal = static_cast<std::int16_t>(below(static_cast<int>(formals)));
    o.dtype = pick<DType>(6);
    if (coin()) o.offset = wide();
    return o;
  }
  Function function() {
    Function f;
    f.name = name();
    for (int i = below(5); i-- > 0;) f.formals.push_back({name(), pick<Access>(3), Bytes{wide()}});
    for (int i = below(6); i-- > 0;) {
      Kernel k;
      k.kind = pick<KernelKind>(kNumKernelKinds);
      const KernelRow& row = info(k.kind);
      k.accumulate = coin();
      k.dtype = pick<DType>(6);
      k.stochastic = row.may_be_stochastic && k.dtype == DType::BF16 && coin();
      for (std::size_t d = 0; d < row.dims.size(); ++d) k.dims[d] = wide();
      for (std::size_t d = 0; d < row.scalars.size(); ++d) k.scalars[d] = real();
      for (int n = below(static_cast<int>(row.in.size()) + 1); n-- > 0;)
        k.in.push_back(operand(f.formals.size()));
      for (int n = below(static_cast<int>(row.out.size()) + 1); n-- > 0;)
        k.out.push_back(operand(f.formals.size()));
      f.kernels.push_back(k);
    }
    return f;
  }
  template <class Row>
  std::int32_t index(const std::vector<Row>& table) {
    return table.empty() || coin() ? -1 : below(static_cast<int>(table.size()));
  }
  void fill(const Program& p, Role& role) {
    role.arena = Bytes{wide()};
    const int buffers = below(6), ops = below(8);
    for (int i = below(3); i-- > 0;) {
      Unit u;
      u.name = name();
      u.elements = wide();
      u.shard_elements = wide();
      u.split_group = {index(p.groups)};
      u.shard_group = {index(p.groups)};
      for (BufferId& state : u.states) state = {coin() ? -1 : below(9)};
      u.state_block = coin() ? 0 : 256;
      u.whole_param = coin();
      u.gathered_late = coin();
      u.tied_copy = coin();
      for (int k = p.parameters.empty() ? 0 : below(3); k-- > 0;) {
        const SectionRange sections =
            coin() ? SectionRange{} : SectionRange{below(3), 1 + below(4)};
        u.parameters.push_back({{below(static_cast<int>(p.parameters.size()))}, wide(), sections});
      }
      role.units.push_back(u);
    }
    for (int i = 0; i < buffers; ++i) {
      Buffer b;
      b.bytes = Bytes{wide()};
      b.offset = wide();
      b.set_lifetime({below(9) - 1}, {below(9) - 1});
      if (coin()) b.set_view({below(9)}, {index(p.groups)});
      b.kind = pick<BufferKind>(kNumBufferKinds);
      b.dtype = pick<DType>(6);
      b.layer = static_cast<std::int16_t>(below(40) - 1);
      b.microbatch = below(40) - 1;
      b.name = static_cast<std::int16_t>(index(p.names));
      role.buffers.push_back(b);
    }
    for (int i = 0; i < ops; ++i) {
      Op op;
      op.kind = pick<OpKind>(kNumOpKinds);
      if (op.kind == OpKind::Call && p.functions.empty()) op.kind = OpKind::Send;
      if (is_collective(op.kind) && p.groups.empty()) op.kind = OpKind::Recv;
      op.target = op.kind == OpKind::Call  ? below(static_cast<int>(p.functions.size()))
                  : is_collective(op.kind) ? below(static_cast<int>(p.groups.size()))
                  : is_copy(op.kind)       ? below(4)
                                           : below(5) - 2;
      op.stream = pick<Stream>(kNumStreams);
      op.phase = pick<Phase>(7);
      op.root = static_cast<std::int16_t>(below(3));
      op.layer = static_cast<std::int16_t>(below(40) - 1);
      op.stage = static_cast<std::int16_t>(below(40) - 1);
      op.microbatch = below(40) - 1;
      op.after_begin = static_cast<std::uint32_t>(role.after.size());
      op.args_begin = static_cast<std::uint32_t>(role.args.size());
      op.after_count = static_cast<std::uint8_t>(below(4));
      op.args_count = static_cast<std::uint16_t>(buffers == 0 ? 0 : below(4));
      for (int k = 0; k < op.after_count; ++k) role.after.push_back({below(20)});
      for (int k = 0; k < op.args_count; ++k) role.args.push_back({below(buffers)});
      role.ops.push_back(op);
    }
  }

  std::mt19937 random_;
};

}  // namespace

TEST_CASE("the hand-written step prints as it was written", "[core][ir]") {
  const std::string text = Sample{}.text();
  const std::string printed = print(sample::parse(text));
  // All but the comment with each function's work.
  std::string expected = text;
  const auto annotate = [&](const std::string& line, const std::string& work) {
    Sample::replace(expected, line + "\n", line + "  # " + work + "\n");
  };
  annotate("function fwd own", "16 flop, 48 bytes");
  annotate("function bwd own", "32 flop, 96 bytes");
  annotate("function update own", "32 flop, 56 bytes");
  annotate("function zero own", "0 flop, 16 bytes");
  CHECK(printed == expected);
}

TEST_CASE("the example of docs/program-text.md prints as it stands there", "[core][ir]") {
  std::ifstream file(LOCKSTEP_SOURCE_DIR "/docs/program-text.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  const std::string fence = "```text bigram.program\n";
  const std::size_t begin = page.find(fence) + fence.size();
  REQUIRE(begin > fence.size());
  const std::string text = page.substr(begin, page.find("```\n", begin) - begin);
  const Program program = sample::parse(text);
  CHECK(print(program) == text);
  CHECK(sample::faults(program) == "");
}

TEST_CASE("print, parse and print again loses nothing, whatever the fields hold", "[core][ir]") {
  for (unsigned seed = 0; seed < 500; ++seed) {
    const Program program = RandomProgram(seed).make();
    const std::string text = print(program);
    const Result<Program> parsed = parse_program(text);
    INFO("seed " << seed << "\n" << text);
    REQUIRE((parsed.ok() ? "" : to_string(parsed.error())) == "");
    REQUIRE(*parsed == program);
    REQUIRE(print(*parsed) == text);
  }
}

TEST_CASE("optional scalars are written where they are not 0", "[core][ir]") {
  const auto text = [](const std::string& scalars) {
    return "lockstep_program 2\nmesh\ndtype float32\ntokens_per_step 0\nmodel_flops_per_step 0\n"
           "function f own  # 24 flop, 60 bytes\n  formal qkv read 36\n  formal o write 12\n"
           "  formal lse write 12\n"
           "  attention_forward float32 batch=1 seq=3 heads=1 kv_heads=1 head_dim=1 parts=0 "
           "scores=0 whole=0 " +
           scalars + " qkv=qkv -> o=o lse=lse\n";
  };
  const std::string usual = text("share=0");
  const auto scalars = [](const Program& program) {
    return program.functions[0].kernels[0].scalars;
  };
  for (const auto& [written, values] : std::vector<std::pair<std::string, std::array<double, 4>>>{
           {"share=0", {}},
           {"share=0 scale=0.0625", {0, 0.0625}},
           {"share=0 cap=50", {0, 0, 50}},
           {"share=0.5 scale=0.0625 cap=50", {0.5, 0.0625, 50}}}) {
    INFO(written);
    const Program program = sample::parse(text(written));
    CHECK(scalars(program) == values);
    CHECK(print(program) == text(written));
    CHECK((program_hash(program) == program_hash(sample::parse(usual))) == (written == "share=0"));
  }
  CHECK(print(sample::parse(text("share=0 scale=0 cap = 0"))) == usual);
  // In the order of the row, and by their whole names.
  CHECK(error_of(text("share=0 cap=50 scale=0.0625")) ==
        "p.txt:10:113: expected \"qkv\", found \"scale=0.0625\"");
  CHECK(error_of(text("share=0 capped=50")) ==
        "p.txt:10:106: expected \"qkv\", found \"capped=50\"");
  CHECK(error_of(text("share=0 scale=inf")) == "p.txt:10:112: the number must be finite");
  CHECK(error_of(text("scale=1")) == "p.txt:10:98: expected \"share\", found \"scale=1\"");
}

TEST_CASE("every kind of kernel, op, buffer, stream and phase has its own spelling", "[core][ir]") {
  const auto distinct = [](std::vector<std::string> names) {
    std::sort(names.begin(), names.end());
    return std::adjacent_find(names.begin(), names.end()) == names.end() &&
           std::find(names.begin(), names.end(), "?") == names.end();
  };
  const auto spell = []<class Enum>(Enum, int count) {
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) names.emplace_back(to_string(static_cast<Enum>(i)));
    return names;
  };
  CHECK(distinct(spell(OpKind{}, kNumOpKinds)));
  CHECK(distinct(spell(BufferKind{}, kNumBufferKinds)));
  CHECK(distinct(spell(Stream{}, kNumStreams)));
  CHECK(distinct(spell(Phase{}, 7)));
  CHECK(distinct(spell(HostData{}, 4)));
}

TEST_CASE("ranks are printed as ranges", "[core][ir]") {
  const Program program = sample::parse(
      "lockstep_program 2\nmesh dp=10\nrole 0 ranks=0-3,5,7-8 arena=0\nrole 1 ranks=4,6,9 "
      "arena=0\n");
  CHECK(program.roles[0].ranks == std::vector<Rank>{0, 1, 2, 3, 5, 7, 8});
  REQUIRE_THAT(print(program), ContainsSubstring("role 0 ranks=0-3,5,7-8 arena=0\n"));
  REQUIRE_THAT(print(program), ContainsSubstring("role 1 ranks=4,6,9 arena=0\n"));
  CHECK(print_role(program, {1}) == "role 1 ranks=4,6,9 arena=0\n");
}

TEST_CASE("an ambiguous name is referred to by its index", "[core][ir]") {
  const std::string text =
      "lockstep_program 2\nmesh\ndtype float32\ntokens_per_step 0\nmodel_flops_per_step 0\n"
      "function f own  # 0 flop, 0 bytes\nfunction f own  # 0 flop, 0 bytes\n"
      "role 0 ranks=0 arena=0\n  %0 call @1 stream=compute\n";
  CHECK(print(sample::parse(text)) == text);
  std::string plain = text;
  Sample::replace(plain, "@1", "f");
  CHECK(error_of(plain) ==
        "p.txt:9:11: more than one function is named \"f\"; refer to it by its index, as in @0");
}

TEST_CASE("blanks, comments, blank lines and carriage returns do not matter", "[core][ir]") {
  std::string text = Sample{}.text();
  const Program program = sample::parse(text);
  std::string loose;
  for (const char c : text) {
    if (c == '\n') {
      loose += "  # comment \"%b1\"\r\n\n\t\r\n";
    } else {
      loose += c == ' ' ? std::string(" \t ") : std::string(1, c);
    }
  }
  CHECK(sample::parse(loose) == program);
  text.pop_back();  // no newline at the end
  CHECK(sample::parse(text) == program);
}

TEST_CASE("parse errors give line, column, the text and the nearest name", "[core][ir]") {
  const auto error = [](std::size_t rank, std::string_view from, std::string_view to) {
    return error_of(Sample{}.edit(rank, from, to).text());
  };
  const auto head_error = [](std::string_view from, std::string_view to) {
    return error_of(Sample{}.edit_head(from, to).text());
  };
  CHECK(error_of("") == "p.txt:1:1: the text ends before its \"mesh\" line");
  CHECK(error_of("hello\n") == "p.txt:1:1: expected \"lockstep_program\" on the first line");
  CHECK(error_of("lockstep_program 3\n") ==
        "p.txt:1:18: format version 3 is unknown; this reads 2");
  CHECK(error_of("lockstep_program 2\ngroup dp\n") ==
        "p.txt:2:1: \"mesh\" must come before \"group\"");
  CHECK(head_error("mesh pp=2 dp_shard=2", "mesh pp=2 dp_shard=0") ==
        "p.txt:2:20: a mesh dimension has at least one rank");
  CHECK(head_error("mesh pp=2 dp_shard=2", "mesh pp=2 pp=2") ==
        "p.txt:2:11: mesh dimension \"pp\" stands twice");
  CHECK(head_error("mesh pp=2 dp_shard=2", "mesh pp=2 dp_shard=2000000000") ==
        "p.txt:2:20: a mesh has at most 1048576 ranks and 8 dimensions");
  CHECK(head_error("dtype float32\n", "dtype float23\n") ==
        "p.txt:3:7: unknown dtype \"float23\"; did you mean \"float32\"?");
  CHECK(head_error("dtype float32\n", "dtype float32\ndtype float64\n") ==
        "p.txt:4:7: \"dtype\" stands twice");
  CHECK(head_error("tokens_per_step 8", "token_per_step 8") ==
        "p.txt:4:1: unknown line \"token_per_step\"; did you mean \"tokens_per_step\"?");
  CHECK(head_error("tokens_per_step 8", "tokens_per_step 99999999999999999999") ==
        "p.txt:4:17: the number \"99999999999999999999\" is out of range");
  CHECK(head_error("model_flops_per_step 192", "model_flops_per_step inf") ==
        "p.txt:5:22: the number must be finite");
  CHECK(head_error("model_flops_per_step 192", "model_flops_per_step 1e999") ==
        "p.txt:5:22: the number \"1e999\" is out of range");
  CHECK(head_error("group dp dims=dp_shard", "group dp dims=dp_shards") ==
        "p.txt:6:15: unknown mesh dimension \"dp_shards\"; did you mean \"dp_shard\"?");
  CHECK(head_error("gemm float32 m=2 n=2 k=2 ta=0 tb=0", "gem float32 m=2 n=2 k=2 ta=0 tb=0") ==
        "p.txt:16:3: unknown line \"gem\"; did you mean \"gemm\"?");
  CHECK(head_error("gemm float32 m=2 n=2 k=2 ta=0 tb=0", "gemm float32 m=2 n=2 ta=0 tb=0") ==
        "p.txt:16:24: expected \"k\", found \"ta=0\"");
  CHECK(head_error("a=x b=w -> c=y", "a=z b=w -> c=y") ==
        "p.txt:16:40: unknown formal \"z\"; did you mean \"w\"?");
  CHECK(error(0, "%1 all_gather dp stream=gather", "%1 all_gater dp stream=gather") ==
        "p.txt:47:6: unknown op kind \"all_gater\"; did you mean \"all_gather\"?");
  CHECK(error(0, "%1 all_gather dp stream=gather", "%1 all_gather dp steam=gather") ==
        "p.txt:47:20: unknown key \"steam\"; did you mean \"stream\"?");
  CHECK(error(0, "%1 all_gather dp stream=gather", "%2 all_gather dp stream=gather") ==
        "p.txt:47:3: op 2 is out of order: the next one is 1");
  CHECK(error(0, "stream=gather args=%b0,%b3", "stream=gather stream=gather args=%b0,%b3") ==
        "p.txt:47:34: \"stream\" stands twice");
  CHECK(error(0, "stream=gather args=%b0,%b3", "stream=gather args=%b0,%b30") ==
        "p.txt:47:43: there is no buffer %b30; the role has 10");
  CHECK(error(0, "stream=gather args=%b0,%b3", "stream=gather args=%b0,%3") ==
        "p.txt:47:43: expected %b and a number, found \"%3\"");
  CHECK(error(0, "%3 send pp=1 phase=F stage=0", "%3 send pp=1 phase=F stage=99999") ==
        "p.txt:49:30: the number \"99999\" is out of range");
  CHECK(error_of("lockstep_program 2\nmesh dp=2\nrole 0 ranks=0-2 arena=0\n") ==
        "p.txt:3:14: ranks 0-2 do not lie in 0-1");
  CHECK(error_of("lockstep_program 2\nmesh dp=2\nrole 0 ranks=0,0 arena=0\n") ==
        "p.txt:3:16: rank 0 is in role 0 already");
  CHECK(error_of("lockstep_program 2\nmesh\n  %0 call f\n") ==
        "p.txt:3:3: buffers and ops must follow a \"role\" line");
  CHECK(error_of("lockstep_program 2\nmesh\nrole 0 ranks=0 arena=0 size=3\n") ==
        "p.txt:3:24: unexpected \"size=3\" before the end of the line");
  CHECK(error_of("lockstep_program 2\nmesh\nrole 0 ranks=0 arena=0\ngroup dp\n") ==
        "p.txt:4:1: \"group\" must stand further up");
  CHECK(error_of("lockstep_program 2\nmesh\nnames \"open\n") ==
        "p.txt:3:7: the name has no closing quote");
  CHECK(error_of("lockstep_program 2\nmesh\nnames \"a\\n\"\n") ==
        "p.txt:3:9: unknown escape; known are \\\", \\\\ and \\xhh");
  const std::string role =
      "lockstep_program 2\nmesh dp=1\ngroup dp dims=dp\nrole 0 ranks=0 arena=8\n";
  CHECK(error_of(role +
                 "  %b0 param float32 8 @0\n  %b1 param float32 4 view=%b0 @0 live=%0..%1\n") ==
        "p.txt:6:35: a view lives as long as its parent: leave out live=");
  CHECK(error_of(role + "  %b0 param float32 8 @0 piece_of=dp\n") ==
        "p.txt:5:26: a piece is a view: say of what with view=");
  CHECK(error_of(role + "  %b0 param float32 8 @0 mb=65536\n") ==
        "p.txt:5:29: microbatches are numbered from 0 to 65535");
}

TEST_CASE("a text cut off anywhere gives an error or a shorter program, never a crash",
          "[core][ir]") {
  const std::string text = Sample{}.text();
  for (std::size_t length = 0; length < text.size(); ++length) {
    const Result<Program> result = parse_program(std::string_view(text).substr(0, length));
    if (result.ok()) {
      CHECK(print(*parse_program(print(*result))) == print(*result));
    } else {
      CHECK(result.error().where.has_value());
    }
  }
}
