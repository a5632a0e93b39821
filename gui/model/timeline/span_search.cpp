#include "gui/model/timeline/span_search.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>
#include <tuple>

namespace lockstep::gui {
namespace {

/// A text in the form in which it is compared: in lower case, and with "all-gather", as the legend
/// writes it, for "all_gather", as traces write it.
std::string plain(std::string text) {
  for (char& c : text) {
    c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

/// Whether `text` has `word`. A short word must be a whole word ("F3" is not in "F31"); a longer
/// one may be part of a word.
bool has_word(const std::string& text, const std::string& word) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const auto inside = [&](std::size_t i) {
      return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i]));
    };
    if (word.size() > 3 || (!inside(at - 1) && !inside(at + word.size()))) return true;
  }
  return false;
}

}  // namespace

SpanQuery::SpanQuery(const RunView& run, const std::string& words) : run_(&run) {
  std::vector<std::string> wanted;
  std::istringstream stream(plain(words));
  for (std::string word; stream >> word;) wanted.push_back(word);
  if (wanted.empty()) return;
  // What a search compares of an op differs between the ranks of a role in the rank's name only.
  std::map<std::pair<std::int32_t, std::vector<bool>>, IndexVector<OpId, bool>> known;
  const Trace& trace = run.trace;
  for (Rank rank = 0; rank < run.world_size(); ++rank) {
    const std::string rank_text = plain(trace.rank_labels[rank]) + " rank" + std::to_string(rank);
    std::vector<bool> found_in_rank;
    for (const std::string& word : wanted) found_in_rank.push_back(has_word(rank_text, word));
    const auto [entry, fresh] = known.try_emplace({trace.role_of_rank[rank], found_in_rank});
    if (fresh) {
      for (const TraceOp& op : trace.roles[trace.role_of_rank[rank]].ops) {
        const std::string& kind = trace.names[op.kind];
        const std::string text =
            plain(trace.names[op.name] + " " + kind + " " + label(op, look_of_kind(kind)) + " " +
                  trace.streams[op.stream]);
        bool all = true;
        for (std::size_t w = 0; w < wanted.size(); ++w) {
          all = all && (found_in_rank[w] || has_word(text, wanted[w]));
        }
        entry->second.push_back(all);
      }
    }
    op_matches_.push_back(entry->second);
  }
}

bool SpanQuery::matches(const Span& span) const {
  return !empty() && op_matches_[span.rank][span.op];
}

std::optional<SpanId> SpanQuery::next(std::optional<SpanId> from, bool forward) const {
  if (empty()) return std::nullopt;
  const auto& spans = run_->trace.spans;
  const auto key = [&](SpanId i) { return std::tuple(spans[i].begin, spans[i].rank, i); };
  std::optional<SpanId> best;
  for (SpanId i = 0; i < spans.size(); ++i) {
    if (!matches(spans[i])) continue;
    if (from && (forward ? key(i) <= key(*from) : key(i) >= key(*from))) continue;
    if (!best || (forward ? key(i) < key(*best) : key(i) > key(*best))) best = i;
  }
  return best;
}

std::size_t SpanQuery::count() const {
  if (empty()) return 0;
  const auto& spans = run_->trace.spans;
  return to_size(
      std::count_if(spans.begin(), spans.end(), [&](const Span& s) { return matches(s); }));
}

std::optional<SpanId> neighbour(const RunView& run, SpanId id, int by) {
  const Span& span = run.trace.spans[id];
  const Lane* lane = run.lanes.find(span.rank, run.lanes.op(span).stream);
  if (!lane) return std::nullopt;
  const auto& segments = lane->segments;
  for (std::size_t k = 0; k < segments.size(); ++k) {
    const SpanId first = segments[k].spans().first(), last = first + segments[k].spans().size() - 1;
    if (id < first || id > last) continue;
    if (by > 0 && id < last) return id + 1;
    if (by < 0 && id > first) return id - 1;
    if (by > 0 && k + 1 < segments.size()) return segments[k + 1].spans().first();
    if (by < 0 && k > 0)
      return segments[k - 1].spans().first() + segments[k - 1].spans().size() - 1;
  }
  return std::nullopt;
}

}  // namespace lockstep::gui
