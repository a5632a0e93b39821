#include "tests/mutants/mutations.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "tests/mutants/op_list.hpp"

namespace lockstep::test {
namespace {

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

class Mutator {
 public:
  Mutator(const Program& program, std::mt19937& random) : p_(program), random_(random) {}

  std::optional<Mutant> make(MutantClass which) {
    const Program before = p_;
    const bool made = change(which);
    if (!made || p_ == before) return std::nullopt;
    return Mutant{std::move(p_), std::move(what_)};
  }

 private:
  std::size_t pick(std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_);
  }
  bool chance() { return pick(2) == 0; }
  int other(int value, int count) {
    return count < 2 ? value : (value + 1 + static_cast<int>(pick(at(count - 1)))) % count;
  }
  Role& any_role() { return p_.roles[pick(p_.roles.size())]; }
  void say(const Role& role, std::size_t op, const std::string& what) {
    what_ = "rank " + std::to_string(role.ranks.front()) + ": %" + std::to_string(op) + " " +
            describe(p_, role, {static_cast<std::int32_t>(op)}) + ": " + what;
  }

  bool change(MutantClass which) {
    switch (which) {
      case MutantClass::Op:
        return change_list();
      case MutantClass::Reduction:
        return change_collective();
      case MutantClass::Operand:
        return change_operand();
      case MutantClass::Tag:
        return change_tag();
      case MutantClass::Function:
        return change_function();
      case MutantClass::Buffer:
        return change_buffer();
      case MutantClass::Unit:
        return change_unit();
      case MutantClass::Table:
        return change_table();
      case MutantClass::Parameter:
        return change_parameter();
    }
    return false;
  }

  // ---------------------------------------------------------------- lists of ops

  bool change_list() {
    Role& role = any_role();
    const std::size_t n = role.ops.size();
    if (n < 3) return false;
    std::size_t i = pick(n);
    if (chance() && chance()) {  // what leaves the rank is rare among the ops
      for (std::size_t k = 0; k < n; ++k) {
        if (role.ops[k].kind == OpKind::DeviceToHost && chance()) i = k;
      }
    }
    switch (pick(4)) {
      case 0:
        say(role, i, "deleted");
        erase(role, i);
        return true;
      case 1:
        say(role, i, "doubled");
        repeat(role, i, i + 1);
        return true;
      case 2: {
        const std::size_t to = i + 1 + pick(n - i);
        say(role, i, "doubled in front of %" + std::to_string(to));
        repeat(role, i, to);
        return true;
      }
      default: {
        std::size_t j = i + 1;
        while (j < n && role.ops[j].stream != role.ops[i].stream) ++j;
        if (j == n) return false;
        say(role, i, "changed places with %" + std::to_string(j));
        exchange(role, i, j);
        return true;
      }
    }
  }

  // ---------------------------------------------------------------- collectives, everywhere

  bool change_collective() {
    const Role& one = any_role();
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < one.ops.size(); ++i) {
      if (is_collective(one.ops[i].kind)) found.push_back(i);
    }
    if (found.empty()) return false;
    const std::size_t chosen = found[pick(found.size())];
    const std::int32_t group = one.ops[chosen].target;
    const auto before = [&](const Role& role, std::size_t index) {
      return std::count_if(
          role.ops.begin(), role.ops.begin() + static_cast<std::ptrdiff_t>(index),
          [&](const Op& op) { return is_collective(op.kind) && op.target == group; });
    };
    const auto which = before(one, chosen);
    const std::size_t how = pick(4);
    const int to_group = other(group, static_cast<int>(p_.groups.size()));
    const OpKind kind = one.ops[chosen].kind;
    const bool in_place = one.ops[chosen].args_count == 1;
    const auto kinds =
        in_place ? std::vector<OpKind>{OpKind::AllReduce, OpKind::Broadcast}
                 : std::vector<OpKind>{OpKind::AllGather, OpKind::ReduceScatter, OpKind::AllToAll};
    const OpKind to_kind = kinds[pick(kinds.size())];
    const std::vector<std::string> words = {"deleted", "doubled", "of another group",
                                            "made " + std::string(to_string(to_kind))};
    say(one, chosen, words[how] + " everywhere");
    if (how == 3 && to_kind == kind) return false;
    for (Role& role : p_.roles) {
      for (std::size_t i = 0; i < role.ops.size(); ++i) {
        Op& op = role.ops[i];
        if (!is_collective(op.kind) || op.target != group || before(role, i) != which) continue;
        if (how == 0) erase(role, i);
        if (how == 1) repeat(role, i, i + 1);
        if (how == 2) op.target = to_group;
        if (how == 3) op.kind = to_kind;
        break;
      }
    }
    return true;
  }

