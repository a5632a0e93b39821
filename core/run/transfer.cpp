#include "core/run/transfer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>

namespace lockstep {
namespace {

bool agree(const Party& first, const Party& other) {
  const bool kinds =
      first.kind == other.kind || (first.kind == OpKind::Send && other.kind == OpKind::Recv);
  return kinds && first.dtype == other.dtype && first.bytes == other.bytes &&
         first.root == other.root && first.largest == other.largest;
}

std::string place(Rank rank, OpId op, OpKind kind) {
  return "rank " + std::to_string(rank) + " %" + std::to_string(op.v) + " " +
         std::string(to_string(kind));
}

std::string text(const Party& party) {
  return place(party.rank, party.op, party.kind) + " " + std::to_string(party.bytes) + " B " +
         std::string(to_string(party.dtype));
}

}  // namespace

Result<Party> make_party(const Program& program, Rank rank, OpId id,
                         std::span<std::byte* const> args, std::span<const std::int64_t> bytes,
                         DType dtype, int size) {
  const Role& role = program.role_of(rank);
  const Op& op = role.op(id);
  Party party{rank, id, op.kind, dtype, bytes[0], args[0], args[0], op.largest, op.root};
  if (is_counted(op.kind)) {
    const std::size_t last = op.kind == OpKind::AllToAllRows ? 3 : 2;  // of the arguments
    const ExpectedRows rows = role.rows_of(op);
    party.bytes = rows.bytes;
    party.target = args[1];
    party.given = bytes[0] / std::max(rows.bytes, 1);
    party.room = bytes[1] / std::max(rows.bytes, 1);
    party.expected = rows.count;
    party.goes = reinterpret_cast<const std::int32_t*>(args[2]);
    party.comes = reinterpret_cast<const std::int32_t*>(args[last]);
    party.members = size;
    party.parts = bytes[2] / size_of(DType::I32) / size;
    const std::int64_t whole = std::max(party.given, party.room);
    const bool fits = op.kind == OpKind::AllToAllRows || whole == party.places() * size;
    if (rows.bytes > 0 && rows.bytes % size_of(dtype) == 0 && bytes[2] == bytes[last] && fits &&
        party.parts * size * size_of(DType::I32) == bytes[2]) {
      return party;
    }
    return Error{ErrorKind::Internal,
                 place(rank, id, op.kind) + ": " + std::to_string(bytes[2]) + " B and " +
                     std::to_string(bytes[last]) + " B do not count rows of " +
                     std::to_string(rows.bytes) + " B for a group of " + std::to_string(size),
                 std::nullopt};
  }
  if (op.kind == OpKind::AllGather || op.kind == OpKind::ReduceScatter ||
      op.kind == OpKind::AllToAll || op.kind == OpKind::Rotate) {
    party.target = args[1];
    const bool gather = op.kind == OpKind::AllGather, whole = op.kind == OpKind::Rotate;
    party.bytes = gather ? bytes[1] : bytes[0];
    const std::int64_t other = gather ? bytes[0] : bytes[1];
    const std::int64_t parts = whole ? 1 : size;
    const std::int64_t expected = op.kind == OpKind::AllToAll ? other : other * parts;
    if (party.bytes != expected || party.bytes % (parts * size_of(dtype)) != 0) {
      return Error{ErrorKind::Internal,
                   place(rank, id, op.kind) + ": buffers of " + std::to_string(bytes[0]) +
                       " B and " + std::to_string(bytes[1]) + " B do not fit a group of " +
                       std::to_string(size),
                   std::nullopt};
    }
  }
  return party;
}

std::vector<std::int64_t> rows_of_members(const std::int32_t* counts, std::int64_t parts,
                                          std::size_t members) {
  std::vector<std::int64_t> rows(members, 0);
  for (std::int64_t& sum : rows) {
    for (std::int64_t part = 0; part < parts; ++part) sum += *counts++;
  }
  return rows;
}

std::vector<std::int64_t> rows_in_places(const Party& party, const std::int32_t* counts) {
  std::vector<std::int64_t> rows = rows_of_members(counts, party.parts, to_size(party.members));
  for (std::int64_t& n : rows) n = std::min(n, party.places());
  return rows;
}

Result<void> check_room(const Party& party, std::span<const std::int64_t> rows) {
  const std::int64_t all = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  if (all <= party.room) return {};
  char factor[32];
  std::snprintf(factor, sizeof factor, "%.2f",
                0.01 * std::ceil(100.0 * static_cast<double>(all) /
                                 static_cast<double>(std::max<std::int64_t>(party.expected, 1))));
  return Error{ErrorKind::InvalidSpec,
               place(party.rank, party.op, party.kind) + ": " + std::to_string(all) +
                   " rows come to the experts of rank " + std::to_string(party.rank) +
                   ", which has places for " + std::to_string(party.room) + " (the mean is " +
                   std::to_string(party.expected) +
                   "): model.expert_rank_capacity_factor must be at least " + factor +
                   ", or 0, which has room for all that can come; or balance the router "
                   "(model.router_aux_loss_coef, model.router_bias_update_rate)",
               std::nullopt};
}

Result<void> check_agreement(const std::vector<Party>& parties) {
  for (const Party& other : parties) {
    if (agree(parties.front(), other)) continue;
    return Error{
        ErrorKind::Internal,
        "ranks meet in different transfers: " + text(parties.front()) + " and " + text(other),
        std::nullopt};
  }
  return {};
}

Route route_of(const Program& program, Rank rank, const Op& op) {
  const Mesh& mesh = program.mesh;
  if (is_collective(op.kind)) {
    const Group& group = program.group(op.group());
    const int own = position(mesh, group, rank);
    return own < 0 ? Route{} : Route{members(mesh, group, rank), own, false};
  }
  const int pp = mesh.index_of("pp");
  if (!is_p2p(op.kind) || pp < 0) return {};
  const Rank peer = mesh.with_coordinate(rank, pp, op.peer());
  const bool backward = op.stream == Stream::SendBackward || op.stream == Stream::RecvBackward;
  return op.kind == OpKind::Send ? Route{{rank, peer}, 0, backward}
                                 : Route{{peer, rank}, 1, backward};
}

Error no_route(Rank rank, OpId id, const Op& op) {
  return {ErrorKind::Internal, place(rank, id, op.kind) + " has no group or peer here",
          std::nullopt};
}

}  // namespace lockstep
