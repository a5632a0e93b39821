// What verify says of programs that run but mean something else: one fault each in what lowering
// made, alike on all ranks.
#include <functional>

#include "core/ir/text/text.hpp"
#include "core/ir/verify/verify.hpp"
#include "tests/core/ir/op_list.hpp"
#include "tests/core/lower/fixtures.hpp"

using namespace lockstep;

namespace {

Program tensor_parallel() {
  Scenario s = test::tiny_scenario(Architecture::Llama, {});
  s.strategy.tensor_parallel_degree = 2;
  return test::lowered(s);
}
Program data_parallel(int accumulation = 1) {
  Scenario s =
      test::tiny_scenario(Architecture::Llama, {.replicate = 2, .accumulation = accumulation});
  s.strategy.bucket_cap = Bytes{7600};
  return test::lowered(s);
}
Program apart(SemiSyncMethod method = SemiSyncMethod::DiLoCo, int shard = 1) {
  Scenario s = test::tiny_scenario(Architecture::Llama, {.replicate = 2, .shard = shard});
  s.strategy.local_sgd.method = method;
  s.strategy.local_sgd.sync_steps = 3;
  return test::lowered(s);
}
Program pipeline() {
  return test::lowered(test::tiny_scenario(Architecture::Llama, {.pp = 2, .microbatches = 2}));
}

/// The n-th op of role `r` that is so; REQUIREs one.
std::size_t find(const Program& p, const std::function<bool(const Role&, const Op&)>& is, int n = 0,
                 std::size_t r = 0) {
  const Role& role = p.roles[r];
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    if (is(role, role.ops[i]) && n-- == 0) return i;
  }
  FAIL("the program has no such op");
  return 0;
}
auto collective_of(const Program& p, OpKind kind, const std::string& tensor) {
  return [&p, kind, tensor](const Role& role, const Op& op) {
    if (op.kind != kind) return false;
    const std::int32_t name = role.buffer(role.args_of(op)[0]).name;
    return name >= 0 && p.names[name] == tensor;
  };
}
auto call_of(const Program& p, const std::string& begin) {
  return [&p, begin](const Role&, const Op& op) {
    return op.kind == OpKind::Call && p.function(op.function()).name.text().starts_with(begin);
  };
}
auto copy_of(OpKind kind, HostData data) {
  return [kind, data](const Role&, const Op& op) { return op.kind == kind && op.host() == data; };
}

std::string first_fault(const Program& program) {
  const auto printed = parse_program(print(program));
  if (!printed) return "not parsed: " + printed.error().message;
  const auto faults = verify(*printed);
  return faults.empty() ? "sound" : faults.front().message;
}

}  // namespace

TEST_CASE("a partial product that nobody sums is named where it is read", "[core][ir]") {
  Program p = tensor_parallel();
  CHECK(first_fault(p) == "sound");
  test::erase(p.roles[0], find(p, collective_of(p, OpKind::AllReduce, "out.sum"), 1));
  CHECK_THAT(first_fault(p),
             ContainsSubstring("block.F.1 s0 mb0 L2: add: along tp x (out.sum) is a term of "
                               "a sum, resid (x) is the same") &&
                 ContainsSubstring("a sum over tp is missing before it"));
}

TEST_CASE("a sum that is taken twice is refused", "[core][ir]") {
  Program p = tensor_parallel();
  const std::size_t twice = find(p, collective_of(p, OpKind::AllReduce, "out.sum"));
  test::repeat(p.roles[0], twice, twice);  // what follows waits for the second
  CHECK_THAT(
      first_fault(p),
      ContainsSubstring("out.sum of layer 1, microbatch 0 is the same along tp, which all_reduce "
                        "does not take"));
}

TEST_CASE("a gradient that replicas do not sum is named by parameter and axis", "[core][ir]") {
  Program p = data_parallel();
  CHECK(first_fault(p) == "sound");
  const auto reduces = [](const Role& role, const Op& op) {
    return op.kind == OpKind::AllReduce &&
           role.buffer(role.root(role.args_of(op)[0])).kind == BufferKind::Grad;
  };
  test::erase(p.roles[0], find(p, reduces, 1));
  CHECK_THAT(first_fault(p), ContainsSubstring("norm_squared") && ContainsSubstring("blocks.") &&
                                 ContainsSubstring("a term of a sum along dp_replicate") &&
                                 ContainsSubstring(".attn.wqkv"));
}

