#include "backends/local/appointments.hpp"

#include "backends/local/collectives.hpp"

namespace lockstep::local {

Appointments::Appointments(const Program& program, Rank rank, Fabric& fabric)
    : program_(program), rank_(rank), fabric_(fabric) {
  for (const Op& op : program.role_of(rank).ops) places_.push_back(place(op));
}

Appointments::Place Appointments::place(const Op& op) const {
  const Route route = route_of(program_, rank_, op);
  if (route.members.empty()) return {};
  const int size = static_cast<int>(route.members.size());
  Meeting& meeting = is_collective(op.kind)
                         ? fabric_.group(op.group(), route.members.front(), size)
                         : fabric_.channel(route.members[0], route.members[1], route.backward);
  return {&meeting, route.position, size};
}

Result<Appointment> Appointments::next(OpId id, const Op& op, std::span<std::byte* const> args,
                                       std::span<const std::int64_t> bytes, DType dtype) {
  const Place& place = places_[id];
  if (place.meeting == nullptr) return no_route(rank_, id, op);
  const auto party = party_of(program_, rank_, id, args, bytes, dtype, place.size);
  if (!party) return party.error();
  return Appointment{place.meeting, sequence_[place.meeting]++, place.position, *party};
}

}  // namespace lockstep::local
