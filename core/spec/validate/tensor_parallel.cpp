#include "core/spec/validate/faults.hpp"

namespace lockstep {

namespace {

/// Gathers and scatters in parts beside products.
void validate_chunks(const Scenario& s, Faults& faults) {
  const std::string key = "parallelism.tensor_parallel_chunks";
  const int chunks = s.strategy.tensor_parallel_chunks;
  if (chunks == 1) return;
  const std::string given = "tensor_parallel_chunks=" + std::to_string(chunks);
  if (!s.strategy.sequence_parallel()) {
    return faults.add(key,
                      given +
                          ": without sequence parallelism nothing is gathered before a product "
                          "or scattered behind it; set enable_sequence_parallel=true and a "
                          "tensor_parallel_degree above 1, or leave the key out");
  }
  if (s.cluster.framework.overlaps_products) {
    faults.refuse(key, given +
                           " with framework.overlaps_products=true: both say how gathers run "
                           "beside products, and these would be hidden twice; set "
                           "overlaps_products=false, or leave tensor_parallel_chunks out");
  }
  if (s.training.fp8 != Fp8Format::None && s.training.fp8_block() == 0) {
    faults.refuse(key,
                  given +
                      " with one scale of a whole tensor (training.fp8_recipe): the scale is known "
                      "only when all rows have come; choose a recipe with blocks, or leave "
                      "tensor_parallel_chunks out");
  }
  const std::int64_t rows = std::int64_t{s.microbatch_size()} * s.own_seq_len();
  const std::int64_t own = rows / s.strategy.tensor_parallel_degree;
  if (rows % s.strategy.tensor_parallel_degree == 0 && own % chunks != 0) {
    faults.add(key, given + " does not divide the " + std::to_string(own) +
                        " rows that a rank holds of a microbatch between products (sequences × "
                        "seq_len / tensor_parallel_degree)");
  }
}

}  // namespace

void validate_tensor_parallel(const Scenario& s, Faults& faults) {
  validate_chunks(s, faults);
  const ModelSpec& m = s.model;
  const int tp = s.strategy.tensor_parallel_degree;
  if (tp == 1) return;
  const std::string degree = "tensor_parallel_degree=" + std::to_string(tp);
  const std::string key = "parallelism.tensor_parallel_degree";
  if (m.architecture == Architecture::Synthetic) {
    return faults.add(key, degree + ": the synthetic model has given times and nothing to divide");
  }
  const auto divides = [&](const char* what, std::int64_t value, const char* why) {
    if (value % tp == 0) return;
    faults.add(key, degree + " does not divide " + what + "=" + std::to_string(value) + ": " + why);
  };
  if (m.is_vision() && s.strategy.enable_sequence_parallel) {
    faults.refuse(
        "parallelism.enable_sequence_parallel",
        "sequence parallelism divides sequences of text, and the model reads images: give "
        "enable_sequence_parallel = false");
  }
  if (m.has_batch_norm()) {
    divides("width", m.width,
            "every rank computes as many channels of a block's first convolution");
    return;
  }
  divides("heads", m.heads, "every rank computes as many attention heads");
  if (tp % m.kv_heads != 0) {  // else ranks share heads
    if (m.kv_heads != m.heads) {
      divides("kv_heads", m.kv_heads,
              "every rank holds as many key and value heads; with fewer heads than ranks, their "
              "number divides the degree, and ranks hold the same");
    }
  }
  divides("ffn_hidden", m.ffn_hidden,
          "every rank holds as many features of the feed-forward layer");
  if (m.dense_width() != m.ffn_hidden) {
    divides("dense_ffn_hidden", m.dense_width(),
            "every rank holds as many features of the blocks without experts");
  }
  if (m.shared_expert_hidden > 0) {
    divides("shared_expert_hidden", m.shared_expert_hidden,
            "every rank holds as many features of the shared expert");
  }
  if (!s.strategy.enable_sequence_parallel || m.is_vision()) return;
  const std::int64_t rows = std::int64_t{s.microbatch_size()} * s.own_seq_len();
  if (rows % tp != 0) {
    faults.add("parallelism.enable_sequence_parallel",
               degree + " does not divide the " + std::to_string(rows) +
                   " rows of a microbatch (sequences × seq_len), which sequence parallelism "
                   "divides");
  }
}

}  // namespace lockstep
