#include "gui/views/start_page.hpp"

#include <QDir>
#include <QFile>
#include <QFileDialog>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QListWidget>
#include <QPushButton>
#include <QScrollArea>
#include <QVBoxLayout>

#include "core/lesson/lesson.hpp"
#include "core/scenario/shipped.hpp"
#include "gui/views/qt_text.hpp"

namespace lockstep::gui {
namespace {

constexpr int kMostWords = 150;  // letters of what a file says of itself

constexpr const char* kExamples[] = {
    "schedules/1f1b-p4-m8.toml", "schedules/zero-bubble-p4-m8.toml",
    "clusters/llama2-7b-fsdp-8xh100.toml", "tensor-parallel/llama2-70b-tp8-pp4-dp2-64xh100.toml",
    "experts/mixtral-8x7b-ep8-fsdp-64xh100.toml"};

QString first_words(const QString& path) {
  QFile file(path);
  if (!file.open(QIODevice::ReadOnly)) return {};
  return qt(opening_words(file.readAll().toStdString()));
}

}  // namespace

QString StartPage::scenarios() { return qt(shipped_scenarios().string()); }

QString StartPage::course() {
  return scenarios().isEmpty() ? QString() : QDir(scenarios()).filePath("course");
}

std::string StartPage::text_for_config(const std::string& path) {
  return "# The model of " + QFileInfo(qt(path)).fileName().toStdString() +
         ", fully sharded over one node of eight H100s.\n[model]\nhf_config = '" + path +
         "'\n\n[training]\nseq_len = 2048\nlocal_batch_size = 1\n\n[parallelism]\n"
         "data_parallel_shard_degree = 8\n\n[cluster]\npreset = \"h100\"\n";
}

StartPage::StartPage(Session& session, QWidget* parent)
    : QWidget(parent), session_(session), recent_(nullptr) {
  setAccessibleName("Start");
  open_ = [this](const QString& path) { session_.open(path.toStdString()); };
  auto* inside = new QWidget;  // scrolls where there is no room
  auto* scroll = new QScrollArea;
  scroll->setWidgetResizable(true);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setWidget(inside);
  auto* all = new QVBoxLayout(this);
  all->setContentsMargins(0, 0, 0, 0);
  all->addWidget(scroll);
  auto* page = new QVBoxLayout(inside);
  page->setContentsMargins(24, 16, 24, 16);
  page->setSpacing(8);
  auto* title = new QLabel("See what distributed training does, before and after it runs");
  QFont font = title->font();
  font.setPointSizeF(font.pointSizeF() * 1.4);
  font.setBold(true);
  title->setFont(font);
  title->setWordWrap(true);
  title->setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Maximum);
  page->addWidget(title);
  auto* columns = new QHBoxLayout;
  columns->setSpacing(24);
  page->addLayout(columns, 1);
  auto* left = new QVBoxLayout;
  auto* right = new QVBoxLayout;
  left->setSpacing(6);
  right->setSpacing(6);
  columns->addLayout(left, 1);
  columns->addLayout(right, 1);

