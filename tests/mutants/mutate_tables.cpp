// Faults in what ops refer to: functions, buffers, units, groups, parameters.
#include <algorithm>

#include "tests/mutants/mutator.hpp"

namespace lockstep::test {

bool Mutator::change_function() {
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
      if (k.kind == KernelKind::Quantize) k.dims[2] ^= 1;
      if (k.kind == KernelKind::RaggedQuantize) k.dims[4] ^= 1;
      what_ += "transposition";
      return true;
    default:
      if (f.formals.empty()) return false;
      f.formals[pick(f.formals.size())].access = static_cast<Access>(pick(3));
      what_ += "access";
      return true;
  }
}

bool Mutator::change_buffer() {
  Role& role = any_role();
  const std::size_t i = pick(role.buffers.size());
  Buffer& b = role.buffers[i];
  what_ = "rank " + std::to_string(role.ranks.front()) + ": %b" + std::to_string(i) + ": another ";
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
      if (!b.is_view()) return false;
      b.offset = std::max<std::int64_t>(
          0, b.offset + (chance() ? 1 : -1) * size_of(b.dtype) * static_cast<int>(1 + pick(8)));
      what_ += "offset";
      return true;
    case 3:
      if (!b.is_view()) return false;
      b.set_view(b.parent(),
                 chance() ? GroupId{} : GroupId{static_cast<std::int32_t>(pick(p_.groups.size()))});
      what_ += "group of its pieces";
      return true;
    case 4:
      b.name = p_.names.empty() ? -1 : static_cast<std::int16_t>(pick(p_.names.size()));
      what_ += "name";
      return true;
    case 5:
      b.layer = static_cast<std::int16_t>(pick(5));
      b.microbatch = static_cast<Microbatch>(pick(3));
      what_ += "layer and microbatch";
      return true;
    case 6:
      if (!b.is_view()) return false;
      b.set_view({static_cast<std::int32_t>(pick(role.buffers.size()))}, b.piece_of());
      what_ += "parent";
      return true;
    default:
      if (b.is_view()) return false;
      b.bytes = Bytes{b.bytes.v + (chance() ? 1 : -1) * size_of(b.dtype)};
      what_ += "size";
      return true;
  }
}

bool Mutator::change_unit() {
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
      std::swap(unit.states[StateKind::Moment1],
                unit.states[chance() ? StateKind::Moment2 : StateKind::Param]);
      return true;
    case 5:
      what_ += "another unit's buffer";
      unit.states[chance() ? StateKind::Param : StateKind::Moment1] =
          second.states[chance() ? StateKind::Param : StateKind::Moment1];
      return true;
    case 6: {
      if (unit.parameters.empty()) return false;
      UnitParameter& part = unit.parameters[pick(unit.parameters.size())];
      if (!part.sections.all() && chance()) {
        what_ += "other sections";
        const int by = part.sections.first == 0 ? 1 : -1;
        part.sections = {part.sections.first + by, part.sections.end + by};
        return true;
      }
      what_ += "another offset";
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

bool Mutator::change_table() {
  what_ = "tables: another ";
  switch (pick(5)) {
    case 0:
    case 1: {
      if (p_.groups.empty()) return false;
      Group& group = p_.groups[pick(p_.groups.size())];
      what_ += "axis of group " + group.name;
      const int axes = static_cast<int>(p_.mesh.dims.size());
      if (group.dims.empty() || chance()) {
        group.dims.push_back(static_cast<int>(pick(to_size(axes))));
      } else if (chance()) {
        group.dims[pick(group.dims.size())] = static_cast<int>(pick(to_size(axes)));
      } else {
        group.dims.erase(group.dims.begin() + static_cast<std::ptrdiff_t>(pick(group.dims.size())));
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
        group.only.erase(group.only.begin() + static_cast<std::ptrdiff_t>(pick(group.only.size())));
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

bool Mutator::change_parameter() {
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
      parameter.sections = {parameter.shape[parameter.split_dim]};
      return true;
    default:
      what_ += "sections";
      if (parameter.sections.size() < 2) return false;
      parameter.sections = {parameter.shape[parameter.split_dim]};
      return true;
  }
}

}  // namespace lockstep::test
