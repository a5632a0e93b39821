// lockstep compare: tells in what two runs differ.
#include "cli/commands.hpp"
#include "cli/open_run.hpp"
#include "cli/report_text.hpp"
#include "core/analysis/compare.hpp"

namespace lockstep {

int compare_command(const CompareArguments& arguments, const Console& console) {
  const Result<Run> a = open_run(arguments.a, console);
  if (!a) return report_error(console, a.error());
  const Result<Run> b = open_run(arguments.b, console);
  if (!b) return report_error(console, b.error());
  const Comparison comparison = compare(a->report, a->trace, b->report, b->trace);
  console.out << comparison_text(arguments.a, a->report, arguments.b, b->report, comparison);
  return 0;
}

}  // namespace lockstep