  const QDir folder(scenarios());
  QListWidget* lessons =
      add_list(*left, "Lessons", "A course: look, try, answer. Each is a step to play.", 3);
  QListWidget* examples =
      add_list(*right, "Examples", "Scenarios of real sizes, to change by sliders.");
  if (!scenarios().isEmpty()) {
    add_lessons(*lessons);
    for (const char* name : kExamples) add_file(*examples, folder.filePath(name));
  }
  recent_ = add_list(*left, "Recent files", "What was open before.");
  auto* other = new QLabel("Something of your own");
  font = other->font();
  font.setBold(true);
  other->setFont(font);
  right->addWidget(other);
  const auto button = [&](const char* label, const char* tip, auto&& action) {
    auto* b = new QPushButton(label);
    b->setToolTip(tip);
    connect(b, &QPushButton::clicked, this, action);
    right->addWidget(b);
  };
  const auto ask = [this](const char* title, const char* filter) {
    const QString path = QFileDialog::getOpenFileName(this, title, QString(), filter);
    if (!path.isEmpty()) open_(path);
  };
  button("Open a scenario…", "A model, a cluster and a strategy (.toml): simulated as it is edited",
         [ask] { ask("Open a scenario", "Scenarios (*.toml);;All files (*)"); });
  button("Open a trace…",
         "A profile of PyTorch's (Kineto), or a trace of Lockstep's: where its "
         "time went, who waited for whom",
         [ask] { ask("Open a trace", "Traces (*.json *.json.gz);;All files (*)"); });
  button("Open a run folder…", "What lockstep run --out wrote: beside its simulation", [this] {
    const QString path = QFileDialog::getExistingDirectory(this, "Open a run folder");
    if (!path.isEmpty()) open_(path);
  });
  button("From a Hugging Face config…", "A scenario of the model of a config.json, on eight H100s",
         [this] { open_config(); });
  auto* drop = new QLabel("Files can be dropped anywhere in the window.");
  drop->setEnabled(false);
  drop->setWordWrap(true);
  drop->setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Maximum);
  other->setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Maximum);
  right->addWidget(drop);
}

QListWidget* StartPage::add_list(QVBoxLayout& column, const char* title, const char* purpose,
                                 int room) {
  auto* heading = new QLabel(QString("<b>%1</b> — %2").arg(title, purpose));
  heading->setTextFormat(Qt::RichText);
  heading->setWordWrap(true);
  heading->setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Maximum);
  auto* list = new QListWidget;
  list->setAccessibleName(title);
  list->setWordWrap(true);
  list->setAlternatingRowColors(true);
  list->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  list->setMinimumHeight(60);
  column.addWidget(heading);
  column.addWidget(list, room);
  const auto open = [this](QListWidgetItem* item) { open_(item->data(Qt::UserRole).toString()); };
  connect(list, &QListWidget::itemClicked, this, open);
  connect(list, &QListWidget::itemActivated, this, [this, open](QListWidgetItem* item) {
    if (!session_.has_document()) open(item);  // by Enter; a click has opened it already
  });
  return list;
}

void StartPage::add_lessons(QListWidget& list) {
  const Result<std::vector<Lesson>> course = read_course(StartPage::course().toStdString());
  if (!course) return list.addItem(qt(to_string(course.error())));
  for (const Lesson& lesson : *course) {
    auto* item =
        new QListWidgetItem(QString("%1. %2").arg(list.count() + 1).arg(qt(lesson.title)), &list);
    item->setToolTip(first_words(qt(lesson.scenario)));
    item->setData(Qt::UserRole, qt(lesson.scenario));
  }
}

void StartPage::add_file(QListWidget& list, const QString& path) {
  if (!QFileInfo::exists(path)) return;
  const QString words = first_words(path);
  auto* item = new QListWidgetItem(QFileInfo(path).completeBaseName(), &list);
  const bool cut = words.size() > kMostWords;
  const QString shown = cut ? words.left(words.lastIndexOf(' ', kMostWords)) + " …" : words;
  if (!shown.isEmpty()) item->setText(item->text() + ": " + shown);
  item->setToolTip(words.isEmpty() ? path : words + "\n" + path);
  item->setData(Qt::UserRole, path);
}

void StartPage::show_recent(const QStringList& paths) {
  recent_->clear();
  for (const QString& path : paths) {
    auto* item = new QListWidgetItem(QFileInfo(path).fileName(), recent_);
    item->setToolTip(path);
    item->setData(Qt::UserRole, path);
  }
}

void StartPage::open_config() {
  const QString path = QFileDialog::getOpenFileName(this, "Open a Hugging Face config", QString(),
                                                    "Configs (config.json *.json)");
  if (!path.isEmpty()) session_.edit({text_for_config(path.toStdString()), {}});
}

}  // namespace lockstep::gui
