#include <limits>

#include "core/ir/text/parse_internal.hpp"
#include "core/ir/text/unit_fields.hpp"

namespace lockstep::text {
namespace {

using Words = std::vector<std::string>;

/// The keys of a unit: of its fields, of its states behind them, and of its parameters.
const Words& unit_keys() {
  static const Words keys = [] {
    Words all;
    for (const UnitField& field : kUnitFieldsBeforeStates) all.emplace_back(field.name);
    for (const UnitField& field : kUnitFieldsAfterStates) all.emplace_back(field.name);
    for (const StateRow& row : kStates) all.emplace_back(row.name);
    all.emplace_back("parameters");
    return all;
  }();
  return keys;
}
constexpr std::size_t kFirstOfAfter = kUnitFieldsBeforeStates.size();
constexpr std::size_t kFirstState = kFirstOfAfter + kUnitFieldsAfterStates.size();
constexpr std::size_t kParametersKey = kFirstState + kNumStateKinds;
static_assert(kParametersKey < 32);  // ParserState::key() counts them by bits

const Words& buffer_keys() {
  static const Words keys = {"layer", "mb", "name", "live", "piece_of"};
  return keys;
}

const Words& op_keys() {
  static const Words keys = {"phase", "stage", "mb",   "layer",     "stream", "after",
                             "args",  "root",  "rows", "row_bytes", "largest"};
  return keys;
}

class RoleParser {
 public:
  explicit RoleParser(ParserState& state) : s_(state) {}

  bool role() {
    const char* start = s_.in.mark();
    if (!s_.expect_index(start, s_.program.roles.size(), "role")) return false;
    Role role;
    if (!s_.in.expect_word("ranks") || !s_.in.expect('=')) return false;
    const char* first = s_.in.mark();
    if (!s_.in.line_ends() && *first >= '0' && *first <= '9') {
      if (!s_.list([&] { return ranks(role); })) return false;
    }
    if (!s_.in.expect_word("arena") || !s_.in.expect('=') || !s_.in.number(role.arena.v))
      return false;
    if (s_.in.take("host_arena=") && !s_.in.number(role.host_arena.v)) return false;
    if (s_.in.take("drive_arena=") && !s_.in.number(role.drive_arena.v)) return false;
    s_.program.roles.push_back(std::move(role));
    return true;
  }

  bool unit() {
    Role& role = s_.program.roles.back();
    Unit unit;
    if (!s_.in.name(unit.name)) return false;
    std::uint32_t seen = 0;
    while (!s_.in.line_ends()) {
      int found = 0;
      if (!s_.key(unit_keys(), seen, found)) return false;
      if (!unit_value(to_size(found), unit)) return false;
    }
    role.units.push_back(std::move(unit));
    return true;
  }

  bool buffer(const char* start) {
    Role& role = s_.program.roles.back();
    Buffer buffer;
    BufferKind kind{};
    DType dtype{};
    if (!s_.expect_index(start, role.buffers.size(), "buffer") ||
        !s_.choose(s_.buffer_kinds, "buffer kind", kind) || !s_.choose(s_.dtypes, "dtype", dtype) ||
        !s_.in.number(buffer.bytes.v)) {
      return false;
    }
    buffer.kind = kind;
    buffer.dtype = dtype;
    for (const Tier tier : {Tier::Host, Tier::Drive}) {
      if (s_.in.take(to_string(tier))) buffer.tier = tier;
    }
    BufferId parent;
    if (s_.in.take("view=") && !s_.buffer_id(parent)) return false;
    buffer.set_view(parent);
    if (!s_.in.expect('@') || !s_.in.number(buffer.offset)) return false;
    std::uint32_t seen = 0;
    while (!s_.in.line_ends()) {
      const char* at = s_.in.mark();
      int found = 0;
      if (!s_.key(buffer_keys(), seen, found) || !s_.in.expect('=')) return false;
      const bool read = found == 0   ? s_.in.number(buffer.layer)
                        : found == 1 ? microbatch(buffer)
                        : found == 2 ? name(buffer)
                        : found == 3 ? live(at, buffer)
                                     : piece(at, buffer);
      if (!read) return false;
    }
    role.buffers.push_back(buffer);
    return true;
  }

