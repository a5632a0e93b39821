#include "core/model/function_builder.hpp"

#include <string>

#include "tests/catch.hpp"

using namespace lockstep;

namespace {

constexpr std::int64_t kRows = 8, kIn = 4, kOut = 6;

/// A column-parallel layer without bias: y = x · wᵀ; backward sums dx over "tp" and computes dw.
FunctionBuilder column_parallel() {
  FunctionBuilder f("layer", DType::F32, DType::F32);
  const TensorId x = f.formal("x", kRows * kIn);
  const TensorId w = f.inside("w", 0, kIn * kOut, kIn * kOut);
  const TensorId gw = f.inside("gw", 0, kIn * kOut, kIn * kOut);
  const TensorId y = f.formal("y", kRows * kOut);
  const TensorId h = f.tensor(kRows * kIn);
  f.emit(Part::Forward, KernelKind::GeluForward, {{kRows * kIn}, {}, {x}, {h}});
  f.linear_forward(kRows, kIn, kOut, h, w, {}, {}, y);
  const TensorId dy = f.formal("dy", kRows * kOut);
  const TensorId dx = f.formal("dx", kRows * kIn);
  const TensorId dh = f.tensor(kRows * kIn, "dh");
  f.linear_backward(kRows, kIn, kOut, dy, h, w, dh, {}, {});
  f.communicate(Part::InputGrad, OpKind::AllReduce, "tp", dh, dh);
  f.linear_backward(kRows, kIn, kOut, dy, h, w, {}, gw, {});
  f.emit(Part::InputGrad, KernelKind::GeluBackward, {{kRows * kIn}, {}, {dh, x}, {dx}});
  return f;
}

std::string summary(const std::vector<LayerStep>& steps) {
  std::string text;
  for (const LayerStep& step : steps) {
    text += text.empty() ? "" : "; ";
    if (const auto* c = std::get_if<Communication>(&step)) {
      text += std::string(to_string(c->kind)) + " " + c->axis + " " + c->in.name;
      if (c->out.name != c->in.name) text += " -> " + c->out.name;
      continue;
    }
    const auto& function = std::get<Function>(step);
    text += function.name.text();
    for (const Kernel& kernel : function.kernels) text += " " + std::string(info(kernel.kind).name);
  }
  return text;
}

const Formal& formal(const LayerStep& step, const std::string& name) {
  for (const Formal& formal : std::get<Function>(step).formals) {
    if (formal.name == name) return formal;
  }
  FAIL("no formal " << name);
  throw;
}

}  // namespace

TEST_CASE("a part without communication is one function", "[core][model]") {
  CHECK(summary(column_parallel().forward()) == "layer.F gelu_forward gemm");
}

TEST_CASE("what does not need a communication's result is a segment beside it", "[core][model]") {
  const FunctionBuilder f = column_parallel();
  const std::vector<LayerStep> steps = f.backward({"gw"});
  CHECK(summary(steps) ==
        "layer.B gemm; all_reduce tp dh; layer.B.1+gw gemm; layer.B.2 gelu_backward");
  const auto& sum = std::get<Communication>(steps[1]);
  CHECK(sum.in == Formal{"dh", Access::ReadWrite, Bytes{4 * kRows * kIn}});
  CHECK(formal(steps[0], "dh").access == Access::Write);
  CHECK(formal(steps[2], "gw").access == Access::ReadWrite);
  CHECK(formal(steps[3], "dh").access == Access::Read);
  for (const Formal& formal : std::get<Function>(steps[2]).formals) CHECK(formal.name != "dh");
  CHECK_FALSE(f.outlives_part("dh"));
}

TEST_CASE("in a split backward each part has its own kernels and communications", "[core][model]") {
  const FunctionBuilder f = column_parallel();
  CHECK(summary(f.backward(Part::InputGrad, {})) ==
        "layer.I gemm; all_reduce tp dh; layer.I.1 gelu_backward");
  CHECK(summary(f.backward(Part::WeightGrad, {})) == "layer.W gemm");
}

