#include <algorithm>
#include <array>
#include <set>

#include "core/ir/verify/values.hpp"

namespace lockstep::verification {

/// The placement along an axis of the group after a collective; nullopt if the result would mean
/// nothing. `ranks` are along the axis; `flat` says that the values are a unit's, of which a rank
/// may hold a shard.
std::optional<Along> Values::along_after(const Op& op, Along before, int ranks, bool flat) {
  const auto when = [](bool holds, Along after) {
    return holds ? std::optional(after) : std::nullopt;
  };
  if (before == Along::Zero) return before;
  switch (op.kind) {
    case OpKind::AllReduce:
      return when(
          op.largest ? before == Along::Largest || before == Along::Same : before == Along::Partial,
          Along::Same);
    case OpKind::ReduceScatter:
      if (before == Along::PartialPlaces) return Along::TokenPlaces;
      return when(before == Along::Partial, flat ? Along::Flat : Along::Tokens);
    case OpKind::AllGather:
      if (before == Along::TokenPlaces) return Along::AllPlaces;
      return when(flat ? before == Along::Flat
                       : is_rows(before) || before == Along::Own || before == Along::Split ||
                             before == Along::Flat,
                  Along::Same);
    case OpKind::AllToAll:
      if (before == Along::Tokens) return Along::Split;  // exchanges tokens for heads
      if (before == Along::Split) return Along::Tokens;
      if (before == Along::Own) return Along::OwnExperts;  // counts of the rows to exchange
      if (flat) return when(before == Along::Partial, Along::Terms);
      [[fallthrough]];
    case OpKind::AllToAllRows:
      switch (before) {  // exchanges rows in places for those of its experts
        case Along::SamplePlaces:
          return Along::SampleExperts;
        case Along::TokenPlaces:
          return Along::TokenExperts;
        case Along::SampleExperts:
          return Along::SamplePlaces;
        default:
          return when(before == Along::TokenExperts, Along::TokenPlaces);
      }
    case OpKind::AllGatherRows:  // what has come to a rank's experts, for all that divide these
      return when(before == Along::TokenPlaces, Along::AllPlaces);
    case OpKind::ReduceScatterRows:
      return when(before == Along::PartialPlaces, Along::TokenPlaces);
    case OpKind::Rotate:
      return when(times_passed(before) >= 0, passed(times_passed(before) + 1, ranks));
    default:  // broadcast
      return when(before == Along::Same, before);
  }
}

/// `joined` says that what the stages had of their own has been added up, so that nothing is left
/// to do along "pp".
bool Values::move(RoleRun& run, OpId id, const Group& group, Held& held, bool joined) {
  const int pp = program_.mesh.index_of("pp");
  const Op& op = run.role.op(id);
  const Means what = held.content.meaning.what;
  const bool own_gradient =
      held.content.meaning.own &&
      run.role.buffer(run.role.root(run.role.args_of(op)[0])).kind == BufferKind::Grad;
  const bool of_optimizer =
      what == Means::State && info(held.content.meaning.state).keeper == Keeper::Optimizer;
  const bool flat = own_gradient || what == Means::Gradient || what == Means::Weights ||
                    of_optimizer || what == Means::CodedWeights || what == Means::CodedGradient;
  if (what == Means::Unknown) return fault(run, id, "communicates what nothing has written");
  const bool for_others = held.content.meaning.version != group_size(program_.mesh, group);
  if (what == Means::CodedGradient && (op.kind != OpKind::AllToAll || for_others)) {
    return fault(run, id,
                 text(held.content.meaning) + " are for an all_to_all between " +
                     number(held.content.meaning.version) + " ranks");
  }
  const DType dtype = run.role.buffer(run.role.args_of(op)[0]).dtype;
  const bool adds = op.kind == OpKind::AllReduce || op.kind == OpKind::ReduceScatter ||
                    op.kind == OpKind::ReduceScatterRows;
  const PatternId before = held.content.pattern;
  const bool zeros = what == Means::Zeros;
  for (const Moved& known : moved_[op.group()]) {
    if (known.before == before && known.kind == op.kind && known.largest == op.largest &&
        known.dtype == dtype && known.flat == flat && known.zeros == zeros) {
      held.content.pattern = known.after;
      return true;
    }
  }
  Pattern after = patterns_.at(before);
  for (Pattern::Piece& piece : after.pieces) {
    if (adds && what != Means::Zeros && piece.as.dtype != dtype) {
      return fault(run, id,
                   "adds up " + text(held.content.meaning) + " as " +
                       std::string(to_string(dtype)) + ", but it holds " +
                       std::string(to_string(piece.as.dtype)));
    }
    for (const int axis : axes_) {
      if (std::find(group.dims.begin(), group.dims.end(), axis) == group.dims.end()) continue;
      if (joined && axis == pp) continue;
      const Along placed = piece.as.placement.along(axis);
      const std::optional<Along> along =
          along_after(op, placed, program_.mesh.dims[axis].size, flat);
      if (!along) {
        return fault(run, id,
                     text(held.content.meaning) + " is " + std::string(to_string(placed)) +
                         " along " + program_.mesh.dims[axis].name + ", which " +
                         std::string(to_string(op.kind)) + " does not take");
      }
      piece.as.placement.set(axis, *along);
    }
  }
  held.content.pattern = patterns_.intern(std::move(after));
  moved_[op.group()].push_back(
      {before, op.kind, op.largest, dtype, flat, zeros, held.content.pattern});
  return true;
}

/// Finds the collective among the exchanges that the layer's functions announce. `meaning` becomes
/// that of the tensor which the exchange makes.
bool Values::exchange_name(RoleRun& run, OpId id, Meaning& meaning) {
  const Op& op = run.role.op(id);
  const auto args = run.role.args_of(op);
  if (meaning.microbatch >= 0 && op.microbatch >= 0 && meaning.microbatch != op.microbatch) {
    return fault(run, id, "communicates " + text(meaning));
  }
  const std::int32_t label = run.role.buffer(args[std::min<std::size_t>(args.size() - 1, 1)]).name;
  const std::int32_t made = label < 0 ? -1 : labels_[label];
  if (meaning.own || op.layer < 0) {
    if (args.size() > 1 && made >= 0) meaning.id = made;
    return true;
  }
  for (const NamedExchange& e : run.exchanges[op.layer]) {
    if (e.kind != op.kind || (e.in.name != e.out.name && e.out.name != made)) continue;
    if (expected(e.in, op.layer, op.microbatch) != meaning) continue;
    if (e.in.name != e.out.name) meaning = expected(e.out, op.layer, op.microbatch);
    return true;
  }
  return fault(run, id,
               text(meaning) + " is not what layer " + number(op.layer) + " exchanges in this way");
}

bool Values::collective(RoleRun& run, OpId id) {
  const Op& op = run.role.op(id);
  const Group& group = program_.group(op.group());
  std::vector<Held>& held = parts_;
  if (op.kind == OpKind::Broadcast) {
    const std::set<RoleId> roles = roles_of(run, group);
    if (roles.size() > 1) return broadcast(run, id, group, roles);
  }
  if (!holds(run, id, 0, held)) return false;
  bool joined = false;
  if (!meet(run, id, group, held, joined)) return false;
  if (held.empty()) return fault(run, id, "communicates what nothing has written");
  if (failed_) return true;
  const auto args = run.role.args_of(op);
  const bool in_place = args.size() == 1;
  if (!in_place) {
    const Touch from = run.ranges.touch(op, 0), to = run.ranges.touch(op, 1);
    const auto own_piece = [&](BufferId id) {
      const GroupId pieces = run.role.buffer(id).piece_of();
      return pieces.valid() && program_.group(pieces).dims == group.dims;
    };
    const bool overlap = from.root == to.root && from.begin < to.end && to.begin < from.end;
    if (overlap && !own_piece(args[0]) && !own_piece(args[1])) {
      return fault(run, id,
                   "writes what other members still read: only each member's own piece "
                   "may lie in the whole");
    }
  }
  if (!in_place) {
    std::optional<Content> all = unite(held);
    if (all) all->pattern = with_zeros_filled(all->pattern, held.back().end);
    // Of a direction, single matrices are gathered, and their place in the unit is kept.
    const bool matrix = all && all->meaning.what == Means::Direction;
    const std::int64_t bytes = held.back().end;
    const bool part = all && all->meaning.what == Means::Tensor && all->origin % bytes == 0;
    if (!all || !patterns_.is_uniform(all->pattern) || (all->origin != 0 && !matrix && !part)) {
      return fault(run, id,
                   "communicates parts of several tensors, " + text(held.front().content.meaning) +
                       " among them");
    }
    // Of a tensor in equal parts, each becomes the same part of another one.
    if (part) all->origin = all->origin / bytes * run.role.buffer(args[1]).bytes.v;
    if (!in_equal_parts(run, id, group, *all)) return true;
    held.assign(1, {0, bytes, *all});
  }
  for (Held& part : held) {
    if (part.content.meaning.what == Means::Tensor && !exchange_name(run, id, part.content.meaning))
      return true;
    if (!move(run, id, group, part, joined)) return true;
    if (failed_) return true;
  }
  if (!in_place) {
    const Buffer& out = run.role.buffer(run.role.args_of(op)[1]);
    held[0].end = out.bytes.v;
    const Content& c = held[0].content;
    if (op.kind == OpKind::AllGather && c.meaning.what == Means::Weights) {
      const PlacedAs as = patterns_.at(c.pattern).pieces[0].as;
      const bool shard = std::any_of(axes_.begin(), axes_.end(), [&](int axis) {
        return as.placement.along(axis) == Along::Flat;
      });
      if (!shard) held[0].content.pattern = whole_weights(c.meaning.id, as);
    }
  }
  if (is_counted(op.kind) && !counts_rows(run, id, group, held)) return true;
  put(run, id, in_place ? 0 : 1, held);
  return true;
}

/// Whether the rows that ranks along an axis share are divided into as many parts as elsewhere: of
/// each part a rank has its share, so that with other parts it would have other rows.
bool Values::in_equal_parts(RoleRun& run, OpId id, const Group& group, const Content& content) {
  const Op& op = run.role.op(id);
  const bool gathers = op.kind == OpKind::AllGather;
  if ((!gathers && op.kind != OpKind::ReduceScatter) || content.meaning.what != Means::Tensor) {
    return true;
  }
  const Buffer& buffer = run.role.buffer(run.role.args_of(op)[0]);
  const std::int64_t whole = (buffer.is_view() ? run.role.buffer(buffer.parent()) : buffer).bytes.v;
  const std::int64_t parts = whole / std::max<std::int64_t>(buffer.bytes.v, 1);
  for (const int axis : group.dims) {
    if (std::find(axes_.begin(), axes_.end(), axis) == axes_.end()) continue;
    const Along before = patterns_.at(content.pattern).pieces[0].as.placement.along(axis);
    if (before != (gathers ? Along::Tokens : Along::Partial)) continue;
    std::int64_t& known = row_parts_.try_emplace(axis, parts).first->second;
    if (known == parts) continue;
    fault(run, id,
          text(content.meaning) + " is divided into " + number(parts) + " along " +
              program_.mesh.dims[axis].name + " where other rows are divided into " +
              number(known) + ": they would come in another order");
    return false;
  }
  return true;
}

/// Whether the counts of an exchange of rows are those of its own layer and microbatch, in the
/// direction in which the rows go. `made`: what its result holds.
bool Values::counts_rows(RoleRun& run, OpId id, const Group& group, const std::vector<Held>& made) {
  std::vector<Along> wanted = {Along::Own, Along::OwnExperts};  // from places to experts
  std::vector<Held> counts;
  for (const int axis : group.dims) {
    if (std::find(axes_.begin(), axes_.end(), axis) == axes_.end()) continue;
    const Along after = patterns_.at(made[0].content.pattern).pieces[0].as.placement.along(axis);
    if (is_places(after)) wanted = {Along::OwnExperts, Along::Own};
    // A gather or scatter is counted by what all of its members have.
    if (run.role.op(id).kind != OpKind::AllToAllRows) wanted = {Along::Same};
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!holds(run, id, i + 2, counts)) return false;
      const std::optional<Content> all = unite(counts);
      const Meaning& rows = made[0].content.meaning;
      const bool own = all && all->meaning.what == Means::Tensor &&
                       all->meaning.layer == rows.layer &&
                       all->meaning.microbatch == rows.microbatch &&
                       patterns_.at(all->pattern).pieces[0].as.placement.along(axis) == wanted[i];
      if (own) continue;
      fault(run, id,
            text(rows) + " is counted by " +
                (counts.empty() ? std::string("what nothing has written")
                                : text(counts.front().content.meaning)) +
                ", which does not say how many rows " + (i == 0 ? "go" : "come") + " along " +
                program_.mesh.dims[axis].name);
      return false;
    }
  }
  return true;
}

