// ProgramBuilder: a program under construction, whose names, groups and functions are shared.
#pragma once

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
  Program program;  // without its roles, which passes still change: Draft::roles

  std::int32_t name(std::string_view text);  // index into program.names
  GroupId group(std::string_view name, const std::vector<std::string_view>& dims,
                std::vector<int> only = {});
  /// The one function of that name. Two different functions of one name are a fault of the pass.
  FunctionId function(const Function& function);
  /// The first fault, of kind Internal; lowering ends with it after the pass.
  const std::optional<Error>& fault() const { return fault_; }

 private:
  std::map<std::string, std::int32_t, std::less<>> names_;
  std::map<std::string, FunctionId, std::less<>> functions_;
  std::optional<Error> fault_;
};

BufferId add_buffer(Role& role, const Buffer& buffer);
BufferId add_view(Role& role, BufferId parent, std::int64_t offset, Bytes bytes);
/// The view of `parent` that is each rank's own piece: the i-th of `bytes` for member i of `group`.
BufferId add_piece(Role& role, BufferId parent, GroupId group, Bytes bytes);
void add_op(Role& role, Op op, const std::vector<BufferId>& args);

/// An op to put before the op that now has index `before` (ops.size(): at the end). Several at one
/// place keep their order.
struct Insertion {
  std::size_t before = 0;
  Op op;
  std::vector<BufferId> args;
};
/// Returns where each op of the list has moved to; behind the last of them, the new length.
IndexVector<OpId, OpId> insert_ops(Role& role, std::vector<Insertion> insertions);

Op collective(OpKind kind, Stream stream, GroupId group, int layer);
/// A copy between host memory and the device.
Op memory_copy(OpKind kind, int layer);

}  // namespace lockstep
