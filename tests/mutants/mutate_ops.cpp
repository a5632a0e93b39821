// Faults in what ops do: their lists, collectives, messages, results, operands and tags.
#include <algorithm>

#include "tests/core/ir/op_list.hpp"
#include "tests/mutants/mutator.hpp"

namespace lockstep::test {

bool Mutator::change_list() {
  Role& role = any_role();
  const std::size_t n = role.ops.size();
  if (n < 3) return false;
  const std::size_t i = pick(n);
  switch (pick(4)) {
    case 0:
      say(role, i, "deleted");
      erase(role, i);
      return true;
    case 1:
      say(role, i, "doubled");
      repeat(role, i, i);  // what follows waits for the second one
      return true;
    case 2: {
      const std::size_t to = i + 1 + pick(n - i);
      say(role, i, "doubled in front of %" + std::to_string(to));
      repeat(role, i, to);
      return true;
    }
    default: {
      std::size_t j = i + 1;
      while (j < n && role.ops[j].stream != role.ops[i].stream) ++j;
      if (j == n) return false;
      say(role, i, "changed places with %" + std::to_string(j));
      exchange(role, i, j);
      return true;
    }
  }
}

bool Mutator::change_collective() {
  const Role& one = any_role();
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < one.ops.size(); ++i) {
    if (is_collective(one.ops[i].kind)) found.push_back(i);
  }
  if (found.empty()) return false;
  const std::size_t chosen = found[pick(found.size())];
  const std::int32_t group = one.ops[chosen].target;
  const auto before = [&](const Role& role, std::size_t index) {
    return std::count_if(
        role.ops.begin(), role.ops.begin() + static_cast<std::ptrdiff_t>(index),
        [&](const Op& op) { return is_collective(op.kind) && op.target == group; });
  };
  const auto which = before(one, chosen);
  const bool sends = one.ops[chosen].kind == OpKind::Broadcast;
  const std::size_t how = sends ? pick(5) : pick(4);
  const int to_group = other(group, static_cast<int>(p_.groups.size()));
  const OpKind kind = one.ops[chosen].kind;
  const bool in_place = one.ops[chosen].args_count == 1;
  const auto kinds =
      in_place ? std::vector<OpKind>{OpKind::AllReduce, OpKind::Broadcast}
               : std::vector<OpKind>{OpKind::AllGather, OpKind::ReduceScatter, OpKind::AllToAll};
  const OpKind to_kind = kinds[pick(kinds.size())];
  const std::vector<std::string> words = {"deleted", "doubled", "of another group",
                                          "made " + std::string(to_string(to_kind)),
                                          "from another member"};
  say(one, chosen, words[how] + " everywhere");
  if (how == 3 && to_kind == kind) return false;
  for (Role& role : p_.roles) {
    for (std::size_t i = 0; i < role.ops.size(); ++i) {
      Op& op = role.ops[i];
      if (!is_collective(op.kind) || op.target != group || before(role, i) != which) continue;
      if (how == 0) erase(role, i);
      if (how == 1) repeat(role, i, i);  // what follows waits for the second one
      if (how == 2) op.target = to_group;
      if (how == 3) op.kind = to_kind;
      if (how == 4) op.root = static_cast<std::int16_t>(1 - std::min<int>(op.root, 1));
      break;
    }
  }
  return true;
}

/// Sends a message to another peer, gives it the data or the place of the next one, or deletes it
/// on both ends.
bool Mutator::change_message() {
  std::vector<std::pair<std::size_t, std::size_t>> found;  // role, op
  for (std::size_t r = 0; r < p_.roles.size(); ++r) {
    for (std::size_t i = 0; i < p_.roles[r].ops.size(); ++i) {
      if (is_p2p(p_.roles[r].ops[i].kind)) found.emplace_back(r, i);
    }
  }
  if (found.empty()) return false;
  const auto [r, i] = found[pick(found.size())];
  Role& role = p_.roles[r];
  const Op op = role.ops[i];
  // Op j is the next message like it of the same role.
  std::size_t j = i + 1;
  const auto alike = [&](const Op& o) {
    return o.kind == op.kind && o.target == op.target && o.stream == op.stream;
  };
  while (j < role.ops.size() && !alike(role.ops[j])) ++j;
  const bool last = j == role.ops.size();
  switch (pick(5)) {
    case 0: {
      const int stages = p_.mesh.dims[p_.mesh.index_of("pp")].size;
      say(role, i, "another peer");
      role.ops[i].target = other(op.target, stages);
      return true;
    }
    case 1:
      say(role, i, "its data are those of the next message");
      if (last) return false;
      std::swap(role.args[op.args_begin], role.args[role.ops[j].args_begin]);
      return true;
    case 2:
      say(role, i, "changed places with the next message");
      if (last) return false;
      exchange(role, i, j);
      return true;
    case 3:
      say(role, i, "the next message in its place");
      if (last) return false;
      role.args[op.args_begin] = role.args[role.ops[j].args_begin];
      return true;
    default:
      say(role, i, "deleted, with its other end");
      for (std::size_t other_end = 0; other_end < found.size(); ++other_end) {
        Role& peer = p_.roles[found[other_end].first];
        const Op& o = peer.ops[found[other_end].second];
        if (o.kind == op.kind || o.phase != op.phase || o.microbatch != op.microbatch) continue;
        erase(peer, found[other_end].second);
        break;
      }
      erase(role, i);
      return true;
  }
}

