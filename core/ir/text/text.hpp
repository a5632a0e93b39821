// Program text: a program as text with one line per op, such that parse_program(print(p)) == p.
// docs/program-text.md has the grammar.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

std::string print(const Program& program);  // the same bytes for a program on any machine
std::string print_role(const Program& program, RoleId role);
/// Parses a program; `file` names the text in errors.
Result<Program> parse_program(std::string_view text, std::string_view file = "program.txt");

/// The identity of a program: the 64-bit FNV-1a of print(program), as 16 hex digits.
std::string program_hash(const Program& program);

}  // namespace lockstep
