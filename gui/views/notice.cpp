#include "gui/views/notice.hpp"

#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QTimer>
#include <QVBoxLayout>
#include <algorithm>

#include "core/format/format.hpp"
#include "gui/model/run/describe.hpp"
#include "gui/views/canvas.hpp"
#include "gui/views/qt_text.hpp"

namespace lockstep::gui {
namespace {

constexpr int kBlinkMs = 300;  // a picture that is outdated for less is not dimmed
constexpr std::size_t kMostRemedies = 3;

/// Calls `refresh` of `owner` whenever Session::outdated() may have changed, and then again when
/// a blink is over.
template <class Refresh>
void when_outdated_changes(QObject* owner, Session& session, Refresh refresh) {
  auto* blink = new QTimer(owner);
  blink->setSingleShot(true);
  blink->setInterval(kBlinkMs);
  QObject::connect(blink, &QTimer::timeout, owner, [refresh] { refresh(); });
  const auto changed = [&session, blink, refresh] {
    if (session.outdated().empty() || !session.errors().empty()) {
      blink->stop();
      return refresh();
    }
    if (!blink->isActive()) blink->start();  // an estimate that comes later is shown then, too
  };
  for (const auto signal :
       {&Session::documentChanged, &Session::errorsChanged, &Session::busyChanged}) {
    QObject::connect(&session, signal, owner, changed);
  }
  QObject::connect(&session, &Session::runChanged, owner, [blink, changed] {
    blink->stop();  // a picture that follows a slider is not dimmed while it does
    changed();
  });
}

QString setting(const std::string& key) {  // "mode=full" of "activation_checkpoint.mode=full"
  const std::size_t dot = key.rfind('.', key.find('='));
  return qt(key.substr(dot == std::string::npos ? 0 : dot + 1));
}

}  // namespace

void dim_when_outdated(Canvas& canvas, Session& session) {
  when_outdated_changes(&canvas, session,
                        [&canvas, &session] { canvas.set_dimmed(!session.outdated().empty()); });
}

Notice::Notice(Session& session, QWidget* parent)
    : QWidget(parent), session_(session), words_(new QLabel), remedies_(new QWidget) {
  setAccessibleName("Notice");
  words_->setObjectName("notice");
  words_->setWordWrap(true);
  words_->setAccessibleName("What is to be known of the picture");
  words_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  buttons_ = new QHBoxLayout(remedies_);
  buttons_->setContentsMargins(0, 0, 0, 0);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(8, 4, 8, 4);
  layout->setSpacing(4);
  layout->addWidget(words_);
  layout->addWidget(remedies_);
  when_outdated_changes(this, session, [this] { refresh(); });
  connect(&session, &Session::remediesChanged, this, [this] { refresh(); });
  refresh();
}

QString Notice::words() const { return isHidden() ? QString() : words_->text(); }

void Notice::refresh() {
  while (QLayoutItem* item = buttons_->takeAt(0)) {
    if (item->widget()) item->widget()->deleteLater();
    delete item;
  }
  const RunPtr run = session_.run();
  const bool too_large = run && run->too_large;
  QString words = qt(session_.outdated());
  if (words.isEmpty() && too_large) {
    words = "Simulated as if it fitted. " + qt(shortage(*run));
    words_->setToolTip(qt(run->too_large->message));
    const bool own = run == session_.simulation();
    const std::vector<Remedy>* remedies = own ? session_.remedies() : nullptr;
    if (own && !remedies) words += " Looking for what would make it fit…";
    if (remedies && remedies->empty()) {
      words +=
          " No change of recomputation, sharding or offload makes it fit: take more or "
          "larger devices.";
    }
    for (std::size_t i = 0; remedies && i < std::min(remedies->size(), kMostRemedies); ++i) {
      const Remedy& remedy = (*remedies)[i];
      QString label;
      for (const std::string& key : remedy.keys) {
        label += (label.isEmpty() ? "" : ", ") + setting(key);
      }
      label += ", fits: " + qt(bytes_text(remedy.figures.memory.needed)) + ", " +
               qt(time_text(remedy.figures.step_time));
      auto* button = new QPushButton(label);
      button->setToolTip("Make it fit by this change");
      connect(button, &QPushButton::clicked, this, [this, keys = remedy.keys] {
        Document document = session_.document();
        for (const std::string& key : keys) put_override(document.overrides, key);
        session_.edit(std::move(document));
      });
      buttons_->addWidget(button);
    }
    buttons_->addStretch(1);
  }
  if (!too_large) words_->setToolTip({});
  words_->setText(words.isEmpty() ? words : "⚠ " + words);
  remedies_->setVisible(buttons_->count() > 1);
  setVisible(!words.isEmpty());
}

}  // namespace lockstep::gui
