// Unsaved: what happens to changes that are not saved when something is closed.
#pragma once

#include "gui/model/session.hpp"

class QWidget;

namespace lockstep::gui {

/// Asks where to write a file. A name without an ending gets the first one of `filter` ("Tables
/// (*.csv *.csv.gz)"), because files are told by their endings when they are opened. Empty if the
/// user cancels.
QString ask_where_to_write(QWidget* parent, const QString& title, const QString& name,
                           const QString& filter);

/// Saves the document into its file, or into one that the user chooses if it has none or
/// `other_name`. Asks before it overwrites what another program has written into the file. Returns
/// whether it is saved; `error` says why not, and is empty if the user cancelled.
bool save_document(QWidget* parent, Session& session, bool other_name, QString& error);

/// Asks whether to save an item that has unsaved changes, and does it. Returns whether the item may
/// be closed.
bool may_close(QWidget* parent, Session& session, const OpenItem& item);

/// may_close() of everything that is open.
bool may_close_all(QWidget* parent, Session& session);

}  // namespace lockstep::gui
