#include "gui/model/timeline/timeline_layout.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/index_vector.hpp"
#include "core/base/lower_case.hpp"
#include "core/ir/program.hpp"

namespace lockstep::gui {
namespace {

constexpr int kComputeStream = static_cast<int>(Stream::Compute);
constexpr std::size_t kRowsOfAScreen = 48;

RowKey rank_key(Rank rank) { return "rank " + std::to_string(rank); }

bool contains(const std::string& text, const std::string& filter) {
  return filter.empty() || lower_case(text).find(lower_case(filter)) != std::string::npos;
}

/// The ranks by pipeline coordinate (-1 without a pipeline), in the user's order.
std::map<int, std::vector<Rank>> groups_of(const RunView& run, const LayoutChoice& choice) {
  std::map<int, std::vector<Rank>> groups;
  const auto add = [&](Rank rank) {
    if (!choice.identical_ranks && run.trace.same_as[rank] != rank) return;
    const std::string& label = run.trace.rank_labels[rank];
    groups[coordinate(label, "pp")].push_back(rank);
  };
  const std::set<Rank> moved_by_user(choice.order.begin(), choice.order.end());
  for (const Rank rank : choice.order) {
    if (rank < run.world_size()) add(rank);
  }
  for (Rank rank = 0; rank < run.world_size(); ++rank) {
    if (!moved_by_user.contains(rank)) add(rank);
  }
  return groups;
}

class Layouter {
 public:
  Layouter(const RunView& run, const LayoutChoice& choice, const RowHeights& heights)
      : run_(run), choice_(choice), heights_(heights) {
    copies_.resize(run.trace.same_as.size(), 0);
    for (const Rank rank : run.trace.same_as) ++copies_[rank];
  }

  TimelineLayout lay_out() {
    for (const RowKey& key : choice_.pinned) pin(key);
    const auto groups = groups_of(run_, choice_);
    std::size_t shown = 0;
    for (const auto& [pp, ranks] : groups) {
      shown += ranks.size();
      // A stage of one rank needs no heading.
      const bool headed = groups.size() > 1 && ranks.size() > 1;
      if (headed && !group_row(pp, ranks)) continue;
      for (const Rank rank : ranks) rank_rows(rank);
    }
    result_.hidden_copies = run_.trace.same_as.size() - shown;
    result_.pinned_height = place(result_.pinned);
    result_.height = place(result_.rows);
    return std::move(result_);
  }

 private:
  bool is_folded(const RowKey& key) const { return choice_.folded.contains(key); }
  const std::string& stream_name(int stream) const { return run_.trace.streams[stream]; }
  std::string rank_label(Rank rank) const {
    std::string label = run_.trace.rank_labels[rank];
    const int copies = copies_[rank];
    if (!choice_.identical_ranks && copies > 1) label += " ×" + std::to_string(copies);
    return label;
  }
  Row rank_row(Rank rank) const {
    Row row;
    row.kind = Row::Kind::Rank;
    row.key = rank_key(rank);
    row.label = rank_label(rank);
    row.rank = rank;
    row.lane = run_.lanes.main_of_rank(rank);
    row.stream = row.lane ? row.lane->stream : kComputeStream;
    row.height = heights_.rank;
    row.foldable = run_.lanes.of_rank(rank).size() > 1;
    row.folded = is_folded(row.key);
    return row;
  }
  Row stream_row(Rank rank, const Lane& lane) const {
    Row row;
    row.kind = Row::Kind::Stream;
    row.key = rank_key(rank) + "/" + stream_name(lane.stream);
    row.label = stream_name(lane.stream);
    row.rank = rank;
    row.stream = lane.stream;
    row.lane = &lane;
    row.height = heights_.stream;
    return row;
  }

