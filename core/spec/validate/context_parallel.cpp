#include "core/spec/validate/faults.hpp"

namespace lockstep {

void validate_context_parallel(const Scenario& s, Faults& faults) {
  const ModelSpec& m = s.model;
  const int cp = s.strategy.context_parallel_degree;
  if (cp == 1) {
    const bool exchanges = s.strategy.context_parallel_method != ContextParallelMethod::Ulysses &&
                           s.strategy.context_parallel_ulysses_degree != 1;
    if (exchanges) {
      faults.add("parallelism.context_parallel_ulysses_degree",
                 "context_parallel_ulysses_degree=" +
                     std::to_string(s.strategy.context_parallel_ulysses_degree) +
                     " of the ranks that divide a sequence exchange heads, and "
                     "context_parallel_degree=1 makes none");
    }
    return;
  }
  const std::string degree = "context_parallel_degree=" + std::to_string(cp);
  const std::string key = "parallelism.context_parallel_degree";
  if (m.architecture == Architecture::Synthetic) {
    return faults.add(key, degree + ": the synthetic model has given times and nothing to divide");
  }
  if (m.is_vision()) {
    return faults.refuse(key, degree +
                                  " divides sequences of text, and the model reads images: "
                                  "give context_parallel_degree = 1");
  }
  const std::string tokens = "seq_len=" + std::to_string(s.training.seq_len);
  const int heads = s.strategy.head_ranks(), parts = s.strategy.key_ranks();
  const std::string sharers = "context_parallel_ulysses_degree=" +
                              std::to_string(s.strategy.context_parallel_ulysses_degree);
  if (cp % heads != 0) {
    return faults.add("parallelism.context_parallel_ulysses_degree",
                      sharers + " does not divide " + degree);
  }
  if (parts > 1 && s.training.seq_len % (2 * std::int64_t{parts}) != 0) {
    return faults.add(key, "twice " + (heads > 1 ? degree + " / " + sharers : degree) +
                               " does not divide " + tokens +
                               ": with context_parallel_method=allgather or ring every rank holds "
                               "one piece from the front and one from the back, to have as many "
                               "earlier tokens as the others");
  }
  if (s.training.seq_len % cp != 0) {
    faults.add(key, degree + " does not divide " + tokens +
                        ": every rank holds as many tokens of a sequence");
  }
  const int tp = s.strategy.tensor_parallel_degree;
  if (heads == 1) return;
  const std::string exchanging = parts > 1 ? sharers : degree;
  const auto divides = [&](const char* what, std::int64_t value) {
    if (value % tp != 0 || value / tp % heads == 0) return;  // the first has its own message
    faults.add(key, exchanging + " does not divide " + what + "=" + std::to_string(value) +
                        (tp > 1 ? " / tensor_parallel_degree=" + std::to_string(tp) : "") +
                        ": every rank attends with as many heads; "
                        "context_parallel_method=allgather and ring divide none");
  };
  divides("heads", m.heads);
  if (s.kv_replicas() > 1) {
    return faults.refuse(key, exchanging + ": a tensor-parallel rank has one of kv_heads=" +
                                  std::to_string(m.kv_heads) +
                                  ", which cannot be exchanged for tokens; "
                                  "context_parallel_method=allgather and ring divide no heads");
  }
  if (m.kv_heads != m.heads) divides("kv_heads", m.kv_heads);
}

}  // namespace lockstep
