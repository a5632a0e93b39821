// The rows of kernels by family. A family's file holds, for each kernel, its definition as a
// comment and its row; kernel.cpp joins them into the table behind info().
//
// An operand is written {name, extent, type, effect}: "[name]" may be absent; the type is the
// kernel's own and the effect on an output is to overwrite it unless something else is said.
// Extents, counts and conditions are formulas in the row's dimensions (formula.hpp).
#pragma once

#include <string_view>
#include <vector>

#include "core/ir/kernels/kernel.hpp"

namespace lockstep::rows {

using K = KernelKind;
using enum OperandType;
using enum Effect;

std::vector<KernelRow> dense();
std::vector<KernelRow> attention();
std::vector<KernelRow> norms();
std::vector<KernelRow> elementwise();
std::vector<KernelRow> tokens();
std::vector<KernelRow> losses();
std::vector<KernelRow> optimizers();
std::vector<KernelRow> vision();
std::vector<KernelRow> experts();

/// "m n k" -> m, n, k.
std::vector<std::string_view> words(std::string_view text);

}  // namespace lockstep::rows
