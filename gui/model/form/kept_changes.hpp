// KeptChanges: a copy on disk of what is not saved, for a session that is killed before it is.
#pragma once

#include <QLockFile>
#include <QString>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "gui/model/form/document.hpp"

namespace lockstep::gui {

/// What a dead session had not saved.
struct LeftBehind {
  Unsaved unsaved;
  int sessions = 1;  // how many, one after the other, had it open as it is, and died
  bool operator==(const LeftBehind&) const = default;
};

/// Of the files in its folder, each session has those that begin with its name, beside a lock that
/// ends with its process. A session that ends takes its files with it; what a dead one left is for
/// whoever comes next.
class KeptChanges {
 public:
  /// Makes `folder` if it is not there. Where that fails nothing is kept.
  explicit KeptChanges(const QString& folder);
  ~KeptChanges();
  KeptChanges(const KeptChanges&) = delete;
  KeptChanges& operator=(const KeptChanges&) = delete;

  /// Keeps what is not saved of a document, in place of what was kept of it; nothing forgets it.
  void keep(int document, const std::optional<Unsaved>& unsaved);
  /// What sessions that are dead left behind, in the order in which they opened it. It is ours to
  /// keep from here on, as that of `first_document` and those that follow.
  std::vector<LeftBehind> take_over(int first_document);

 private:
  QString file_of(int document) const;
  QString folder_, name_;
  std::unique_ptr<QLockFile> lock_;
  std::map<int, Unsaved> kept_;  // what lies in the folder, by document
};

}  // namespace lockstep::gui