std::set<RoleId> Values::roles_of(const RoleRun& run, const Group& group) const {
  std::set<RoleId> roles;
  for (const Rank r : members(program_.mesh, group, run.rank)) {
    roles.insert(program_.role_of_rank[r]);
  }
  return roles;
}

/// Follows a broadcast from one role to others. Its receivers may come to it before the sender
/// does, and get it as they get messages.
bool Values::broadcast(RoleRun& run, OpId id, const Group& group, const std::set<RoleId>& roles) {
  const Op& op = run.role.op(id);
  const RoleId own = program_.role_of_rank[run.rank];
  const Rank root = members(program_.mesh, group, run.rank)[to_size(op.root)];
  const RoleId from = program_.role_of_rank[root];
  if (run.role.buffer(run.role.args_of(op)[0]).piece_of().valid()) {
    return fault(run, id, "broadcasts each rank's own piece of a buffer");
  }
  if (from != own) {
    const ChannelEnd end{OpKind::Broadcast, from.v, Direction::ToAll};
    receive_later(run, id, {from, own, Direction::ToAll}, run.received[end]++);
    return true;
  }
  std::vector<Held> held;
  if (!holds(run, id, 0, held)) return false;
  if (held.empty()) return fault(run, id, "communicates what nothing has written");
  for (Held& part : held) {
    Meaning& meaning = part.content.meaning;
    if (meaning.what == Means::Tensor && !exchange_name(run, id, meaning)) return true;
    if (failed_ || !move(run, id, group, part, false) || failed_) return true;
  }
  for (const RoleId to : roles) {
    if (to != own) messages_[{own, to, Direction::ToAll}].push_back(held);
  }
  put(run, id, 0, held);
  return true;
}

