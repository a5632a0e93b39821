// Packed sequences: training on documents that share a sequence equals training on them apart.
#include "core/base/documents.hpp"

#include <cmath>

#include "backends/sim/sim_backend.hpp"
#include "core/data/token_source.hpp"
#include "tests/integration/parity_runs.hpp"
#include "tests/temporary_folder.hpp"

using namespace lockstep;

using test::Outcome;
using test::parity_row;
using test::parity_scenario;
using test::train;

namespace {

constexpr int kDocuments = 12, kLength = 8;  // of eight tokens, with the line end

/// So many documents of equally many bytes, and one byte more, which is the last target.
std::string documents() {
  std::string text;
  for (int i = 0; i < kDocuments; ++i) {
    for (int t = 0; t + 1 < kLength; ++t) {
      text += static_cast<char>('0' + (i * 7 + t * t + 3 * (t / 2)) % 10);
    }
    text += '\n';
  }
  return text + "0";
}

/// A scenario whose step takes all documents, `together` in a sequence.
Scenario of_documents(Architecture architecture, int together, const std::string& keys,
                      const std::string& text) {
  Scenario s = parity_scenario(
      architecture,
      parity_row("", "batch=" + std::to_string(kDocuments / together) +
                         " training.seq_len=" + std::to_string(kLength * together) +
                         " training.eod_token=10" + " training.mean_document_length=8 " + keys),
      DType::F64);
  s.training.dataset = text;
  return s;
}

void check_equal(const Outcome& a, const Outcome& b) {
  for (std::size_t step = 0; step < test::kParitySteps; ++step) {
    const StepResult &x = a.run.trace.steps[step], &y = b.run.trace.steps[step];
    CHECK(std::abs(x.loss - y.loss) <= 1e-12 * y.loss);
    CHECK(std::abs(x.grad_norm - y.grad_norm) <= 1e-11 * y.grad_norm);
  }
  CHECK(test::state_distance(a.run.state, b.run.state) < 1e-11);
}

}  // namespace

TEST_CASE("training on packed documents equals training on each document apart", "[integration]") {
  TemporaryFolder folder;
  const std::string text = folder / "documents.txt";
  write_bytes(text, documents());
  const std::string packed = "training.reset_attention_mask=true training.reset_position_ids=true ";
  for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const std::string loss : {"", "training.eod_mask_loss=true "}) {
      INFO((architecture == Architecture::Gpt2 ? "gpt2 " : "llama ") << loss);
      // Apart, attention sees one document anyway.
      const Outcome apart =
          train(of_documents(architecture, 1, loss.empty() ? packed : packed + loss, text));
      for (const std::string layout :
           {"", "dp_shard=2 accumulation=3", "tp=2", "pp=2 mb=3", "cp=2",
            "cp=4 context_parallel_method=allgather", "cp=2 context_parallel_method=ring",
            "cp=4 context_parallel_method=ring context_parallel_ulysses_degree=2"}) {
        INFO(layout);
        check_equal(train(of_documents(architecture, 2, packed + loss + layout, text)), apart);
      }
      // The comparison would notice attention, or positions, across the boundary.
      const Scenario across = of_documents(
          architecture, 2, "training.eod_mask_loss=true " + (loss.empty() ? packed : ""), text);
      const Outcome other = train(across);
      CHECK(std::abs(other.run.trace.steps[0].loss - apart.run.trace.steps[0].loss) > 1e-6);
    }
  }
}

TEST_CASE("packed training that is resumed equals one that was not interrupted, bit for bit",
          "[integration]") {
  for (const std::string layout : {"dp_shard=2 pp=2 mb=3 ", "cp=2 context_parallel_method=ring "}) {
    const Scenario s = parity_scenario(Architecture::Gpt2,
                                       parity_row("", layout + "packed repositioned"), DType::F32);
    const Outcome whole = train(s), first = train(s, 4);
    CHECK(train(s, test::kParitySteps - 4, &first.run.state).run.state == whole.run.state);
  }
}

TEST_CASE("synthetic documents have as many scores as attention is charged for", "[integration]") {
  constexpr int kSeq = 64, kSamples = 4000;
  for (const double mean : {2.0, 16.0, 300.0}) {
    const auto source = open_token_source("", kSeq, 50, 3, true, {7, mean});
    REQUIRE(source.ok());
    std::vector<std::int32_t> tokens(kSeq), targets(kSeq), starts(kSeq);
    double scores = 0, ends = 0;
    for (int sample = 0; sample < kSamples; ++sample) {
      (*source)->fill(sample, tokens, targets);
      document_starts(tokens, 7, starts);
      for (int i = 0; i < kSeq; ++i) {
        scores += i - starts[i] + 1;
        ends += tokens[i] == 7;
      }
    }
    INFO("mean " << mean);
    CHECK(ends * mean / (double{kSeq} * kSamples) == Approx(1).epsilon(0.05));
    CHECK(scores / kSamples == Approx(expected_scores(mean, kSeq)).epsilon(0.02));
  }
}

TEST_CASE("the work of attention in documents is 4 and 10 flops per expected score and element",
          "[integration]") {
  const auto flops_of = [](const std::string& keys) {
    const Scenario s =
        parity_scenario(Architecture::Llama, parity_row("", "packed batch=12 " + keys), DType::F32);
    const auto program = lower(s);
    REQUIRE(program.ok());
    double forward = 0, backward = 0;
    for (const Role& role : program->roles) {
      for (const Op& op : role.ops) {
        if (op.kind != OpKind::Call) continue;
        for (const Kernel& kernel : program->function(op.function()).kernels) {
          const double flops = work(kernel).flops.v * static_cast<double>(role.ranks.size());
          if (kernel.kind == KernelKind::AttentionForward) forward += flops;
          if (kernel.kind == KernelKind::AttentionBackward) backward += flops;
        }
      }
    }
    CHECK(backward == Approx(2.5 * forward));
    return forward;
  };
  // 12 sequences of 24 tokens, 4 blocks, 4 heads of 6; scores are rounded to integers.
  const double scores = expected_scores(3, 24);
  for (const std::string layout :
       {"", "cp=2", "cp=2 context_parallel_method=allgather", "cp=3 context_parallel_method=ring",
        "cp=4 context_parallel_method=ring context_parallel_ulysses_degree=2", "tp=2 dp_shard=2"}) {
    INFO(layout);
    const double all = flops_of("training.seq_len=24 model.kv_heads=4 " + layout);
    CHECK(all / (4.0 * 6 * 4 * 4 * 12) == Approx(scores).epsilon(0.05));
  }
  CHECK(flops_of("training.seq_len=24") < 0.3 * (4.0 * 6 * 4 * 4 * 12) * 24 * 25 / 2);
}
