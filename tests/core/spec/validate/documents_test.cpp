// Documents in sequences: which of their keys do not go together.
#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

/// The first fault of a small model with these lines of [training]; empty if there is none.
std::string fault_of(const std::string& training, const std::string& rest = {},
                     const std::string& architecture = "llama") {
  const LoadedScenario loaded =
      parse_scenario("[model]\narchitecture = \"" + architecture +
                         "\"\nlayers = 2\nhidden = 16\nheads = 2\nvocab = 50\nmax_seq_len = 8\n"
                         "[training]\nseq_len = 8\n" +
                         training + "\n" + rest + "\n[cluster]\nranks_per_device = 8\n",
                     "s.toml", {});
  return loaded.ok() ? "" : loaded.errors.front().message;
}

const std::string kGiven = "eod_token = 3\nmean_document_length = 4\n";

TEST_CASE("documents need the token that ends them and their mean length", "[core][spec]") {
  CHECK(fault_of("reset_attention_mask = true\n" + kGiven) == "");
  CHECK(fault_of("eod_mask_loss = true\n" + kGiven) == "");
  CHECK(fault_of("reset_attention_mask = true\nmean_document_length = 4")
            .find("must be given in 0 … 49, the tokens of the model; it is missing") !=
        std::string::npos);
  CHECK(fault_of("reset_attention_mask = true\nmean_document_length = 4\neod_token = 50")
            .find("it is 50") != std::string::npos);
  const std::string documents = "reset_attention_mask = true\neod_token = 3\n";
  CHECK(fault_of(documents).find("mean_document_length, after which attention is charged") == 0);
  for (const char* length : {"0.5", "1e13"}) {
    CHECK(fault_of(documents + "mean_document_length = " + length)
              .find("must be 0 or [1, 1000000000000]") != std::string::npos);
  }
}

TEST_CASE("keys of documents without documents are refused", "[core][spec]") {
  CHECK(fault_of("eod_token = 3").find("give reset_attention_mask or eod_mask_loss") !=
        std::string::npos);
  CHECK(fault_of("mean_document_length = 3").find("give reset_attention_mask or eod_mask_loss") !=
        std::string::npos);
  CHECK(fault_of("reset_position_ids = true\n" + kGiven).find("without reset_attention_mask") !=
        std::string::npos);
}

TEST_CASE("learned positions of rows that ranks divide cannot be reset", "[core][spec]") {
  const std::string keys = "reset_attention_mask = true\nreset_position_ids = true\n" + kGiven;
  const std::string by_rows =
      "[parallelism]\ntensor_parallel_degree = 2\nenable_sequence_parallel = true\n";
  CHECK(fault_of(keys, by_rows) == "");  // rotary ones
  CHECK(fault_of(keys, "", "gpt2") == "");
  CHECK(fault_of(keys, by_rows, "gpt2").find("give enable_sequence_parallel=false") !=
        std::string::npos);
}

}  // namespace
}  // namespace lockstep
