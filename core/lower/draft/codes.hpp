// Codes: what passes call to send values in a few bits (core/base/block_codes.hpp).
#pragma once

#include "core/lower/draft/program_builder.hpp"

namespace lockstep {

/// Parts of so many values each, in blocks that have a scale.
struct CodedParts {
  std::int64_t elements = 0;  // of a part
  std::int64_t parts = 1;
  std::int64_t block = 1;
  int bits = 8;
  Bytes bytes() const;  // of the codes of all parts
};

/// A function that writes the codes "y" of values "x" of type `from`; those for the first of
/// `targets` ranks come first.
FunctionId to_codes(ProgramBuilder& build, const CodedParts& what, std::int64_t targets,
                    DType from);
/// A function that writes values "x" of type `to`: those of all parts of codes "y", or, of parts
/// that came from several sources, their sums.
FunctionId from_codes(ProgramBuilder& build, const CodedParts& what, std::int64_t sources,
                      DType to);

/// A buffer for codes.
BufferId add_codes(ProgramBuilder& build, Role& role, Bytes bytes, int layer);

}  // namespace lockstep