/// Brings together what the members of a group hold if they have several roles. Members at other
/// places along "pp" add terms of their own to a sum (`joined`), or hold their parts of one value
/// where stages divide a layer; all others hold the same. Returns false while a role has not come
/// yet.
bool Values::meet(RoleRun& run, OpId id, const Group& group, std::vector<Held>& held,
                  bool& joined) {
  std::int8_t& others = run.meets_others[run.role.op(id).group()];
  if (others == 0) return true;
  const std::vector<Rank> ranks = members(program_.mesh, group, run.rank);
  const std::set<RoleId> roles = roles_of(run, group);
  others = roles.size() < 2 ? 0 : 1;
  if (others == 0) return true;
  const Op& op = run.role.op(id);
  Meeting& meeting =
      meetings_[{op.group(), *std::min_element(ranks.begin(), ranks.end()), run.met[op.group()]}];
  const RoleId own = program_.role_of_rank[run.rank];
  if (meeting.by_role.emplace(own, held).second) {
    const int pp = program_.mesh.index_of("pp");
    const int coordinate = pp < 0 ? 0 : program_.mesh.coordinate(run.rank, pp);
    meeting.by_coordinate.emplace(coordinate, held);
  }
  if (meeting.by_role.size() < roles.size()) return false;
  ++run.met[op.group()];
  if (meeting.by_coordinate.size() < 2) return true;
  joined = op.kind == OpKind::AllReduce && !parts_of_sum(held);
  return joined ? join(run, id, meeting.by_coordinate, held)
                : agree(run, id, meeting.by_coordinate);
}