  bool op(const char* start) {
    Role& role = s_.program.roles.back();
    Op op;
    op.after_begin = static_cast<std::uint32_t>(role.after.size());
    op.args_begin = static_cast<std::uint32_t>(role.args.size());
    OpKind kind{};
    if (!s_.expect_index(start, role.ops.size(), "op") ||
        !s_.choose(s_.op_kinds, "op kind", kind)) {
      return false;
    }
    op.kind = kind;
    if (!target(op)) return false;
    ExpectedRows rows;
    std::uint32_t seen = 0;
    while (!s_.in.line_ends()) {
      const char* at = s_.in.mark();
      int found = 0;
      if (!s_.key(op_keys(), seen, found) || !s_.in.expect('=') ||
          !op_value(at, found, role, op, rows)) {
        return false;
      }
    }
    if (!role.expect_rows(op, rows)) {
      return s_.in.fail(start, "the ops of a role expect at most " +
                                   std::to_string(role.rows.size()) + " different rows");
    }
    role.ops.push_back(op);
    return true;
  }

 private:
  bool ranks(Role& role) {
    const char* start = s_.in.mark();
    Rank first = 0;
    if (!s_.in.number(first)) return false;
    Rank last = first;
    if (s_.in.take('-') && !s_.in.number(last)) return false;
    const auto world = static_cast<Rank>(s_.program.role_of_rank.size());
    if (first < 0 || last < first || last >= world) {
      return s_.in.fail(start, "ranks " + std::to_string(first) + "-" + std::to_string(last) +
                                   " do not lie in 0-" + std::to_string(world - 1));
    }
    for (Rank rank = first; rank <= last; ++rank) {
      RoleId& assigned = s_.program.role_of_rank[rank];
      if (assigned.valid()) {
        return s_.in.fail(start, "rank " + std::to_string(rank) + " is in role " +
                                     std::to_string(assigned.v) + " already");
      }
      assigned = s_.program.roles.next();
      role.ranks.push_back(rank);
    }
    return true;
  }

  bool unit_value(std::size_t key, Unit& unit) {
    if (key < kFirstOfAfter) return unit_field(kUnitFieldsBeforeStates[key], unit);
    if (key < kFirstState) return unit_field(kUnitFieldsAfterStates[key - kFirstOfAfter], unit);
    if (!s_.in.expect('=')) return false;
    if (key < kParametersKey) return s_.buffer_id(unit.states[key - kFirstState]);
    return s_.list([&] { return unit_parameter(unit.parameters.emplace_back()); });
  }
  bool unit_field(const UnitField& field, Unit& unit) {
    if (const auto* flag = std::get_if<bool Unit::*>(&field.member)) return unit.**flag = true;
    if (!s_.in.expect('=')) return false;
    if (const auto* number = std::get_if<std::int64_t Unit::*>(&field.member)) {
      return s_.in.number(unit.**number);
    }
    GroupId& group = unit.*std::get<GroupId Unit::*>(field.member);
    return s_.in.reference(s_.groups, "group", group.v);
  }
  bool unit_parameter(UnitParameter& part) {
    if (!s_.in.reference(s_.parameters, "parameter", part.parameter.v) || !s_.in.expect(':') ||
        !s_.in.number(part.offset)) {
      return false;
    }
    if (s_.in.take(':') && !(s_.in.number(part.sections.first) && s_.in.expect('-') &&
                             s_.in.number(part.sections.end))) {
      return false;
    }
    return !s_.in.take('~') || s_.in.number(part.low_rank);
  }

  template <class OpOrBuffer>
  bool microbatch(OpOrBuffer& of) {
    const char* at = s_.in.mark();
    Microbatch number = 0;
    if (!s_.in.number(number)) return false;
    of.microbatch = number;
    return (number >= -1 && number < kMostMicrobatches) ||
           s_.in.fail(
               at, "microbatches are numbered from 0 to " + std::to_string(kMostMicrobatches - 1));
  }

