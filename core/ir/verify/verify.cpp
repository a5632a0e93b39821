#include "core/ir/verify/verify.hpp"

#include <algorithm>

#include "core/base/thread_team.hpp"
#include "core/ir/alike.hpp"
#include "core/ir/verify/internal.hpp"
#include "core/ir/verify/repeats.hpp"

namespace lockstep {
namespace verification {

std::string op_at(const Program& program, Rank rank, OpId id) {
  return "rank " + std::to_string(rank) + ": %" + std::to_string(id.v) + " " +
         describe(program, program.role_of(rank), id);
}

std::string op_at(const Program& program, const Role& role, OpId id) {
  return op_at(program, role.ranks.front(), id);
}

std::string buffer_name(const Program& program, const Role& role, BufferId id) {
  const Buffer& buffer = role.buffer(id);
  std::string text = "%b" + std::to_string(id.v) + " (" + std::string(to_string(buffer.kind));
  if (buffer.name >= 0) text += " " + program.names[buffer.name];
  if (buffer.layer >= 0) text += " L" + std::to_string(buffer.layer);
  if (buffer.microbatch >= 0) text += " mb" + std::to_string(buffer.microbatch);
  return text + ")";
}

Ranges::Ranges(const Program& program, const Role& role)
    : program_(program), role_(role), part_(role.buffers.size(), 0) {
  const auto views = std::count_if(role.buffers.begin(), role.buffers.end(),
                                   [](const Buffer& buffer) { return buffer.is_view(); });
  views_.reserve(to_size(views));
  part_size_ = to_size(views) / kParts + 1;
  for (const BufferId id : role.buffers.ids()) {
    BufferId root = id;
    std::int64_t offset = 0;
    while (root >= id && role.buffer(root).is_view()) {
      offset += role.buffer(root).offset;
      root = role.buffer(root).parent();
    }
    if (root == id) continue;
    if (root < id) {  // a parent that comes before its view, whose place is known
      offset += this->offset(root);
      root = this->root(root);
    }
    const bool piece = role.buffer(id).piece_of().valid();
    views_.push_back({id, root, offset, piece ? span_of(program, role.buffer(id)).v : 0});
    part_[id] = static_cast<std::uint8_t>((views_.size() - 1) / part_size_ + 1);
  }
  positions_.resize(program.groups.size());
  for (const Op& op : role.ops) {
    if (op.kind != OpKind::Broadcast || !positions_[op.group()].empty()) continue;
    std::vector<int>& positions = positions_[op.group()];
    const Group& group = program.group(op.group());
    for (const Rank rank : role.ranks) positions.push_back(position(program.mesh, group, rank));
    std::sort(positions.begin(), positions.end());
    positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  }
}

Touch Ranges::touched(BufferId buffer, std::int64_t bytes, Access access) const {
  if (!is_view(buffer)) return {buffer, 0, bytes, access};
  const View& view = this->view(buffer);
  if (view.bytes_of_pieces > 0) bytes = view.bytes_of_pieces;
  return {view.root, view.offset, view.offset + bytes, access};
}

const Ranges::View& Ranges::view(BufferId buffer) const {
  const std::size_t begin = (part_[buffer] - 1u) * part_size_;
  if (part_size_ == 1) return views_[begin];
  const View* const part = views_.data() + begin;
  return *std::lower_bound(part, part + std::min(part_size_, views_.size() - begin), buffer,
                           [](const View& view, BufferId id) { return view.buffer < id; });
}

Touch Ranges::touch(const Op& op, std::size_t index) const {
  const BufferId buffer = role_.args_of(op)[index];
  if (op.kind == OpKind::Call) {
    const Formal& formal = program_.function(op.function()).formals[index];
    return touched(buffer, formal.bytes.v, formal.access);
  }
  Access what = access(program_, op, index);
  if (op.kind == OpKind::Broadcast && !is_piece(buffer)) {
    const std::vector<int>& positions = positions_[op.group()];
    if (!std::binary_search(positions.begin(), positions.end(), op.root)) what = Access::Write;
  }
  return touched(buffer, role_.buffer(buffer).bytes.v, what);
}

void Ranges::touch_all(const Op& op, std::vector<Touch>& touches) const {
  touches.resize(op.args_count);
  const auto args = role_.args_of(op);
  if (op.kind != OpKind::Call) {
    for (std::size_t k = 0; k < args.size(); ++k) touches[k] = touch(op, k);
    return;
  }
  const auto& formals = program_.function(op.function()).formals;
  for (std::size_t k = 0; k < args.size(); ++k) {
    Touch& touch = touches[k];  // set by its members: a copy would wait for them
    touch.root = args[k];
    touch.begin = 0;
    touch.end = formals[k].bytes.v;
    touch.access = formals[k].access;
    if (is_view(args[k])) touch = touched(args[k], touch.end, touch.access);
  }
}

Touch Ranges::part(BufferId buffer, std::int64_t offset, std::int64_t bytes, Access access) const {
  const std::int64_t begin = this->offset(buffer) + offset;
  return {root(buffer), begin, begin + bytes, access};
}

void check_each_role(const Program& program, std::size_t things_per_op, Faults& faults,
                     const std::function<void(RoleId, Faults&)>& check) {
  std::size_t ops = 0;
  for (const Role& role : program.roles) ops += role.ops.size();
  const int useful = static_cast<int>(std::max<std::size_t>(program.roles.size(), 1));
  const int threads = std::min(threads_for(ops * things_per_op), useful);
  if (threads > 1) {
    std::vector<Faults> found(program.roles.size());
    ThreadTeam(threads).each(program.roles.size(),
                             [&](std::size_t r) { check(from_index<RoleId>(r), found[r]); });
    if (std::all_of(found.begin(), found.end(), [](const Faults& f) { return f.none(); })) return;
  }
  for (const RoleId role : program.roles.ids()) {
    if (!faults.full()) check(role, faults);
  }
}

}  // namespace verification

std::vector<Error> verify(const Program& program, Unproven unproven) {
  verification::Faults faults;
  verification::check_structure(program, faults);
  if (faults.none()) verification::check_input(program, faults);
  if (!faults.none()) return faults.take();
  {
    const Folding folding = fold(program);
    const verification::Traffic traffic = verification::traffic_of(program);
    verification::check_matching(program, folding, traffic, faults);
    if (faults.none()) verification::check_deadlock(program, folding, traffic, faults);
  }
  std::deque<verification::Ranges> ranges;
  for (const Role& role : program.roles) ranges.emplace_back(program, role);
  verification::Repeats repeats(program, ranges);
  std::vector<const Role*> roles;
  for (const Role& role : program.roles) roles.push_back(&role);
  const std::vector<std::size_t> first = first_alike(roles);
  verification::check_each_role(program, 3, faults, [&](RoleId r, verification::Faults& found) {
    // Roles that are alike do the same with their memory; a fault is told of the first one.
    if (first[to_size(r)] == to_size(r))
      verification::check_memory(program, r, ranges[to_size(r)], repeats, found);
    verification::check_gradients(program, r, ranges[to_size(r)], repeats, found);
  });
  repeats.forget_buffers();
  if (faults.none()) verification::check_meaning(program, ranges, repeats, unproven, faults);
  return faults.take();
}

}  // namespace lockstep
