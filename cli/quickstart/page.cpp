#include "cli/quickstart/page.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "core/format/format.hpp"
#include "core/format/table.hpp"

namespace lockstep {
namespace {

constexpr int kCurveWidth = 50;
constexpr const char* kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr double kClose = 0.10;  // what we want differences to stay within

std::string decimal(double value, const char* format) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string value_text(const Figure& figure, double value) {
  return figure.unit == Figure::Unit::Seconds ? time_text({value}) : count_text(value);
}

std::string cores_text(int cores) {
  return std::to_string(cores) + (cores == 1 ? " core" : " cores");
}

std::string layout_text(const Quickstart& result) {
  const QuickstartLayout& layout = result.layout;
  const std::string on = " on " + cores_text(result.use.cores);
  if (layout.ranks() == 1) return "1 rank" + on;
  std::string text = std::to_string(layout.ranks()) + " ranks" + on + ": ";
  if (layout.replicas > 1) text += std::to_string(layout.replicas) + " replicas of ";
  return text + "a pipeline of 2 stages, 1F1B, " + std::to_string(result.microbatches) +
         " microbatches";
}

std::string load_text(const MachineUse& use) {
  return use.load < 0 ? "" : "load " + decimal(use.load, "%.1f") + " on " + cores_text(use.cores);
}

std::string use_text(const MachineUse& use) {
  if (use.others < 0) return "what other programs did meanwhile is not known here.";
  return "other programs used " + decimal(use.others, "%.2f") + " of " + cores_text(use.cores) +
         " meanwhile.";
}

}  // namespace

std::string curve(const std::vector<double>& values, int width) {
  const auto count = static_cast<std::int64_t>(values.size());
  const std::int64_t columns = std::min<std::int64_t>(width, count);
  std::vector<double> means;
  for (std::int64_t i = 0; i < columns; ++i) {
    const std::int64_t begin = i * count / columns, end = (i + 1) * count / columns;
    double sum = 0;
    for (std::int64_t k = begin; k < end; ++k) sum += values[static_cast<std::size_t>(k)];
    means.push_back(sum / static_cast<double>(end - begin));
  }
  double least = INFINITY, most = -INFINITY;
  for (const double mean : means) {
    if (!std::isfinite(mean)) continue;
    least = std::min(least, mean);
    most = std::max(most, mean);
  }
  std::string text;
  for (const double mean : means) {
    const double height = most > least ? (mean - least) / (most - least) : 0;
    text += std::isfinite(mean) ? kBars[std::min(static_cast<int>(height * 8), 7)] : "?";
  }
  return text;
}

std::string quickstart_page(const Quickstart& result, const std::string& program,
                            const std::string& out) {
  const bool busy = result.use.busy();
  std::string text =
      "A small language model was trained on this machine, and the same training was\n"
      "simulated from how long each of its kernels takes here.\n\n";
  TextTable done(
      {"model", result.model + ", " + count_text(static_cast<double>(result.parameters)) +
                    " parameters; its tokens are bytes"},
      2);
  done.add({"data", "texts below " + result.data});
  done.add({"layout", layout_text(result)});
  done.add(
      {"memory", bytes_text(result.peak_memory) + " of a rank at most, planned before the run"});
  done.add({"training", std::to_string(result.losses.size()) + " steps of " +
                            count_text(static_cast<double>(result.tokens_per_step)) +
                            " tokens in " + decimal(result.use.clock.v, "%.1f s, ") +
                            decimal(result.use.processor.v, "%.1f s of processor time")});
  if (!result.losses.empty()) {
    done.add({"loss", decimal(result.losses.front(), "%.2f ") + curve(result.losses, kCurveWidth) +
                          decimal(result.losses.back(), " %.2f")});
  }
  text += done.text() + "\n";

  std::vector<Heading> heading = {"one step, mean over ranks", "predicted", "measured"};
  if (!busy) heading.push_back("difference");
  TextTable table(heading);
  for (const Figure& f : result.figures) {
    std::vector<std::string> row = {f.name, value_text(f, f.predicted), value_text(f, f.measured)};
    if (!busy) row.push_back(change_text(f.predicted, f.measured));
    table.add(row);
  }
  text += table.text();
  text +=
      "\nPredicted: what the schedule makes of kernels that were timed alone, in turns\n"
      "with the training.";
  if (result.layout.ranks() > 1) text += " Waiting is for the other stage and for gradients.";
  text += "\nHow sure: " + use_text(result.use) + "\n";
  if (busy) {
    text += "This machine is busy: " + load_text(result.use) + "; the times are not comparable.\n";
  }
  text += "\nResults, in " + out + ":\n";
  TextTable files(
      {"  measured/", "trace.json.gz (opens in ui.perfetto.dev), report.json, scenario"}, 2);
  files.add({"  simulated/", "the same of the prediction"});
  files.add({"  cpu.toml", "this machine, as it was measured"});
  text += files.text();
  text += "\nTry next:\n";
  for (const std::string& command :
       {" compare " + out + "/simulated " + out + "/measured",
        std::string(" recommend --model llama3-70b --cluster h100 --nodes 8"),
        std::string(" run scenarios/schedules/1f1b-p4-m8.toml --timeline")}) {
    text += "  " + program + command + "\n";
  }
  return text;
}

std::string quickstart_table(const std::vector<Quickstart>& runs) {
  if (runs.empty()) return "";
  std::vector<Heading> heading = {"run"};
  for (const Figure& figure : runs.front().figures) heading.push_back(figure.name);
  heading.push_back("others");
  TextTable table(heading);
  std::vector<int> close(runs.front().figures.size());
  int idle = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const bool busy = runs[i].use.busy();
    idle += busy ? 0 : 1;
    std::vector<std::string> row = {std::to_string(i + 1)};
    for (std::size_t k = 0; k < close.size(); ++k) {
      const Figure& figure = runs[i].figures[k];
      row.push_back(change_text(figure.predicted, figure.measured));
      close[k] += !busy && std::abs(figure.difference()) <= kClose ? 1 : 0;
    }
    row.push_back(decimal(runs[i].use.others, "%.2f") + (busy ? " (busy)" : ""));
    table.add(row);
  }
  std::vector<std::string> last = {"within 10 %"};
  for (const int n : close) last.push_back(std::to_string(n) + " of " + std::to_string(idle));
  last.push_back(std::to_string(idle) + " idle");
  table.add(last);
  return table.text();
}

}  // namespace lockstep
