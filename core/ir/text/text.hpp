// Program text: one line per op, stable, parseable; parse_program(print(p)) == p.
// Grammar: docs/program-text.md.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

std::string print(const Program& program);  // same program, same bytes, on any machine
std::string print_role(const Program& program, RoleId role);
/// `file` names the text in errors.
Result<Program> parse_program(std::string_view text, std::string_view file = "program.txt");

/// 64-bit FNV-1a of print(program), as 16 hex digits: the identity of a program.
std::string program_hash(const Program& program);

}  // namespace lockstep
