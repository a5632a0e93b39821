#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "core/ir/verify/internal.hpp"

namespace lockstep::verification {
namespace {

bool contains_duplicates(std::vector<int> values) {
  std::sort(values.begin(), values.end());
  return std::adjacent_find(values.begin(), values.end()) != values.end();
}

class Structure {
 public:
  Structure(const Program& program, Faults& faults) : program_(program), faults_(faults) {}

  void check() {
    check_mesh();
    if (!faults_.none()) return;
    for (const Group& group : program_.groups) check_group(group);
    for (const Parameter& parameter : program_.parameters) check_parameter(parameter);
    check_functions(program_, faults_);
    check_ranks();
    if (!faults_.none()) return;
    check_each_role(program_, 1, faults_, [this](RoleId role, Faults& found) {
      check_role(program_, program_.roles[role], found);
    });
    if (faults_.none()) check_tied_copies();
  }

 private:
  void check_mesh() {
    constexpr std::int64_t kMaxWorld = std::numeric_limits<Rank>::max();
    std::int64_t size = 1;
    for (const MeshDim& dim : program_.mesh.dims) {
      if (dim.size < 1) return faults_.add("mesh dimension " + dim.name + " is empty");
      size *= dim.size;
      if (size > kMaxWorld) return faults_.add("the mesh has more than 2^31 ranks");
      if (&program_.mesh.dims[program_.mesh.index_of(dim.name)] != &dim) {
        return faults_.add("two mesh dimensions are named " + dim.name);
      }
    }
  }

  void check_group(const Group& group) {
    const std::string name = "group " + group.name;
    for (const int dim : group.dims) {
      if (!in_table(dim, program_.mesh.dims)) {
        return faults_.add(name + " uses mesh dimension " + number(dim) + ", which does not exist");
      }
    }
    if (contains_duplicates(group.dims)) faults_.add(name + " uses a mesh dimension twice");
    if (group.only.empty()) return;
    if (group.dims.empty()) return faults_.add(name + " picks coordinates of no dimension");
    const int size = program_.mesh.dims[group.dims[0]].size;
    for (const int c : group.only) {
      if (c < 0 || c >= size) {
        faults_.add(name + " picks coordinate " + number(c) + " of " + number(size));
      }
    }
    if (contains_duplicates(group.only)) faults_.add(name + " picks a coordinate twice");
  }

  void check_parameter(const Parameter& parameter) {
    const std::string name = "parameter " + parameter.name;
    const int first = parameter.first_parts;
    const bool whole = parameter.split_dim < 0;
    if (first < 1 || (first > 1 && (parameter.split_dim == 0 || parameter.shape.empty() ||
                                    parameter.shape[0] % first != 0))) {
      return faults_.add(name + ": its first dimension is not one of experts that " +
                         number(first) + " parts divide");
    }
    if (whole) {
      if (!parameter.sections.empty()) faults_.add(name + " has sections but no split dimension");
      return;
    }
    if (!in_table(parameter.split_dim, parameter.shape)) {
      return faults_.add(name + " is split along dimension " + number(parameter.split_dim) +
                         ", which it does not have");
    }
    const std::int64_t extent = parameter.shape[parameter.split_dim];
    std::int64_t left = extent;
    for (const std::int64_t section : parameter.sections) {
      if (section < 0 || section > left) left = -1;
      if (left < 0) break;
      left -= section;
    }
    if (left != 0) {
      faults_.add(name + ": its sections do not add up to the " + number(extent) +
                  " of dimension " + number(parameter.split_dim));
    }
  }

  void check_ranks() {
    const Rank world = program_.mesh.world_size();
    if (program_.role_of_rank.size() != to_size(world)) {
      return faults_.add("the mesh has " + number(world) + " ranks, but roles are given for " +
                         number(static_cast<std::int64_t>(program_.role_of_rank.size())));
    }
    std::size_t listed = 0;
    for (const RoleId id : program_.roles.ids()) {
      const Role& role = program_.roles[id];
      const std::string name = "role " + number(id.v);
      if (role.ranks.empty()) faults_.add(name + " has no ranks");
      for (std::size_t k = 0; k < role.ranks.size(); ++k) {
        const Rank rank = role.ranks[k];
        if (!in_table(rank, program_.role_of_rank)) {
          faults_.add(name + " lists rank " + number(rank) + ", which does not exist");
        } else if (k > 0 && role.ranks[k - 1] >= rank) {
          faults_.add(name + " does not list its ranks in ascending order: " + number(rank));
        } else if (program_.role_of_rank[rank] != id) {
          faults_.add("rank " + number(rank) + " has more than one role");
        }
      }
      listed += role.ranks.size();
    }
    if (listed == to_size(world) || !faults_.none()) return;
    for (const Rank rank : program_.role_of_rank.ids()) {
      const RoleId role = program_.role_of_rank[rank];
      if (!in_table(role.v, program_.roles) ||
          !std::binary_search(program_.roles[role].ranks.begin(), program_.roles[role].ranks.end(),
                              rank)) {
        return faults_.add("rank " + number(rank) + " has no role");
      }
    }
  }

  /// A parameter and its first section, and a rank's places in the groups that divide the unit.
  using Part = std::tuple<ParameterId, int, int, int>;

  /// Calls visit(rank, unit, part) for what ranks hold of `parameters` in units that are tied
  /// copies, or in those that are none.
  template <class Visit>
  void each_part(bool tied_copies, const std::set<ParameterId>& parameters, Visit&& visit) const {
    const auto place = [&](GroupId group, Rank rank) {
      return group.valid() ? position(program_.mesh, program_.group(group), rank) : 0;
    };
    for (const Role& role : program_.roles) {
      for (const Unit& unit : role.units) {
        if (unit.tied_copy != tied_copies) continue;
        for (const UnitParameter& held : unit.parameters) {
          if (!parameters.contains(held.parameter)) continue;
          for (const Rank rank : role.ranks) {
            visit(rank, unit,
                  Part{held.parameter, held.sections.first, place(unit.split_group, rank),
                       place(unit.shard_group, rank)});
          }
        }
      }
    }
  }

  /// Norms and checkpoints leave tied copies out, so what these hold must be held elsewhere, too.
  void check_tied_copies() {
    std::set<ParameterId> tied;
    for (const Role& role : program_.roles) {
      for (const Unit& unit : role.units) {
        if (!unit.tied_copy) continue;
        for (const UnitParameter& held : unit.parameters) tied.insert(held.parameter);
      }
    }
    std::set<Part> parts;
    each_part(false, tied, [&](Rank, const Unit&, const Part& part) { parts.insert(part); });
    each_part(true, tied, [&](Rank rank, const Unit& unit, const Part& part) {
      if (!parts.insert(part).second) return;
      faults_.add("rank " + number(rank) + ": unit " + unit.name +
                  " is a tied_copy, but its part of " +
                  program_.parameters[std::get<ParameterId>(part)].name +
                  " is in no rank's unit that is none: norms and checkpoints would leave it out; "
                  "the unit of one rank must not say tied_copy");
    });
  }

  const Program& program_;
  Faults& faults_;
};

}  // namespace

void check_structure(const Program& program, Faults& faults) { Structure(program, faults).check(); }

}  // namespace lockstep::verification
