// Cases for every kind of kernel with random shapes.
#include "tests/integration/conformance_cases.hpp"

namespace lockstep::test {

std::int64_t ConformanceCases::between(std::int64_t least, std::int64_t most) {
  return least + static_cast<std::int64_t>(engine_() % static_cast<unsigned>(most - least + 1));
}

void ConformanceCases::random_shapes() {
  const auto heads_of = [&](std::int64_t kv_heads) { return kv_heads * between(1, 3); };
  gemm(between(1, 40), between(1, 40), between(1, 40));
  std::int64_t kv_heads = between(1, 3);
  attention(between(1, 3), between(1, 40), heads_of(kv_heads), kv_heads, between(1, 40));
  kv_heads = between(1, 2);
  gathered_attention(between(1, 2), 2 * between(1, 12), heads_of(kv_heads), kv_heads,
                     between(1, 24), between(1, 4));
  // With fewer columns, a norm's gradient consists of rounding errors.
  norm(true, between(1, 20), between(5, 90));
  norm(false, between(1, 20), between(5, 90));
  head_norm(between(1, 20), 6, between(1, 2) * 3, between(2, 40));
  rows_and_columns(between(1, 30), between(1, 90));
  const std::int64_t parts = between(1, 5);
  cross_entropy_parts(between(1, 12), between(parts, 90), parts);
  line(between(1, 3000));
  clip(between(1, 50), between(0, 2));
  embedding(between(1, 60), between(1, 40), between(1, 20), between(1, 40));
  const std::int64_t heads = between(1, 4);
  rope(between(1, 3), between(1, 20), heads, 2 * between(1, 16), heads + between(0, 3));
  regroup(between(1, 20), between(1, 5), between(1, 20), between(0, 9), between(0, 20));
  grouped_gemm(between(1, 5), between(1, 3), between(1, 30), between(1, 30), between(1, 30));
  const std::int64_t experts = between(1, 9);
  route(between(1, 70), experts, between(1, experts), between(1, 30), between(1, 40));
  convolution(between(1, 3), between(1, 9), between(1, 9), between(1, 20), between(1, 20),
              2 * between(0, 3) + 1, between(1, 3));
  // Two rows that are nearly equal leave nothing of their gradient but rounding.
  batch_norm(between(4, 60), between(1, 60));
  pooling(between(1, 3), between(1, 9), between(1, 9), between(1, 40), between(1, 3));
}

}  // namespace lockstep::test
