// Cross-entropy, whole and over a vocabulary that is divided among ranks.
#include "core/ir/kernels/rows.hpp"

namespace lockstep {

std::vector<KernelRow> rows::losses() {
  return {
      // loss (+)= scale × sum over rows of -log softmax(logits)[target]
      // A row whose target is kIgnoredTarget (core/base/documents.hpp) counts as 0, here and below.
      // dlogits = scale × loss_scale (1 if it is absent) × the gradient of that sum; dlogits may
      // alias logits
      {.kind = K::CrossEntropy,
       .name = "cross_entropy",
       .dims = words("rows cols"),
       .scalars = words("scale"),
       .in = {{"logits", "rows cols"}, {"targets", "rows", Index}, {"[loss_scale]", "1", Real}},
       .out = {{"dlogits", "rows cols"}, {"loss", "1", Real, Accumulate}},
       .flops = "6 rows cols"},
      // stats [rows, 3] of one part of the vocabulary: the largest logit, the sum of exp(logit -
      // largest), and the logit of the target, or -infinity if the target lies outside [0, cols).
      //   columns [1]: how many of the cols count; all if it is absent
      {.kind = K::CrossEntropyStats,
       .name = "cross_entropy_stats",
       .dims = words("rows cols"),
       .in = {{"logits", "rows cols"}, {"targets", "rows", Index}, {"[columns]", "1", Index}},
       .out = {{"stats", "rows 3", Sums}},
       .flops = "4 rows cols"},
      // The loss of cross_entropy over the whole vocabulary, and dlogits of this part of it, from
      // stats [parts, rows, 3] of all parts. dlogits is zero from `columns` on, and may alias
      // logits.
      {.kind = K::CrossEntropyParallel,
       .name = "cross_entropy_parallel",
       .dims = words("rows cols parts"),
       .scalars = words("scale"),
       .in = {{"logits", "rows cols"},
              {"targets", "rows", Index},
              {"stats", "parts rows 3", Sums},
              {"[columns]", "1", Index},
              {"[loss_scale]", "1", Real}},
       .out = {{"dlogits", "rows cols"}, {"loss", "1", Real, Accumulate}},
       .flops = "3 rows cols"},
  };
}

}  // namespace lockstep
