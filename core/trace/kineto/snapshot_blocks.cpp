#include "core/trace/kineto/snapshot_blocks.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace lockstep::kineto {
namespace {

class BlockReader {
 public:
  BlockReader(Allocations& all, Rank rank, const Pickle& pickle,
              const std::function<SimTime(std::size_t)>& time_of)
      : all_(all), rank_(rank), pickle_(pickle), time_of_(time_of), first_(all.list.size()) {
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(all.names.size()); ++i) {
      names_.emplace(all.names[i], i);
    }
  }

  void read(int device, Pickle::Id history) {
    const auto events = pickle_.items(history);
    for (std::size_t i = 0; i < events.size(); ++i) {
      now_ = time_of_(i);
      read_event(events[i]);
    }
    for (const Pickle::Id segment : pickle_.items(pickle_.find(pickle_.root(), "segments"))) {
      if (pickle_.integer(pickle_.find(segment, "device")) == device) read_segment(segment);
    }
    for (const auto& [address, block] : live_) end_block(address, block);
    pack();
  }

 private:
  struct Live {
    std::int64_t bytes = 0;
    std::int32_t asked_by = 0;
    SimTime from{};
  };

  std::int64_t number(Pickle::Id event, std::string_view key) const {
    return pickle_.integer(pickle_.find(event, key));
  }

  /// The address of an event ("addr") or of a block ("address"). Negative ones, which no allocator
  /// gives, and ends beyond the last address are taken as 0, so that sums stay in range.
  static std::int64_t in_range(std::int64_t address, std::int64_t bytes) {
    constexpr std::int64_t kLargest = std::int64_t{1} << 62;
    return address < 0 || bytes < 0 || bytes > kLargest || address > kLargest - bytes ? 0 : address;
  }

  void read_event(Pickle::Id event) {
    const std::string_view action = pickle_.text(pickle_.find(event, "action"));
    const std::int64_t bytes = number(event, "size");
    const std::int64_t address = in_range(number(event, "addr"), bytes);
    if (action == "segment_alloc" || action == "segment_map") {
      have(address, bytes);
    } else if (action == "alloc") {
      have(address, bytes);
      if (const auto old = live_.find(address); old != live_.end()) end_block(address, old->second);
      live_[address] = {bytes, asked_by(event), now_};
    } else if (action == "free_completed") {
      const auto at = live_.find(address);
      // A block that the history does not tell of was there before it.
      const Live block = at != live_.end() ? at->second : Live{bytes, asked_by(event), SimTime{0}};
      have(address, bytes);
      end_block(address, block);
      if (at != live_.end()) live_.erase(at);
    }
  }

  /// At the end: what is in use and was never asked for in the history was there throughout.
  void read_segment(Pickle::Id segment) {
    std::int64_t address = number(segment, "address");
    have(in_range(address, number(segment, "total_size")), number(segment, "total_size"));
    for (const Pickle::Id block : pickle_.items(pickle_.find(segment, "blocks"))) {
      const std::int64_t bytes = number(block, "size");
      const Pickle::Id own = pickle_.find(block, "address");  // in files of PyTorch 2.1 and later
      if (own != Pickle::kNothing) address = pickle_.integer(own);
      const bool used = pickle_.text(pickle_.find(block, "state")).starts_with("active");
      const std::int64_t at = in_range(address, bytes);
      if (used && !live_.contains(at)) live_[at] = {bytes, asked_by(block), SimTime{0}};
      if (used) have(at, bytes);
      address = in_range(address, bytes) + std::max<std::int64_t>(bytes, 0);
    }
  }

  void end_block(std::int64_t address, const Live& block) {
    if (block.bytes <= 0) return;
    all_.list.push_back({rank_, block.asked_by, address, block.bytes, block.from, now_});
  }

  void have(std::int64_t address, std::int64_t bytes) {
    if (bytes > 0) had_.emplace_back(address, address + bytes);
  }

  /// The innermost line of the user's own code: the first of the stack that is not PyTorch's.
  std::int32_t asked_by(Pickle::Id event) {
    std::string name = "no stack was recorded";
    bool found = false;
    for (const Pickle::Id frame : pickle_.items(pickle_.find(event, "frames"))) {
      const std::string_view file = pickle_.text(pickle_.find(frame, "filename"));
      const bool own = file.ends_with(".py") && file.find("/torch/") == std::string_view::npos;
      if (found && !own) continue;
      const std::size_t folder = file.rfind('/');
      name = std::string(pickle_.text(pickle_.find(frame, "name")));
      name += " " + std::string(folder == std::string_view::npos ? file : file.substr(folder + 1));
      name += ":" + std::to_string(number(frame, "line"));
      found = true;
      if (own) break;
    }
    const auto [at, is_new] =
        names_.emplace(std::move(name), static_cast<std::int32_t>(all_.names.size()));
    if (is_new) all_.names.push_back(at->first);
    return at->second;
  }

  /// Turns addresses into offsets: what the allocator never had is left out.
  void pack() {
    std::sort(had_.begin(), had_.end());
    std::map<std::int64_t, std::int64_t> offset_of;  // by the first address of each stretch
    std::int64_t offset = 0, last = 0;               // of the stretch at hand: where it ends
    for (const auto& [begin, end] : had_) {
      if (offset_of.empty() || begin > last) {
        offset_of[begin] = offset;
        offset += end - begin;
        last = end;
      } else if (end > last) {
        offset += end - last;
        last = end;
      }
    }
    all_.extent.push_back(offset);
    const auto begin = all_.list.begin() + static_cast<std::ptrdiff_t>(first_);
    for (auto block = begin; block != all_.list.end(); ++block) {
      const auto stretch = std::prev(offset_of.upper_bound(block->offset));
      block->offset += stretch->second - stretch->first;
    }
    std::sort(begin, all_.list.end(), [](const Allocation& a, const Allocation& b) {
      return std::tie(a.from, a.offset, a.until) < std::tie(b.from, b.offset, b.until);
    });
  }

  Allocations& all_;
  Rank rank_;
  const Pickle& pickle_;
  const std::function<SimTime(std::size_t)>& time_of_;
  std::size_t first_;  // of this device's blocks in the list
  SimTime now_{};
  std::map<std::int64_t, Live> live_;  // by address
  std::vector<std::pair<std::int64_t, std::int64_t>> had_;
  std::unordered_map<std::string, std::int32_t> names_;
};

}  // namespace

void add_blocks(Allocations& all, Rank rank, const Pickle& pickle, int device, Pickle::Id history,
                const std::function<SimTime(std::size_t)>& time_of) {
  BlockReader(all, rank, pickle, time_of).read(device, history);
}

}  // namespace lockstep::kineto
