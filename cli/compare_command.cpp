// lockstep compare.
#include "cli/commands.hpp"
#include "cli/report_text.hpp"
#include "core/analysis/compare.hpp"
#include "core/run_folder/run_folder.hpp"

namespace lockstep {

int compare_command(const CompareArguments& arguments, const Console& console) {
  const Result<Run> a = read_run(arguments.a);
  if (!a) return report_error(console, a.error());
  const Result<Run> b = read_run(arguments.b);
  if (!b) return report_error(console, b.error());
  const Comparison comparison = compare(a->report, a->trace, b->report, b->trace);
  console.out << comparison_text(arguments.a, a->report, arguments.b, b->report, comparison);
  return 0;
}

}  // namespace lockstep
