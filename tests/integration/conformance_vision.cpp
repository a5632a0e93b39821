// Cases of the kernels of images.
#include "tests/integration/conformance_cases.hpp"

namespace lockstep::test {

using K = KernelKind;

void ConformanceCases::convolution(std::int64_t batch, std::int64_t height, std::int64_t width,
                                   std::int64_t in, std::int64_t out, std::int64_t kernel,
                                   std::int64_t stride) {
  const std::vector<std::int64_t> dims = {batch, height, width, in, out, kernel, stride};
  const std::int64_t pixels = batch * height * width * in, weights = out * kernel * kernel * in;
  const std::int64_t results =
      batch * ((height + stride - 1) / stride) * ((width + stride - 1) / stride) * out;
  const Numbers x = random(pixels), w = random(weights), dy = random(results);
  add({.kind = K::Conv2dForward, .dims = dims, .in = {x, w}});
  add({.kind = K::Conv2dBackwardInput, .dims = dims, .in = {dy, w, {}}});
  add({.kind = K::Conv2dBackwardInput,
       .dims = dims,
       .in = {dy, w, random(pixels)},
       .aliases = {2}});
  add({.kind = K::Conv2dBackwardWeight, .dims = dims, .in = {dy, x}});
  for (const char* wide : {"", "w"}) {
    add({.kind = K::Conv2dBackwardWeight,
         .dims = dims,
         .in = {dy, x},
         .initial = {random(weights)},
         .accumulate = true,
         .wide_out = wide});
  }
}

void ConformanceCases::batch_norm(std::int64_t rows, std::int64_t cols) {
  const std::vector<std::int64_t> dims = {rows, cols};
  const Numbers x = random(rows * cols, 3.0, 0.5), w = random(cols), b = random(cols);
  const Numbers dy = random(rows * cols), resid = random(rows * cols);
  const ConformanceCase statistics{
      .kind = K::BatchNormStatistics, .dims = dims, .in = {x}, .wide_out = "w"};
  const Numbers stats = outputs(statistics)[0];
  const ConformanceCase gradients{.kind = K::BatchNormBackwardSums,
                                  .dims = dims,
                                  .scalars = {1e-5},
                                  .in = {dy, x, stats},
                                  .wide_in = "--w",
                                  .wide_out = "w"};
  const Numbers sums = outputs(gradients)[0];
  add(statistics);
  add(gradients);
  add({.kind = K::BatchNormForward,
       .dims = dims,
       .scalars = {1e-5},
       .in = {x, w, b, stats, {}},
       .wide_in = "---w"});
  add({.kind = K::BatchNormForward,
       .dims = dims,
       .scalars = {1e-5},
       .in = {x, w, b, stats, resid},
       .wide_in = "---w"});
  for (const int alias : {-1, 0}) {
    add({.kind = K::BatchNormBackwardInput,
         .dims = dims,
         .scalars = {1e-5, static_cast<double>(rows)},
         .in = {dy, x, w, stats, sums},
         .aliases = {alias},
         .wide_in = "---ww"});
  }
  add({.kind = K::BatchNormCombine,
       .dims = {3, cols},
       .in = {random(6 * cols, 0.5, 1.0)},
       .wide_in = "w",
       .wide_out = "w"});
  for (const char* wide : {"", "w"}) {
    add({.kind = K::BatchNormRunning,
         .dims = {cols},
         .scalars = {0.1, 8.0 / 7},
         .in = {stats},
         .initial = {random(2 * cols)},
         .wide_in = "w",
         .wide_out = wide});
  }
  add({.kind = K::BatchNormBackwardWeight, .dims = {cols}, .in = {sums}, .wide_in = "w"});
  add({.kind = K::BatchNormBackwardWeight,
       .dims = {cols},
       .in = {sums},
       .initial = {random(cols), random(cols)},
       .accumulate = true,
       .wide_in = "w",
       .wide_out = "ww"});
}

void ConformanceCases::pooling(std::int64_t batch, std::int64_t height, std::int64_t width,
                               std::int64_t channels, std::int64_t stride) {
  const std::vector<std::int64_t> dims = {batch, height, width, channels, 3, stride};
  const std::int64_t results =
      batch * ((height + stride - 1) / stride) * ((width + stride - 1) / stride) * channels;
  const Numbers x = ids(batch * height * width * channels, 4);  // few values: windows hold equals
  add({.kind = K::MaxPoolForward, .dims = dims, .in = {x}});
  add({.kind = K::MaxPoolBackward, .dims = dims, .in = {random(results), x}});
  const std::vector<std::int64_t> all = {batch, height * width, channels};
  add({.kind = K::AveragePoolForward, .dims = all, .in = {random(std::ssize(x))}});
  add({.kind = K::AveragePoolBackward, .dims = all, .in = {random(batch * channels)}});
}

}  // namespace lockstep::test
