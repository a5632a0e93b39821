// match_transfers and align_clocks: compare what several files say about one collective.
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/base/index_vector.hpp"
#include "core/trace/kineto/file.hpp"

namespace lockstep::kineto {
namespace {

/// One member's part in a transfer.
struct Part {
  std::int32_t group = 0;           // id in Groups: a process group, or a pair of ranks in one
  bool message = false;             // between a pair
  std::int64_t seq = -1, step = 0;  // step is 0 where there is a sequence number
  std::int32_t file = 0;
  Nanoseconds begin = 0;
  std::uint32_t event = 0;
  auto key() const { return std::tie(group, seq, step); }
};

/// Numbers the process groups of all files. Two groups may have the same name (replicas that count
/// alike), but never the same name and the same first rank.
class Groups {
 public:
  explicit Groups(const Files& files) : files_(files) {}

  std::int32_t collective(std::int32_t file, const ProcessGroup& group) {
    return add({group.name, first_rank(group), -1, -1}, file);
  }
  std::int32_t message(std::int32_t file, const ProcessGroup& group, const Transfer& t) {
    return add({group.name, first_rank(group), t.source, t.destination}, file);
  }

  /// Assigns channels. Each name of groups has one, with an instance for each first rank; after
  /// them, each pair has one.
  void number(IndexVector<std::int32_t, IndexVector<Rank, Rank>>& instances) {
    std::map<std::string, std::int32_t> channel_of_name;
    for (const auto& [key, id] : ids_) {
      if (std::get<2>(key) < 0) {
        const auto next = static_cast<std::int32_t>(channel_of_name.size());
        channel_of_name.try_emplace(std::get<0>(key), next);
      }
    }
    instances.assign(channel_of_name.size(), IndexVector<Rank, Rank>(files_.size(), -1));
    channels_.resize(ids_.size());
    auto next = static_cast<std::int32_t>(channel_of_name.size());
    for (const auto& [key, id] : ids_) {
      if (std::get<2>(key) >= 0) {
        channels_[id] = next++;
        continue;
      }
      channels_[id] = channel_of_name.at(std::get<0>(key));
      for (const std::int32_t file : members_[id]) {
        instances[channels_[id]][file] = *members_[id].begin();
      }
    }
  }
  std::int32_t channel(std::int32_t id) const { return channels_[id]; }

 private:
  using Key = std::tuple<std::string, int, int, int>;  // name, first rank, source, destination
  static int first_rank(const ProcessGroup& group) {
    return group.ranks.empty() ? -1 : *std::min_element(group.ranks.begin(), group.ranks.end());
  }
  std::int32_t add(const Key& key, std::int32_t file) {
    const auto [it, fresh] = ids_.try_emplace(key, static_cast<std::int32_t>(ids_.size()));
    if (fresh) members_.emplace_back();
    members_[it->second].insert(file);
    return it->second;
  }

  const Files& files_;
  std::map<Key, std::int32_t> ids_;
  IndexVector<std::int32_t, std::set<std::int32_t>> members_;  // files, by id
  IndexVector<std::int32_t, std::int32_t> channels_;           // by id
};

/// Whether all members of such a collective leave it together, because none has its result before
/// the last member has come.
bool ends_together(Kind kind) {
  return kind == Kind::AllReduce || kind == Kind::AllGather || kind == Kind::ReduceScatter ||
         kind == Kind::AllToAll || kind == Kind::Barrier;
}

class Matcher {
 public:
  explicit Matcher(Files& files) : files_(files), groups_(files) {}

  Matches match() {
    collect();
    groups_.number(matches_.instances);
    for (auto begin = parts_.begin(); begin != parts_.end();) {
      const auto end =
          std::find_if(begin, parts_.end(), [&](const Part& p) { return p.key() != begin->key(); });
      match(begin, end);
      begin = end;
    }
    std::sort(matches_.differences.begin(), matches_.differences.end(),
              [](const auto& x, const auto& y) {
                return std::tie(x.a, x.b, x.later) < std::tie(y.a, y.b, y.later);
              });
    return std::move(matches_);
  }

 private:
  using Iterator = std::vector<Part>::iterator;

  const Event& event(const Part& p) const { return files_[p.file].events[p.event]; }
  Transfer& transfer(const Part& p) { return files_[p.file].transfers[event(p).transfer]; }

  void collect() {
    for (std::size_t f = 0; f < files_.size(); ++f) {
      const File& file = files_[f];
      for (std::size_t i = 0; i < file.events.size(); ++i) {
        const Event& e = file.events[i];
        if (e.transfer < 0) continue;
        const Transfer& t = file.transfers[e.transfer];
        if (t.group < 0) continue;
        const bool message =
            e.kind == Kind::Send || e.kind == Kind::Recv || e.kind == Kind::SendRecv;
        if (message && (t.source < 0 || t.destination < 0)) {
          ++matches_.unmatched;  // the file does not say who sends to whom
          continue;
        }
        const auto id = static_cast<std::int32_t>(f);
        const ProcessGroup& group = file.groups[t.group];
        parts_.push_back({message ? groups_.message(id, group, t) : groups_.collective(id, group),
                          message, t.seq, t.seq < 0 ? e.step : 0, id, e.begin,
                          static_cast<std::uint32_t>(i)});
      }
    }
    std::sort(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) {
      return std::tie(a.group, a.seq, a.step, a.file, a.begin, a.event) <
             std::tie(b.group, b.seq, b.step, b.file, b.begin, b.event);
    });
  }