TEST_CASE("gradients of keys that several ranks share are summed over exactly these ranks",
          "[core][ir]") {
  Scenario s = test::tiny_scenario(Architecture::Llama, {});
  s.strategy.tensor_parallel_degree = 4;  // two ranks for each of two key heads
  s.strategy.data_parallel_shard_degree = 2;
  s.training.global_batch_size = 2;
  const Program sound = test::lowered(s);
  CHECK(first_fault(sound) == "sound");
  const auto over = [&](const char* name) {
    return [&sound, name](const Role&, const Op& op) {
      return op.kind == OpKind::AllReduce && op.phase != Phase::O &&
             sound.group(op.group()).name == name;
    };
  };
  Program none = sound;
  test::erase(none.roles[0], find(none, over("kv_replicate")));
  CHECK_THAT(first_fault(none), ContainsSubstring("the gradient of blocks.3.kv") &&
                                    ContainsSubstring("a sum over kv_replicate is missing"));
  // All ranks of "tp" together would add gradients of different heads.
  Program all = sound;
  Role& role = all.roles[0];
  const std::size_t sum = find(all, over("kv_replicate"));
  for (std::size_t g = 0; g < all.groups.size(); ++g) {
    if (all.groups[g].name == "tp") role.ops[sum].target = static_cast<std::int32_t>(g);
  }
  CHECK_THAT(first_fault(all), ContainsSubstring("which all_reduce does not take"));
}

TEST_CASE("a gradient without the last microbatch's term is refused", "[core][ir]") {
  Program p = data_parallel(2);
  CHECK(first_fault(p) == "sound");
  // Both microbatches' tokens are the first one's.
  for (const HostData data : {HostData::Tokens, HostData::Targets}) {
    p.roles[0].ops[find(p, copy_of(OpKind::HostToDevice, data), 1)].microbatch = 0;
  }
  CHECK_THAT(first_fault(p),
             ContainsSubstring("reads as tokens tokens of microbatch 0, not tokens of "
                               "microbatch 1"));
}

TEST_CASE("Adam's moments in each other's place are refused", "[core][ir]") {
  Program p = data_parallel();
  Role& role = p.roles[0];
  const std::size_t update = find(p, call_of(p, "adamw"));
  std::swap(role.args[role.ops[update].args_begin + 3], role.args[role.ops[update].args_begin + 4]);
  CHECK_THAT(first_fault(p),
             ContainsSubstring("the second moment of embed in the place of the first"));
}

TEST_CASE("a loss or a norm that stays on its rank is missed", "[core][ir]") {
  Program loss = data_parallel(), norm = data_parallel(), square = data_parallel();
  test::erase(loss.roles[0], find(loss, copy_of(OpKind::DeviceToHost, HostData::Loss)));
  CHECK_THAT(first_fault(loss), ContainsSubstring("the loss does not leave the rank"));
  test::erase(norm.roles[0], find(norm, copy_of(OpKind::DeviceToHost, HostData::GradNorm)));
  CHECK_THAT(first_fault(norm), ContainsSubstring("the norm does not leave the rank"));
  test::erase(square.roles[0], find(square, call_of(square, "norm_squared"), 2));
  CHECK_THAT(first_fault(square),
             ContainsSubstring("reads the squares of 5 gradients: those of all 6"));
}

TEST_CASE("arithmetic that is not the library's is refused unless it is declared", "[core][ir]") {
  Program p = data_parallel();
  for (Function& f : p.functions) {
    if (!f.name.text().starts_with("block.F")) continue;
    for (Kernel& k : f.kernels) k.scalars[0] *= 2;  // the norm's epsilon, among others
  }
  CHECK_THAT(first_fault(p),
             ContainsSubstring("function block.F is not what the model library emitted"));
  for (Function& f : p.functions) f.emitted = f.name.text().starts_with("block.F") ? 0 : f.emitted;
  CHECK(first_fault(p) == "sound");
}

TEST_CASE("parameters that start otherwise than the library's are refused", "[core][ir]") {
  Program p = data_parallel();
  p.parameters[0].init_scale *= 2;
  CHECK_THAT(first_fault(p), ContainsSubstring("the parameters") &&
                                 ContainsSubstring("not what the model library"));
}

TEST_CASE("a message with another microbatch's data is refused", "[core][ir]") {
  Program p = pipeline();
  CHECK(first_fault(p) == "sound");
  const auto sends = [](const Role&, const Op& op) {
    return op.kind == OpKind::Send && op.phase == Phase::F;
  };
  Role& role = p.roles[0];
  const Op &first = role.ops[find(p, sends)], &second = role.ops[find(p, sends, 1)];
  role.args[second.args_begin] = role.args[first.args_begin];
  CHECK(first_fault(p) != "sound");
}

