// Document: the scenario that is being edited, its history, and the file in which it is kept.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "gui/model/form/history.hpp"

namespace lockstep::gui {

/// The text of a scenario, and the values that sliders override.
struct Document {
  std::string text;
  std::vector<std::string> overrides;  // "section.key=value", one per key
  bool operator==(const Document&) const = default;
};
/// Adds "section.key=value", and replaces an override of the same key.
void put_override(std::vector<std::string>& overrides, const std::string& entry);

/// What it takes to open a document again with the changes that were not saved.
struct Unsaved {
  std::string path;   // empty if it had no file
  std::string saved;  // what the file had, as far as the document knew
  Document now;
  bool operator==(const Unsaved&) const = default;
};

/// The open document, if any. Functions that change it return whether anything changed.
class EditedDocument {
 public:
  bool is_open() const { return is_open_; }
  const Document& now() const { return history_.now(); }
  const std::string& path() const { return path_; }  // empty if it is not saved yet
  /// The path, or a name, for messages.
  std::string file_name() const { return path_.empty() ? "scenario.toml" : path_; }
  /// Whether its file may be written: not if there is none, or one that came with Lockstep, of
  /// which the document is a copy.
  bool has_own_file() const;
  /// The command line that simulates what is shown. Error if the file, with overrides, cannot say
  /// it: the document must be saved first.
  Result<std::string> command() const;
  /// Whether text or sliders differ from what the file has.
  bool is_modified() const { return is_open_ && now() != saved_; }

  /// Opens the file of a scenario, or of a schedule (.csv), which becomes a scenario that is not
  /// saved yet. Error if the file cannot be read or is not a schedule; what was open stays.
  Result<void> open(const std::string& path);
  /// Begins with a text that is not saved yet, as if it stood in the file `path`.
  void begin(const std::string& path, Document document);
  /// Writes the text to a file, with the overrides in it (see with_overrides()), and keeps that as
  /// a step of the history, so that undo() brings text and sliders back. Errors: Device, those of
  /// with_overrides(), and InvalidSpec if the file came with Lockstep.
  Result<void> save(const std::string& path);

  /// Whether the file has other content than was read or written here: saving would overwrite what
  /// another program wrote.
  bool is_changed_elsewhere() const;
  /// Reads the file again if another program has changed it and no change of ours would be lost: a
  /// step of the history. Returns whether it did.
  bool reread();
  /// What is not saved; nothing if the document is as its file.
  std::optional<Unsaved> unsaved() const;
  /// Opens what was not saved, as a change of what the file had, to which undo() leads back.
  void restore(const Unsaved& unsaved);

  /// Successive changes with the same non-empty `merge` are one step of undo.
  bool edit(Document document, const std::string& merge = {});
  /// Sets an override, or removes it if there is no value.
  bool set_override(const std::string& key, const std::optional<std::string>& value);
  bool can_undo() const { return is_open_ && history_.can_undo(); }
  bool can_redo() const { return is_open_ && history_.can_redo(); }
  void undo() { history_.undo(); }
  void redo() { history_.redo(); }

 private:
  bool is_open_ = false;
  std::string path_;
  Document saved_;
  History<Document> history_;
};

}  // namespace lockstep::gui