  /// Matches the parts of one key, which are sorted by file: the n-th parts of all files are one
  /// transfer, if all files agree.
  void match(Iterator begin, Iterator end) {
    std::vector<std::pair<Iterator, Iterator>> members;
    for (auto from = begin; from != end;) {
      const auto to = std::find_if(from, end, [&](const Part& p) { return p.file != from->file; });
      members.emplace_back(from, to);
      from = to;
    }
    const auto& [first, first_end] = members.front();
    for (const auto& [from, to] : members) {
      const bool agree = std::equal(first, first_end, from, to, [&](const Part& a, const Part& b) {
        return a.message || event(a).kind == event(b).kind;
      });
      if (agree) continue;
      matches_.unmatched += end - begin;
      return;
    }
    for (std::ptrdiff_t n = 0; n < first_end - first; ++n) join(members, n);
  }

  void join(const std::vector<std::pair<Iterator, Iterator>>& members, std::ptrdiff_t n) {
    const Part& first = members.front().first[n];
    const std::int32_t number = next_number_[first.group]++;
    Nanoseconds shortest = std::numeric_limits<Nanoseconds>::max();
    for (const auto& member : members) {
      const Event& e = event(member.first[n]);
      shortest = std::min(shortest, e.end - e.begin);
    }
    for (const auto& member : members) {
      const Part& part = member.first[n];
      Transfer& t = transfer(part);
      t.channel = groups_.channel(part.group);
      t.number = number;
      t.shortest = shortest;
      if (part.file != first.file && ends_together(event(part).kind)) {
        matches_.differences.push_back({first.file, part.file, event(part).end - event(first).end});
      }
    }
  }

  Files& files_;
  Groups groups_;
  std::vector<Part> parts_;
  std::map<std::int32_t, std::int32_t> next_number_;  // by group
  Matches matches_;
};

std::string microseconds_text(Nanoseconds t) {
  std::string text = std::to_string(static_cast<double>(t) / 1000);
  return text.substr(0, text.find('.') + 2) + " us";
}

}  // namespace

Matches match_transfers(Files& files) { return Matcher(files).match(); }

Clocks align_clocks(const Files& files, const Matches& matches) {
  /// What two files tell of each other's clocks: the median difference, and the median deviation
  /// from it.
  struct Edge {
    std::int32_t a = 0, b = 0;
    Nanoseconds later = 0, deviation = 0;
    std::size_t count = 0;
  };
  std::vector<Edge> edges;
  const auto& d = matches.differences;
  for (auto begin = d.begin(); begin != d.end();) {
    const auto end = std::find_if(
        begin, d.end(), [&](const auto& x) { return x.a != begin->a || x.b != begin->b; });
    const Nanoseconds median = begin[(end - begin) / 2].later;
    std::vector<Nanoseconds> deviations;
    for (auto x = begin; x != end; ++x) deviations.push_back(std::abs(x->later - median));
    std::nth_element(deviations.begin(), deviations.begin() + (end - begin) / 2, deviations.end());
    edges.push_back(
        {begin->a, begin->b, median, deviations[to_size(end - begin) / 2], to_size(end - begin)});
    begin = end;
  }
  // Pairs with the most collectives in common come first.
  std::stable_sort(edges.begin(), edges.end(),
                   [](const Edge& x, const Edge& y) { return x.count > y.count; });

  Clocks clocks;
  const bool wall =
      std::all_of(files.begin(), files.end(), [](const File& f) { return f.wall_clock; });
  constexpr Nanoseconds kFar =
      std::numeric_limits<Nanoseconds>::max() / 2;  // assemble refuses what is further apart
  IndexVector<std::int32_t, bool> known(files.size(), false);
  clocks.starts.assign(files.size(), 0);
  Nanoseconds largest = 0;
  std::size_t used = 0, unaligned = 0;
  for (std::size_t root = 0; root < files.size(); ++root) {
    if (known[root]) continue;
    known[root] = true;
    if (wall) clocks.starts[root] = files[root].start - files[0].start;
    if (!wall && root > 0) ++unaligned;
    for (bool grown = true; grown;) {
      grown = false;
      for (const Edge& e : edges) {
        if (known[e.a] == known[e.b]) continue;
        const bool forward = known[e.a];
        const std::int32_t from = forward ? e.a : e.b, to = forward ? e.b : e.a;
        const Nanoseconds start = clocks.starts[from] + (forward ? -e.later : e.later);
        clocks.starts[to] = std::clamp(start, -kFar, kFar);
        known[to] = grown = true;
        clocks.uncertainty = std::max(clocks.uncertainty, e.deviation);
        if (wall) {
          largest = std::max(largest, std::abs(start - (files[to].start - files[0].start)));
        }
        used += e.count;
        break;
      }
    }
  }
  if (used > 0) {
    clocks.remarks.push_back("clocks aligned by the ends of " + std::to_string(used) +
                             " collectives" +
                             (wall ? ": corrected by at most " + microseconds_text(largest) : "") +
                             ", +- " + microseconds_text(clocks.uncertainty));
  }
  if (unaligned > 0) {
    clocks.remarks.push_back(
        std::to_string(unaligned) +
        " ranks have neither the time of day nor a collective in common with another rank: "
        "they are drawn as if all began together");
  }
  return clocks;
}

}  // namespace lockstep::kineto
