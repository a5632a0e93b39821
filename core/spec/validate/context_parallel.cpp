#include "core/spec/validate/faults.hpp"

namespace lockstep {

void validate_context_parallel(const Scenario& s, Faults& faults) {
  const ModelSpec& m = s.model;
  const int cp = s.strategy.context_parallel_degree;
  if (cp == 1) return;
  const std::string degree = "context_parallel_degree=" + std::to_string(cp);
  const std::string key = "parallelism.context_parallel_degree";
  if (m.architecture == Architecture::Synthetic) {
    return faults.add(key, degree + ": the synthetic model has given times and nothing to divide");
  }
  if (m.is_vision()) {
    return faults.add(key, degree + " divides sequences of tokens; images have none",
                      ErrorKind::Unsupported);
  }
  const std::string tokens = "seq_len=" + std::to_string(s.training.seq_len);
  if (s.strategy.gathers_keys()) {
    if (s.training.seq_len % (2 * std::int64_t{cp}) == 0) return;
    return faults.add(key, "twice " + degree + " does not divide " + tokens +
                               ": with context_parallel_method=allgather every rank holds one "
                               "piece from the front and one from the back, to have as many "
                               "earlier tokens as the others");
  }
  if (s.training.seq_len % cp != 0) {
    faults.add(key, degree + " does not divide " + tokens +
                        ": every rank holds as many tokens of a sequence");
  }
  const int tp = s.strategy.tensor_parallel_degree;
  const auto divides = [&](const char* what, std::int64_t value) {
    if (value % tp != 0 || value / tp % cp == 0) return;  // the first has its own message
    faults.add(key, degree + " does not divide " + what + "=" + std::to_string(value) +
                        (tp > 1 ? " / tensor_parallel_degree=" + std::to_string(tp) : "") +
                        ": every rank attends with as many heads; "
                        "context_parallel_method=allgather divides none");
  };
  divides("heads", m.heads);
  if (s.kv_replicas() > 1) {
    return faults.add(
        key, degree + ": a tensor-parallel rank has one of kv_heads=" + std::to_string(m.kv_heads) +
                 ", which context_parallel_method=ulysses cannot divide; "
                 "context_parallel_method=allgather divides none");
  }
  if (m.kv_heads != m.heads) divides("kv_heads", m.kv_heads);
}

}  // namespace lockstep