/// Whether the stages hold terms of one sum each, as ranks do that divide a layer.
bool Values::parts_of_sum(const std::vector<Held>& held) const {
  const int pp = program_.mesh.index_of("pp");
  if (std::find(axes_.begin(), axes_.end(), pp) == axes_.end()) return false;
  return std::any_of(held.begin(), held.end(), [&](const Held& part) {
    const auto& pieces = patterns_.at(part.content.pattern).pieces;
    return !pieces.empty() && pieces[0].as.placement.along(pp) == Along::Partial;
  });
}

/// Checks that the stages bring their parts of the same values.
bool Values::agree(RoleRun& run, OpId id, const std::map<int, std::vector<Held>>& by_coordinate) {
  const std::vector<Held>& first = by_coordinate.begin()->second;
  for (const auto& [coordinate, held] : by_coordinate) {
    const bool alike = std::equal(
        first.begin(), first.end(), held.begin(), held.end(), [](const Held& a, const Held& b) {
          return a.begin == b.begin && a.end == b.end && a.content == b.content;
        });
    if (alike && !held.empty()) continue;
    return fault(run, id,
                 "meets stage " + number(coordinate) + ", which brings " +
                     (held.empty() ? "nothing" : text(held.front().content.meaning)) +
                     " and not its part of " +
                     (first.empty() ? "the same" : text(first.front().content.meaning)));
  }
  return true;
}