  // ---------------------------------------------------------------- operands

  bool change_operand() {
    Role& role = any_role();
    const std::size_t i = pick(role.ops.size());
    const Op& op = role.ops[i];
    if (op.args_count == 0) return false;
    const std::size_t a = pick(op.args_count);
    BufferId& arg = role.args[op.args_begin + a];
    if (op.args_count > 1 && pick(4) == 0) {
      BufferId& second = role.args[op.args_begin + pick(op.args_count)];
      say(role, i, "operands change places");
      std::swap(arg, second);
      return true;
    }
    std::vector<std::int32_t> equal;
    for (std::size_t b = 0; b < role.buffers.size(); ++b) {
      const Buffer& buffer = role.buffers[b];
      if (buffer.bytes == role.buffer(arg).bytes && buffer.on_host == role.buffer(arg).on_host &&
          static_cast<std::int32_t>(b) != arg.v) {
        equal.push_back(static_cast<std::int32_t>(b));
      }
    }
    if (equal.empty()) return false;
    const BufferId to{equal[pick(equal.size())]};
    say(role, i, "%b" + std::to_string(arg.v) + " is %b" + std::to_string(to.v));
    arg = to;
    return true;
  }

  // ---------------------------------------------------------------- tags

  bool change_tag() {
    Role& role = any_role();
    std::size_t i = pick(role.ops.size());
    if (pick(3) == 0) {
      for (std::size_t k = 0; k < role.ops.size(); ++k) {
        if (is_copy(role.ops[k].kind) && chance()) i = k;
      }
    }
    Op& op = role.ops[i];
    const std::size_t how = pick(7);
    say(role, i, "another tag " + std::to_string(how));
    switch (how) {
      case 0:
      case 1:
        op.microbatch = static_cast<Microbatch>(pick(5)) - 1;
        return true;
      case 2:
        op.layer = static_cast<std::int16_t>(static_cast<int>(pick(7)) - 1);
        return true;
      case 3:
        op.stage = static_cast<std::int16_t>(static_cast<int>(pick(4)) - 1);
        return true;
      case 4:
        op.phase = static_cast<Phase>(pick(7));
        return true;
      case 5:
        if (is_copy(op.kind)) op.target = static_cast<std::int32_t>(pick(kNumHostData));
        return true;
      default: {
        if (op.kind != OpKind::Call) return false;
        std::vector<std::int32_t> like;
        for (std::size_t f = 0; f < p_.functions.size(); ++f) {
          if (p_.functions[f].formals.size() == op.args_count) {
            like.push_back(static_cast<std::int32_t>(f));
          }
        }
        op.target = like[pick(like.size())];
        return true;
      }
    }
  }

  // ---------------------------------------------------------------- functions

