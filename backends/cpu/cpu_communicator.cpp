#include "backends/cpu/cpu_communicator.hpp"

#include <string>

#include "backends/cpu/collectives.hpp"

namespace lockstep::cpu {

CpuCommunicator::CpuCommunicator(const Program& program, Rank rank, CpuDevice& device,
                                 Fabric& fabric)
    : program_(program), rank_(rank), device_(device), fabric_(fabric) {
  for (const Op& op : program.role_of(rank).ops) routes_.push_back(route(op));
}

CpuCommunicator::Route CpuCommunicator::route(const Op& op) const {
  const Mesh& mesh = program_.mesh;
  if (is_collective(op.kind)) {
    const Group& group = program_.group(op.group());
    const int own = position(mesh, group, rank_);
    if (own < 0) return {};
    const std::vector<Rank> ranks = members(mesh, group, rank_);
    const int size = static_cast<int>(ranks.size());
    return {&fabric_.group(op.group(), ranks.front(), size), own, size};
  }
  const int pp = mesh.index_of("pp");
  if (!is_p2p(op.kind) || pp < 0) return {};
  const Rank peer = mesh.with_coordinate(rank_, pp, op.peer());
  const bool backward = op.stream == Stream::SendBackward || op.stream == Stream::RecvBackward;
  return op.kind == OpKind::Send ? Route{&fabric_.channel(rank_, peer, backward), 0, 2}
                                 : Route{&fabric_.channel(peer, rank_, backward), 1, 2};
}

Result<void> CpuCommunicator::enqueue(OpId id, const Op& op, std::span<std::byte* const> args,
                                      std::span<const std::int64_t> bytes, DType dtype) {
  const Route& route = routes_[static_cast<std::size_t>(id.v)];
  if (route.meeting == nullptr) {
    return Error{ErrorKind::Internal,
                 "rank " + std::to_string(rank_) + " %" + std::to_string(id.v) + " " +
                     std::string(to_string(op.kind)) + " has no group or peer here",
                 std::nullopt};
  }
  const auto own = party_of(rank_, id, op, args, bytes, dtype, route.size);
  if (!own) return own.error();
  const std::int64_t sequence = sequence_[route.meeting]++;
  return device_.enqueue_task(id, op.stream, [=, party = *own](SimTime begin) {
    const Gathering* gathering = route.meeting->arrive(sequence, route.position, party);
    if (gathering == nullptr) return begin;
    const SimTime active = gathering->complete;
    move_share(gathering->parties, route.position);
    route.meeting->part(sequence);
    return active;
  });
}

}  // namespace lockstep::cpu
