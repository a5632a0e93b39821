#include "core/schedule/schedule.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

namespace lockstep {

int copies_of_model(const Schedule& schedule, int stages) {
  const int all = static_cast<int>(schedule.rank_of_stage.size());
  if (stages < 1 || all % stages != 0) return 1;
  std::map<Microbatch, int> copy_of;
  for (const Actions& actions : schedule.actions) {
    for (const Action& a : actions) {
      const int copy = a.stage / stages;
      if (copy_of.try_emplace(a.microbatch, copy).first->second != copy) return 1;
    }
  }
  return std::max(1, all / stages);
}

std::string to_string(const Action& action) {
  return std::to_string(action.stage) + std::string(to_string(action.phase)) +
         std::to_string(action.microbatch);
}

std::vector<std::string> to_cells(const Actions& actions) {
  std::vector<std::string> cells;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (actions[i].overlaps_next && i + 1 < actions.size()) {
      cells.push_back("(" + to_string(actions[i]) + ";" + to_string(actions[i + 1]) +
                      ")OVERLAP_F_B");
      ++i;
    } else {
      cells.push_back(to_string(actions[i]));
    }
  }
  return cells;
}

std::string print_schedule_csv(const Schedule& schedule) {
  std::string text;
  for (const Actions& actions : schedule.actions) {
    bool first = true;
    for (const std::string& cell : to_cells(actions)) {
      text += (first ? "" : ",") + cell;
      first = false;
    }
    text += "\n";
  }
  return text;
}

namespace {

constexpr int kMostIndices = 1 << 20;

/// Parses "2F0": stage, letter, microbatch. Also accepts the cells that communicate; `keep` is
/// false for them.
bool parse_action(std::string_view cell, Action& action, bool& keep) {
  const char* const end = cell.data() + cell.size();
  const auto stage = std::from_chars(cell.data(), end, action.stage);
  if (stage.ec != std::errc{} || stage.ptr == end || action.stage > kMostIndices) return false;
  const std::string_view rest(stage.ptr, to_size(end - stage.ptr));
  constexpr std::array<std::string_view, 3> kWithoutMicrobatch = {"UNSHARD", "RESHARD",
                                                                  "REDUCE_GRAD"};
  keep = false;
  for (std::string_view name : kWithoutMicrobatch) {
    if (rest == name) return true;
  }
  constexpr std::array<std::pair<std::string_view, Phase>, 8> kNames = {{{"SEND_F", Phase::None},
                                                                         {"RECV_F", Phase::None},
                                                                         {"SEND_B", Phase::None},
                                                                         {"RECV_B", Phase::None},
                                                                         {"F", Phase::F},
                                                                         {"B", Phase::B},
                                                                         {"I", Phase::I},
                                                                         {"W", Phase::W}}};
  for (const auto& [name, phase] : kNames) {
    if (!rest.starts_with(name)) continue;
    const auto number =
        std::from_chars(rest.data() + name.size(), rest.data() + rest.size(), action.microbatch);
    action.phase = phase;
    keep = phase != Phase::None;
    return number.ec == std::errc{} && number.ptr == end && action.microbatch >= 0 &&
           action.microbatch < kMostIndices && action.stage >= 0;
  }
  return false;
}

/// Appends the action or pair of `cell`; false if it is neither.
bool parse_cell(std::string_view cell, Actions& actions) {
  Action action;
  bool keep = false;
  if (!cell.starts_with('(')) {
    if (!parse_action(cell, action, keep)) return false;
    if (keep) actions.push_back(action);
    return true;
  }
  const std::size_t middle = cell.find(';');
  const std::size_t end = cell.find(')');
  if (middle == std::string_view::npos || end == std::string_view::npos || end < middle) {
    return false;
  }
  Action second;
  bool keep_second = false;
  if (cell.substr(end + 1) != "OVERLAP_F_B" ||
      !parse_action(cell.substr(1, middle - 1), action, keep) ||
      !parse_action(cell.substr(middle + 1, end - middle - 1), second, keep_second)) {
    return false;
  }
  const bool backward = second.phase == Phase::B || second.phase == Phase::I;
  if (action.phase != Phase::F || !backward) return false;
  action.overlaps_next = true;
  actions.push_back(action);
  actions.push_back(second);
  return true;
}

/// Checks the messages of a file's second level. Each must have two ends, such as "2SEND_F0" and
/// "3RECV_F0".
class MessageEnds {
 public:
  /// Requires a cell that parse_cell takes.
  void note(std::string_view cell, SourceSpan where) {
    const bool sends = cell.find("SEND_") != std::string_view::npos;
    if (!sends && cell.find("RECV_") == std::string_view::npos) return;
    Action action;
    bool keep = false;
    if (!parse_action(cell, action, keep)) return;
    const bool forward = cell.find("_F") != std::string_view::npos;
    const Stage to = action.stage + (sends ? (forward ? 1 : -1) : 0);
    auto& end = ends_[{forward, to, action.microbatch}][sends ? 0 : 1];
    end = {std::string(cell), std::move(where)};
  }
  /// An error for the first end that stands alone; nothing if all have their other end.
  std::optional<Error> alone() const {
    for (const auto& [message, ends] : ends_) {
      const auto& [forward, to, microbatch] = message;
      for (const std::size_t end : {0u, 1u}) {
        if (ends[end].cell.empty() || !ends[1 - end].cell.empty()) continue;
        const Stage stage = end == 0 ? to : to + (forward ? -1 : 1);
        return Error{ErrorKind::Parse,
                     "'" + ends[end].cell + "' has no '" + std::to_string(stage) +
                         (end == 0 ? "RECV" : "SEND") + (forward ? "_F" : "_B") +
                         std::to_string(microbatch) + "' at its other end",
                     ends[end].where};
      }
    }
    return std::nullopt;
  }

