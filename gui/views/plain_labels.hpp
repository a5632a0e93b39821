// Plain labels: what a file or another program says is shown as it is. Qt takes a text that looks
// like HTML for HTML, also in tool tips and message boxes, and HTML can hide words and load files.
#pragma once

namespace lockstep::gui {

/// From now on, every label of this application whose format nobody has set shows plain text. A
/// label that is to show HTML has to say so (Qt::RichText), and must escape what is not its own.
void make_labels_plain();

}  // namespace lockstep::gui
