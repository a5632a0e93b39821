// The parts of verify(), one file each. All parts require that check_structure() found nothing.
// check_deadlock() and check_meaning() require it of every part before them, too.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/ir/program.hpp"
#include "core/ir/verify/traffic.hpp"
#include "core/ir/verify/verify.hpp"

namespace lockstep::verification {

/// Collects faults up to a limit, because a faulty pass breaks thousands of ops in the same way.
class Faults {
 public:
  static constexpr std::size_t kLimit = 64;
  bool full() const { return errors_.size() >= kLimit; }
  bool none() const { return errors_.empty(); }
  /// Adds a fault as one of ours, not of the user's, because programs come from lowering.
  void add(std::string message, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    if (!full()) {
      errors_.push_back({ErrorKind::Internal, std::move(message), std::nullopt, file, line});
    }
  }
  std::vector<Error> take() { return std::move(errors_); }

 private:
  std::vector<Error> errors_;
};

template <class T>
bool in_table(std::int32_t index, const std::vector<T>& table) {
  return index >= 0 && to_size(index) < table.size();
}
inline std::string number(std::int64_t n) { return std::to_string(n); }

/// An op in words: "rank 2: %7 all_gather dp L3".
std::string op_at(const Program& program, Rank rank, OpId id);
/// The same for the first rank of a role.
std::string op_at(const Program& program, const Role& role, OpId id);
/// A buffer in words: "%b9 (param_full w L3)".
std::string buffer_name(const Program& program, const Role& role, BufferId id);

/// A byte range of a root buffer, and what an op does to it.
struct Touch {
  BufferId root;
  std::int64_t begin = 0, end = 0;  // bytes from the start of the root
  Access access = Access::Read;
};

/// Resolves arguments to byte ranges of root buffers. Requires that check_structure() found
/// nothing.
class Ranges {
 public:
  Ranges(const Program& program, const Role& role);
  /// What `op` does to its argument `index`: to the whole buffer, or to as many bytes as the called
  /// function uses. A piece stands for all pieces, since every rank of the role has another one. A
  /// broadcast writes only, unless a rank of the role is the one that sends.
  Touch touch(const Op& op, std::size_t index) const;
  /// The same for all arguments of `op`, in their order.
  void touch_all(const Op& op, std::vector<Touch>& touches) const;
  /// Bytes [offset, offset + bytes) of a buffer. A piece is taken to be the first member's.
  Touch part(BufferId buffer, std::int64_t offset, std::int64_t bytes, Access access) const;
  BufferId root(BufferId buffer) const { return is_view(buffer) ? view(buffer).root : buffer; }
  /// Where it begins in its root, in bytes.
  std::int64_t offset(BufferId buffer) const { return is_view(buffer) ? view(buffer).offset : 0; }
  bool is_piece(BufferId buffer) const { return role_.buffer(buffer).piece_of().valid(); }

 private:
  struct View {
    BufferId buffer, root;
    std::int64_t offset = 0;
    std::int64_t bytes_of_pieces = 0;  // that the role's ranks touch together, if it is a piece
  };
  /// The bytes of it that an op touches which touches `bytes` of what is no piece.
  Touch touched(BufferId buffer, std::int64_t bytes, Access access) const;
  const Program& program_;
  const Role& role_;
  bool is_view(BufferId buffer) const { return part_[buffer] != 0; }
  const View& view(BufferId buffer) const;

  static constexpr std::size_t kParts = 255;
  std::vector<View> views_;  // by buffer, ascending; most buffers are none
  /// Of each view, in which part of views_ it is, counted from 1; 0 of other buffers.
  IndexVector<BufferId, std::uint8_t> part_;
  std::size_t part_size_ = 1;  // of views_; most roles have few views, and each is a part
  /// By group: the positions in it of the role's ranks, ascending; empty if it has no broadcasts.
  IndexVector<GroupId, std::vector<int>> positions_;
};

class Repeats;  // microbatches that do what others do

/// Calls check(role, faults) for every role, side by side where the roles are long: an op takes it
/// about `things_per_op` things of threads_for(). What a role's check says may depend on faults
/// before it. So if any finds one, all are called again, in order, and these are what is added.
void check_each_role(const Program& program, std::size_t things_per_op, Faults& faults,
                     const std::function<void(RoleId, Faults&)>& check);

/// Checks the mesh, the groups, the parameters and which rank has which role, then all functions
/// and roles.
void check_structure(const Program& program, Faults& faults);
/// Checks that the kernels of all functions have sound dimensions, that their operands lie within
/// the formals, and that they access these as declared.
void check_functions(const Program& program, Faults& faults);
/// Checks that the indices of a role lie in their tables, that its buffers fit the arena, their
/// parents and the formals, that its ranks belong to the groups that it names, and that `after`
/// lists ops of lower id only.
void check_role(const Program& program, const Role& role, Faults& faults);
/// Checks that samples and tables fit the mesh, and, in a program that has samples, that the copies
/// from the host fit them.
void check_input(const Program& program, Faults& faults);
/// Checks that the members of each group issue the same collectives in one order, that each send
/// has its receive, and that replicas run equally many microbatches.
void check_matching(const Program& program, const Folding& folding, const Traffic& traffic,
                    Faults& faults);
/// Checks that all streams come to their end if communication blocks, and that all collectives do
/// if each rank issues its own in list order.
void check_deadlock(const Program& program, const Folding& folding, const Traffic& traffic,
                    Faults& faults);
/// Checks that reads follow writes, that buffers are used within their lifetimes, that no two ops
/// race, and that bytes of the arena are used again only after their last users have ended.
void check_memory(const Program& program, RoleId role, const Ranges& ranges, const Repeats& repeats,
                  Faults& faults);
/// Checks that every unit with optimizer state is updated with a gradient that was computed.
void check_gradients(const Program& program, RoleId role, const Ranges& ranges,
                     const Repeats& repeats, Faults& faults);

/// Checks that every value is what its reader takes it for, on all ranks together (values.hpp).
/// `ranges` are those of the roles, in their order.
void check_meaning(const Program& program, const std::deque<Ranges>& ranges, const Repeats& repeats,
                   Unproven unproven, Faults& faults);

}  // namespace lockstep::verification