/// Adds up what the stages bring, range by range.
bool Values::join(RoleRun& run, OpId id, const std::map<int, std::vector<Held>>& by_coordinate,
                  std::vector<Held>& sum) {
  std::set<std::int64_t> cuts;
  for (const auto& [coordinate, held] : by_coordinate) {
    for (const Held& part : held) cuts.insert({part.begin, part.end});
  }
  sum.clear();
  for (auto begin = cuts.begin(); begin != cuts.end() && std::next(begin) != cuts.end(); ++begin) {
    const std::int64_t end = *std::next(begin);
    std::optional<Content> all;
    for (const auto& [coordinate, held] : by_coordinate) {
      for (const Held& part : held) {
        if (part.begin > *begin || part.end < end) continue;
        const Content& c = part.content;
        if (all && c.meaning.what == Means::Zeros) continue;
        if (!all || all->meaning.what == Means::Zeros) {
          all = c;
          continue;
        }
        Meaning a = all->meaning, b = c.meaning;
        a.terms = b.terms = {};
        a.own = b.own = false;
        const bool terms =
            a.what == Means::Gradient || a.what == Means::Loss || a.what == Means::Squares;
        if (!terms || a != b || all->origin != c.origin || all->pattern != c.pattern) {
          return fault(run, id,
                       "adds " + text(c.meaning) + " of stage " + number(coordinate) + " to " +
                           text(all->meaning));
        }
        const bool largest = a.what == Means::Gradient && takes_largest_[UnitNumber{a.id}] != 0;
        if (largest != run.role.op(id).largest) {
          return fault(run, id,
                       std::string(largest ? "adds up" : "takes the largest of") + " what stages " +
                           "have of " + text(a) + ", of which the " +
                           (largest ? "largest is" : "sum is") + " wanted");
        }
        all->meaning.terms = all->meaning.terms + c.meaning.terms;
        all->meaning.own = all->meaning.own || c.meaning.own;
      }
    }
    if (all) sum.push_back({*begin, end, *all});
  }
  return true;
}

Values::Channel Values::channel_of(const RoleRun& run, const Op& message) const {
  const int pp = program_.mesh.index_of("pp");
  const Rank peer = program_.mesh.with_coordinate(run.rank, pp, message.peer());
  const RoleId other = program_.role_of_rank[peer];
  const bool sends = message.kind == OpKind::Send;
  return {sends ? id_of(run) : other, sends ? other : id_of(run), direction(message)};
}

void Values::receive(RoleRun& run, OpId id) {
  const Op& op = run.role.op(id);
  receive_later(run, id, channel_of(run, op), run.received[channel_end(op)]++);
}

bool Values::send(RoleRun& run, OpId id) {
  const Op& op = run.role.op(id);
  if (op.kind == OpKind::Send) {
    std::vector<Held> held;
    if (!holds(run, id, 0, held)) return false;
    for (const Held& part : held) {
      const Microbatch mb = part.content.meaning.microbatch;
      if (mb >= 0 && op.microbatch >= 0 && mb != op.microbatch) {
        return fault(run, id, "sends " + text(part.content.meaning));
      }
    }
    messages_[channel_of(run, op)].push_back(std::move(held));
    return true;
  }
  if (run.role.buffer(run.role.args_of(op)[0]).piece_of().valid()) {
    return fault(run, id, "receives into each rank's own piece of a buffer");
  }
  receive(run, id);
  return true;
}

/// Marks the op's buffer as what message number `index` of the channel will bring.
void Values::receive_later(RoleRun& run, OpId id, const Channel& channel, Sequence index) {
  const Touch touch = run.ranges.touch(run.role.op(id), 0);
  Content message;
  message.meaning.what = Means::Message;
  message.meaning.id = receipts_.next();
  run.receipts[id] = receipts_.next();
  receipts_.push_back({channel, index, touch, id});
  put(run, touch, message);
}

