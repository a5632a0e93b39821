#include "core/ir/kernels/kernel.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/base/index_vector.hpp"
#include "core/ir/kernels/placement.hpp"
#include "core/ir/kernels/rows.hpp"
#include "core/ir/kernels/saturating.hpp"

namespace lockstep {
namespace {

using saturating::plus;
using saturating::times;
using Table = std::array<KernelRow, kNumKernelKinds>;

/// Removes the brackets from the names of optional operands, and notes that they are optional.
std::vector<std::string_view> take_names(std::vector<OperandRow>& operands) {
  std::vector<std::string_view> names;
  for (OperandRow& operand : operands) {
    operand.optional = operand.name.starts_with('[');
    if (operand.optional) operand.name = operand.name.substr(1, operand.name.size() - 2);
    names.push_back(operand.name);
  }
  return names;
}

void compile(KernelRow& row) {
  const auto in = take_names(row.in), out = take_names(row.out);
  std::vector<std::string_view> dims = row.dims;
  for (std::string_view& dim : dims) {
    if (dim.starts_with('[')) dim = dim.substr(1, dim.size() - 2);
  }
  row.flops.compile(dims, in, out);
  if (row.width) row.width.compile(dims, in, out);
  for (std::vector<OperandRow>* operands : {&row.in, &row.out}) {
    for (OperandRow& operand : *operands) {
      for (Formula* formula :
           {&operand.extent, &operand.moved, &operand.given_if, &operand.updates_if}) {
        formula->compile(dims, in, out);
      }
    }
  }
}

struct Family {
  std::vector<KernelRow> (*rows)();
  bool (*place)(const Kernel&, AxisOperands&) = place_dense;
  KernelUse use = KernelUse::Layers;
};
constexpr Family kFamilies[] = {
    {rows::dense},
    {rows::compression},
    {rows::attention},
    {rows::norms},
    {rows::elementwise},
    {rows::tokens},
    {rows::losses},
    {rows::optimizers, place_update, KernelUse::Update},
    {rows::factors, place_update, KernelUse::Parameters},
    {rows::vision, place_vision},
    {rows::experts, place_experts},
};

/// Makes the table of all rows. Every kind must have exactly one row; anything else is a fault of
/// this program, which is found when it starts.
Table make_table() {
  Table table;
  for (const Family& family : kFamilies) {
    for (KernelRow& row : family.rows()) {
      if (row.place == nullptr) row.place = family.place;
      row.use = family.use;
      KernelRow& place = table[to_size(row.kind)];
      if (!place.name.empty()) throw std::logic_error("two rows: " + std::string(row.name));
      compile(row);
      place = std::move(row);
    }
  }
  for (std::size_t kind = 0; kind < table.size(); ++kind) {
    if (table[kind].name.empty()) throw std::logic_error("no row: kind " + std::to_string(kind));
  }
  return table;
}

/// The row of operand i; null if the operand is absent, or beyond those that the kernel has.
const OperandRow* row_of(const std::vector<Operand>& operands, const std::vector<OperandRow>& rows,
                         std::size_t i) {
  const bool present = i < operands.size() && i < rows.size() && operands[i].present();
  return present ? &rows[i] : nullptr;
}
const OperandRow* input_row(const Kernel& kernel, std::size_t i) {
  return row_of(kernel.in, info(kernel.kind).in, i);
}
const OperandRow* output_row(const Kernel& kernel, std::size_t i) {
  return row_of(kernel.out, info(kernel.kind).out, i);
}

bool is_updated(const OperandRow& row, const Kernel& kernel) {
  return row.effect == Effect::Update && (!row.updates_if || row.updates_if.elements(kernel) != 0);
}

std::int64_t elements_read(const Kernel& kernel, std::size_t i) {
  const OperandRow* row = input_row(kernel, i);
  return row == nullptr ? 0 : (row->moved ? row->moved : row->extent).elements(kernel);
}

std::int64_t elements_updated(const Kernel& kernel, std::size_t i) {
  const OperandRow* row = output_row(kernel, i);
  if (row == nullptr) return 0;
  if (row->moved) return row->moved.elements(kernel);
  const std::int64_t extent = row->extent.elements(kernel);
  return output_is_read(kernel, i) ? times(2, extent) : extent;
}

}  // namespace

std::vector<std::string_view> rows::words(std::string_view text) {
  std::vector<std::string_view> found;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    found.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return found;
}

const KernelRow& info(KernelKind kind) {
  static const Table table = make_table();
  return table[to_size(kind)];
}

bool fits(OperandType type, DType own, DType operand) {
  const auto real = [](DType t) {
    return t == DType::F32 || t == DType::F64 || t == DType::BF16 || t == DType::F16;
  };
  switch (type) {
    case OperandType::Own:
      return operand == own;
    case OperandType::Sums:
      return operand == sum_type(own);
    case OperandType::Mixed:
      return real(operand) && sum_type(operand) == sum_type(own);
    case OperandType::Real:
      return operand == DType::F32 || operand == DType::F64;
    case OperandType::Index:
      return operand == DType::I32;
    case OperandType::Byte:
      return operand == DType::U8;
  }
  return false;
}

DType usual_dtype(OperandType type, DType own) {
  switch (type) {
    case OperandType::Own:
    case OperandType::Mixed:
      return own;
    case OperandType::Sums:
    case OperandType::Real:
      return sum_type(own);
    case OperandType::Index:
      return DType::I32;
    case OperandType::Byte:
      return DType::U8;
  }
  return own;
}

bool types_fit(const Kernel& kernel) {
  const auto all_fit = [&](const std::vector<Operand>& operands,
                           const std::vector<OperandRow>& rows) {
    if (operands.size() > rows.size()) return false;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!operands[i].present()) continue;
      if (!fits(rows[i].type, kernel.dtype, operands[i].dtype)) return false;
    }
    return true;
  };
  const KernelRow& row = info(kernel.kind);
  return all_fit(kernel.in, row.in) && all_fit(kernel.out, row.out);
}

