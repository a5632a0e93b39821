// The parts of verify(), one file each. Every part but the first requires that those before it
// found nothing.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/ir/program.hpp"

namespace lockstep::verification {

/// Collects what is wrong, up to a limit: a faulty pass breaks thousands of ops the same way.
class Faults {
 public:
  static constexpr std::size_t kLimit = 64;
  bool full() const { return errors_.size() >= kLimit; }
  bool none() const { return errors_.empty(); }
  /// Programs come from lowering: a fault is ours, not the user's.
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
  return index >= 0 && static_cast<std::size_t>(index) < table.size();
}
inline std::string number(std::int64_t n) { return std::to_string(n); }

/// "rank 2: %7 all_gather dp L3".
std::string op_at(const Program& program, Rank rank, OpId id);
/// The same for the first rank of a role.
std::string op_at(const Program& program, const Role& role, OpId id);
/// "%b9 (param_full w L3)".
std::string buffer_name(const Program& program, const Role& role, BufferId id);

/// Mesh, groups, parameters, who has which role; then all functions and roles.
void check_structure(const Program& program, Faults& faults);
/// Kernels: dimensions, operands within their formals, declared access.
void check_functions(const Program& program, Faults& faults);
/// Index ranges, slices, sizes, views, group membership, `after` of lower id only.
void check_role(const Program& program, const Role& role, Faults& faults);
/// Samples and tables fit the mesh; in a program that has samples, also the copies that bring them.
void check_input(const Program& program, Faults& faults);
/// Members of each group issue the same collectives in one order; each send has its receive; equal
/// microbatch counts.
void check_matching(const Program& program, const Folding& folding, Faults& faults);
/// Blocking execution of all streams, then of all collectives in list order, comes to its end.
void check_deadlock(const Program& program, const Folding& folding, Faults& faults);
/// Reads after writes, lifetimes, races, reuse of the arena.
void check_memory(const Program& program, const Role& role, Faults& faults);
/// Every unit with optimizer state is updated with a gradient that was computed.
void check_gradients(const Program& program, const Role& role, Faults& faults);

/// Every value is what its reader takes it for, on all ranks together: see values.hpp.
void check_meaning(const Program& program, Faults& faults);

/// What an op does to a byte range of a root buffer.
struct Touch {
  BufferId root;
  std::int64_t begin = 0, end = 0;  // bytes from the start of the root
  Access access = Access::Read;
};

/// Resolves arguments to byte ranges of root buffers. Requires check_structure.
class Ranges {
 public:
  Ranges(const Program& program, const Role& role);
  /// Argument `index` of `op`: the whole buffer, or as many bytes as the called function uses. Of a
  /// piece all pieces, since the ranks of a role have different ones.
  Touch touch(const Op& op, std::size_t index) const;
  /// Bytes [offset, offset + bytes) of a buffer; a piece is taken to be the first.
  Touch part(BufferId buffer, std::int64_t offset, std::int64_t bytes, Access access) const;

 private:
  struct Place {
    BufferId root;
    std::int64_t offset = 0;
  };
  const Program& program_;
  const Role& role_;
  std::vector<Place> places_;          // by buffer
  std::vector<bool> sends_broadcast_;  // by group: some rank of the role is at position 0
};

}  // namespace lockstep::verification
