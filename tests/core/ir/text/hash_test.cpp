#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/ir/text/text.hpp"
#include "tests/catch.hpp"
#include "tests/core/ir/sample.hpp"

using namespace lockstep;

namespace {

/// The first op of the role that waits for another one.
Op& waiting_op(Role& role) {
  for (Op& op : role.ops) {
    if (op.after_count > 0) return op;
  }
  throw std::runtime_error("no op waits");
}

}  // namespace

TEST_CASE("any change that the text shows changes the hash, and each in its own way",
          "[core][ir]") {
  const Program program = sample::parse(sample::Sample{}.text());
  using Change = std::function<void(Program&)>;
  const auto buffer = [](auto change) {
    return Change([change](Program& p) { change(p.roles[0].buffers[1]); });
  };
  const auto op = [](auto change) {
    return Change([change](Program& p) { change(waiting_op(p.roles[0])); });
  };
  const std::vector<Change> changes = {
      buffer([](Buffer& b) { b.bytes.v += 1; }),
      buffer([](Buffer& b) { b.offset += 1; }),
      buffer([](Buffer& b) { b.set_lifetime({b.first().v + 1}, b.last()); }),
      buffer([](Buffer& b) { b.set_lifetime(b.first(), {b.last().v + 1}); }),
      buffer([](Buffer& b) { b.set_view({0}); }),
      buffer([](Buffer& b) { b.set_view({0}, {0}); }),
      buffer([](Buffer& b) { b.kind = BufferKind::ParamVersion; }),
      buffer([](Buffer& b) { b.dtype = DType::I32; }),
      buffer([](Buffer& b) { b.tier = Tier::Host; }),
      buffer([](Buffer& b) { b.layer += 1; }),
      buffer([](Buffer& b) { b.microbatch += 1; }),
      buffer([](Buffer& b) { b.name = b.name < 0 ? 0 : -1; }),
      op([](Op& o) { o.kind = o.kind == OpKind::Send ? OpKind::Recv : OpKind::Send; }),
      op([](Op& o) { o.stream = Stream::CopyBack; }),
      op([](Op& o) { o.phase = Phase::R; }),
      op([](Op& o) { o.target += 1; }),
      op([](Op& o) { o.layer += 1; }),
      op([](Op& o) { o.stage += 1; }),
      op([](Op& o) { o.root += 1; }),
      op([](Op& o) { o.microbatch += 1; }),
      op([](Op& o) { o.after_count -= 1; }),
      op([](Op& o) { o.args_count -= 1; }),
      [](Program& p) { p.roles[0].after[waiting_op(p.roles[0]).after_begin].v += 1; },
      [](Program& p) { p.roles[0].args[waiting_op(p.roles[0]).args_begin].v += 1; },
      [](Program& p) { std::swap(p.roles[0].ops[0], p.roles[0].ops[1]); },
      [](Program& p) { std::swap(p.roles[0].buffers[0], p.roles[0].buffers[1]); },
      [](Program& p) { p.roles[0].ops.pop_back(); },
      [](Program& p) { p.roles[0].buffers.pop_back(); },
      [](Program& p) { p.roles[0].arena.v += 1; },
      [](Program& p) { p.training.seed += 1; },
      [](Program& p) { p.functions[0].formals[0].bytes.v += 1; },
  };
  std::set<std::string> texts = {print(program)}, hashes = {program_hash(program)};
  for (const Change& change : changes) {
    Program other = program;
    change(other);
    CHECK(texts.insert(print(other)).second);
    CHECK(hashes.insert(program_hash(other)).second);
  }
  CHECK(program_hash(sample::parse(sample::Sample{}.text())) == program_hash(program));
}
