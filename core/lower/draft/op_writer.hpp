// OpWriter: writes the ops of one part of a step, behind the list of a role or into it.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "core/lower/draft/draft.hpp"

namespace lockstep {

/// What all ops that it writes have in common, and where they go.
struct OpWriter {
  Draft& draft;
  Role& role;
  Phase phase = Phase::None;
  int layer = -1;
  Microbatch microbatch = -1;
  Stream calls = Stream::Compute;  // the stream of calls
  /// Ops become insertions before the op that has index `place`; null: they go behind the list.
  std::vector<Insertion>* insertions = nullptr;
  std::size_t place = 0;

  /// Writes an op, with what all have in common; its kind, its stream and its target are given.
  void add(Op op, const std::vector<BufferId>& args) const;
  void call(FunctionId function, const std::vector<BufferId>& args) const;
  void call(const Function& function, const std::vector<BufferId>& args) const;
  void communicate(OpKind kind, Stream stream, GroupId group,
                   const std::vector<BufferId>& args) const;
  /// Copies `data` of the host to the device, or from it.
  void copy(OpKind kind, HostData data, BufferId buffer) const;
  /// A new buffer of so many elements.
  BufferId buffer(BufferKind kind, std::string_view name, std::int64_t elements, DType dtype) const;
  /// The same with the type that its kind has.
  BufferId buffer(BufferKind kind, std::string_view name, std::int64_t elements) const;
};

}  // namespace lockstep
