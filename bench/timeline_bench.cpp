// Measures frames of the timeline: display list and pixels of 64 lanes, 1600 × 900, for 10^4 to
// 10^7 spans. `whole` shows everything; `zoomed` shows a tenth of the time, panned between frames;
// `open` is the time that a new trace takes before its first frame.
#include <benchmark/benchmark.h>

#include <QGuiApplication>
#include <map>
#include <random>

#include "core/ir/program.hpp"
#include "gui/draw/painter.hpp"
#include "gui/draw/timeline_drawing.hpp"
#include "gui/model/run/run_view.hpp"

namespace {

using namespace lockstep;
using namespace lockstep::gui;

constexpr int kRanks = 64;

/// A trace of F and B with random lengths, and a gap after every fourth.
Trace make_trace(std::int64_t spans) {
  Trace trace;
  trace.backend = "sim";
  trace.names = {"block.F", "forward", "block.B", "backward"};
  trace.streams = {"compute"};
  TraceRole role;
  for (int i = 0; i < 2; ++i) {
    TraceOp op;
    op.name = 2 * i;
    op.kind = 2 * i + 1;
    op.phase = static_cast<std::uint8_t>(i == 0 ? Phase::F : Phase::B);
    op.microbatch = i;
    role.ops.push_back(op);
  }
  trace.roles = {role};
  std::mt19937 random(1);
  for (Rank rank = 0; rank < kRanks; ++rank) {
    trace.role_of_rank.push_back(0);
    trace.same_as.push_back(rank);
    trace.rank_labels.push_back("rank " + std::to_string(rank));
    trace.peak_memory.push_back(0);
    SimTime time{};
    for (std::int64_t i = 0; i < spans / kRanks; ++i) {
      if (i % 4 == 0) time += SimTime{static_cast<std::int64_t>(random() % 2'000'000)};
      const SimTime end = time + SimTime{1'000 + static_cast<std::int64_t>(random() % 4'000'000)};
      trace.spans.push_back({rank, OpId{static_cast<int>(random() % 2)}, 0, time, time, end});
      time = end;
    }
  }
  return trace;
}

const RunPtr& run_of(std::int64_t spans) {
  static std::map<std::int64_t, RunPtr> runs;
  RunPtr& run = runs[spans];
  if (!run) {
    runs = {};  // only one is kept, because ten million spans take a gigabyte
    return runs[spans] = make_run("bench", make_trace(spans));
  }
  return run;
}

void draw_frames(benchmark::State& state, double share) {
  const RunPtr& run = run_of(state.range(0));
  const TextSize text{7, 14};
  LayoutChoice choice;
  const TimelineLayout layout = lay_out(*run, choice, {18, (900.0 - 24) / kRanks, 13});
  TimelineFrame frame{
      {1600, 900}, 120, 24, 0, TimeAxis::fitting(run->lanes.begin(), run->lanes.end(), 1480)};
  frame.axis.end =
      frame.axis.begin +
      SimTime{static_cast<std::int64_t>(static_cast<double>(frame.axis.length().count()) * share)};
  QImage image(1600, 900, QImage::Format_RGB32);
  const QFont font;
  std::size_t boxes = 0;
  int frames = 0;
  for (auto _ : state) {
    if (share < 1) frame.axis = frame.axis.panned(++frames % 200 < 100 ? 7 : -7);
    const DisplayList list = draw_timeline(*run, layout, frame, text);
    boxes = list.fills.size();
    rasterize(image, list, light_theme(), font);
    benchmark::DoNotOptimize(image.bits());
  }
  state.counters["boxes"] = static_cast<double>(boxes);
}

void whole(benchmark::State& state) { draw_frames(state, 1); }
void zoomed(benchmark::State& state) { draw_frames(state, 0.1); }

void open_trace(benchmark::State& state) {
  const Trace trace = make_trace(state.range(0));
  for (auto _ : state) {
    state.PauseTiming();
    Trace copy = trace;
    state.ResumeTiming();
    benchmark::DoNotOptimize(make_run("bench", std::move(copy)));
  }
}

void sizes(benchmark::internal::Benchmark* b) {
  b->Arg(10'000)->Arg(100'000)->Arg(1'000'000)->Arg(10'000'000)->Unit(benchmark::kMillisecond);
}

}  // namespace

BENCHMARK(whole)->Apply(sizes);
BENCHMARK(zoomed)->Apply(sizes);
BENCHMARK(open_trace)->Arg(1'000'000)->Unit(benchmark::kMillisecond)->Iterations(3);

int main(int argc, char** argv) {
  qputenv("QT_QPA_PLATFORM", "offscreen");
  const QGuiApplication application(argc, argv);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
