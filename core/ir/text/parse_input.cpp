// Parses the lines that say what a program is given beside its ops: the learning rate, samples and
// tables of integers.
#include <algorithm>
#include <array>

#include "core/base/index_vector.hpp"
#include "core/ir/text/parse_internal.hpp"

namespace lockstep::text {
namespace {

/// A key of "samples", and the only kind of samples that has it, or None if both have it.
struct SampleKey {
  std::string name;
  SampleKind of;
};
const std::vector<SampleKey>& sample_keys() {
  static const std::vector<SampleKey> keys = {
      {"length", SampleKind::Tokens},       {"vocabulary", SampleKind::Tokens},
      {"size", SampleKind::Images},         {"classes", SampleKind::Images},
      {"mean", SampleKind::Images},         {"deviation", SampleKind::Images},
      {"per_step", SampleKind::None},       {"microbatch", SampleKind::None},
      {"over", SampleKind::None},           {"unshuffled", SampleKind::None},
      {"document_end", SampleKind::Tokens}, {"mean_document", SampleKind::Tokens},
      {"window", SampleKind::Tokens},       {"ignores_ends", SampleKind::Tokens},
      {"masked", SampleKind::Tokens},       {"mask_token", SampleKind::Tokens}};
  return keys;
}

class InputParser {
 public:
  explicit InputParser(ParserState& state) : s_(state) {}

  bool learning_rate() {
    static const std::vector<std::string> keys = {"factor", "warmup", "decay",
                                                  "from",   "steps",  "minimum"};
    static const std::vector<std::string> decays = {"linear", "cosine"};
    LearningRate& rate = s_.program.training.learning_rate;
    if (!s_.in.number(rate.base)) return false;
    std::uint32_t seen = 0;
    while (!s_.in.line_ends()) {
      int found = 0;
      if (!s_.key(keys, seen, found) || !s_.in.expect('=')) return false;
      const char* start = s_.in.mark();
      const bool read = found == 0   ? s_.in.number(rate.factor)
                        : found == 1 ? s_.in.number(rate.warmup_steps)
                        : found == 2 ? s_.choose(decays, "decay", rate.decay)
                        : found == 3 ? s_.in.number(rate.decay_from)
                        : found == 4 ? s_.in.number(rate.decay_steps)
                                     : s_.in.number(rate.minimum);
      if (!read) return false;
      if (rate.warmup_steps < 0 || rate.decay_from < 0 || rate.decay_steps < 0) {
        return s_.in.fail(start, "a number of steps is not negative");
      }
    }
    return true;
  }

  bool loss_scale() {
    static const std::vector<std::string> keys = {"growth", "backoff", "interval", "hysteresis",
                                                  "minimum"};
    LossScaling& scaling = s_.program.training.loss_scaling.emplace();
    const char* start = s_.in.mark();
    if (!s_.in.number(scaling.init_scale)) return false;
    std::uint32_t seen = 0;
    while (!s_.in.line_ends()) {
      int found = 0;
      if (!s_.key(keys, seen, found) || !s_.in.expect('=')) return false;
      const bool read = found == 0   ? s_.in.number(scaling.growth_factor)
                        : found == 1 ? s_.in.number(scaling.backoff_factor)
                        : found == 2 ? s_.in.number(scaling.growth_interval)
                        : found == 3 ? s_.in.number(scaling.hysteresis)
                                     : s_.in.number(scaling.min_scale);
      if (!read) return false;
    }
    const std::string fault = fault_of(scaling).second;
    return fault.empty() || s_.in.fail(start, fault);
  }

  bool samples() {
    static const std::vector<std::string> kinds = {"tokens", "images"};
    static const std::vector<std::string> names = [] {
      std::vector<std::string> list;
      for (const SampleKey& key : sample_keys()) list.push_back(key.name);
      return list;
    }();
    const char* line = s_.in.mark();
    Samples& out = s_.program.input.samples;
    if (out.kind != SampleKind::None) return s_.in.fail(line, "\"samples\" stands twice");
    int kind = 0;
    if (!s_.in.choose(line, s_.in.word(), kinds, "kind of samples", kind)) return false;
    out.kind = kind == 0 ? SampleKind::Tokens : SampleKind::Images;
    std::uint32_t seen = 0;
    while (!s_.in.line_ends()) {
      const char* start = s_.in.mark();
      int found = 0;
      if (!s_.key(names, seen, found)) return false;
      const SampleKey& key = sample_keys()[to_size(found)];
      if (key.of != SampleKind::None && key.of != out.kind) {
        return s_.in.fail(start, "samples of " + std::string(to_string(out.kind)) + " have no \"" +
                                     key.name + "\"");
      }
      if (key.name == "unshuffled" || key.name == "ignores_ends") {
        (key.name == "unshuffled" ? out.shuffled : out.ignores_ends) = key.name != "unshuffled";
        continue;
      }
      if (!s_.in.expect('=') || !sample_value(key.name, out)) return false;
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      const SampleKey& key = sample_keys()[i];
      constexpr std::array kOptional = {"over",          "unshuffled",   "document_end",
                                        "mean_document", "ignores_ends", "masked",
                                        "mask_token",    "window"};
      const bool optional = std::count(kOptional.begin(), kOptional.end(), key.name) > 0;
      const bool wanted = key.of == SampleKind::None || key.of == out.kind;
      if (wanted && !optional && (seen >> i & 1u) == 0) {
        return s_.in.fail(line, "samples need \"" + key.name + "=\"");
      }
    }
    if (out.ignores_ends && out.document_end < 0) {
      return s_.in.fail(line, "\"ignores_ends\" needs \"document_end=\"");
    }
    if ((out.masked > 0) != (out.mask_token >= 0)) {
      return s_.in.fail(line, "\"masked=\" and \"mask_token=\" need each other");
    }
    if (out.masked > out.length || out.mask_token >= out.classes) {
      return s_.in.fail(line, "masked tokens are some of a sample, and of the vocabulary");
    }
    if (out.masked > 0 && out.ignores_ends) {
      return s_.in.fail(line, "no end of a document is masked, so there is none to ignore");
    }
    return true;
  }