TEST_CASE("a communication of the whole backward runs once in B, and in I and W each",
          "[core][model]") {
  // Row-parallel with its output in shards: dy is gathered for both gradients.
  FunctionBuilder f("layer", DType::F32, DType::F32);
  const TensorId h = f.formal("x", kRows * kIn);
  const TensorId w = f.inside("w", 0, kIn * kOut, kIn * kOut);
  const TensorId gw = f.inside("gw", 0, kIn * kOut, kIn * kOut);
  const TensorId dy = f.formal("dy", kRows / 2 * kOut);
  const TensorId all = f.tensor(kRows * kOut, "dy_all");
  const TensorId dx = f.formal("dx", kRows * kIn);
  f.communicate(Part::Backward, OpKind::AllGather, "tp", dy, all);
  f.linear_backward(kRows, kIn, kOut, all, h, w, dx, gw, {});
  const std::string gather = "all_gather tp dy -> dy_all; ";
  CHECK(summary(f.backward({})) == gather + "layer.B gemm gemm");
  CHECK(summary(f.backward(Part::InputGrad, {})) == gather + "layer.I gemm");
  CHECK(summary(f.backward(Part::WeightGrad, {})) == gather + "layer.W gemm");
  CHECK_FALSE(f.outlives_part("dy_all"));  // gathered again rather than kept
}

TEST_CASE("the segments of a part share one scratch buffer and keep out of each other's values",
          "[core][model]") {
  // s is written before the communication and read after it; t lives in between.
  FunctionBuilder f("layer", DType::F32, DType::F32);
  const TensorId x = f.formal("x", 64);
  const TensorId y = f.formal("y", 64);
  const TensorId s = f.tensor(64);
  const TensorId t = f.tensor(64);
  const TensorId c = f.tensor(64, "c");
  f.emit(Part::Forward, KernelKind::GeluForward, {{64}, {}, {x}, {s}});
  f.emit(Part::Forward, KernelKind::GeluForward, {{64}, {}, {x}, {c}});
  f.communicate(Part::Forward, OpKind::AllReduce, "tp", c, c);
  f.emit(Part::Forward, KernelKind::GeluForward, {{64}, {}, {s}, {t}});
  f.emit(Part::Forward, KernelKind::GeluBackward, {{64}, {}, {t, s}, {t}});
  f.emit(Part::Forward, KernelKind::GeluBackward, {{64}, {}, {c, t}, {y}});
  const std::vector<LayerStep> steps = f.forward();
  REQUIRE(summary(steps) ==
          "layer.F gelu_forward gelu_forward; all_reduce tp c; "
          "layer.F.1 gelu_forward gelu_backward; layer.F.2 gelu_backward");
  for (std::size_t i : {0u, 2u, 3u}) CHECK(formal(steps[i], "ws").bytes.v == 2 * 4 * 64);
  CHECK(formal(steps[0], "ws").access == Access::Write);
  CHECK(formal(steps[2], "ws").access == Access::ReadWrite);
  CHECK(formal(steps[3], "ws").access == Access::Read);
  const Kernel& makes_t = std::get<Function>(steps[2]).kernels[0];
  CHECK(makes_t.in[0].offset != makes_t.out[0].offset);
}

TEST_CASE("what another's kernels keep is room beside a saved tensor, and no kernel's operand",
          "[core][model]") {
  const auto build = [](FunctionBuilder& f, std::int64_t bytes) {
    const TensorId x = f.formal("x", 64), y = f.formal("y", 64), dy = f.formal("dy", 64),
                   dx = f.formal("dx", 64);
    const TensorId h = f.tensor(64);
    f.emit(Part::Forward, KernelKind::GeluForward, {{64}, {}, {x}, {h}});
    f.emit(Part::Forward, KernelKind::GeluForward, {{64}, {}, {h}, {y}});
    f.emit(Part::InputGrad, KernelKind::GeluBackward, {{64}, {}, {dy, h}, {dx}});
    f.keep(bytes, h);
  };
  FunctionBuilder with("layer", DType::F32, DType::F32), without = with, dropping = with;
  build(without, 0);
  build(with, 4096);
  build(dropping, 4096);
  const auto saved = [](const FunctionBuilder& f) {
    return formal(f.forward().front(), "saved").bytes.v;
  };
  CHECK(saved(without) == 64 * 4);
  CHECK(saved(with) == 64 * 4 + 4096);
  CHECK(formal(with.backward({}).front(), "saved").bytes.v == 64 * 4 + 4096);
  CHECK(summary(with.forward()) == summary(without.forward()));
  Recompute everything;
  everything.parts = everything.to_end = ForwardParts::all();
  dropping.recompute(everything);  // then it is computed again with the tensor beside it
  CHECK(formal(dropping.recomputation().front(), "recomputed").bytes.v == 64 * 4 + 4096);
}