  bool change_function() {
    Function& f = p_.functions[pick(p_.functions.size())];
    if (f.kernels.empty()) return false;
    what_ = "function " + f.name + ": another ";
    Kernel& k = f.kernels[pick(f.kernels.size())];
    const KernelRow& row = info(k.kind);
    switch (pick(9)) {
      case 0:
        if (row.dims.empty()) return false;
        k.dims[pick(row.dims.size())] += chance() ? 1 : -1;
        what_ += "dimension";
        return true;
      case 1:
        if (row.scalars.empty()) return false;
        k.scalars[pick(row.scalars.size())] *= chance() ? 1.5 : -1;
        what_ += "scalar";
        return true;
      case 2:
        k.accumulate = !k.accumulate;
        what_ += "accumulate";
        return true;
      case 3:
        k.kind = static_cast<KernelKind>(pick(kNumKernelKinds));
        what_ += "kind of kernel";
        return true;
      case 4: {
        auto& list = k.in.empty() || (chance() && !k.out.empty()) ? k.out : k.in;
        if (list.empty()) return false;
        Operand& operand = list[pick(list.size())];
        if (chance()) {
          operand.offset = std::max<std::int64_t>(0, operand.offset + (chance() ? 32 : -32));
        } else {
          operand.formal = static_cast<std::int16_t>(pick(f.formals.size()));
        }
        what_ += "operand";
        return true;
      }
      case 5:
        f.kernels.erase(f.kernels.begin() + (&k - f.kernels.data()));
        what_ += "kernel fewer";
        return true;
      case 6: {
        const Kernel copy = k;
        f.kernels.insert(f.kernels.begin() + (&k - f.kernels.data()), copy);
        what_ += "kernel twice";
        return true;
      }
      case 7:
        if (k.kind == KernelKind::Gemm) k.dims[3 + pick(2)] ^= 1;
        what_ += "transposition";
        return true;
      default:
        if (f.formals.empty()) return false;
        f.formals[pick(f.formals.size())].access = static_cast<Access>(pick(3));
        what_ += "access";
        return true;
    }
  }

  // ---------------------------------------------------------------- tables

  bool change_buffer() {
    Role& role = any_role();
    const std::size_t i = pick(role.buffers.size());
    Buffer& b = role.buffers[i];
    what_ =
        "rank " + std::to_string(role.ranks.front()) + ": %b" + std::to_string(i) + ": another ";
    switch (pick(8)) {
      case 0:
        b.dtype = static_cast<DType>(pick(6));
        what_ += "type";
        return true;
      case 1:
        b.kind = static_cast<BufferKind>(pick(kNumBufferKinds));
        what_ += "kind";
        return true;
      case 2:
        if (!b.parent.valid()) return false;
        b.offset = std::max<std::int64_t>(
            0, b.offset + (chance() ? 1 : -1) * size_of(b.dtype) * static_cast<int>(1 + pick(8)));
        what_ += "offset";
        return true;
      case 3:
        if (!b.parent.valid()) return false;
        b.piece_of =
            chance() ? GroupId{} : GroupId{static_cast<std::int32_t>(pick(p_.groups.size()))};
        what_ += "group of its pieces";
        return true;
      case 4:
        b.name = p_.names.empty() ? -1 : static_cast<std::int32_t>(pick(p_.names.size()));
        what_ += "name";
        return true;
      case 5:
        b.layer = static_cast<std::int16_t>(pick(5));
        b.microbatch = static_cast<Microbatch>(pick(3));
        what_ += "layer and microbatch";
        return true;
      case 6:
        if (!b.parent.valid()) return false;
        b.parent = {static_cast<std::int32_t>(pick(role.buffers.size()))};
        what_ += "parent";
        return true;
      default:
        if (b.parent.valid()) return false;
        b.bytes = Bytes{b.bytes.v + (chance() ? 1 : -1) * size_of(b.dtype)};
        what_ += "size";
        return true;
    }
  }

  GroupId any_group() {
    const std::size_t g = pick(p_.groups.size() + 1);
    return g == p_.groups.size() ? GroupId{} : GroupId{static_cast<std::int32_t>(g)};
  }

  bool change_unit() {
    Role& role = any_role();
    if (role.units.empty()) return false;
    Unit& unit = role.units[pick(role.units.size())];
    Unit& second = role.units[pick(role.units.size())];
    what_ = "rank " + std::to_string(role.ranks.front()) + ": unit " + unit.name + ": ";
    switch (pick(10)) {
      case 0:
        what_ += "another split group";
        unit.split_group = any_group();
        return true;
      case 1:
        what_ += "another shard group";
        unit.shard_group = any_group();
        return true;
      case 2:
        what_ += "whole_param";
        unit.whole_param = !unit.whole_param;
        return true;
      case 3:
        what_ += "gathered_late";
        unit.gathered_late = !unit.gathered_late;
        return true;
      case 4:
        what_ += "buffers change places";
        std::swap(unit.adam_m, chance() ? unit.adam_v : unit.param);
        return true;
      case 5:
        what_ += "another unit's buffer";
        (chance() ? unit.param : unit.adam_m) = chance() ? second.param : second.adam_m;
        return true;
      case 6: {
        if (unit.parameters.empty()) return false;
        what_ += "another offset";
        UnitParameter& part = unit.parameters[pick(unit.parameters.size())];
        part.offset = std::max<std::int64_t>(0, part.offset + (chance() ? 1 : -1));
        return true;
      }
      case 7: {
        if (unit.parameters.empty() || second.parameters.empty()) return false;
        what_ += "parameters change places";
        std::swap(unit.parameters[pick(unit.parameters.size())].parameter,
                  second.parameters[pick(second.parameters.size())].parameter);
        return true;
      }
      case 8:
        what_ += "elements";
        (chance() ? unit.elements : unit.shard_elements) += chance() ? 1 : -1;
        return true;
      default:
        what_ += "names change places";
        std::swap(unit.name, second.name);
        return true;
    }
  }