  bool name(Buffer& buffer) {
    std::int32_t name = 0;
    if (!s_.in.reference(s_.names, "name", name)) return false;
    buffer.name = static_cast<std::int16_t>(name);
    return true;
  }

  bool live(const char* at, Buffer& buffer) {
    OpId first, last;
    if (!s_.in.take('-') && !s_.op_id(first)) return false;
    if (!s_.in.expect('.') || !s_.in.expect('.')) return false;
    if (!s_.in.take('-') && !s_.op_id(last)) return false;
    if (buffer.is_view()) {
      return s_.in.fail(at, "a view lives as long as its parent: leave out live=");
    }
    buffer.set_lifetime(first, last);
    return true;
  }

  bool piece(const char* at, Buffer& buffer) {
    GroupId group;
    if (!s_.in.reference(s_.groups, "group", group.v)) return false;
    if (!buffer.is_view()) return s_.in.fail(at, "a piece is a view: say of what with view=");
    buffer.set_view(buffer.parent(), group);
    return true;
  }

  bool target(Op& op) {
    if (op.kind == OpKind::Call) return s_.in.reference(s_.functions, "function", op.target);
    if (is_collective(op.kind)) return s_.in.reference(s_.groups, "group", op.target);
    if (is_copy(op.kind)) return s_.choose(s_.host_data, "host data", op.target);
    return s_.in.expect_word("pp") && s_.in.expect('=') && s_.in.number(op.target);
  }

  bool op_value(const char* at, int key, Role& role, Op& op, ExpectedRows& rows) {
    switch (key) {
      case 0: {
        Phase phase{};
        if (!s_.choose(s_.phases, "phase", phase)) return false;
        op.phase = phase;
        return true;
      }
      case 1:
        return s_.in.number(op.stage);
      case 2:
        return microbatch(op);
      case 3:
        return s_.in.number(op.layer);
      case 4: {
        Stream stream{};
        if (!s_.choose(s_.streams, "stream", stream)) return false;
        op.stream = stream;
        return true;
      }
      case 5:
        return ids(at, role.after, op.after_begin, op.after_count,
                   [this](OpId& out) { return s_.op_id(out); });
      case 7:
        return s_.in.number(op.root);
      case 8:
        return s_.in.number(rows.count);
      case 9:
        return s_.in.number(rows.bytes);
      case 10: {
        int largest = 0;
        if (!s_.in.number(largest)) return false;
        op.largest = largest != 0;
        return true;
      }
      default:
        return ids(at, role.args, op.args_begin, op.args_count, [&](BufferId& buffer) {
          const char* start = s_.in.mark();
          if (!s_.buffer_id(buffer)) return false;
          return to_size(buffer) < role.buffers.size() ||
                 s_.in.fail(start, "there is no buffer %b" + std::to_string(buffer.v) +
                                       "; the role has " + std::to_string(role.buffers.size()));
        });
    }
  }

  template <class IdType, class Count, class Read>
  bool ids(const char* at, std::vector<IdType>& pool, std::size_t begin, Count& count,
           Read&& read) {
    if (!s_.list([&] { return read(pool.emplace_back()); })) return false;
    const std::size_t length = pool.size() - begin;
    if (length > std::numeric_limits<Count>::max() ||
        pool.size() > std::numeric_limits<std::uint32_t>::max()) {
      return s_.in.fail(at, "the list is too long: " + std::to_string(length) + " entries");
    }
    count = static_cast<Count>(length);
    return true;
  }

  ParserState& s_;
};

}  // namespace

bool parse_role(ParserState& state) { return RoleParser(state).role(); }
bool parse_unit(ParserState& state) { return RoleParser(state).unit(); }
bool parse_buffer(ParserState& state, const char* start) { return RoleParser(state).buffer(start); }
bool parse_op(ParserState& state, const char* start) { return RoleParser(state).op(start); }

}  // namespace lockstep::text
