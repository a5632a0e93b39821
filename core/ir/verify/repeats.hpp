// Repeats: microbatches that do what an earlier one has done, op by op, so that what they make need
// not be followed again.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "core/ir/verify/internal.hpp"

namespace lockstep::verification {

/// A microbatch repeats another one, its original, if in every role its ops are those of the
/// original in their order, each behind the one that it repeats, and
///  - differ in the microbatch and in buffers alone, and neither are broadcasts nor call functions
///    of the user's, meet other roles in a collective or bring anything to the host;
///  - their buffers are either the same, or are used by this microbatch alone and stand for one
///    buffer of the original that is used by that one alone, in all places where it is used;
///  - the shared buffers hold the same both times: what an op reads was not written in between, and
///    what it adds to was only added to. The losses are written to places of their own.
/// So each of its ops finds, under other names, what its original has found, and makes the same of
/// it. Its terms of sums are those of the original, which are counted exactly, and are left out.
/// Requires that check_structure() found nothing. Of messages nothing is said: those of one
/// microbatch meet each other if check_matching() found nothing.
class Repeats {
 public:
  /// `ranges` are those of the roles, in their order.
  Repeats(const Program& program, const std::deque<Ranges>& ranges);

  Microbatch microbatches() const { return count_; }
  /// The microbatch that it repeats, or itself.
  Microbatch original(Microbatch mb) const { return originals_[mb]; }
  /// The op that an op of the role repeats; invalid if it repeats none.
  OpId original(RoleId role, OpId op) const {
    const Microbatch mb = microbatch(role, op);
    return mb < 0 || originals_[mb] == mb ? OpId{} : counterpart(role, op, originals_[mb]);
  }
  /// A function that gives of an op the one of microbatch `mb` that stands where it does among
  /// those of its own.
  auto counterparts(RoleId role, Microbatch mb) const {
    const ByMicrobatch& ops = roles_[role];
    return [place = ops.place.data(), own = ops.ops.data() + ops.begin[mb]](OpId op) {
      return own[place[to_size(op)]];
    };
  }
  /// The same of one op.
  OpId counterpart(RoleId role, OpId op, Microbatch mb) const { return counterparts(role, mb)(op); }
  /// The microbatch for which an op computes a part of a layer; -1 of others.
  Microbatch microbatch(RoleId role, OpId op) const {
    return microbatch_of(program_.roles[role].op(op));
  }
  /// The microbatch that alone uses a root buffer; negative if there is none.
  Microbatch owner(RoleId role, BufferId root) const { return owners_[role][root]; }
  bool is_own(RoleId role, BufferId root) const { return owner(role, root) >= 0; }
  /// The root buffer for which a root stands whose microbatch repeats another; of others, itself.
  BufferId original(RoleId role, BufferId root) const {
    const Microbatch mb = owner(role, root);
    return mb < 0 || originals_[mb] == mb ? root : stands_for_[role][root];
  }
  /// Whether an original and all that repeat it wait at this op for the one at place `n` of its
  /// `after`, which is of the same microbatch.
  bool all_wait(RoleId role, OpId op, std::size_t n) const {
    const ByMicrobatch& ops = roles_[role];
    return n < kWaits && (ops.all_wait[microbatch(role, op)][ops.place[op]] >> n & 1u) != 0;
  }
  /// Forgets what is known of buffers and waits, about which the checks of one role ask.
  void forget_buffers() {
    owners_ = {};
    stands_for_ = {};
    for (ByMicrobatch& ops : roles_) ops.all_wait = {};
  }
  /// The ops of a microbatch in their order.
  std::vector<OpId> ops(RoleId role, Microbatch mb) const;

 private:
  /// The waits of an op that are known, as bits. With one for each other stream there are fewer; of
  /// those beyond, nothing is known.
  using WaitBits = std::uint16_t;
  static constexpr std::size_t kWaits = 16;

  /// Keeps a microbatch in two bytes. There may be twice as many as these count; of later ones no
  /// buffer is taken to be their own, so that they are followed one by one.
  using Owner = std::int16_t;

  static Microbatch microbatch_of(const Op& op) {
    // That of an update is the number of the update.
    const bool between = op.phase == Phase::O || op.phase == Phase::None || op.phase == Phase::S;
    return between ? -1 : op.microbatch;
  }

  /// What an op does to an argument, as far as it matters to those who use the buffer beside it.
  enum class Does : std::uint8_t { Read, Write, Add, PutLoss };

  struct ByMicrobatch {                     // the ops of a role's microbatches
    IndexVector<OpId, std::int32_t> place;  // among those of its microbatch
    IndexVector<Microbatch, std::int32_t> begin;
    std::vector<OpId> ops;                                    // of one microbatch after the other
    IndexVector<Microbatch, std::vector<WaitBits>> all_wait;  // by place, of originals alone
    OpId at(Microbatch mb, std::int32_t n) const { return ops[to_size(begin[mb] + n)]; }
    std::int32_t count(Microbatch mb) const { return begin[mb + 1] - begin[mb]; }
  };

  struct Comparison {               // what is known of a role while microbatches are compared
    std::vector<std::uint8_t> age;  // by argument: how often what it finds changed, if it is shared
    IndexVector<BufferId, BufferId> image;  // by root of an original: what stands for it last
  };

  void read_functions();
  void sort_ops(const Role& role, ByMicrobatch& ops);
  /// Excludes microbatches with ops that are followed one by one.
  void exclude(RoleId role);
  IndexVector<BufferId, Owner> owners(RoleId role) const;
  Comparison begin_comparison(RoleId role) const;
  bool repeats(RoleId role, Microbatch original, Microbatch mb);
  bool same_arguments(RoleId role, const Op& a, const Op& b);
  WaitBits common_waits(RoleId role, OpId a, OpId b) const;
  Does does(const Op& op, std::size_t argument) const;

  const Program& program_;
  const std::deque<Ranges>& ranges_;
  IndexVector<FunctionId, std::vector<Does>> functions_;  // by formal
  Microbatch count_ = 0;
  IndexVector<RoleId, ByMicrobatch> roles_;
  /// By root, the microbatch that alone uses it; kShared if there are several, kUnused if none.
  IndexVector<RoleId, IndexVector<BufferId, Owner>> owners_;
  IndexVector<RoleId, IndexVector<BufferId, BufferId>> stands_for_;  // by root of a repetition
  IndexVector<RoleId, Comparison> comparisons_;
  IndexVector<Microbatch, bool> excluded_;
  IndexVector<Microbatch, Microbatch> originals_;
};

}  // namespace lockstep::verification