std::int64_t input_elements(const Kernel& kernel, std::size_t i) {
  const OperandRow* row = input_row(kernel, i);
  return row == nullptr ? 0 : row->extent.elements(kernel);
}

std::int64_t output_elements(const Kernel& kernel, std::size_t i) {
  const OperandRow* row = output_row(kernel, i);
  return row == nullptr ? 0 : row->extent.elements(kernel);
}

bool updates_in_place(const Kernel& kernel) {
  for (const OperandRow& row : info(kernel.kind).out) {
    if (is_updated(row, kernel)) return true;
  }
  return false;
}

bool output_is_read(const Kernel& kernel, std::size_t i) {
  const OperandRow* row = output_row(kernel, i);
  if (row == nullptr) return false;
  return (row->effect == Effect::Accumulate && kernel.accumulate) || is_updated(*row, kernel);
}

bool keeps_elements(const Kernel& kernel, std::size_t i) {
  const OperandRow* row = output_row(kernel, i);
  if (row == nullptr || !row->moved) return false;
  // Of rows that are counted there may be fewer than are expected (ragged_gemm).
  const auto& in = info(kernel.kind).in;
  const bool counted = std::any_of(
      in.begin(), in.end(), [](const OperandRow& operand) { return operand.name == "counts"; });
  return counted || row->moved.elements(kernel) < row->extent.elements(kernel);
}

Work operator+(Work a, Work b) { return {a.flops + b.flops, Bytes{plus(a.bytes.v, b.bytes.v)}}; }

Work work(const Kernel& kernel) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < kernel.in.size(); ++i) {
    bytes = plus(bytes, times(elements_read(kernel, i), size_of(kernel.in[i].dtype)));
  }
  for (std::size_t i = 0; i < kernel.out.size(); ++i) {
    bytes = plus(bytes, times(elements_updated(kernel, i), size_of(kernel.out[i].dtype)));
  }
  return {Flops{info(kernel.kind).flops.value(kernel)}, Bytes{bytes}};
}

}  // namespace lockstep
