#include "backends/cpu/cpu_communicator.hpp"

#include "backends/cpu/collectives.hpp"

namespace lockstep::cpu {

CpuCommunicator::CpuCommunicator(const Program& program, Rank rank, CpuDevice& device,
                                 Fabric& fabric)
    : program_(program), rank_(rank), device_(device), fabric_(fabric) {
  for (const Op& op : program.role_of(rank).ops) places_.push_back(place(op));
}

CpuCommunicator::Place CpuCommunicator::place(const Op& op) const {
  const Route route = route_of(program_, rank_, op);
  if (route.members.empty()) return {};
  const int size = static_cast<int>(route.members.size());
  Meeting& meeting = is_collective(op.kind)
                         ? fabric_.group(op.group(), route.members.front(), size)
                         : fabric_.channel(route.members[0], route.members[1], route.backward);
  return {&meeting, route.position, size};
}

Result<void> CpuCommunicator::enqueue(OpId id, const Op& op, std::span<std::byte* const> args,
                                      std::span<const std::int64_t> bytes, DType dtype) {
  const Place& place = places_[static_cast<std::size_t>(id.v)];
  if (place.meeting == nullptr) return no_route(rank_, id, op);
  const auto own = party_of(rank_, id, op, args, bytes, dtype, place.size);
  if (!own) return own.error();
  const std::int64_t sequence = sequence_[place.meeting]++;
  return device_.enqueue_task(id, op.stream, [=, party = *own](SimTime begin) {
    const Gathering* gathering = place.meeting->arrive(sequence, place.position, party);
    if (gathering == nullptr) return begin;
    const SimTime active = gathering->complete;
    move_share(gathering->parties, place.position);
    place.meeting->part(sequence);
    return active;
  });
}

}  // namespace lockstep::cpu
