// Measures the time from a slider's change to the redrawn picture, for 64 and for 1,024 ranks. The
// change goes through the session as a slider's does: the worker parses, lowers, simulates and
// analyses, then the views take the run and paint in software. `timeline` is the timeline alone,
// 1600 × 600; `window` is the whole window, 1600 × 900, with every view.
#include <benchmark/benchmark.h>

#include <QCoreApplication>
#include <functional>
#include <string>

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
/// Straggler, those that meet others than their neighbours do are told apart; with Microbatches,
/// the program changes, so that it is lowered again.
enum class Slider { Bandwidth, Straggler, Microbatches };

constexpr const char* k64 = "tensor-parallel/llama2-70b-tp8-pp4-dp2-64xh100.toml";
constexpr const char* k1024 = "tensor-parallel/gpt3-175b-1024xa100.toml";

void drag(benchmark::State& state, Session& session, QWidget& widget, const char* scenario,
          Slider slider, const std::function<void()>& wait) {
  session.open(std::string(LOCKSTEP_SOURCE_DIR "/scenarios/") + scenario);
  wait_until_idle(session);
  if (!session.run()) return state.SkipWithError("the scenario does not simulate");
  const bool straggler = slider == Slider::Straggler;
  if (straggler) session.set_override("what_if.straggler_rank", "3");
  wait_until_idle(session);
  const char* key = straggler ? "what_if.straggler_slowdown" : "what_if.bandwidth_factor";
  const int microbatches = session.run()->scenario->strategy.pipeline_parallel_microbatches;
  int moves = 0;
  for (auto _ : state) {
    if (slider == Slider::Microbatches) {
      const int now = ++moves % 2 == 1 ? microbatches / 2 : microbatches;  // there and back
      session.set_override("parallelism.pipeline_parallel_microbatches", std::to_string(now));
    } else {
      session.set_override(key, std::to_string(1.01 + 0.01 * (++moves % 50)));
    }
    wait();
    benchmark::DoNotOptimize(widget.grab());
  }
  state.counters["ranks"] = session.run()->world_size();
  state.counters["spans"] = static_cast<double>(session.run()->lanes.spans());
}

void timeline(benchmark::State& state, const char* scenario, Slider slider) {
  Session session;
  TimelineView view(session);
  view.resize(1600, 600);
  view.show();
  drag(state, session, view, scenario, slider, [&] { wait_until_idle(session); });
}

/// Measures until the run is there. Panels that compute for longer (the form, the summary) follow
/// later.
void window(benchmark::State& state, const char* scenario, Slider slider) {
  Session session;
  MainWindow window(session);
  window.resize(1600, 900);
  window.show();
  drag(state, session, window, scenario, slider, [&] {
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

BENCHMARK_CAPTURE(timeline, bandwidth, k64, Slider::Bandwidth)->Apply(settings);
BENCHMARK_CAPTURE(timeline, straggler, k64, Slider::Straggler)->Apply(settings);
BENCHMARK_CAPTURE(timeline, microbatches, k64, Slider::Microbatches)->Apply(settings);
BENCHMARK_CAPTURE(timeline, bandwidth_1024, k1024, Slider::Bandwidth)->Apply(settings);
BENCHMARK_CAPTURE(timeline, straggler_1024, k1024, Slider::Straggler)->Apply(settings);
BENCHMARK_CAPTURE(timeline, microbatches_1024, k1024, Slider::Microbatches)->Apply(settings);
BENCHMARK_CAPTURE(window, bandwidth, k64, Slider::Bandwidth)->Apply(settings);
BENCHMARK_CAPTURE(window, straggler, k64, Slider::Straggler)->Apply(settings);
BENCHMARK_CAPTURE(window, bandwidth_1024, k1024, Slider::Bandwidth)->Apply(settings);
