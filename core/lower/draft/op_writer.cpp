#include "core/lower/draft/op_writer.hpp"

namespace lockstep {

void OpWriter::add(Op op, const std::vector<BufferId>& args) const {
  op.phase = phase;
  op.layer = static_cast<std::int16_t>(layer);
  op.microbatch = microbatch;
  if (insertions != nullptr) {
    insertions->push_back({place, op, args});
  } else {
    add_op(role, op, args);
  }
}

void OpWriter::call(FunctionId function, const std::vector<BufferId>& args) const {
  Op op;
  op.kind = OpKind::Call;
  op.stream = calls;
  op.target = function.v;
  add(op, args);
}

void OpWriter::call(const Function& function, const std::vector<BufferId>& args) const {
  call(draft.function(function), args);
}

void OpWriter::communicate(OpKind kind, Stream stream, GroupId group,
                           const std::vector<BufferId>& args) const {
  add(collective(kind, stream, group, layer), args);
}

void OpWriter::copy(OpKind kind, HostData data, BufferId buffer) const {
  Op op;
  op.kind = kind;
  op.stream = Stream::Copy;
  op.target = static_cast<std::int32_t>(data);
  add(op, {buffer});
}

BufferId OpWriter::buffer(BufferKind kind, std::string_view name, std::int64_t elements,
                          DType dtype) const {
  Buffer made;
  made.kind = kind;
  made.dtype = dtype;
  made.bytes = Bytes{elements * size_of(dtype)};
  made.layer = static_cast<std::int16_t>(layer);
  made.microbatch = microbatch;
  made.name = draft.name(name);
  return add_buffer(role, made);
}

BufferId OpWriter::buffer(BufferKind kind, std::string_view name, std::int64_t elements) const {
  return buffer(kind, name, elements, draft.dtype_of(kind));
}

}  // namespace lockstep