/// The placement of the host's data, as the program's samples and tables say. Ranks have other
/// samples along the axes over which these are divided, and other tokens of the same samples along
/// those of the table Order. Along those of the table Shift, ids count from the rank's part of the
/// vocabulary.
PatternId Values::placed_data(const Op& op, DType dtype) {
  const HostData data = op.host();
  const auto in = [](const std::vector<int>& dims, int axis) {
    return std::find(dims.begin(), dims.end(), axis) != dims.end();
  };
  const auto differs = [&](TableKind kind, int axis) {
    const IndexTable* table = program_.input.table(kind);
    return table != nullptr && in(table->dims, axis);
  };
  PlacedAs as{{}, dtype};
  for (const int axis : axes_) {
    Along along = Along::Same;
    if (is_batch(data)) {
      const bool ids = data == HostData::Tokens || data == HostData::Targets;
      const bool queries = data == HostData::Documents || data == HostData::DocumentSpans ||
                           data == HostData::Windows || data == HostData::AttentionDropout;
      const bool heads = data == HostData::AttentionDropout;
      if (ids && differs(TableKind::Shift, axis)) along = Along::Split;
      if (heads && differs(TableKind::Heads, axis)) along = Along::Split;
      const bool rows = data == HostData::DropoutKeys && differs(TableKind::Rows, axis);
      if (rows || (data != HostData::Images &&
                   differs(queries ? TableKind::Queries : TableKind::Order, axis))) {
        along = Along::Tokens;
      }
      // If a program does not say which samples are read, every rank has samples of its own.
      const Samples& samples = program_.input.samples;
      if (samples.kind == SampleKind::None || in(samples.over, axis)) along = Along::Samples;
    } else if (data == HostData::Positions) {
      if (differs(TableKind::Positions, axis)) along = Along::Tokens;
    } else if (data == HostData::Starts) {
      if (differs(TableKind::Starts, axis)) along = Along::Tokens;
    } else if ((data == HostData::Columns && differs(TableKind::Columns, axis)) ||
               (data == HostData::Part && differs(TableKind::Parts, axis))) {
      along = Along::Split;
    }
    // For a replica that trains apart, its own samples are all that there are.
    if (axis == apart_ && along != Along::Same) along = Along::Replica;
    as.placement.set(axis, along);
  }
  return patterns_.uniform(as);
}

bool Values::host_copy(RoleRun& run, OpId id) {
  const Op& op = run.role.op(id);
  std::vector<Held> held;
  if (op.moves_memory()) {
    if (!holds(run, id, 0, held)) return false;
    put(run, id, 1, held);
    return true;
  }
  if (op.kind == OpKind::HostToDevice) {
    const Buffer& buffer = run.role.buffer(run.role.args_of(op)[0]);
    Content data;
    data.meaning.what = Means::Data;
    data.meaning.id = op.target;
    if (is_batch(op.host())) data.meaning.microbatch = op.microbatch;
    data.pattern = placed_data(op, buffer.dtype);
    put(run, id, 0, {{0, buffer.bytes.v, data}});
    return true;
  }
  if (!holds(run, id, 0, held)) return false;
  const bool loss = op.host() == HostData::Loss;
  const std::optional<Content> all = unite(held);
  const bool norm = op.host() == HostData::GradNorm;
  const bool fits = all && all->meaning.what == (loss ? Means::Loss : Means::Norm) &&
                    patterns_.at(all->pattern).pieces[0].as.dtype ==
                        run.role.buffer(run.role.args_of(op)[0]).dtype;
  if (!fits || (!loss && !norm)) {
    return fault(run, id,
                 "takes " + (all ? text(all->meaning) : "several tensors") + " to the host as " +
                     std::string(to_string(op.host())));
  }
  for (const int axis : axes_) {
    const Along along = patterns_.at(all->pattern).pieces[0].as.placement.along(axis);
    // The host takes the mean over replicas that train apart.
    if (along != Along::Same && !(axis == apart_ && along == Along::Replica)) {
      return fault(run, id,
                   text(all->meaning) + " is " + std::string(to_string(along)) + " along " +
                       program_.mesh.dims[axis].name);
    }
  }
  (loss ? run.loss_copied : run.norm_copied) = true;
  if (loss) claims_.push_back({&run, id, all->meaning, 0});
  return true;
}

}  // namespace lockstep::verification