/// Deletes or doubles what leads to the loss or the norm: a sum, squares, or a copy to the host, on
/// one role or on all.
bool Mutator::change_result() {
  const auto leads = [&](const Op& op) {
    if (op.kind == OpKind::DeviceToHost) return !op.moves_memory();
    if (op.kind != OpKind::Call || op.layer >= 0) return false;
    const Function& f = p_.function(op.function());
    return f.kernels.size() == 1 &&
           (f.kernels[0].kind == KernelKind::Sum || f.kernels[0].kind == KernelKind::NormSquared ||
            f.kernels[0].kind == KernelKind::ClipCoefficient);
  };
  std::vector<std::pair<std::size_t, std::size_t>> found;
  for (std::size_t r = 0; r < p_.roles.size(); ++r) {
    for (std::size_t i = 0; i < p_.roles[r].ops.size(); ++i) {
      if (leads(p_.roles[r].ops[i])) found.emplace_back(r, i);
    }
  }
  if (found.empty()) return false;
  const auto [r, i] = found[pick(found.size())];
  const Op op = p_.roles[r].ops[i];
  const bool twice = chance() && chance(), everywhere = chance();
  say(p_.roles[r], i,
      std::string(twice ? "doubled" : "deleted") + (everywhere ? " everywhere" : ""));
  for (std::size_t k = 0; k < p_.roles.size(); ++k) {
    if (k != r && !everywhere) continue;
    std::vector<Op>& ops = p_.roles[k].ops;
    for (std::size_t n = 0; n < ops.size(); ++n) {
      if (k == r ? n != i
                 : !leads(ops[n]) || ops[n].kind != op.kind || ops[n].target != op.target) {
        continue;
      }
      twice ? repeat(p_.roles[k], n, n) : erase(p_.roles[k], n);
      break;
    }
  }
  return true;
}

/// Gives an op the same tensor of another microbatch or layer.
bool Mutator::change_data() {
  Role& role = any_role();
  const std::size_t i = pick(role.ops.size());
  const Op& op = role.ops[i];
  if (op.args_count == 0) return false;
  BufferId& arg = role.args[op.args_begin + pick(op.args_count)];
  const Buffer& is = role.buffer(arg);
  std::vector<BufferId> like;
  for (const BufferId b : role.buffers.ids()) {
    const Buffer& buffer = role.buffer(b);
    const bool same = buffer.kind == is.kind && buffer.name == is.name &&
                      buffer.bytes == is.bytes && buffer.tier == is.tier;
    if (same && b != arg) like.push_back(b);
  }
  if (like.empty()) return false;
  const BufferId to = like[pick(like.size())];
  if (chance()) {
    say(role, i, "%b" + std::to_string(arg.v) + " is %b" + std::to_string(to.v));
    arg = to;
    return true;
  }
  // All ops from here on exchange the two, so that none is read before it is written.
  say(role, i, "and after it %b" + std::to_string(arg.v) + " for %b" + std::to_string(to.v));
  const BufferId from = arg;
  for (std::size_t k = i; k < role.ops.size(); ++k) {
    for (std::size_t a = 0; a < role.ops[k].args_count; ++a) {
      BufferId& one = role.args[role.ops[k].args_begin + a];
      one = one == from ? to : one == to ? from : one;
    }
  }
  return true;
}

bool Mutator::change_operand() {
  Role& role = any_role();
  const std::size_t i = pick(role.ops.size());
  const Op& op = role.ops[i];
  if (op.args_count == 0) return false;
  const std::size_t a = pick(op.args_count);
  BufferId& arg = role.args[op.args_begin + a];
  if (op.args_count > 1 && pick(4) == 0) {
    BufferId& second = role.args[op.args_begin + pick(op.args_count)];
    say(role, i, "operands change places");
    std::swap(arg, second);
    return true;
  }
  std::vector<BufferId> equal;
  for (const BufferId b : role.buffers.ids()) {
    const Buffer& buffer = role.buffer(b);
    if (buffer.bytes == role.buffer(arg).bytes && buffer.tier == role.buffer(arg).tier &&
        b != arg) {
      equal.push_back(b);
    }
  }
  if (equal.empty()) return false;
  const BufferId to = equal[pick(equal.size())];
  say(role, i, "%b" + std::to_string(arg.v) + " is %b" + std::to_string(to.v));
  arg = to;
  return true;
}

bool Mutator::change_tag() {
  Role& role = any_role();
  std::size_t i = pick(role.ops.size());
  if (pick(3) == 0) {
    for (std::size_t k = 0; k < role.ops.size(); ++k) {
      if (is_copy(role.ops[k].kind) && chance()) i = k;
    }
  }
  Op& op = role.ops[i];
  const std::size_t how = pick(7);
  say(role, i, "another tag " + std::to_string(how));
  switch (how) {
    case 0:
    case 1:
      op.microbatch = static_cast<Microbatch>(pick(5)) - 1;
      return true;
    case 2:
      op.layer = static_cast<std::int16_t>(static_cast<int>(pick(7)) - 1);
      return true;
    case 3:
      op.stage = static_cast<std::int16_t>(static_cast<int>(pick(4)) - 1);
      return true;
    case 4:
      op.phase = static_cast<Phase>(pick(7));
      return true;
    case 5:
      if (is_copy(op.kind)) op.target = static_cast<std::int32_t>(pick(kNumHostData));
      return true;
    default: {
      if (op.kind != OpKind::Call) return false;
      std::vector<std::int32_t> like;
      for (const FunctionId f : p_.functions.ids()) {
        if (p_.function(f).formals.size() == op.args_count) like.push_back(f.v);
      }
      op.target = like[pick(like.size())];
      return true;
    }
  }
}

}  // namespace lockstep::test
