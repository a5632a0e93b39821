// Unicode: what characters are, as far as BERT's normalization asks (Unicode Character Database).
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// The property White_Space.
bool is_space(std::uint32_t character);
/// A control, a format character or one of private use, but for tab and line ends: what BERT
/// removes.
bool is_no_text(std::uint32_t character);
/// A category P*, or an ASCII character that is neither letter, number nor space ("$", "^").
bool is_punctuation(std::uint32_t character);
/// An ideograph, which BERT makes a word of its own.
bool is_ideograph(std::uint32_t character);

/// The characters that one is without the marks above, below and beside it: those of its canonical
/// decomposition (NFD) that are not of category Mn. Empty for a mark.
std::u32string without_marks(std::uint32_t character);
/// The lower-case letter or letters of a character, whatever stands beside it.
std::u32string lower_case(std::uint32_t character);

}  // namespace lockstep
