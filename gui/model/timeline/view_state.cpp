#include "gui/model/timeline/view_state.hpp"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <algorithm>
#include <tuple>

namespace lockstep::gui {
namespace {

bool earlier(const Mark& a, const Mark& b) {
  const auto key = [](const Mark& m) { return std::tie(m.range.begin, m.range.end, m.ranks); };
  return key(a) < key(b);
}

template <class List>
QJsonArray strings(const List& list) {
  QJsonArray array;
  for (const std::string& text : list) array.append(QString::fromStdString(text));
  return array;
}
QJsonArray numbers(const std::vector<Rank>& ranks) {
  QJsonArray array;
  for (const Rank rank : ranks) array.append(rank);
  return array;
}
std::vector<std::string> strings_of(const QJsonValue& value) {
  std::vector<std::string> list;
  for (const auto& text : value.toArray()) list.push_back(text.toString().toStdString());
  return list;
}
std::vector<Rank> ranks_of(const QJsonValue& value) {
  std::vector<Rank> ranks;
  for (const auto& number : value.toArray()) {
    if (const int rank = number.toInt(-1); rank >= 0) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace

void toggle(std::vector<Mark>& marks, Mark mark) {
  const auto same = [&](const Mark& m) { return m.same_place(mark); };
  if (std::erase_if(marks, same) > 0) return;
  marks.insert(std::upper_bound(marks.begin(), marks.end(), mark, earlier), std::move(mark));
}

const Mark* next_mark(const std::vector<Mark>& marks, const Mark& here, bool forward) {
  if (marks.empty()) return nullptr;
  if (forward) {
    const auto next = std::upper_bound(marks.begin(), marks.end(), here, earlier);
    return next == marks.end() ? &marks.front() : &*next;
  }
  const auto at = std::lower_bound(marks.begin(), marks.end(), here, earlier);
  return at == marks.begin() ? &marks.back() : &*(at - 1);
}

std::string to_json(const ViewState& state) {
  QJsonArray marks;
  for (const Mark& mark : state.marks) {
    marks.append(QJsonObject{{"begin_ps", qint64{mark.range.begin.count()}},
                             {"end_ps", qint64{mark.range.end.count()}},
                             {"ranks", numbers(mark.ranks)},
                             {"words", QString::fromStdString(mark.words)}});
  }
  const QJsonObject all{{"folded", strings(state.layout.folded)},
                        {"pinned", strings(state.layout.pinned)},
                        {"order", numbers(state.layout.order)},
                        {"identical_ranks", state.layout.identical_ranks},
                        {"marks", marks}};
  return QJsonDocument(all).toJson(QJsonDocument::Compact).toStdString();
}

ViewState parse_view_state(const std::string& json) {
  const QJsonObject all = QJsonDocument::fromJson(QByteArray::fromStdString(json)).object();
  ViewState state;
  const std::vector<std::string> folded = strings_of(all["folded"]);
  state.layout.folded = {folded.begin(), folded.end()};
  state.layout.pinned = strings_of(all["pinned"]);
  state.layout.order = ranks_of(all["order"]);
  state.layout.identical_ranks = all["identical_ranks"].toBool();
  for (const auto& value : all["marks"].toArray()) {
    const QJsonObject mark = value.toObject();
    const SimTime begin{mark["begin_ps"].toInteger()}, end{mark["end_ps"].toInteger()};
    if (end < begin) continue;
    toggle(state.marks,
           {{begin, end}, ranks_of(mark["ranks"]), mark["words"].toString().toStdString()});
  }
  return state;
}

}  // namespace lockstep::gui
