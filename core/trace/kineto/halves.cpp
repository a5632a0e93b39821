// pair_halves: makes events of those that are written as a begin and an end.
#include <algorithm>
#include <limits>
#include <utility>

#include "core/trace/kineto/file.hpp"

namespace lockstep::kineto {

void pair_halves(File& file, std::vector<HalfEvent> halves) {
  if (halves.empty()) return;
  std::stable_sort(halves.begin(), halves.end(), [](const HalfEvent& a, const HalfEvent& b) {
    return std::pair(a.event.track, a.event.begin) < std::pair(b.event.track, b.event.begin);
  });
  IndexVector<std::int32_t, Nanoseconds> last(file.tracks.size(),
                                              std::numeric_limits<Nanoseconds>::min());
  const auto extend = [&](const Event& e) {
    Nanoseconds& end = last[e.track];
    end = std::max(end, e.end);
  };
  for (const Event& e : file.events) extend(e);
  for (const HalfEvent& h : halves) extend(h.event);
  std::vector<Event> open;
  const auto close = [&](Nanoseconds end) {
    open.back().end = end;
    file.events.push_back(open.back());
    open.pop_back();
  };
  const auto close_all = [&] {
    file.counts.unfinished += static_cast<std::int64_t>(open.size());
    while (!open.empty()) close(last[open.back().track]);
  };
  for (const HalfEvent& h : halves) {
    if (!open.empty() && open.back().track != h.event.track) close_all();
    if (h.begins) {
      open.push_back(h.event);
    } else if (open.empty()) {
      ++file.counts.unbegun;
    } else {
      close(h.event.begin);
    }
  }
  close_all();
}

}  // namespace lockstep::kineto
