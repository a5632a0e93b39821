#include "core/ir/verify/repeats.hpp"

#include <algorithm>
#include <limits>

#include "core/ir/verify/meaning.hpp"

namespace lockstep::verification {
namespace {

constexpr std::int16_t kShared = -1, kUnused = -2;  // of a root

// Ages are small where microbatches find the same: it was made before the first of them. Of more
// changes than a byte counts nothing is known, and the microbatches are followed one by one.
constexpr std::uint8_t kOld = 255;
std::uint8_t age_of(std::uint32_t changes) {
  return static_cast<std::uint8_t>(std::min<std::uint32_t>(changes, kOld));
}

/// Whether two buffers are alike in what a reader can tell of them.
bool alike(const Buffer& a, const Buffer& b) {
  return a.bytes == b.bytes && a.piece_of() == b.piece_of() && a.kind == b.kind &&
         a.dtype == b.dtype && a.tier == b.tier && a.layer == b.layer && a.name == b.name;
}

}  // namespace

Repeats::Repeats(const Program& program, const std::deque<Ranges>& ranges)
    : program_(program), ranges_(ranges) {
  for (const Role& role : program.roles) {
    for (const Op& op : role.ops) count_ = std::max(count_, op.microbatch + 1);
  }
  for (const Microbatch mb : Indices<Microbatch>(to_size(count_))) originals_.push_back(mb);
  excluded_.assign(to_size(count_), false);
  roles_.resize(program.roles.size());
  for (const RoleId r : program.roles.ids()) {
    sort_ops(program.roles[r], roles_[r]);
    owners_.push_back(owners(r));
  }
  // Where updates come between microbatches, terms are counted by update.
  if (count_ < 3 || program.updates_per_step > 1) return;
  read_functions();
  for (const RoleId r : program.roles.ids()) {
    exclude(r);
    comparisons_.push_back(begin_comparison(r));
    stands_for_.emplace_back(program.roles[r].buffers.size());
  }
  Microbatch last = 0;  // that repeats none
  for (Microbatch mb = 1; mb < count_; ++mb) {
    bool all = !excluded_[mb] && !excluded_[last];
    for (const RoleId r : program.roles.ids()) all = all && repeats(r, last, mb);
    if (all) {
      originals_[mb] = last;
    } else {
      last = mb;
    }
  }
  comparisons_ = {};
}

std::vector<OpId> Repeats::ops(RoleId role, Microbatch mb) const {
  const ByMicrobatch& ops = roles_[role];
  return {ops.ops.begin() + ops.begin[mb], ops.ops.begin() + ops.begin[mb + 1]};
}

void Repeats::read_functions() {
  for (const Function& function : program_.functions) {
    const IndexVector<int, FormalRole::What> what = what_formals_are(function);
    std::vector<Does>& all = functions_.emplace_back();
    for (const int f : what.ids()) {
      bool only_adds = true, never_adds = true;
      for (const Kernel& kernel : function.kernels) {
        for (std::size_t i = 0; i < kernel.out.size(); ++i) {
          if (!kernel.out[i].present() || kernel.out[i].formal != f) continue;
          (output_is_read(kernel, i) ? never_adds : only_adds) = false;
        }
      }
      const bool own = function.emitted == 0;  // the user's may take any terms
      all.push_back(function.formals[f].access == Access::Read             ? Does::Read
                    : what[f] == FormalRole::Gradient && only_adds && !own ? Does::Add
                    : what[f] == FormalRole::Loss && never_adds && !own    ? Does::PutLoss
                                                                           : Does::Write);
    }
  }
}

Repeats::Does Repeats::does(const Op& op, std::size_t argument) const {
  if (op.kind == OpKind::Call) return functions_[op.function()][argument];
  return access(program_, op, argument) == Access::Read ? Does::Read : Does::Write;
}

void Repeats::sort_ops(const Role& role, ByMicrobatch& ops) {
  ops.place.resize(role.ops.size());
  ops.begin.assign(to_size(count_) + 1, 0);
  ops.all_wait.resize(count_);
  for (const OpId id : role.ops.ids()) {
    const Microbatch mb = microbatch_of(role.op(id));
    if (mb >= 0) ops.place[id] = ops.begin[mb + 1]++;
  }
  for (Microbatch mb = 0; mb < count_; ++mb) ops.begin[mb + 1] += ops.begin[mb];
  ops.ops.resize(to_size(ops.begin[count_]));
  for (const OpId id : role.ops.ids()) {
    const Microbatch mb = microbatch_of(role.op(id));
    if (mb >= 0) ops.ops[to_size(ops.begin[mb] + ops.place[id])] = id;
  }
}

void Repeats::exclude(RoleId id) {
  const Role& role = program_.roles[id];
  IndexVector<GroupId, std::int8_t> meets_others(program_.groups.size(), -1);  // -1: unknown
  const auto meets = [&](GroupId group) {
    std::int8_t& known = meets_others[group];
    if (known < 0) {
      const auto ranks = members(program_.mesh, program_.group(group), role.ranks.front());
      known = std::any_of(ranks.begin(), ranks.end(),
                          [&](Rank rank) { return program_.role_of_rank[rank] != id; });
    }
    return known > 0;
  };
  for (const OpId op_id : role.ops.ids()) {
    const Op& op = role.op(op_id);
    if (op.microbatch < 0) continue;
    const bool followed =
        microbatch_of(op) < 0
            ? is_p2p(op.kind)  // its peer may count it to the microbatch
            : op.kind == OpKind::Broadcast || (is_collective(op.kind) && meets(op.group())) ||
                  (op.kind == OpKind::DeviceToHost && !op.moves_memory()) ||
                  (op.kind == OpKind::Call && program_.function(op.function()).emitted == 0);
    if (followed) excluded_[op.microbatch] = true;
  }
}

IndexVector<BufferId, Repeats::Owner> Repeats::owners(RoleId id) const {
  const Role& role = program_.roles[id];
  const Ranges& ranges = ranges_[to_size(id)];
  IndexVector<BufferId, Owner> owner(role.buffers.size(), kUnused);
  for (const BufferId buffer : role.buffers.ids()) {
    if (role.buffer(buffer).persistent()) owner[buffer] = kShared;
  }
  for (const OpId op : role.ops.ids()) {
    const Microbatch number = microbatch(id, op);
    const bool counts = number <= std::numeric_limits<Owner>::max();
    const Owner mb = counts ? static_cast<Owner>(number) : kShared;
    for (const BufferId argument : role.args_of(role.op(op))) {
      Owner& of = owner[ranges.root(argument)];
      if (of != mb) of = of == kUnused ? mb : kShared;
    }
  }
  return owner;
}

Repeats::Comparison Repeats::begin_comparison(RoleId id) const {
  const Role& role = program_.roles[id];
  const Ranges& ranges = ranges_[to_size(id)];
  Comparison result;
  struct Age {
    std::uint32_t writes = 0, adds = 0;
  };
  IndexVector<BufferId, Age> ages(role.buffers.size());
  result.age.assign(role.args.size(), 0);
  for (const Op& op : role.ops) {
    const auto args = role.args_of(op);
    for (std::size_t a = 0; a < args.size(); ++a) {
      const BufferId root = ranges.root(args[a]);
      if (owners_[id][root] != kShared) continue;
      Age& age = ages[root];
      const Does what = does(op, a);
      std::uint8_t& found = result.age[op.args_begin + a];
      if (what == Does::Add) {
        found = age_of(age.writes);
        ++age.adds;
      } else if (what != Does::PutLoss) {
        found = age_of(age.writes + age.adds);
      }
      if (what == Does::Write || what == Does::PutLoss) ++age.writes;
    }
  }
  result.image.resize(role.buffers.size());
  return result;
}

bool Repeats::repeats(RoleId id, Microbatch original, Microbatch mb) {
  const Role& role = program_.roles[id];
  ByMicrobatch& ops = roles_[id];
  if (ops.count(original) != ops.count(mb)) return false;
  std::vector<WaitBits>& all_wait = ops.all_wait[original];
  if (all_wait.empty()) all_wait.assign(to_size(ops.count(mb)), static_cast<WaitBits>(~0u));
  for (std::int32_t n = 0; n < ops.count(mb); ++n) {
    const OpId at_a = ops.at(original, n), at_b = ops.at(mb, n);
    const Op &a = role.op(at_a), &b = role.op(at_b);
    const bool same = at_a < at_b && a.kind == b.kind && a.stream == b.stream &&
                      a.phase == b.phase && a.target == b.target && a.layer == b.layer &&
                      a.stage == b.stage && a.root == b.root && a.rows == b.rows &&
                      a.args_count == b.args_count;
    if (!same || !same_arguments(id, a, b)) return false;
    WaitBits& known = all_wait[to_size(n)];
    known = static_cast<WaitBits>(known & common_waits(id, at_a, at_b));
  }
  return true;
}

/// Whether op `b` names the buffers that stand for those of `a`, which it repeats.
bool Repeats::same_arguments(RoleId id, const Op& a, const Op& b) {
  const Role& role = program_.roles[id];
  const Ranges& ranges = ranges_[to_size(id)];
  const IndexVector<BufferId, Owner>& owner = owners_[id];
  Comparison& known = comparisons_[id];
  const auto args_a = role.args_of(a), args_b = role.args_of(b);
  for (std::size_t n = 0; n < a.args_count; ++n) {
    const BufferId of_a = args_a[n], of_b = args_b[n];
    if (known.image[of_a] == of_b && owner[of_b] == b.microbatch) {
      continue;  // roots that have been compared
    }
    const BufferId root_a = ranges.root(of_a), root_b = ranges.root(of_b);
    if (of_a != of_b && !alike(role.buffer(of_a), role.buffer(of_b))) return false;
    if (owner[root_a] == kShared) {
      if (root_a != root_b) return false;
      const std::uint8_t age = known.age[a.args_begin + n];
      const bool finds_the_same = age == known.age[b.args_begin + n] && age != kOld;
      if (of_a == of_b && finds_the_same) continue;
      if (a.kind == OpKind::Call && does(a, n) == Does::PutLoss) continue;
      return false;
    }
    if (owner[root_a] != a.microbatch || owner[root_b] != b.microbatch) return false;
    const bool views = root_a != of_a || root_b != of_b;
    if (views && ranges.offset(of_a) != ranges.offset(of_b)) return false;
    BufferId& image = known.image[root_a];
    if (image.valid() && owner[image] == b.microbatch) {
      if (image != root_b) return false;
    } else {
      if (stands_for_[id][root_b].valid() || !alike(role.buffer(root_a), role.buffer(root_b))) {
        return false;
      }
      image = root_b;
      stands_for_[id][root_b] = root_a;
    }
  }
  return true;
}

/// Of the ops for which `a` waits, those whose places are also waited for by `b`, which stands at
/// the place of `a` in its microbatch.
Repeats::WaitBits Repeats::common_waits(RoleId id, OpId a, OpId b) const {
  const Role& role = program_.roles[id];
  const IndexVector<OpId, std::int32_t>& place = roles_[id].place;
  const auto of_a = role.after_of(role.op(a)), of_b = role.after_of(role.op(b));
  const Microbatch mb_a = microbatch(id, a), mb_b = microbatch(id, b);
  unsigned common = 0;
  for (std::size_t n = 0; n < std::min(of_a.size(), kWaits); ++n) {
    if (microbatch(id, of_a[n]) != mb_a) continue;
    for (const OpId other : of_b) {
      if (place[other] == place[of_a[n]] && microbatch(id, other) == mb_b) common |= 1u << n;
    }
  }
  return static_cast<WaitBits>(common);
}

}  // namespace lockstep::verification
