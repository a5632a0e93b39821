#include "core/cost/loading.hpp"

#include <algorithm>

namespace lockstep {

LoadingPace loading_pace(std::int64_t per_step, std::int64_t microbatch,
                         const DataLoaderSpec& loader) {
  const double each = loader.sample.v / std::max(1, loader.num_workers);
  return {Seconds{each * static_cast<double>(microbatch)},
          Seconds{each * static_cast<double>(per_step)},
          loader.num_workers * loader.prefetch_factor};
}

LoadingPace loading_pace(const Program& program, const DataLoaderSpec& loader) {
  const Samples& samples = program.input.samples;
  if (samples.kind == SampleKind::None) return {};
  std::int64_t replicas = 1;
  for (const int dim : samples.over) replicas *= program.mesh.dims[dim].size;
  return loading_pace(samples.per_step / replicas, samples.microbatch, loader);
}

}  // namespace lockstep
