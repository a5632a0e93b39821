// Microbatches that repeat others are not followed op by op. These tests put one fault into one
// microbatch of many, whichever it is.
#include <algorithm>
#include <functional>
#include <string>

#include "core/ir/verify/verify.hpp"
#include "tests/core/ir/op_list.hpp"
#include "tests/core/ir/verify/repeats_of.hpp"
#include "tests/core/lower/fixtures.hpp"

using namespace lockstep;

namespace {

constexpr int kMicrobatches = 7;

Program accumulation() {
  Scenario s = test::tiny_scenario(Architecture::Llama, {.accumulation = kMicrobatches});
  s.strategy.tensor_parallel_degree = 2;
  return test::lowered(s);
}
Program pipeline() {
  return test::lowered(
      test::tiny_scenario(Architecture::Llama, {.pp = 2, .microbatches = kMicrobatches}));
}

using Is = std::function<bool(const Role&, const Op&)>;
/// The first op of role `r` and microbatch `mb` that is so; REQUIREs one.
std::size_t find(const Program& p, Microbatch mb, const Is& is, std::size_t r = 0) {
  const Role& role = p.roles[r];
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    if (role.ops[i].microbatch == mb && is(role, role.ops[i])) return i;
  }
  FAIL("the program has no such op");
  return 0;
}
Is call_of(const Program& p, const std::string& begin) {
  return [&p, begin](const Role&, const Op& op) {
    return op.kind == OpKind::Call && p.function(op.function()).name.text().starts_with(begin);
  };
}
Is collective_of(const Program& p, const std::string& tensor) {
  return [&p, tensor](const Role& role, const Op& op) {
    if (!is_collective(op.kind)) return false;
    const std::int32_t name = role.buffer(role.args_of(op)[0]).name;
    return name >= 0 && p.names[name] == tensor;
  };
}
/// The place in Role::args of the argument of `op` for a formal of this name.
std::size_t argument(const Program& p, const Op& op, const std::string& formal) {
  const auto& formals = p.function(op.function()).formals;
  for (std::size_t f = 0; f < formals.size(); ++f) {
    if (formals[f].name == formal) return op.args_begin + f;
  }
  FAIL("the function has no formal " + formal);
  return 0;
}

std::string first_fault(const Program& program) {
  const auto faults = verify(program);
  return faults.empty() ? "sound" : faults.front().message;
}

}  // namespace

TEST_CASE("microbatches between the first, which begins sums, and the last repeat the second",
          "[core][ir]") {
  for (Program p : {accumulation(), pipeline()}) {
    REQUIRE(first_fault(p) == "sound");
    const std::vector<Microbatch> found = test::originals(p);
    REQUIRE(found.size() == kMicrobatches);
    CHECK(found[0] == 0);
    for (Microbatch mb = 1; mb + 1 < kMicrobatches; ++mb) CHECK(found[to_size(mb)] == 1);
    // What differs in one role is followed in all.
    Role& role = p.roles.back();
    role.ops[find(p, 3, call_of(p, "block.B"), p.roles.size() - 1)].layer = 0;
    const std::vector<Microbatch> changed = test::originals(p);
    CHECK(changed[3] == 3);
    CHECK(changed[5] != 1);
  }
}

TEST_CASE("a microbatch that finds a gradient reduced repeats none before the reduction",
          "[core][ir]") {
  Scenario s =
      test::tiny_scenario(Architecture::Llama, {.replicate = 2, .accumulation = kMicrobatches});
  Program p = test::lowered(s);
  Role& role = p.roles[0];
  const auto reduces = [&](const Op& op) {
    return op.kind == OpKind::AllReduce &&
           role.buffer(role.args_of(op)[0]).kind == BufferKind::Grad;
  };
  const auto reduction = std::find_if(role.ops.begin(), role.ops.end(), reduces);
  REQUIRE(reduction != role.ops.end());
  const auto any = [](const Role&, const Op& op) { return op.kind == OpKind::Call; };
  test::repeat(role, static_cast<std::size_t>(reduction - role.ops.begin()), find(p, 4, any));
  const std::vector<Microbatch> found = test::originals(p);
  CHECK(found[3] == 1);
  CHECK(found[4] == 4);
  CHECK(first_fault(p) != "sound");
}

TEST_CASE("a missing sum is found and named in whichever microbatch it is", "[core][ir]") {
  for (Microbatch mb = 0; mb < kMicrobatches; ++mb) {
    Program p = accumulation();
    test::erase(p.roles[0], find(p, mb, collective_of(p, "out.sum")));
    CHECK_THAT(first_fault(p), ContainsSubstring("mb" + std::to_string(mb) + " ") &&
                                   ContainsSubstring("a sum over tp is missing before it"));
  }
}

TEST_CASE("a race of one microbatch on its own buffer is found and named", "[core][ir]") {
  for (Microbatch mb = 0; mb < kMicrobatches; ++mb) {
    Program p = accumulation();
    Role& role = p.roles[0];
    Op& op = role.ops[find(p, mb, call_of(p, "block.F.1"))];
    REQUIRE(op.after_count == 1);  // the sum that it reads, of another stream
    op.after_count = 0;
    CHECK_THAT(first_fault(p), ContainsSubstring("block.F.1 s0 mb" + std::to_string(mb) + " ") &&
                                   ContainsSubstring("a race"));
  }
}

