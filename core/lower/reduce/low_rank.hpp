// Low rank: gradients that are summed as products of low rank (PowerSGD, Vogels et al. 2019).
#pragma once

#include "core/lower/draft/draft.hpp"

namespace lockstep {

/// Declares what units keep whose gradients are summed over `group` (invalid: the rank is alone),
/// and says which of their parameters are worth it: a matrix [n, m] of rank r if (n + m) r times
/// the least rate of compression is less than n m, as in PyTorch's powerSGD_hook.
void declare_low_rank(Draft& draft, DraftRole& out, std::size_t unit, GroupId group);

/// A parameter of a bucket: a unit of the role, and an index among the unit's parameters.
struct BucketPart {
  std::size_t unit = 0, parameter = 0;
};

/// Inserts at `place` what sums the gradients of a bucket over `group`: of those that are worth it,
/// the ranks add up left factors, make these bases, add up right factors, and take the products;
/// all others are copied together and added up as they are.
void sum_low_rank(Draft& draft, DraftRole& out, const std::vector<BucketPart>& bucket,
                  GroupId group, std::size_t place, std::vector<Insertion>& insertions);

}  // namespace lockstep