  /// Adds the row of a group. Returns false if the group is folded; its row then shows what its
  /// first rank computes.
  bool group_row(int pp, const std::vector<Rank>& ranks) {
    Row row;
    row.kind = Row::Kind::Group;
    row.key = "pp" + std::to_string(pp);
    row.label = pp < 0 ? "no stage" : "stage " + std::to_string(pp);
    row.label += " · " + std::to_string(ranks.size()) + " ranks";
    row.rank = ranks.front();
    row.height = heights_.group;
    row.foldable = true;
    row.folded = is_folded(row.key);
    if (row.folded) row.lane = run_.lanes.main_of_rank(row.rank);
    const bool folded = row.folded;
    if (choice_.filter.empty()) result_.rows.push_back(std::move(row));
    return !folded || !choice_.filter.empty();
  }

  void rank_rows(Rank rank) {
    Row row = rank_row(rank);
    const bool named = contains(row.label, choice_.filter);
    const bool folded = row.folded && choice_.filter.empty();
    const int main_stream = row.stream;
    std::vector<Row> streams;
    for (const Lane& lane : run_.lanes.of_rank(rank)) {
      if (lane.stream == main_stream || folded) continue;
      if (named || contains(stream_name(lane.stream), choice_.filter)) {
        streams.push_back(stream_row(rank, lane));
      }
    }
    if (!named && streams.empty()) return;
    result_.rows.push_back(std::move(row));
    for (Row& stream : streams) result_.rows.push_back(std::move(stream));
  }

  void pin(const RowKey& key) {
    for (Rank rank = 0; rank < run_.world_size(); ++rank) {
      if (!key.starts_with(rank_key(rank))) continue;
      std::optional<Row> row;
      if (key == rank_key(rank)) row = rank_row(rank);
      for (const Lane& lane : run_.lanes.of_rank(rank)) {
        if (key != rank_key(rank) + "/" + stream_name(lane.stream)) continue;
        row = stream_row(rank, lane);
        row->label = key;
      }
      if (!row) continue;
      row->pinned = true;
      row->foldable = false;
      result_.pinned.push_back(std::move(*row));
      return;
    }
  }

  static double place(std::vector<Row>& rows) {
    double y = 0;
    for (Row& row : rows) {
      row.y = y;
      y += row.height;
    }
    return y;
  }

