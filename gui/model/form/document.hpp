// Document: the scenario that is being edited, its history, and where it is kept.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "gui/model/form/history.hpp"

namespace lockstep::gui {

/// A scenario's text, and what the sliders put over it.
struct Document {
  std::string text;
  std::vector<std::string> overrides;  // "section.key=value", one per key
  bool operator==(const Document&) const = default;
};
/// Adds "section.key=value", in the place of one of the same key.
void put_override(std::vector<std::string>& overrides, const std::string& entry);

/// The document that is open, if any. What changes it says whether anything changed.
class EditedDocument {
 public:
  bool is_open() const { return is_open_; }
  const Document& now() const { return history_.now(); }
  const std::string& path() const { return path_; }  // empty: it is not saved yet
  /// For messages: the path, or a name.
  std::string file_name() const { return path_.empty() ? "scenario.toml" : path_; }
  bool is_modified() const { return is_open_ && now().text != saved_text_; }

  /// A scenario's file, or a schedule's (.csv), which becomes a scenario that is not saved yet.
  /// Error: it cannot be read, or is no schedule; what was open stays.
  Result<void> open(const std::string& path);
  /// Writes the text. Error: Device.
  Result<void> save(const std::string& path);

  /// Changes of the same non-empty `merge` in a row are one step of undo.
  bool edit(Document document, const std::string& merge = {});
  /// No value: takes the override away.
  bool set_override(const std::string& key, const std::optional<std::string>& value);
  bool can_undo() const { return is_open_ && history_.can_undo(); }
  bool can_redo() const { return is_open_ && history_.can_redo(); }
  void undo() { history_.undo(); }
  void redo() { history_.redo(); }

 private:
  bool is_open_ = false;
  std::string path_, saved_text_;
  History<Document> history_;
};

}  // namespace lockstep::gui
