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

/// The identity of a program, as 16 hex digits: a 64-bit hash of all that print(program) says,
/// which is the same on any machine. The lists of buffers and ops are hashed as numbers, without
/// printing them, because every run reports the hash.
std::string program_hash(const Program& program);

}  // namespace lockstep
