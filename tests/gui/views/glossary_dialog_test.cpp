#include "gui/views/glossary_dialog.hpp"

#include <QTextBlock>

#include "tests/catch.hpp"
#include "tests/gui/application.hpp"

namespace lockstep::gui {
namespace {

TEST_CASE("the glossary's page goes to a term that is looked for", "[gui][views]") {
  test::application();
  GlossaryDialog dialog;
  dialog.setAttribute(Qt::WA_DeleteOnClose, false);
  dialog.show();
  const auto found = [&] { return dialog.page().textCursor().block().text().toStdString(); };
  CHECK(dialog.show_term("expos"));
  CHECK(found() == "exposed comm");
  CHECK(dialog.show_term("MICRO"));
  CHECK(found() == "microbatch");
  CHECK_FALSE(dialog.show_term("zzz"));
  CHECK(found() == "microbatch");
}

}  // namespace
}  // namespace lockstep::gui
