// Rows: the rows of kernels, by family. The file of a family holds, for each kernel, its definition
// as a comment and its row; kernel.cpp joins them to the table behind info().
// An operand is written {name, extent, type, effect}. One that is written "[name]" may be absent.
// Likewise, a dimension or scalar "[name]" is usually 0, and is in the text of a program only where
// it is not.
// Unless something else is said, the type is the kernel's own, and an output is overwritten.
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
std::vector<KernelRow> compression();
std::vector<KernelRow> attention();
std::vector<KernelRow> norms();
std::vector<KernelRow> elementwise();
std::vector<KernelRow> tokens();
std::vector<KernelRow> losses();
std::vector<KernelRow> optimizers();
std::vector<KernelRow> factors();
std::vector<KernelRow> vision();
std::vector<KernelRow> experts();

/// "m n k" -> m, n, k.
std::vector<std::string_view> words(std::string_view text);

}  // namespace lockstep::rows
