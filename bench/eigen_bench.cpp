// Measures Eigen's matrix products at GPT-2 124M's shapes on one thread, compiled for this machine.
// The products of backends/cpu (cpu_kernels_bench) must be faster to be worth their lines.
#include <benchmark/benchmark.h>

#include <Eigen/Core>

namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Measures a product: pass 0 is forward (NT), 1 the input gradient (NN), 2 the weight gradient
/// (TN).
void gemm(benchmark::State& state, Eigen::Index out, Eigen::Index in, int pass) {
  const Eigen::Index tokens = state.range(0);
  const Matrix x = Matrix::Constant(tokens, in, 0.5f);
  const Matrix w = Matrix::Constant(out, in, 0.5f);
  const Matrix dy = Matrix::Constant(tokens, out, 0.5f);
  Matrix y = Matrix::Zero(pass == 2 ? out : tokens, pass == 0 ? out : in);
  for (auto _ : state) {
    if (pass == 0) y.noalias() = x * w.transpose();
    if (pass == 1) y.noalias() = dy * w;
    if (pass == 2) y.noalias() += dy.transpose() * x;
    benchmark::DoNotOptimize(y.data());
  }
  state.counters["FLOP/s"] = benchmark::Counter(
      2.0 * double(tokens) * double(out) * double(in) * double(state.iterations()),
      benchmark::Counter::kIsRate);
}
#define LOCKSTEP_EIGEN_BENCH(name, out, in)                             \
  BENCHMARK_CAPTURE(gemm, name##_forward, out, in, 0)->Arg(256);        \
  BENCHMARK_CAPTURE(gemm, name##_input_gradient, out, in, 1)->Arg(256); \
  BENCHMARK_CAPTURE(gemm, name##_weight_gradient, out, in, 2)->Arg(256)
LOCKSTEP_EIGEN_BENCH(qkv, 2304, 768);
LOCKSTEP_EIGEN_BENCH(proj, 768, 768);
LOCKSTEP_EIGEN_BENCH(fc, 3072, 768);
LOCKSTEP_EIGEN_BENCH(fcproj, 768, 3072);
LOCKSTEP_EIGEN_BENCH(logits, 50257, 768);

}  // namespace

BENCHMARK_MAIN();
