// lockstep sample: continues a text with a trained or imported model.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "backends/backends.hpp"
#include "cli/commands.hpp"
#include "cli/json_text.hpp"
#include "cli/model_source.hpp"
#include "core/generate/decoder.hpp"
#include "core/generate/sampling.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t kPrompt = 64;  // tokens of a pass that reads a prompt
constexpr std::int64_t kStep = 2;     // the smallest pass

/// The bytes of `text` from `shown` on that are whole characters, and moves `shown` behind them.
std::string_view whole_characters(const std::string& text, std::size_t& shown) {
  std::size_t end = text.size();
  // Up to three bytes at the end may begin a character that the next token ends.
  for (std::size_t back = 1; back <= 3 && back <= end - shown; ++back) {
    const auto c = static_cast<unsigned char>(text[end - back]);
    if ((c & 0xc0) == 0x80) continue;
    const std::size_t length = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
    if (length > back) end -= back;
    break;
  }
  const std::string_view fresh(text.data() + shown, end - shown);
  shown = end;
  return fresh;
}

class SampleCommand {
 public:
  SampleCommand(const SampleArguments& arguments, const Console& console)
      : arguments_(arguments), console_(console) {}

  Result<void> run() {
    auto opened = open_model(arguments_.model, arguments_.tokenizer);
    if (!opened) return opened.error();
    source_ = std::move(*opened);
    report_warnings(console_, source_.warnings);
    if (auto ready = read_prompt(); !ready) return ready;
    if (auto ready = open_decoder(); !ready) return ready;
    return generate();
  }

 private:
  Result<void> read_prompt() {
    if (!arguments_.ids.empty()) {
      ids_ = arguments_.ids;
      return {};
    }
    if (source_.tokenizer == nullptr) {
      return invalid(arguments_.model + ": there is no tokenizer for the vocabulary of " +
                     std::to_string(source_.model.vocab) +
                     " tokens: give --tokenizer, a tokenizer.json or its folder, or the prompt as "
                     "--ids 1,2,3");
    }
    ids_ = source_.tokenizer->encode(arguments_.prompt, true);
    if (ids_.empty() && source_.tokenizer->end() >= 0) ids_ = {source_.tokenizer->end()};
    if (ids_.empty()) return invalid("the prompt is empty: give some text to go on from");
    return {};
  }

  Result<void> open_decoder() {
    const std::int64_t wanted = static_cast<std::int64_t>(ids_.size()) + arguments_.tokens;
    const std::int64_t longest = source_.model.max_seq_len;
    if (longest > 0 && std::ssize(ids_) >= longest) {
      return invalid("the prompt has " + std::to_string(ids_.size()) +
                     " tokens, and the model's max_seq_len is " + std::to_string(longest) +
                     ": give a prompt of at most " + std::to_string(longest - 1));
    }
    if (longest > 0 && wanted > longest) {
      return invalid(std::to_string(ids_.size()) + " tokens of the prompt and " +
                     std::to_string(arguments_.tokens) + " more exceed the model's max_seq_len=" +
                     std::to_string(longest) + ": give fewer --tokens");
    }
    const std::int64_t capacity = round_up(std::max(wanted, 2 * kPrompt), kPrompt);
    auto made = make_decode_program(source_.model, source_.dtype, capacity, {kStep, kPrompt});
    if (!made) return made.error();
    program_ = std::move(*made);
    BackendOptions options;
    options.threads_per_rank = arguments_.threads;
    auto backend = make_backend(arguments_.backend, options);
    if (!backend) return backend.error();
    backend_ = std::move(*backend);
    auto device = backend_->open_device(program_.program);
    if (!device) return device.error();
    device_ = std::move(*device);
    decoder_.emplace(program_, device_->device());
    return decoder_->load(source_.weights.get());
  }

  Result<void> generate() {
    using Clock = std::chrono::steady_clock;
    const auto seconds = [](Clock::time_point from, Clock::time_point to) {
      return std::chrono::duration<double>(to - from).count();
    };
    const auto begin = Clock::now();
    auto logits = decoder_->read(ids_);
    if (!logits) return logits.error();
    const auto read = Clock::now();
    const bool shows = !arguments_.json;
    if (shows && source_.tokenizer != nullptr) console_.out << arguments_.prompt << std::flush;
    std::vector<std::int32_t> made;
    std::string text;
    std::size_t shown = 0;
    for (int i = 0; i < arguments_.tokens; ++i) {
      if (console_.cancel != nullptr && *console_.cancel) break;
      if (!std::all_of(logits->begin(), logits->end(), [](float x) { return std::isfinite(x); })) {
        return Error{ErrorKind::InvalidSpec,
                     arguments_.model + ": the model's logits after " +
                         std::to_string(decoder_->position()) +
                         " tokens are not finite numbers: its weights are damaged, or too large "
                         "for the type in which it computes",
                     std::nullopt};
      }
      made.push_back(next_token(*logits, arguments_.sampling, decoder_->position()));
      const bool ends = source_.tokenizer != nullptr && made.back() == source_.tokenizer->end();
      if (ends && !arguments_.ignore_end) break;
      if (source_.tokenizer != nullptr) {
        text += source_.tokenizer->piece(made.back());
        if (shows) console_.out << whole_characters(text, shown) << std::flush;
      } else if (shows) {
        console_.out << (i == 0 ? "" : ",") << made.back() << std::flush;
      }
      if (i + 1 == arguments_.tokens) break;
      logits = decoder_->read({&made.back(), 1});
      if (!logits) return logits.error();
    }
    const auto end = Clock::now();
    const double rate = static_cast<double>(made.size()) / std::max(1e-9, seconds(read, end));
    if (arguments_.json) {
      nlohmann::ordered_json json = {
          {"model", source_.model.name},      {"prompt_ids", ids_},  {"ids", made}, {"text", text},
          {"prompt_s", seconds(begin, read)}, {"tokens_per_s", rate}};
      console_.out << json_text(json);
      return {};
    }
    console_.out << "\n";
    if (!arguments_.quiet) {
      console_.err << made.size() << " tokens, " << fmt::format("{:.3g}", rate)
                   << " a second; the prompt of " << ids_.size() << " took "
                   << fmt::format("{:.3g}", seconds(begin, read)) << " s\n";
    }
    return {};
  }

  const SampleArguments& arguments_;
  const Console& console_;
  ModelSource source_;
  std::vector<std::int32_t> ids_;  // of the prompt
  DecodeProgram program_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<OwnDevice> device_;
  std::optional<Decoder> decoder_;
};

}  // namespace

int sample_command(const SampleArguments& arguments, const Console& console) {
  if (auto ran = SampleCommand(arguments, console).run(); !ran) {
    return report_error(console, ran.error());
  }
  return 0;
}

}  // namespace lockstep