  bool table() {
    static const std::vector<std::string> kinds = spellings<TableKind>(kNumTableKinds);
    const char* start = s_.in.mark();
    IndexTable table;
    if (!s_.choose(kinds, "table", table.kind)) return false;
    if (s_.program.input.table(table.kind) != nullptr) {
      return s_.in.fail(start, "table " + std::string(to_string(table.kind)) + " stands twice");
    }
    if (s_.in.take("dims=") && !dims(table.dims)) return false;
    do {
      IndexList& list = table.lists.emplace_back();
      if (!s_.list([&] { return range(list); })) return false;
    } while (s_.in.take('|'));
    const std::int64_t wanted = size_over(s_.program.mesh, table.dims);
    if (static_cast<std::int64_t>(table.lists.size()) != wanted) {
      return s_.in.fail(start, "table " + std::string(to_string(table.kind)) + " has " +
                                   std::to_string(table.lists.size()) +
                                   " lists; its dimensions have " + std::to_string(wanted) +
                                   " coordinates");
    }
    s_.program.input.tables.push_back(std::move(table));
    return true;
  }

 private:
  bool dims(std::vector<int>& out) {
    return s_.list([&] {
      const char* start = s_.in.mark();
      int dim = 0;
      if (!s_.in.reference(s_.dims, "mesh dimension", dim)) return false;
      if (std::find(out.begin(), out.end(), dim) != out.end()) {
        return s_.in.fail(start, "the mesh dimension stands twice");
      }
      out.push_back(dim);
      return true;
    });
  }

  bool sample_value(const std::string& key, Samples& out) {
    if (key == "over") return dims(out.over);
    if (key == "mean" || key == "deviation") {
      auto& values = key == "mean" ? out.mean : out.deviation;
      for (std::size_t c = 0; c < values.size(); ++c) {
        if (c > 0 && !s_.in.expect(',')) return false;
        const char* start = s_.in.mark();
        if (!s_.in.number(values[c])) return false;
        if (key == "deviation" && values[c] == 0) return s_.in.fail(start, "it is a divisor");
      }
      return true;
    }
    const char* start = s_.in.mark();
    if (key == "mean_document") {
      return s_.in.number(out.mean_document) &&
             (out.mean_document >= 1 || s_.in.fail(start, "a document has a token or more"));
    }
    if (key == "document_end" || key == "mask_token") {
      std::int64_t& token = key == "mask_token" ? out.mask_token : out.document_end;
      return s_.in.number(token) &&
             ((token >= 0 && token < std::int64_t{1} << 31) ||
              s_.in.fail(start, "a token is an integer that is not negative"));
    }
    std::int64_t& value = key == "per_step"                  ? out.per_step
                          : key == "masked"                  ? out.masked
                          : key == "window"                  ? out.window
                          : key == "microbatch"              ? out.microbatch
                          : key == "length" || key == "size" ? out.length
                                                             : out.classes;
    if (!s_.in.number(value)) return false;
    const int bits = key == "size" ? 15 : 31;  // so that the product of all fits into 64 bits
    return (value >= 1 && value < std::int64_t{1} << bits) ||
           s_.in.fail(start, "\"" + key + "\" must lie in 1 … 2^" + std::to_string(bits) + " - 1");
  }

  bool range(IndexList& list) {
    const char* start = s_.in.mark();
    IndexRange range;
    if (!s_.in.number(range.first)) return false;
    range.last = range.first;
    if (s_.in.take('-') && !s_.in.number(range.last)) return false;
    if (range.first < 0 || range.last < range.first) {
      return s_.in.fail(start, "a range goes up from an integer that is not negative");
    }
    list.ranges.push_back(range);
    return true;
  }

  ParserState& s_;
};

}  // namespace

bool parse_learning_rate(ParserState& state) { return InputParser(state).learning_rate(); }
bool parse_loss_scale(ParserState& state) { return InputParser(state).loss_scale(); }
bool parse_samples(ParserState& state) { return InputParser(state).samples(); }
bool parse_table(ParserState& state) { return InputParser(state).table(); }

}  // namespace lockstep::text
