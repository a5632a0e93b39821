// Tiny programs, built by hand for tests of the executor and of the backends that compute.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/ir/program.hpp"

namespace lockstep::testing {

/// Builds one role: buffers one after the other, each on a 64-byte border.
class RoleBuilder {
 public:
  BufferId buffer(BufferKind kind, DType dtype, std::int64_t elements, bool persistent = false) {
    Buffer b;
    b.bytes = {elements * size_of(dtype)};
    b.offset = role_.arena.v;
    b.kind = kind;
    b.dtype = dtype;
    const BufferId id{static_cast<std::int32_t>(role_.buffers.size())};
    role_.buffers.push_back(b);
    role_.arena.v = round_up(role_.arena.v + b.bytes.v, 64);
    if (!persistent) transient_.push_back(id);
    return id;
  }
  /// A view of elements [offset, offset + elements) of `parent`.
  BufferId view(BufferId parent, std::int64_t offset, std::int64_t elements) {
    Buffer b = role_.buffer(parent);
    b.offset = offset * size_of(b.dtype);
    b.bytes = {elements * size_of(b.dtype)};
    b.set_view(parent);
    role_.buffers.push_back(b);
    return {static_cast<std::int32_t>(role_.buffers.size()) - 1};
  }
  OpId op(OpKind kind, Stream stream, std::int32_t target, const std::vector<BufferId>& args,
          const std::vector<OpId>& after = {}, Microbatch microbatch = -1) {
    Op o;
    o.kind = kind;
    o.stream = stream;
    o.target = target;
    o.microbatch = microbatch;
    o.after_begin = static_cast<std::uint32_t>(role_.after.size());
    o.after_count = static_cast<std::uint8_t>(after.size());
    role_.after.insert(role_.after.end(), after.begin(), after.end());
    o.args_begin = static_cast<std::uint32_t>(role_.args.size());
    o.args_count = static_cast<std::uint16_t>(args.size());
    role_.args.insert(role_.args.end(), args.begin(), args.end());
    role_.ops.push_back(o);
    return {static_cast<std::int32_t>(role_.ops.size()) - 1};
  }
  OpId copy(OpKind kind, HostData data, BufferId buffer, const std::vector<OpId>& after = {},
            Microbatch microbatch = -1) {
    return op(kind, Stream::Copy, static_cast<std::int32_t>(data), {buffer}, after, microbatch);
  }
  void unit(Unit unit) { role_.units.push_back(std::move(unit)); }
  /// Finishes the role. Transient buffers live all through the step.
  Role finish(std::vector<Rank> ranks) {
    for (const BufferId id : transient_) {
      const OpId end{static_cast<std::int32_t>(role_.ops.size()) - 1};
      role_.buffers[id].set_lifetime({0}, end);
    }
    role_.ranks = std::move(ranks);
    return std::move(role_);
  }

 private:
  Role role_;
  std::vector<BufferId> transient_;
};

inline Operand operand(int formal, DType dtype, std::int64_t offset = 0) {
  return {static_cast<std::int16_t>(formal), dtype, offset};
}

/// Adds a function of one kernel per entry; returns its id.
inline std::int32_t add_function(Program& program, std::string name, std::vector<Formal> formals,
                                 std::vector<Kernel> kernels) {
  program.functions.push_back({std::move(name), std::move(formals), std::move(kernels)});
  return static_cast<std::int32_t>(program.functions.size()) - 1;
}

/// A program with a mesh of one dimension, one group over it, and all ranks in role 0.
inline Program program_of(const std::string& dim, int ranks) {
  Program program;
  program.mesh.dims = {{dim, ranks}};
  program.groups.push_back({dim, {0}, {}});
  program.role_of_rank.assign(to_size(ranks), RoleId{0});
  return program;
}

inline std::vector<Rank> all_ranks(const Program& program) {
  std::vector<Rank> ranks;
  for (Rank r = 0; r < program.mesh.world_size(); ++r) ranks.push_back(r);
  return ranks;
}

}  // namespace lockstep::testing
