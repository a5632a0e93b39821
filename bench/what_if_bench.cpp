// Measures the time from a slider's change to the redrawn picture, for scenarios of 64 ranks. The
// change goes through the session as a slider's does: the worker parses, lowers, simulates and
// analyses, then the views take the run and paint in software. `timeline` is the timeline alone,
// 1600 × 600; `window` is the whole window, 1600 × 900, with every view.
#include <benchmark/benchmark.h>

#include <QCoreApplication>
#include <functional>

#include "gui/model/session.hpp"
#include "gui/views/main_window.hpp"
#include "gui/views/timeline_view.hpp"

namespace {

using namespace lockstep;
using namespace lockstep::gui;

void wait_until_idle(const Session& session) {
  while (session.busy() || Latest::any_busy()) {
    QCoreApplication::processEvents(QEventLoop::AllEvents | QEventLoop::WaitForMoreEvents);
  }
}

/// The slider that is dragged. With Bandwidth, ranks that do the same are simulated once; with
/// Straggler, each of the 64 ranks is.
enum class Slider { Bandwidth, Straggler };

void drag(benchmark::State& state, Session& session, QWidget& widget, Slider slider,
          const std::function<void()>& wait) {
  session.open(LOCKSTEP_SOURCE_DIR
               "/scenarios/tensor-parallel/llama2-70b-tp8-pp4-dp2-64xh100.toml");
  wait_until_idle(session);
  if (!session.run()) return state.SkipWithError("the scenario does not simulate");
  const bool straggler = slider == Slider::Straggler;
  if (straggler) session.set_override("what_if.straggler_rank", "3");
  wait_until_idle(session);
  const char* key = straggler ? "what_if.straggler_slowdown" : "what_if.bandwidth_factor";
  int moves = 0;
  for (auto _ : state) {
    session.set_override(key, std::to_string(1.01 + 0.01 * (++moves % 50)));
    wait();
    benchmark::DoNotOptimize(widget.grab());
  }
  state.counters["ranks"] = session.run()->world_size();
  state.counters["spans"] = static_cast<double>(session.run()->lanes.spans());
}

void timeline(benchmark::State& state, Slider slider) {
  Session session;
  TimelineView view(session);
  view.resize(1600, 600);
  view.show();
  drag(state, session, view, slider, [&] { wait_until_idle(session); });
}

/// Measures until the run is there. Panels that compute for longer (the form, the summary) follow
/// later.
void window(benchmark::State& state, Slider slider) {
  Session session;
  MainWindow window(session);
  window.resize(1600, 900);
  window.show();
  drag(state, session, window, slider, [&] {
    while (session.busy()) {
      QCoreApplication::processEvents(QEventLoop::AllEvents | QEventLoop::WaitForMoreEvents);
    }
  });
  wait_until_idle(session);
}

void settings(benchmark::internal::Benchmark* b) {
  b->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime()->UseRealTime();
}

}  // namespace

BENCHMARK_CAPTURE(timeline, bandwidth, Slider::Bandwidth)->Apply(settings);
BENCHMARK_CAPTURE(timeline, straggler, Slider::Straggler)->Apply(settings);
BENCHMARK_CAPTURE(window, bandwidth, Slider::Bandwidth)->Apply(settings);
BENCHMARK_CAPTURE(window, straggler, Slider::Straggler)->Apply(settings);
