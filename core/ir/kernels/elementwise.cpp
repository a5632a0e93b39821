// Activations, sums of tensors, rearrangement, constants, and time that passes.
#include <cmath>

#include "core/ir/kernels/placement.hpp"
#include "core/ir/kernels/rows.hpp"

namespace lockstep {

namespace {

std::string_view bad_dropout(const Kernel& kernel) {
  const auto [share, place, a, b] = kernel.scalars;
  if (!(share >= 0 && share < 1)) return "drops a share that is not in [0, 1)";
  return place >= 0 && place < 8 && place == std::floor(place) ? "" : "has no place of 0 to 7";
}

std::string_view bad_cap(const Kernel& kernel) {
  return kernel.scalars[0] > 0 && std::isfinite(kernel.scalars[0]) ? "" : "has no positive cap";
}

}  // namespace

std::vector<KernelRow> rows::elementwise() {
  return {
      // y = gelu(x), its tanh form
      {.kind = K::GeluForward,
       .name = "gelu_forward",
       .dims = words("n"),
       .in = {{"x", "n"}},
       .out = {{"y", "n"}},
       .flops = "9 n"},
      // dx = dy gelu'(x); dx may alias dy
      {.kind = K::GeluBackward,
       .name = "gelu_backward",
       .dims = words("n"),
       .in = {{"dy", "n"}, {"x", "n"}},
       .out = {{"dx", "n"}},
       .flops = "17 n"},
      // y = max(x, 0)²
      {.kind = K::SquaredReluForward,
       .name = "squared_relu_forward",
       .dims = words("n"),
       .in = {{"x", "n"}},
       .out = {{"y", "n"}},
       .flops = "2 n",
       .efficiency_as = "gelu_forward"},
      // dx = 2 dy max(x, 0); dx may alias dy
      {.kind = K::SquaredReluBackward,
       .name = "squared_relu_backward",
       .dims = words("n"),
       .in = {{"dy", "n"}, {"x", "n"}},
       .out = {{"dx", "n"}},
       .flops = "3 n",
       .efficiency_as = "gelu_backward"},
      // y = cap tanh(x / cap)
      {.kind = K::SoftcapForward,
       .name = "softcap_forward",
       .dims = words("n"),
       .scalars = words("cap"),
       .in = {{"x", "n"}},
       .out = {{"y", "n"}},
       .flops = "6 n",
       .efficiency_as = "gelu_forward",
       .fault = bad_cap},
      // dx = dy (1 - tanh²(x / cap)); dx may alias dy
      {.kind = K::SoftcapBackward,
       .name = "softcap_backward",
       .dims = words("n"),
       .scalars = words("cap"),
       .in = {{"dy", "n"}, {"x", "n"}},
       .out = {{"dx", "n"}},
       .flops = "8 n",
       .efficiency_as = "gelu_backward",
       .fault = bad_cap},
      // y [rows, cols] = silu(x[:, :cols]) x[:, cols:], of x [rows, 2 cols]
      {.kind = K::SwigluForward,
       .name = "swiglu_forward",
       .dims = words("rows cols"),
       .in = {{"x", "rows 2 cols"}},
       .out = {{"y", "rows cols"}},
       .flops = "6 rows cols"},
      // dx [rows, 2 cols]: the gradient of swiglu_forward
      {.kind = K::SwigluBackward,
       .name = "swiglu_backward",
       .dims = words("rows cols"),
       .in = {{"dy", "rows cols"}, {"x", "rows 2 cols"}},
       .out = {{"dx", "rows 2 cols"}},
       .flops = "12 rows cols"},
      // y [rows, cols] = gelu(x[:, :cols]) x[:, cols:], of x [rows, 2 cols]
      {.kind = K::GegluForward,
       .name = "geglu_forward",
       .dims = words("rows cols"),
       .in = {{"x", "rows 2 cols"}},
       .out = {{"y", "rows cols"}},
       .flops = "10 rows cols",
       .efficiency_as = "swiglu_forward"},
      // dx [rows, 2 cols]: the gradient of geglu_forward
      {.kind = K::GegluBackward,
       .name = "geglu_backward",
       .dims = words("rows cols"),
       .in = {{"dy", "rows cols"}, {"x", "rows 2 cols"}},
       .out = {{"dx", "rows 2 cols"}},
       .flops = "20 rows cols",
       .efficiency_as = "swiglu_backward"},
      // y = max(x, 0); y may alias x
      {.kind = K::ReluForward,
       .name = "relu_forward",
       .dims = words("n"),
       .in = {{"x", "n"}},
       .out = {{"y", "n"}},
       .flops = "n"},
      // dx = dy where y > 0, else 0; dx may alias dy
      {.kind = K::ReluBackward,
       .name = "relu_backward",
       .dims = words("n"),
       .in = {{"dy", "n"}, {"y", "n"}},
       .out = {{"dx", "n"}},
       .flops = "n"},
      // y = x + resid + bias (to each row). A bias of as many columns as an image has elements adds
      // the same to every image.
      {.kind = K::Add,
       .name = "add",
       .dims = words("rows cols"),
       .in = {{"x", "rows cols"}, {"[resid]", "rows cols"}, {"[bias]", "cols"}},
       .out = {{"y", "rows cols"}},
       .flops = "([resid] + [bias]) rows cols"},
      // y = resid + kept (x + bias) / (1 - share), where an element is kept or dropped by its row's
      // key, the layer of the op, `place` in the layer and the column (core/base/dropout.hpp). If
      // the columns are a part of a row, they count from part × cols on. Of rows with a negative
      // key nothing is dropped: y = resid + x + bias. y may alias x or resid.
      {.kind = K::Dropout,
       .name = "dropout",
       .dims = words("rows cols"),
       .scalars = words("share place"),
       .in = {{"x", "rows cols"},
              {"keys", "rows", Index},
              {"[resid]", "rows cols"},
              {"[bias]", "cols"},
              {"[part]", "1", Index}},
       .out = {{"y", "rows cols"}},
       .flops = "(2 + [resid] + [bias]) rows cols",
       .efficiency_as = "add",
       .fault = bad_dropout},
      // y = factor x; y may alias x
      {.kind = K::Scale,
       .name = "scale",
       .dims = words("n"),
       .scalars = words("factor"),
       .in = {{"x", "n"}},
       .out = {{"y", "n"}},
       .flops = "n"},
      // x [rows, skip + parts (a + b + c)] has, behind `skip` columns, sections of parts × a, parts
      // × b and parts × c columns. y [parts, rows, a + b + c] has, for each p, the p-th part of
      // every section. If inverse is 1, it is the other way round: y has the columns of x, and its
      // first `skip` columns stay as they are.
      {.kind = K::Regroup,
       .name = "regroup",
       .dims = words("rows parts a b c inverse skip"),
       .in = {{.name = "x",
               .extent = "rows (parts (a + b + c) + skip !inverse)",
               .moved = "rows parts (a + b + c)"}},
       .out = {{.name = "y",
                .extent = "rows (parts (a + b + c) + skip !!inverse)",
                .effect = Update,
                .moved = "rows parts (a + b + c)",
                .updates_if = "inverse skip"}}},
      // y [rows, a + b]: the rows of x [rows, a], each followed by that of z [rows, b]
      {.kind = K::JoinColumns,
       .name = "join_columns",
       .dims = words("rows a b"),
       .in = {{"x", "rows a"}, {"z", "rows b"}},
       .out = {{"y", "rows (a + b)"}}},
      // The reverse of join_columns.
      {.kind = K::PartColumns,
       .name = "part_columns",
       .dims = words("rows a b"),
       .in = {{"y", "rows (a + b)"}},
       .out = {{"x", "rows a"}, {"z", "rows b"}}},
      // Does nothing for so many seconds; for layers of which only the time is known.
      {.kind = K::Delay, .name = "delay", .scalars = words("seconds")},
  };
}

}  // namespace lockstep
