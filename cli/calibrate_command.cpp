// lockstep calibrate: measures this machine into a profile that the simulator reads.
#include "backends/cpu/calibrate.hpp"
#include "backends/cuda/calibrate.hpp"
#include "backends/cuda/toolkit/platform.hpp"
#include "cli/commands.hpp"
#include "cli/json_text.hpp"
#include "core/format/format.hpp"
#include "core/format/table.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {
namespace {

/// What to write after figures: those of a device with several cores are of one core.
const char* each(const DeviceSpec& device) {
  return device.concurrent_ranks > 1 ? " per thread" : "";
}

std::string rate_text(double per_second, const char* unit) {
  return count_text(per_second / 1e9) + " " + unit;
}

std::string summary(const ClusterSpec& cluster, const Screen& screen) {
  const DeviceSpec& device = cluster.device;
  TextTable table({cluster.name, device.name}, 2);
  for (const PeakRate& peak : device.peaks) {
    table.add({std::string(to_string(peak.dtype)) + " peak",
               rate_text(peak.rate.v, "GFLOP/s") + each(device)});
  }
  table.add({"memory bandwidth", rate_text(device.memory_bandwidth.v, "GB/s") + each(device)});
  table.add({"kernel overhead", time_text(device.launch_overhead)});
  table.add({"hand-over", time_text(device.hand_over)});
  table.add({"ranks at full rate", std::to_string(device.concurrent_ranks)});
  table.add({"link", rate_text(cluster.intra_node.bandwidth.v, "GB/s") + ", " +
                         time_text(cluster.intra_node.latency)});
  return table.text(screen);
}

nlohmann::ordered_json summary_json(const ClusterSpec& cluster) {
  const DeviceSpec& device = cluster.device;
  nlohmann::ordered_json peaks = nlohmann::ordered_json::object();
  for (const PeakRate& peak : device.peaks) {
    peaks[std::string(to_string(peak.dtype))] = peak.rate.v;
  }
  return {{"name", cluster.name},
          {"device", device.name},
          {"peak_flops_per_s", std::move(peaks)},
          {"memory_bytes_per_s", device.memory_bandwidth.v},
          {"kernel_overhead_s", device.launch_overhead.v},
          {"hand_over_s", device.hand_over.v},
          {"ranks_at_full_rate", device.concurrent_ranks},
          {"link_bytes_per_s", cluster.intra_node.bandwidth.v},
          {"link_latency_s", cluster.intra_node.latency.v}};
}

/// A line that rewrites itself on a terminal; elsewhere one for each tenth of the kernels.
void show_progress(const Console& console, int done, int all) {
  const std::string text =
      "measured " + std::to_string(done) + " of " + std::to_string(all) + " kernels";
  if (console.live) {
    console.err << "\r\033[K" << text << (done == all ? "\n" : "") << std::flush;
  } else if (done * 10 / all != (done - 1) * 10 / all || done == all) {
    console.err << text << std::endl;
  }
}

Result<ClusterSpec> measure(const CalibrateArguments& arguments, const Console& console) {
  if (arguments.backend == "cpu") {
    if (!arguments.dtype.empty()) {
      return Error{ErrorKind::InvalidSpec,
                   "--dtype: only the backend 'cuda' is measured in several", std::nullopt};
    }
    cpu::CalibrateOptions options;
    options.quick = arguments.quick;
    options.on_progress = [&](int done, int all) {
      if (done > 0) show_progress(console, done, all);
    };
    return cpu::calibrate_cpu(options);
  }
  if (arguments.backend == "cuda") {
    auto gpus = cuda::platform().open_gpus();
    if (!gpus) return gpus.error();
    cuda::GpuCalibrateOptions options;
    options.quick = arguments.quick;
    for (const DType dtype : {DType::F32, DType::F64}) {
      if (arguments.dtype == to_string(dtype)) options.dtype = dtype;
    }
    return cuda::calibrate_gpu(*gpus->front(), options);
  }
  return Error{ErrorKind::Unsupported,
               "calibrate measures the backends 'cpu' and 'cuda', not '" + arguments.backend + "'",
               std::nullopt};
}

}  // namespace

int calibrate_command(const CalibrateArguments& arguments, const Console& console) {
  const Result<ClusterSpec> cluster = measure(arguments, console);
  if (!cluster) return report_error(console, cluster.error());
  const Result<void> written = write_file(arguments.out, print_cluster_profile(*cluster));
  if (!written) return report_error(console, written.error());
  if (arguments.json) {
    nlohmann::ordered_json json = summary_json(*cluster);
    json["profile"] = arguments.out;
    console.out << json_text(json);
    return 0;
  }
  console.out << summary(*cluster, console.screen()) << "written to " << arguments.out << "\n";
  return 0;
}

}  // namespace lockstep
