#include "core/schedule/communication.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "core/base/index_vector.hpp"
#include "core/schedule/inputs.hpp"
#include "core/schedule/messages.hpp"

namespace lockstep {
namespace {

/// One cell of the output: actions that run as one, or communication that waits for no action
/// (UNSHARD, RESHARD, REDUCE_GRAD).
struct Cell {
  Actions actions;
  std::string text;
};

bool ends_backward(const Action& a) { return a.phase == Phase::B || a.phase == Phase::W; }

/// The next stages that the rank touches from action `from` on, at most `count`, in that order.
std::vector<Stage> next_stages(const Actions& actions, std::size_t from, std::size_t count) {
  std::vector<Stage> stages;
  for (std::size_t i = from; i < actions.size() && stages.size() < count; ++i) {
    if (std::find(stages.begin(), stages.end(), actions[i].stage) == stages.end()) {
      stages.push_back(actions[i].stage);
    }
  }
  return stages;
}

std::vector<Cell> add_unshard_and_reduce(const Actions& actions, int most_active) {
  std::map<Stage, int> left;  // by stage: backward passes that have not ended
  for (const Action& a : actions) left[a.stage] += ends_backward(a);
  const std::size_t most = most_active > 0 ? to_size(most_active) : left.size();
  std::vector<Cell> cells;
  const auto add = [&](Stage stage, const char* what) {
    cells.push_back({{}, std::to_string(stage) + what});
  };
  std::vector<Stage> active;
  for (const Step& step : steps_of(actions)) {
    const std::vector<Stage> next = next_stages(actions, step.begin, most);
    const auto among = [](const std::vector<Stage>& list, Stage s) {
      return std::find(list.begin(), list.end(), s) != list.end();
    };
    for (const Stage s : active) {
      if (!among(next, s)) add(s, "RESHARD");
    }
    for (const Stage s : next) {
      if (!among(active, s)) add(s, "UNSHARD");
    }
    active = next;
    const auto begin = actions.begin();
    const Actions both(begin + static_cast<std::ptrdiff_t>(step.begin),
                       begin + static_cast<std::ptrdiff_t>(step.end));
    cells.push_back({both, to_cells(both).front()});
    for (const Action& a : both) {
      if (ends_backward(a) && --left[a.stage] == 0) add(a.stage, "REDUCE_GRAD");
    }
  }
  for (const Stage s : active) add(s, "RESHARD");
  return cells;
}

/// PyTorch's add_send_recv: goes over the ranks in turn and takes one cell of each, if its inputs
/// are there.
class SendRecv {
 public:
  SendRecv(const Schedule& schedule, std::vector<std::vector<Cell>> cells)
      : schedule_(schedule),
        cells_(std::move(cells)),
        at_(cells_.size()),
        out_(cells_.size()),
        inputs_(schedule) {}

  std::vector<std::vector<std::string>> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < cells_.size(); ++r) {
        if (at_[r] == cells_[r].size() || !ready(cells_[r][at_[r]])) continue;
        emit(r, cells_[r][at_[r]++]);
        moved = true;
      }
    }
    return std::move(out_);
  }

 private:
  bool ready(const Cell& cell) const {
    return std::all_of(cell.actions.begin(), cell.actions.end(),
                       [&](const Action& a) { return inputs_.ready(a); });
  }
  void emit(std::size_t r, const Cell& cell) {
    out_[r].push_back(cell.text);
    for (const Action& a : cell.actions) {
      const std::optional<Action> to = inputs_.run(a);
      if (!to || !in_message(schedule_, a.stage, to->stage)) continue;
      const std::size_t receiver = to_size(schedule_.rank_of_stage[to->stage]);
      const std::string message =
          (a.phase == Phase::F ? "_F" : "_B") + std::to_string(a.microbatch);
      out_[r].push_back(std::to_string(a.stage) + "SEND" + message);
      out_[receiver].push_back(std::to_string(to->stage) + "RECV" + message);
    }
  }

  const Schedule& schedule_;
  const std::vector<std::vector<Cell>> cells_;
  std::vector<std::size_t> at_;
  std::vector<std::vector<std::string>> out_;
  Inputs inputs_;
};

}  // namespace

std::vector<std::vector<std::string>> with_communication(const Schedule& schedule,
                                                         int most_active) {
  std::vector<std::vector<Cell>> cells;
  for (const Actions& actions : schedule.actions) {
    cells.push_back(add_unshard_and_reduce(actions, most_active));
  }
  return SendRecv(schedule, std::move(cells)).run();
}

std::string print_communication_csv(const Schedule& schedule, int most_active) {
  std::string text;
  for (const std::vector<std::string>& cells : with_communication(schedule, most_active)) {
    for (std::size_t i = 0; i < cells.size(); ++i) text += (i > 0 ? "," : "") + cells[i];
    text += "\n";
  }
  return text;
}

}  // namespace lockstep