  const RunView& run_;
  const LayoutChoice& choice_;
  const RowHeights& heights_;
  IndexVector<Rank, int> copies_;  // by rank: how many ranks it stands for
  TimelineLayout result_;
};

}  // namespace

LayoutChoice initial_choice(const RunView& run) {
  LayoutChoice choice;
  std::size_t rows = 0;
  for (Rank rank = 0; rank < run.world_size(); ++rank) {
    if (run.trace.same_as[rank] == rank) {
      rows += run.lanes.of_rank(rank).size();
    }
  }
  return rows <= kRowsOfAScreen ? choice : folded_ranks(run, std::move(choice), true);
}

LayoutChoice folded_ranks(const RunView& run, LayoutChoice choice, bool fold) {
  for (Rank rank = 0; rank < run.world_size(); ++rank) {
    if (fold) {
      choice.folded.insert(rank_key(rank));
    } else {
      choice.folded.erase(rank_key(rank));
    }
  }
  return choice;
}

TimelineLayout lay_out(const RunView& run, const LayoutChoice& choice, const RowHeights& heights) {
  return Layouter(run, choice, heights).lay_out();
}

const Row* row_at(const std::vector<Row>& rows, double y) {
  const auto it = std::upper_bound(rows.begin(), rows.end(), y,
                                   [](double at, const Row& row) { return at < row.y; });
  if (it == rows.begin()) return nullptr;
  const Row& row = *(it - 1);
  return y < row.y + row.height ? &row : nullptr;
}

LayoutChoice moved(const RunView& run, LayoutChoice choice, Rank rank, int by) {
  std::vector<Rank> order;
  for (auto& [pp, ranks] : groups_of(run, choice)) {
    const auto it = std::find(ranks.begin(), ranks.end(), rank);
    if (it != ranks.end()) {
      const auto place = it - ranks.begin();
      const auto last = static_cast<std::ptrdiff_t>(ranks.size()) - 1;
      std::swap(*it, ranks[std::clamp<std::ptrdiff_t>(place + by, 0, last)]);
    }
    order.insert(order.end(), ranks.begin(), ranks.end());
  }
  choice.order = std::move(order);
  return choice;
}

std::vector<RowKey> all_rows(const RunView& run) {
  std::vector<RowKey> keys;
  for (Rank rank = 0; rank < run.world_size(); ++rank) {
    keys.push_back(rank_key(rank));
    const Lane* own = run.lanes.main_of_rank(rank);
    for (const Lane& lane : run.lanes.of_rank(rank)) {
      if (&lane == own) continue;
      keys.push_back(rank_key(rank) + "/" + run.trace.streams[lane.stream]);
    }
  }
  return keys;
}

LayoutChoice revealing(const RunView& run, LayoutChoice choice, const RowKey& key) {
  choice.filter.clear();
  const std::size_t slash = key.find('/');
  const RowKey own = key.substr(0, slash);
  for (Rank rank = 0; rank < run.world_size(); ++rank) {
    if (rank_key(rank) != own) continue;
    if (run.trace.same_as[rank] != rank) choice.identical_ranks = true;
    choice.folded.erase("pp" + std::to_string(coordinate(run.trace.rank_labels[rank], "pp")));
    if (slash != std::string::npos) choice.folded.erase(own);
  }
  return choice;
}

Gap gap_near(const RunView& run, const TimelineLayout& layout, const Row& dragged, double y) {
  const auto stage = [&](const Row& row) {
    return coordinate(run.trace.rank_labels[row.rank], "pp");
  };
  std::vector<Gap> gaps;
  double end = 0;  // the lower edge of the last row among them
  for (const Row& row : dragged.pinned ? layout.pinned : layout.rows) {
    const bool among =
        dragged.pinned || (row.kind != Row::Kind::Group && stage(row) == stage(dragged));
    if (!among) continue;
    if (dragged.pinned || row.kind == Row::Kind::Rank) gaps.push_back({row.key, row.y});
    end = row.y + row.height;
  }
  gaps.push_back({"", end});
  return *std::min_element(gaps.begin(), gaps.end(), [y](const Gap& a, const Gap& b) {
    return std::abs(a.y - y) < std::abs(b.y - y);
  });
}

LayoutChoice dropped(const RunView& run, LayoutChoice choice, const Row& dragged,
                     const RowKey& next) {
  if (dragged.pinned) {
    if (dragged.key == next) return choice;
    std::erase(choice.pinned, dragged.key);
    choice.pinned.insert(std::find(choice.pinned.begin(), choice.pinned.end(), next), dragged.key);
    return choice;
  }
  std::vector<Rank> order;
  for (auto& [pp, ranks] : groups_of(run, choice)) {
    const auto it = std::find(ranks.begin(), ranks.end(), dragged.rank);
    if (it != ranks.end() && rank_key(dragged.rank) != next) {
      ranks.erase(it);
      ranks.insert(std::find_if(ranks.begin(), ranks.end(),
                                [&](Rank rank) { return rank_key(rank) == next; }),
                   dragged.rank);
    }
    order.insert(order.end(), ranks.begin(), ranks.end());
  }
  choice.order = std::move(order);
  return choice;
}

LayoutChoice toggled_fold(LayoutChoice choice, const RowKey& key) {
  if (choice.folded.erase(key) == 0) choice.folded.insert(key);
  return choice;
}

LayoutChoice toggled_pin(LayoutChoice choice, const RowKey& key) {
  const auto it = std::find(choice.pinned.begin(), choice.pinned.end(), key);
  if (it == choice.pinned.end()) {
    choice.pinned.push_back(key);
  } else {
    choice.pinned.erase(it);
  }
  return choice;
}

}  // namespace lockstep::gui