 private:
  struct End {
    std::string cell;
    SourceSpan where;
  };
  // By (forward, receiving stage, microbatch): the cells of sender and receiver.
  std::map<std::tuple<bool, Stage, Microbatch>, std::array<End, 2>> ends_;
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '"')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '"' || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  return text;
}

}  // namespace

Result<Schedule> parse_schedule_csv(std::string_view text, const std::string& file) {
  Schedule schedule;
  MessageEnds messages;
  for (int line = 1; !text.empty(); ++line) {
    const std::size_t newline = std::min(text.find('\n'), text.size());
    std::string_view row = text.substr(0, newline);
    text.remove_prefix(std::min(newline + 1, text.size()));
    Actions actions;
    for (int column = 1;; ++column) {
      const std::size_t comma = std::min(row.find(','), row.size());
      const std::string_view cell = trimmed(row.substr(0, comma));
      if (!cell.empty() && !parse_cell(cell, actions)) {
        return Error{ErrorKind::Parse,
                     "'" + std::string(cell) +
                         "' is no action: expected <stage><F, B, I or W><microbatch>, such as 2F0, "
                         "or a pair, such as (0F7;7B3)OVERLAP_F_B",
                     SourceSpan{file, line, column}};
      }
      messages.note(cell, SourceSpan{file, line, column});
      if (comma == row.size()) break;
      row.remove_prefix(comma + 1);
    }
    schedule.actions.push_back(std::move(actions));
  }
  if (const auto alone = messages.alone()) return *alone;
  while (!schedule.actions.empty() && schedule.actions.back().empty()) {
    schedule.actions.pop_back();
  }
  for (std::size_t r = 0; r < schedule.actions.size(); ++r) {
    for (const Action& action : schedule.actions[r]) {
      const auto s = static_cast<std::size_t>(action.stage);
      if (s >= schedule.rank_of_stage.size()) schedule.rank_of_stage.resize(s + 1, -1);
      if (schedule.rank_of_stage[s] < 0) schedule.rank_of_stage[s] = static_cast<int>(r);
    }
  }
  return schedule;
}

}  // namespace lockstep
