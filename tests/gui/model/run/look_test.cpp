#include "gui/model/run/look.hpp"

#include "core/trace/op_class.hpp"
#include "tests/catch.hpp"

namespace lockstep::gui {
namespace {

TEST_CASE("what is coloured as a transfer counts as one, and so with the other classes",
          "[gui][model]") {
  for (const char* kind : {"forward",    "backward",   "backward_input", "backward_weight",
                           "recompute",  "optimizer",  "other",          "compute",
                           "all_reduce", "all_gather", "reduce_scatter", "broadcast",
                           "all_to_all", "send",       "recv",           "communication",
                           "copy",       "host",       "memcpy",         "memset",
                           "annotation", "sync",       "reduce",         "gather",
                           "scatter",    "barrier",    "send_recv"}) {
    INFO(kind);
    const Look look = look_of_kind(kind);
    const OpClass what = op_class(kind);
    CHECK((look <= Look::OtherCompute) == (what == OpClass::Compute));
    CHECK((look >= Look::AllReduce && look <= Look::OtherTransfer) == is_transfer(what));
    CHECK((look == Look::Copy) == (what == OpClass::Copy));
    CHECK((look == Look::Host) == (what == OpClass::Host));
  }
}

}  // namespace
}  // namespace lockstep::gui
