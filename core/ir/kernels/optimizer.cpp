// Updates of weights, and the norm of the gradient that clips them.
#include "core/base/float8.hpp"
#include "core/base/quantized_state.hpp"
#include "core/ir/kernels/placement.hpp"
#include "core/ir/kernels/rows.hpp"

namespace lockstep {
namespace {

std::string_view no_blocks(const Kernel& kernel) { return kernel.dims[1] < 1 ? "no blocks" : ""; }

std::string_view wrong_block(const Kernel& kernel) {
  const bool fits = kernel.dims[1] >= 1 && kernel.dims[1] <= kMostOfBlock;
  return fits ? "" : "a block has 1 to 2147483648 elements";
}

std::string_view bad_history(const Kernel& kernel) {
  if (kernel.dims[1] < 1) return "has a history without steps";
  for (const double mantissa : {kernel.scalars[2], kernel.scalars[3]}) {
    if (mantissa != kE4M3 && mantissa != kE5M2) return "has a mantissa of neither 3 nor 2 bits";
  }
  return "";
}

}  // namespace

std::vector<KernelRow> rows::optimizers() {
  return {
      // y = value
      {.kind = K::Fill,
       .name = "fill",
       .dims = words("n"),
       .scalars = words("value"),
       .out = {{"y", "n"}},
       .place = place_fill},
      // y (+)= sum of x
      {.kind = K::Sum,
       .name = "sum",
       .dims = words("n"),
       .in = {{"x", "n"}},
       .out = {{"y", "1", Real, Accumulate}},
       .flops = "n",
       .place = place_sum},
      // y [blocks] (+)= sum of x² over each block of ceil(n / blocks) elements, in their order
      {.kind = K::NormSquared,
       .name = "norm_squared",
       .dims = words("n blocks"),
       .in = {{"x", "n"}},
       .out = {{"y", "blocks", Real, Accumulate}},
       .flops = "2 n",
       .fault = no_blocks,
       .place = place_norm_squared},
      // norm = sqrt(sum of sq, in order) / loss_scale (1 if it is absent); coef = min(1, max_norm /
      // (norm + 1e-6)), or 1 if max_norm is 0. With loss_scale, coef is divided by it, too, and is
      // -1 if the norm is not finite: because a gradient is not, the optimizer is to do nothing.
      {.kind = K::ClipCoefficient,
       .name = "clip_coefficient",
       .dims = words("blocks"),
       .scalars = words("max_norm"),
       .in = {{"sq", "blocks", Real}, {"[loss_scale]", "1", Real}},
       .out = {{"coef", "1", Real}, {"norm", "1", Real}},
       .flops = "blocks",
       .place = place_clip},
      // AdamW (Loshchilov and Hutter 2019) with the gradient grad × coef; the learning rate and the
      // number of the step come from the run (StepContext). If coef is negative, nothing changes.
      // The moments may be of fewer bits than the weights.
      {.kind = K::AdamW,
       .name = "adamw",
       .dims = words("n"),
       .scalars = words("beta1 beta2 eps decay"),
       .in = {{"grad", "n", Mixed}, {"[coef]", "1", Real}},
       .out = {{"w", "n", Own, Update}, {"m", "n", Mixed, Update}, {"v", "n", Mixed, Update}},
       .flops = "16 n",
       .moves_weights = true,
       .may_be_stochastic = true},
      // Adam (Kingma and Ba 2015) with the gradient grad × coef + decay w, likewise
      {.kind = K::Adam,
       .name = "adam",
       .dims = words("n"),
       .scalars = words("beta1 beta2 eps decay"),
       .in = {{"grad", "n", Mixed}, {"[coef]", "1", Real}},
       .out = {{"w", "n", Own, Update}, {"m", "n", Mixed, Update}, {"v", "n", Mixed, Update}},
       .flops = "17 n",
       .efficiency_as = "adamw",
       .moves_weights = true},
      // adamw with moments as quantized states, m with signs and v without (quantized_state.hpp).
      // The weights move by the new moments before these are rounded. Per moment, reading a code
      // takes about 8 operations and finding one 20.
      {.kind = K::AdamW8bit,
       .name = "adamw_8bit",
       .dims = words("n block"),
       .scalars = words("beta1 beta2 eps decay"),
       .in = {{"grad", "n", Mixed}, {"[coef]", "1", Real}},
       .out = {{"w", "n", Own, Update},
               {"m", "4 (n/block) + n", Byte, Update},
               {"v", "4 (n/block) + n", Byte, Update}},
       .flops = "72 n",
       .efficiency_as = "adamw",
       .moves_weights = true,
       .fault = wrong_block},
      // Lion (Chen et al. 2023, algorithm 2) with g = grad × coef: w -= lr × (sign(beta1 m +
      // (1 - beta1) g) + decay w), then m = beta2 m + (1 - beta2) g. If coef is negative, nothing
      // changes.
      {.kind = K::Lion,
       .name = "lion",
       .dims = words("n"),
       .scalars = words("beta1 beta2 decay"),
       .in = {{"grad", "n", Mixed}, {"[coef]", "1", Real}},
       .out = {{"w", "n", Own, Update}, {"m", "n", Mixed, Update}},
       .flops = "11 n",
       .efficiency_as = "adamw",
       .moves_weights = true},
      // b += rate × sign(mean(grad) - grad), where grad is the load of n experts (Wang et al. 2024,
      // algorithm 1; there rate is u). `load` keeps it, for who wants to know. The coefficient only
      // says, if it is negative, that nothing changes.
      {.kind = K::RouterBias,
       .name = "router_bias",
       .dims = words("n"),
       .scalars = words("rate"),
       .in = {{"grad", "n", Mixed}, {"[coef]", "1", Real}},
       .out = {{"b", "n", Own, Update}, {"load", "n", Mixed, Update}},
       .flops = "4 n",
       .efficiency_as = "adamw",
       .moves_weights = true,
       .place = place_measured},
      // Scales that follow from earlier steps (delayed scaling, NVIDIA Transformer Engine's
      // DelayedScaling). `grad` has the largest magnitudes of this step of n tensors, three for
      // each
      // linear layer: x, w, dy. They come first in `history` [n, length], whose last column leaves.
      // The scale of a tensor becomes 2^margin × the least power of two by which the largest
      // magnitude in its history, or the newest if recent is 1, is in the range of its format:
      // `forward` bits of mantissa of x and w, `gradient` of dy. It stays where that magnitude is 0
      // or not finite. If coef is negative, nothing changes; otherwise it means nothing here.
      {.kind = K::DelayedScale,
       .name = "delayed_scale",
       .dims = words("n length"),
       .scalars = words("margin recent forward gradient"),
       .in = {{"grad", "n", Mixed}, {"[coef]", "1", Real}},
       .out = {{"scale", "n", Own, Update}, {"history", "n length", Mixed, Update}},
       .flops = "n length",
       .efficiency_as = "adamw",
       .moves_weights = true,
       .fault = bad_history,
       .place = place_measured},
      // Of Muon (Jordan et al. 2024): m = momentum m + g, with g = grad × coef, and the direction d
      // =
      // g + momentum m if nesterov is 1, m if it is 0. If coef is negative, m stays and d = 0.
      {.kind = K::Momentum,
       .name = "momentum",
       .dims = words("n"),
       .scalars = words("momentum nesterov"),
       .in = {{"grad", "n", Mixed}, {"[coef]", "1", Real}},
       .out = {{"m", "n", Mixed, Update}, {"d", "n", Mixed}},
       .flops = "5 n",
       .efficiency_as = "adamw",
       .place = place_momentum},
      // y = x / (sqrt(sq) + eps); y may alias x
      {.kind = K::Normalize,
       .name = "normalize",
       .dims = words("n"),
       .scalars = words("eps"),
       .in = {{"x", "n"}, {"sq", "1", Real}},
       .out = {{"y", "n"}},
       .flops = "n",
       .efficiency_as = "scale",
       .place = place_normalize},
      // w -= lr × lr_factor × (d + decay w), where d is orthogonal. If coef is negative, nothing
      // changes; otherwise it means nothing here.
      {.kind = K::Muon,
       .name = "muon",
       .dims = words("n"),
       .scalars = words("lr_factor decay"),
       .in = {{"d", "n", Mixed}, {"[coef]", "1", Real}},
       .out = {{"w", "n", Own, Update}},
       .flops = "4 n",
       .efficiency_as = "adamw",
       .moves_weights = true},
      // t = factor × (from - w), or factor × w without `from`: with factor 1 / replicas, a
      // replica's
      // term of the mean over replicas of how far they have come, or of their weights
      {.kind = K::ReplicaTerm,
       .name = "replica_term",
       .dims = words("n"),
       .scalars = words("factor"),
       .in = {{"w", "n", Mixed}, {"[from]", "n"}},
       .out = {{"t", "n"}},
       .flops = "2 n",
       .efficiency_as = "adamw",
       .place = place_replica_term},
      // The outer step of DiLoCo (Douillard et al. 2023) by the mean way d of the replicas: m =
      // momentum m + d; w -= lr × (d + momentum m if nesterov is 1, m if it is 0), as
      // torch.optim.SGD
      {.kind = K::OuterSgd,
       .name = "outer_sgd",
       .dims = words("n"),
       .scalars = words("lr momentum nesterov"),
       .in = {{"d", "n"}},
       .out = {{"w", "n", Own, Update}, {"m", "n", Own, Update}},
       .flops = "6 n",
       .efficiency_as = "adamw",
       .place = place_outer_sgd},
      // v = momentum v + (grad × coef + decay w); w -= lr v (as torch.optim.SGD), likewise
      {.kind = K::Sgd,
       .name = "sgd",
       .dims = words("n"),
       .scalars = words("momentum decay"),
       .in = {{"grad", "n", Mixed}, {"[coef]", "1", Real}},
       .out = {{"w", "n", Own, Update}, {"v", "n", Mixed, Update}},
       .flops = "7 n",
       .moves_weights = true},
  };
}

}  // namespace lockstep
