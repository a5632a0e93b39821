#include "core/lower/reduce/quantized.hpp"

#include <string_view>
#include <vector>

#include "core/lower/draft/codes.hpp"

namespace lockstep {
namespace {

/// Writes one exchange between `ranks` of a group, of the codes of `from`; `to` gets the sums of
/// what arrives.
void exchange(const OpWriter& writer, GroupId group, const CodedParts& what, std::int64_t ranks,
              BufferId from, BufferId to) {
  const Role& role = writer.role;
  const BufferId sent = add_codes(writer.draft, writer.role, what.bytes(), writer.layer);
  const BufferId arrived = add_codes(writer.draft, writer.role, what.bytes(), writer.layer);
  writer.call(to_codes(writer.draft, what, ranks, role.buffer(from).dtype), {from, sent});
  writer.communicate(OpKind::AllToAll, Stream::Reduce, group, {sent, arrived});
  writer.call(from_codes(writer.draft, what, ranks, role.buffer(to).dtype), {arrived, to});
}

}  // namespace

void exchange_quantized(const OpWriter& writer, GroupId shards, std::int64_t elements,
                        BufferId whole, BufferId shard) {
  Draft& draft = writer.draft;
  const StrategySpec& strategy = draft.scenario.strategy;
  const Mesh& mesh = draft.program.mesh;
  const std::int64_t ranks = group_size(mesh, draft.program.group(shards));
  CodedParts what{elements, ranks, strategy.zero_quantized_block_size,
                  strategy.zero_quantized_gradients_bits};
  const std::int64_t outer = mesh.size_of("dp_shard");
  if (strategy.inner_shards() == 1 || outer == 1) {
    return exchange(writer, shards, what, ranks, whole, shard);
  }
  std::vector<std::string_view> inner;
  for (const int dim : draft.program.group(shards).dims) {
    if (mesh.dims[dim].name != "dp_shard") inner.push_back(mesh.dims[dim].name);
  }
  Buffer slices = writer.role.buffer(whole);
  slices.kind = BufferKind::Comm;
  slices.dtype = sum_type(slices.dtype);
  slices.bytes = Bytes{what.elements * outer * size_of(slices.dtype)};
  slices.set_view({});
  slices.offset = 0;
  slices.name = draft.name("slices");
  const BufferId sums = add_buffer(writer.role, slices);
  exchange(writer, draft.group("dp_inner", inner), what, ranks / outer, whole, sums);
  what.parts = outer;
  exchange(writer, draft.group("dp_outer", {"dp_shard"}), what, outer, sums, shard);
}

}  // namespace lockstep
