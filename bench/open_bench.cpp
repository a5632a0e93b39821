// Measures the time that the application takes from a Kineto trace to its first picture (which is
// read, indexed, analysed, laid out and painted in software, 1600 × 900), and the memory that it
// takes. The argument is the size of the JSON in MB.
#include <benchmark/benchmark.h>

#include <QCoreApplication>
#include <filesystem>

#include "bench/kineto_file.hpp"
#include "gui/model/session.hpp"
#include "gui/views/main_window.hpp"

namespace {

using namespace lockstep;
using namespace lockstep::gui;

void open_in_window(benchmark::State& state) {
  const std::string path = bench::kineto_file(state.range(0), false);
  for (auto _ : state) {
    const double before = bench::memory_mb("VmRSS");
    bench::reset_peak();
    Session session;
    MainWindow window(session);
    window.resize(1600, 900);
    window.show();
    window.open(QString::fromStdString(path));
    while (session.busy()) {
      QCoreApplication::processEvents(QEventLoop::AllEvents | QEventLoop::WaitForMoreEvents);
    }
    if (!session.run()) {
      state.SkipWithError("the trace does not open");
      break;
    }
    benchmark::DoNotOptimize(window.grab());
    state.counters["spans"] = static_cast<double>(session.run()->lanes.spans());
    state.counters["peak_MB"] = bench::memory_mb("VmHWM") - before;
  }
  std::filesystem::remove(path);
}
BENCHMARK(open_in_window)
    ->Arg(300)
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

}  // namespace
