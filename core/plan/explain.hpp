// Explain: why layouts lose, in numbers; and how sure the order of layouts is.
#pragma once

#include <optional>
#include <string>

#include "core/base/units.hpp"
#include "core/plan/best_first.hpp"

namespace lockstep {

/// The one reason why `other` is slower than `best`: the part of a step in which it takes most more
/// (computation, the pipeline's bubble, exposed communication and the update), as a part of the
/// best's step, and what of the layout is to blame: "+12 % bubble: pp 16 instead of 4". Empty if
/// no part takes more.
std::string why_slower(const EstimatedLayout& best, const EstimatedLayout& other);

/// The same of a family without a layout that is known to fit and could win: what it takes or needs
/// at least.
std::string why_lost(const LostFamily& family, const EstimatedLayout& best, Bytes capacity);

/// The probability that the layout that takes less time as simulated does so when it is measured.
/// Requires a <= b. The errors of two layouts of one model on one cluster differ by a normal
/// deviation of kOrderDeviation.
double certainty(Seconds a, Seconds b);

/// How sure it is that the first of the layouts that were simulated is the fastest; nullopt where
/// there is no other, or it is not the fastest.
std::optional<double> probability_of_first(const SpaceResult& result);

/// The standard deviation of the difference of two errors, simulated / measured. Nine in ten of the
/// published runs are within 11.8 % and half within 3.7 % (docs/validation.md), which a normal
/// deviation of 6.4 % lies between; of a difference of two that are independent it is √2 times
/// that.
inline constexpr double kOrderDeviation = 0.09;

}  // namespace lockstep
