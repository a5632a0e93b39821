// ProgramBuilder: a program under construction. Equal names, groups and functions are kept once.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/index_vector.hpp"
#include "core/base/result.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

class ProgramBuilder {
 public:
  Program program;  // without roles, which passes still change in Draft::roles
  std::int16_t name(std::string_view text);  // returns an index into program.names
  GroupId group(std::string_view name, const std::vector<std::string_view>& dims,
                std::vector<int> only = {});
  /// The function of that name, which is added if it is new. Two different functions of one name
  /// are a fault of the pass.
  FunctionId function(const Function& function);
  /// Notes a fault of the pass. Lowering ends with the first one, of kind Internal, after the pass.
  void add_fault(std::string message);
  const std::optional<Error>& fault() const { return fault_; }

 private:
  std::map<std::string, std::int16_t, std::less<>> names_;
  std::map<std::string, FunctionId, std::less<>> functions_;
  std::optional<Error> fault_;
};

/// How many elements to make room for where passes add some to `count`. Lists that outgrow their
/// room are copied, and then again to give back what they did not need.
constexpr std::size_t with_room(std::size_t count) { return count + count / 16; }

BufferId add_buffer(Role& role, Buffer buffer);
BufferId add_view(Role& role, BufferId parent, std::int64_t offset, Bytes bytes);
/// A view of `parent` that is a piece: its i-th `bytes` for member i of `group`.
BufferId add_piece(Role& role, BufferId parent, GroupId group, Bytes bytes);
/// What the rank updates of a unit's parameters as the forward pass reads them: all that it has, or
/// its own piece.
BufferId own_parameters(Role& role, const Unit& unit);
void add_op(Role& role, Op op, const std::vector<BufferId>& args);

/// An op to insert before the op that has index `before`, or at the end if that is ops.size().
/// Several insertions at one place keep their order.
struct Insertion {
  std::size_t before = 0;
  Op op;
  std::vector<BufferId> args;
};
/// Inserts ops. Returns the new index of each old op, and at the end the new number of ops.
IndexVector<OpId, OpId> insert_ops(Role& role, std::vector<Insertion> insertions);

Op collective(OpKind kind, Stream stream, GroupId group, int layer);
/// An op that copies from one tier to another.
Op memory_copy(OpKind kind, int layer);

}  // namespace lockstep