  bool change_table() {
    what_ = "tables: another ";
    switch (pick(5)) {
      case 0:
      case 1: {
        if (p_.groups.empty()) return false;
        Group& group = p_.groups[pick(p_.groups.size())];
        what_ += "axis of group " + group.name;
        const int axes = static_cast<int>(p_.mesh.dims.size());
        if (group.dims.empty() || chance()) {
          group.dims.push_back(static_cast<int>(pick(at(axes))));
        } else if (chance()) {
          group.dims[pick(group.dims.size())] = static_cast<int>(pick(at(axes)));
        } else {
          group.dims.erase(group.dims.begin() +
                           static_cast<std::ptrdiff_t>(pick(group.dims.size())));
        }
        return true;
      }
      case 2: {
        if (p_.groups.empty()) return false;
        Group& group = p_.groups[pick(p_.groups.size())];
        what_ += "choice of group " + group.name;
        if (group.only.empty() || chance()) {
          group.only.push_back(static_cast<int>(pick(4)));
        } else {
          group.only.erase(group.only.begin() +
                           static_cast<std::ptrdiff_t>(pick(group.only.size())));
        }
        return true;
      }
      case 3:
        what_ += "number of updates";
        p_.updates_per_step += static_cast<int>(pick(3)) - 1;
        return p_.updates_per_step > 0;
      default: {
        what_ += "order of mesh axes";
        auto& dims = p_.mesh.dims;
        MeshDim& a = dims[pick(dims.size())];
        MeshDim& b = dims[pick(dims.size())];
        what_ += ": " + a.name + " and " + b.name;
        std::swap(a.name, b.name);
        return true;
      }
    }
  }

  bool change_parameter() {
    if (p_.parameters.empty()) return false;
    Parameter& parameter = p_.parameters[pick(p_.parameters.size())];
    what_ = "parameter " + parameter.name + ": another ";
    switch (pick(5)) {
      case 0:
        what_ += "scale";
        parameter.init_scale *= 2;
        return true;
      case 1:
        what_ += "kind of initial values";
        parameter.init = static_cast<InitKind>(pick(3));
        return true;
      case 2:
        what_ += "shape";
        if (parameter.shape.size() < 2) return false;
        std::swap(parameter.shape[0], parameter.shape[1]);
        return true;
      case 3:
        what_ += "split";
        if (parameter.split_dim < 0 || parameter.shape.size() < 2) return false;
        parameter.split_dim = 1 - std::min(parameter.split_dim, 1);
        parameter.sections = {parameter.shape[at(parameter.split_dim)]};
        return true;
      default:
        what_ += "sections";
        if (parameter.sections.size() < 2) return false;
        parameter.sections = {parameter.shape[at(parameter.split_dim)]};
        return true;
    }
  }

  Program p_;
  std::mt19937& random_;
  std::string what_;
};

}  // namespace

std::string to_string(MutantClass which) {
  static const std::vector<std::string> names = {
      "op", "reduction", "operand", "tag", "function", "buffer", "unit", "table", "parameter"};
  return names[static_cast<std::size_t>(which)];
}

std::optional<Mutant> mutate(const Program& program, MutantClass which, std::mt19937& random) {
  return Mutator(program, random).make(which);
}

}  // namespace lockstep::test
