#include "gui/views/glossary_dialog.hpp"

#include <QDesktopServices>
#include <QLineEdit>
#include <QTextBlock>
#include <QVBoxLayout>

#include "gui/model/glossary.hpp"

namespace lockstep::gui {

GlossaryDialog::GlossaryDialog(QWidget* parent) : QDialog(parent), page_(new QTextBrowser(this)) {
  setWindowTitle("Glossary");
  setAttribute(Qt::WA_DeleteOnClose);
  resize(560, 640);
  const std::string_view text = glossary_text();
  page_->setMarkdown(QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size())));
  page_->setAccessibleName("Glossary");
  page_->setOpenLinks(false);
  connect(page_, &QTextBrowser::anchorClicked, this, [this](const QUrl& link) {
    if (link.isRelative()) {  // such as "#reduce-scatter" or "#peak-memory"
      const QString term = link.fragment();
      if (!show_term(term)) show_term(QString(term).replace('-', ' '));
    } else {
      QDesktopServices::openUrl(link);
    }
  });
  auto* find = new QLineEdit(this);
  find->setPlaceholderText("Find a term");
  find->setAccessibleName("Find a term");
  connect(find, &QLineEdit::textEdited, this, [this](const QString& term) { show_term(term); });
  auto* column = new QVBoxLayout(this);
  column->addWidget(find);
  column->addWidget(page_);
  find->setFocus();
}

bool GlossaryDialog::show_term(const QString& term) {
  for (QTextBlock block = page_->document()->begin(); block.isValid(); block = block.next()) {
    if (block.blockFormat().headingLevel() != 3) continue;
    if (!block.text().startsWith(term, Qt::CaseInsensitive)) continue;
    page_->moveCursor(QTextCursor::End);  // scrolls up from there, so that the term is at the top
    page_->setTextCursor(QTextCursor(block));
    page_->ensureCursorVisible();
    return true;
  }
  return false;
}

}  // namespace lockstep::gui