TEST_CASE("replicas that train apart come together in the ops of phase S alone, all of them",
          "[core][ir]") {
  const Program sound = apart();
  CHECK(first_fault(sound) == "sound");
  CHECK(first_fault(apart(SemiSyncMethod::LocalSgd, 2)) == "sound");
  const auto first = [](const Program& p) { return to_size(first_synchronization(p.roles[0])); };
  {  // nothing brings them together
    Program never = test::lowered(test::tiny_scenario(Architecture::Llama, {.shard = 2}));
    never.sync_every = 3;
    CHECK_THAT(first_fault(never), ContainsSubstring("nothing brings the replicas together"));
  }
  {  // a term that is not summed
    Program p = sound;
    test::erase(p.roles[0], find(p, collective_of(p, OpKind::AllReduce, "way")));
    CHECK_THAT(first_fault(p), ContainsSubstring("a sum over dp_replicate is missing"));
    CHECK(verify(p, {.replicas = true}).empty());  // each replica keeps weights of its own
    // What a step leaves before phase S is proven nevertheless.
    test::erase(p.roles[0], find(p, call_of(p, "adamw.")));
    CHECK_FALSE(verify(p, {.replicas = true}).empty());
  }
  {  // the weights of a unit stay where the replica has them
    Program p = sound;
    test::erase(p.roles[0], find(p, call_of(p, "copy."), 1));
    CHECK_THAT(first_fault(p), ContainsSubstring("after 1 updates of 2"));
  }
  {  // the outer step twice
    Program p = sound;
    const std::size_t step = find(p, call_of(p, "outer_sgd."));
    test::repeat(p.roles[0], step, step);
    CHECK_THAT(first_fault(p), ContainsSubstring("or a second time"));
  }
  {  // a step that does not synchronize would wait for these
    Program p = sound;
    p.roles[0].ops[first(p)].phase = Phase::O;
    CHECK_THAT(first_fault(p), ContainsSubstring("is not of phase S") ||
                                   ContainsSubstring("synchroniz") ||
                                   ContainsSubstring("replica_term"));
  }
  {  // a mean over another number of replicas
    Program p = sound;
    for (Function& f : p.functions) {
      if (!f.name.text().starts_with("replica_term")) continue;
      f.kernels[0].scalars[0] = 1;
      f.emitted = 0;
    }
    CHECK_THAT(first_fault(p), ContainsSubstring("no term of the mean"));
  }
  {  // sync_every is what allows it
    Program p = sound;
    p.sync_every = 0;
    CHECK_THAT(first_fault(p), ContainsSubstring("sync_every does not say when"));
  }
}

TEST_CASE("a gradient that replicas sum although they train apart is refused", "[core][ir]") {
  Program p = apart();
  Role& role = p.roles[0];
  const std::size_t at = find(p, call_of(p, "adamw."));
  const std::size_t sum = find(p, collective_of(p, OpKind::AllReduce, "way"));
  const BufferId gradient = role.args_of(role.ops[at])[0];
  // The all-reduce of the first term takes the place of one before the update.
  role.args[role.ops[sum].args_begin] = gradient;
  Op reduce = role.ops[sum];
  reduce.phase = Phase::O;
  reduce.after_count = 0;
  reduce.stream = Stream::Compute;
  role.ops[at - 1] = reduce;
  const auto faults = verify(p);
  REQUIRE_FALSE(faults.empty());
}

TEST_CASE("replicas that train apart do not divide a unit among them", "[core][ir]") {
  Program p = apart();
  CHECK(first_fault(p) == "sound");
  GroupId replicas;
  for (const GroupId id : p.groups.ids()) {
    if (p.groups[id].dims == std::vector<int>{p.replica_dim()}) replicas = id;
  }
  REQUIRE(replicas.valid());
  for (Role& role : p.roles) role.units[1].shard_group = replicas;
  CHECK_THAT(first_fault(p), ContainsSubstring("is divided over replicas that train apart"));
}

TEST_CASE("what orthogonalizing a matrix writes on the way is nothing that others read",
          "[core][ir]") {
  Scenario s = test::tiny_scenario(Architecture::Llama, {});
  s.optimizer.name = OptimizerKind::Muon;
  Program p = test::lowered(s);
  CHECK(first_fault(p) == "sound");
  // Its first scratch buffer is the matrix of the next call, or its own.
  const auto is = call_of(p, "newton_schulz.");
  const std::size_t first = find(p, is), next = find(p, is, 1);
  Role& role = p.roles[0];
  const auto argument = [&](std::size_t op, std::size_t i) -> BufferId& {
    return role.args[role.ops[op].args_begin + i];
  };
  const Buffer scratch = role.buffer(argument(first, 1)), matrix = role.buffer(argument(next, 0));
  REQUIRE(scratch.bytes >= matrix.bytes);
  const BufferId own = argument(first, 1);
  argument(first, 1) = argument(first, 0);
  CHECK_THAT(first_fault(p), ContainsSubstring("one buffer for two tensors"));
  argument(first, 1) = own;
  for (std::size_t i = 1; i < 4; ++i) {
    const BufferId before = argument(first, i);
    if (role.buffer(before).bytes != matrix.bytes) continue;
    argument(first, i) = argument(next, 0);
    INFO(i);
    CHECK(first_fault(p) != "sound");
    argument(first, i) = before;
  }
}