TEST_CASE("a buffer of one microbatch that is freed before its last use is found and named",
          "[core][ir]") {
  for (const Program& good : {accumulation(), pipeline()}) {
    const Role& role = good.roles[0];
    int cut = 0;
    for (const BufferId id : role.buffers.ids()) {
      const Buffer& buffer = role.buffer(id);
      if (buffer.microbatch < 0 || buffer.is_view() || buffer.first() >= buffer.last()) continue;
      const auto last_args = role.args_of(role.op(buffer.last()));
      if (std::find(last_args.begin(), last_args.end(), id) == last_args.end()) continue;
      Program p = good;
      p.roles[0].buffers[id].set_lifetime(buffer.first(), {buffer.last().v - 1});
      CHECK_THAT(first_fault(p), ContainsSubstring("mb" + std::to_string(buffer.microbatch)) &&
                                     ContainsSubstring("use after free"));
      ++cut;
    }
    CHECK(cut > 5 * kMicrobatches);
  }
}

TEST_CASE("a buffer of one microbatch that lies where another one lives is found", "[core][ir]") {
  const Program good = pipeline();
  const Role& role = good.roles[0];
  int moved = 0;
  for (const BufferId id : role.buffers.ids()) {
    const Buffer& buffer = role.buffer(id);
    if (buffer.microbatch < 0 || buffer.is_view() || buffer.persistent()) continue;
    for (const BufferId other : role.buffers.ids()) {
      const Buffer& living = role.buffer(other);
      if (other == id || living.is_view() || living.persistent() || living.bytes.v == 0 ||
          living.first() > buffer.first() || living.last() < buffer.first() ||
          buffer.bytes.v == 0 || living.offset + buffer.bytes.v > role.arena.v) {
        continue;
      }
      Program p = good;
      p.roles[0].buffers[id].offset = living.offset;
      CHECK_THAT(first_fault(p), ContainsSubstring("alive together"));
      ++moved;
      break;
    }
  }
  CHECK(moved > 10 * kMicrobatches);
}

TEST_CASE("no wait of a microbatch's calls and collectives can be left out", "[core][ir]") {
  for (const Program& good : {accumulation(), pipeline()}) {
    const Role& role = good.roles[0];
    int left_out = 0;
    for (std::size_t i = 0; i < role.ops.size(); ++i) {
      const Op& op = role.ops[i];
      if (op.microbatch < 3 || (op.kind != OpKind::Call && !is_collective(op.kind))) continue;
      for (std::uint8_t k = 0; k < op.after_count; ++k) {
        Program p = good;
        Op& broken = p.roles[0].ops[i];
        std::swap(p.roles[0].after[broken.after_begin + k],
                  p.roles[0].after[broken.after_begin + broken.after_count - 1U]);
        --broken.after_count;
        INFO("op " << i << " wait " << int{k});
        CHECK(first_fault(p) != "sound");
        ++left_out;
      }
    }
    CHECK(left_out > kMicrobatches);
  }
}

TEST_CASE("a microbatch that reads another one's tensor is found", "[core][ir]") {
  for (Microbatch mb = 0; mb < kMicrobatches; ++mb) {
    // Both keep their own in the meantime, so that lifetimes and races find nothing.
    Program p = accumulation();
    Role& role = p.roles[0];
    const Microbatch other = mb == 0 ? 1 : mb - 1;
    const auto tokens = [&](Microbatch of) -> BufferId& {
      const Op& op = role.ops[find(p, of, call_of(p, "embed.F"))];
      return role.args[argument(p, op, "tokens")];
    };
    std::swap(tokens(mb), tokens(other));
    CHECK(first_fault(p) != "sound");
  }
}

TEST_CASE("two microbatches that put their losses in one place are found", "[core][ir]") {
  for (Microbatch mb = 1; mb < kMicrobatches; ++mb) {
    Program p = accumulation();
    Role& role = p.roles[0];
    const auto loss = [&](Microbatch of) -> BufferId& {
      const Is has_loss = [&](const Role&, const Op& op) {
        if (op.kind != OpKind::Call) return false;
        const auto& formals = p.function(op.function()).formals;
        return std::any_of(formals.begin(), formals.end(),
                           [](const Formal& f) { return f.name == "loss"; });
      };
      return role.args[argument(p, role.ops[find(p, of, has_loss)], "loss")];
    };
    loss(mb) = loss(mb - 1);
    CHECK(first_fault(p) != "sound");
  }
}

TEST_CASE("a microbatch that begins a gradient's sum again is found", "[core][ir]") {
  // Its function is that of the first microbatch, which does not add to what is there.
  for (Microbatch mb = 1; mb < kMicrobatches; ++mb) {
    for (Program p : {accumulation(), pipeline()}) {
      Role& role = p.roles[0];
      const Is adds = [&](const Role&, const Op& op) {
        return op.kind == OpKind::Call && op.phase == Phase::B &&
               p.function(op.function()).name.text().find('+') != std::string::npos;
      };
      Op& op = role.ops[find(p, mb, adds)];
      const std::string name = p.function(op.function()).name;
      for (const FunctionId id : p.functions.ids()) {
        if (p.function(id).name == name.substr(0, name.find('+'))) op.target = id.v;
      }
      REQUIRE(p.function(op.function()).name != name);
      CHECK_THAT(first_fault(p), ContainsSubstring("terms, but should be of"));
    }
  }
}

TEST_CASE("a message of one microbatch that is another one's is found", "[core][ir]") {
  for (Microbatch mb = 1; mb + 1 < kMicrobatches; ++mb) {
    Program p = pipeline();
    Role& role = p.roles[0];
    const Is sends = [](const Role&, const Op& op) { return op.kind == OpKind::Send; };
    const Op &own = role.ops[find(p, mb, sends)], &other = role.ops[find(p, mb - 1, sends)];
    role.args[own.args_begin] = role.args[other.args_begin];
    CHECK(first_fault(p) != "sound");
  }
}
