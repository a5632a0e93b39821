#include "gui/model/form/kept_changes.hpp"

#include <QCoreApplication>
#include <QDateTime>
#include <QDir>
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>

#include "core/run_folder/run_folder.hpp"

namespace lockstep::gui {
namespace {

QString qt(const std::string& text) { return QString::fromStdString(text); }

/// `sessions` had it open, did not change it, and are dead.
std::string to_json(const Unsaved& unsaved, int sessions) {
  QJsonArray overrides;
  for (const std::string& entry : unsaved.now.overrides) overrides.append(qt(entry));
  const QJsonObject object{{"path", qt(unsaved.path)},
                           {"saved", qt(unsaved.saved)},
                           {"text", qt(unsaved.now.text)},
                           {"overrides", overrides},
                           {"sessions", sessions}};
  return QJsonDocument(object).toJson().toStdString();
}

std::optional<LeftBehind> read_left(const QString& path) {
  QFile file(path);
  if (!file.open(QIODevice::ReadOnly)) return std::nullopt;
  const QJsonObject object = QJsonDocument::fromJson(file.readAll()).object();
  if (!object["text"].isString()) return std::nullopt;  // a disk that was full, or another's file
  const auto text = [&](const char* key) { return object[key].toString().toStdString(); };
  Unsaved unsaved{text("path"), text("saved"), {text("text"), {}}};
  for (const auto& entry : object["overrides"].toArray()) {
    unsaved.now.overrides.push_back(entry.toString().toStdString());
  }
  return LeftBehind{std::move(unsaved), object["sessions"].toInt() + 1};
}

}  // namespace

KeptChanges::KeptChanges(const QString& folder) : folder_(folder) {
  QDir().mkpath(folder);
  // Names sort by time. Two sessions of one process have different addresses.
  name_ = QString("%1-%2-%3")
              .arg(QDateTime::currentMSecsSinceEpoch(), 15, 10, QChar('0'))
              .arg(QCoreApplication::applicationPid())
              .arg(reinterpret_cast<quintptr>(this), 0, 16);
  lock_ = std::make_unique<QLockFile>(QDir(folder).filePath(name_ + ".lock"));
  lock_->setStaleLockTime(0);  // it is held for as long as the session lasts
  if (!lock_->tryLock()) lock_.reset();
}

KeptChanges::~KeptChanges() {
  while (!kept_.empty()) keep(kept_.begin()->first, std::nullopt);
}

QString KeptChanges::file_of(int document) const {
  return QDir(folder_).filePath(QString("%1.%2.json").arg(name_).arg(document, 6, 10, QChar('0')));
}

void KeptChanges::keep(int document, const std::optional<Unsaved>& unsaved) {
  if (!lock_) return;
  const auto before = kept_.find(document);
  if (!unsaved) {
    if (before == kept_.end()) return;
    QFile::remove(file_of(document));
    kept_.erase(before);
  } else if (before == kept_.end() || before->second != *unsaved) {
    // A disk that is full keeps what it has; the next change tries again.
    if (write_file(file_of(document).toStdString(), to_json(*unsaved, 0))) {
      kept_.insert_or_assign(document, *unsaved);
    }
  }
}

std::vector<LeftBehind> KeptChanges::take_over(int first_document) {
  std::vector<LeftBehind> found;
  const QDir folder(folder_);
  for (const QString& lock_name : folder.entryList({"*.lock"}, QDir::Files, QDir::Name)) {
    const QString name = lock_name.chopped(5);
    if (name == name_) continue;
    QLockFile lock(folder.filePath(lock_name));
    lock.setStaleLockTime(0);
    if (!lock.tryLock()) continue;  // that session lives
    for (const QString& kept : folder.entryList({name + ".*.json"}, QDir::Files, QDir::Name)) {
      const QString theirs = folder.filePath(kept);
      std::optional<LeftBehind> left = read_left(theirs);
      if (!left) {
        QFile::remove(theirs);
        continue;
      }
      // It becomes ours by its name alone, so that no moment and no full disk loses it.
      const int document = first_document + static_cast<int>(found.size());
      if (lock_ && QFile::rename(theirs, file_of(document))) {
        kept_.insert_or_assign(document, left->unsaved);
        // Where this fails, one session is not counted.
        (void)write_file(file_of(document).toStdString(), to_json(left->unsaved, left->sessions));
      }
      found.push_back(std::move(*left));
    }
  }
  return found;
}

}  // namespace lockstep::gui
