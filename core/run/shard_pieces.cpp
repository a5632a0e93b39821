#include "core/run/shard_pieces.hpp"

#include <algorithm>

#include "core/base/index_vector.hpp"

namespace lockstep {
namespace {

/// Visits what lies in elements [from, to) of the part of `parameter` that member `member` of
/// `parts` tensor-parallel members holds of these sections. Calls visit(begin, count, at) for every
/// run of elements that is contiguous in the whole parameter: `begin` is its place there, `at` its
/// place in the part. The parameter is not one of experts that parts divide twice.
template <class Visit>
void each_run_of_one(const Parameter& parameter, const SectionRange& sections, int parts,
                     int member, std::int64_t from, std::int64_t to, Visit&& visit) {
  if (parameter.split_dim < 0 || (parts == 1 && sections.all())) {
    return visit(from, to - from, from);
  }
  std::int64_t inner = 1;  // elements of one index of the split dimension
  for (std::size_t d = to_size(parameter.split_dim) + 1; d < parameter.shape.size(); ++d) {
    inner *= parameter.shape[d];
  }
  const std::int64_t whole = parameter.shape[parameter.split_dim];
  std::int64_t held = 0;
  for (std::size_t s = 0; s < parameter.sections.size(); ++s) {
    if (sections.holds(s)) held += ceil_div(parameter.sections[s], parts);
  }
  if (held * inner == 0) return;
  for (std::int64_t outer = from / (held * inner); outer * held * inner < to; ++outer) {
    std::int64_t global = 0;  // along the split dimension
    std::int64_t local = 0;
    for (std::size_t s = 0; s < parameter.sections.size(); ++s) {
      const std::int64_t section = parameter.sections[s];
      const std::int64_t part = sections.holds(s) ? ceil_div(section, parts) : 0;
      const std::int64_t first = std::min(member * part, section);
      const std::int64_t count = std::min(part, section - first);  // what follows is padding
      const std::int64_t begin = std::max(from, (outer * held + local) * inner);
      const std::int64_t end = std::min(to, (outer * held + local + count) * inner);
      if (begin < end) {
        const std::int64_t into = begin - (outer * held + local) * inner;
        visit((outer * whole + global + first) * inner + into, end - begin, begin);
      }
      global += section;
      local += part;
    }
  }
}

/// The same for any parameter: of experts that are divided twice (Parameter::first_parts), one
/// after the other.
template <class Visit>
void each_run(const Parameter& parameter, const SectionRange& sections, int parts, int member,
              std::int64_t from, std::int64_t to, Visit&& visit) {
  if (parts == 1 || parameter.first_parts == 1) {
    return each_run_of_one(parameter, sections, parts, member, from, to, visit);
  }
  Parameter one = parameter;
  one.shape.assign(parameter.shape.begin() + 1, parameter.shape.end());
  one.first_parts = 1;
  --one.split_dim;
  const int of_one = parts / parameter.first_parts;
  const std::int64_t experts = parameter.shape[0] / parameter.first_parts;
  const std::int64_t held = held_elements(one, of_one, sections), whole = one.elements();
  for (std::int64_t e = held == 0 ? experts : from / held; e < experts && e * held < to; ++e) {
    const std::int64_t global = (member / of_one * experts + e) * whole;
    each_run_of_one(one, sections, of_one, member % of_one,
                    std::max<std::int64_t>(from - e * held, 0), std::min(to - e * held, held),
                    [&](std::int64_t begin, std::int64_t count, std::int64_t at) {
                      visit(global + begin, count, e * held + at);
                    });
  }
}

/// The right factors of a unit's parameters, each whole.
std::vector<ShardPiece> factor_pieces(const Program& program, const Unit& unit) {
  std::vector<ShardPiece> pieces;
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    if (unit.parameters[i].low_rank == 0) continue;
    const std::int64_t begin = sketch_offset(program, unit, i);
    pieces.push_back(
        {unit.parameters[i].parameter, 0, sketch_offset(program, unit, i + 1) - begin, begin});
  }
  return pieces;
}

}  // namespace

std::vector<ShardPiece> shard_pieces(const Program& program, Rank rank, const Unit& unit,
                                     StateKind kind) {
  const StateRow& row = info(kind);
  if (row.extent == Extent::Factors) return factor_pieces(program, unit);
  const bool has_room =
      !unit.shard_group.valid() || (unit.whole_param && row.extent == Extent::Held);
  const bool whole = has_room && !unit.gathered_late;  // else only the rank's own piece is current
  const int shard = whole ? 0 : position(program.mesh, program.group(unit.shard_group), rank);
  const std::int64_t held = whole ? unit.elements : unit.shard_elements;
  const std::int64_t shard_begin = shard * held;
  const std::int64_t shard_end = shard_begin + held;
  const std::int64_t first = has_room ? 0 : shard_begin;
  const int parts = split_parts(program, unit);
  const int member = parts == 1 ? 0 : position(program.mesh, program.group(unit.split_group), rank);
  std::vector<ShardPiece> pieces;
  for (const UnitParameter& p : unit.parameters) {
    // A reduction keeps something of the parameters that are summed as products alone.
    if (row.keeper == Keeper::Reduction && p.low_rank == 0) continue;
    const Parameter& parameter = program.parameters[p.parameter];
    const std::int64_t begin = std::max(p.offset, shard_begin);
    const std::int64_t end = std::min(p.offset + held_elements(program, unit, p), shard_end);
    if (begin >= end) continue;
    each_run(parameter, p.sections, parts, member, begin - p.offset, end - p.offset,
             [&](std::int64_t global, std::int64_t count, std::int64_t at) {
               pieces.push_back({p.parameter, global, count, p.offset + at - first});
             });
  }
  if (row.history && unit.history > 0) {
    for (ShardPiece& piece : pieces) {
      for (std::int64_t* const of : {&piece.begin, &piece.count, &piece.at}) *of *= unit.history;
    }
  }
  return pieces;
}

}  // namespace lockstep
