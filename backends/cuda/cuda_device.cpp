// Makes, fills and releases what a rank has on its GPU, from the arena to the events.
// cuda_device_step.cpp issues the steps.
#include "backends/cuda/cuda_device.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "backends/cuda/fusion.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep::cuda {
namespace {

constexpr std::size_t kTransitBytes = std::size_t{8} << 20;

/// Other streams than compute get priority, because peers wait for what they run.
Priority priority_of(Stream stream) {
  return stream == Stream::Compute ? Priority::Normal : Priority::High;
}

}  // namespace

Result<std::unique_ptr<CudaDevice>> CudaDevice::create(const Program& program, Rank rank,
                                                       Driver& driver, Node& node,
                                                       std::unique_ptr<HostCompute> host) {
  std::unique_ptr<CudaDevice> device(new CudaDevice(program, rank, driver, node, std::move(host)));
  if (auto ready = device->set_up(); !ready) {
    Error error = ready.error();
    error.message = "rank " + std::to_string(rank) + ": " + error.message;
    return error;
  }
  return device;
}

CudaDevice::CudaDevice(const Program& program, Rank rank, Driver& driver, Node& node,
                       std::unique_ptr<HostCompute> host)
    : program_(program),
      rank_(rank),
      role_(program.role_of(rank)),
      driver_(driver),
      node_(node),
      host_(std::move(host)) {}

Result<void> CudaDevice::check_host_kernels() const {
  for (const Op& op : role_.ops) {
    if (op.kind != OpKind::Call || op.stream != Stream::Host) continue;
    const Function& function = program_.function(op.function());
    for (const Kernel& kernel : function.kernels) {
      if (host_->supports(kernel)) continue;
      return Error{ErrorKind::Unsupported,
                   "the host has no " + std::string(to_string(kernel.dtype)) + " " +
                       std::string(info(kernel.kind).name) + ", which " + function.name + " needs",
                   std::nullopt};
    }
  }
  return {};
}

Result<void> CudaDevice::set_up() {
  IndexArray<Stream, std::int64_t, kNumStreams> scratch{};
  std::set<Stream> used;
  issued_.assign(role_.ops.size(), false);
  ends_.assign(role_.ops.size(), nullptr);
  IndexVector<OpId, bool> waited_for(role_.ops.size(), false);
  for (const Op& op : role_.ops) {
    used.insert(op.stream);
    for (const OpId before : role_.after_of(op)) {
      if (role_.op(before).stream != op.stream) waited_for[before] = true;
    }
    if (op.kind != OpKind::Call || op.stream == Stream::Host) continue;
    std::int64_t& most = scratch[op.stream];
    for (const Kernel& kernel : program_.function(op.function()).kernels) {
      if (driver_.supports(kernel)) most = std::max(most, driver_.scratch_bytes(kernel));
    }
  }
  for (std::size_t i = 0; i < role_.ops.size(); ++i) {
    const OpId id{static_cast<std::int32_t>(i)};
    if (role_.ops[i].kind != OpKind::Call || role_.ops[i].stream == Stream::Host) continue;
    std::vector<int> fused = epilogues(program_, role_, id);
    if (std::count(fused.begin(), fused.end(), -1) < std::ssize(fused)) {
      fused_.emplace(id.v, std::move(fused));
    }
  }
  // At least one byte is allocated, so that an empty arena has an address, too.
  const auto arena = driver_.allocate(Memory::Device, std::max<std::int64_t>(role_.arena.v, 1));
  if (!arena) return arena.error();
  arena_ = *arena;
  if (role_.host_arena.v > 0 && host_ != nullptr) {
    if (auto has_all = check_host_kernels(); !has_all) return has_all;
    const auto host_arena = driver_.allocate(Memory::PinnedHost, role_.host_arena.v);
    if (!host_arena) return host_arena.error();
    host_arena_ = *host_arena;
  }
  const auto transit = driver_.allocate(Memory::PinnedHost, kTransitBytes);
  if (!transit) return transit.error();
  transit_ = *transit;
  const auto control = driver_.create_stream(Priority::Normal);
  if (!control) return control.error();
  control_ = *control;
  for (const Stream stream : used) {
    Queue& q = queue(stream);
    const auto handle = driver_.create_stream(priority_of(stream));
    if (!handle) return handle.error();
    q.handle = *handle;
    const std::int64_t bytes = scratch[stream];
    if (bytes == 0) continue;
    const auto memory = driver_.allocate(Memory::Device, bytes);
    if (!memory) return memory.error();
    q.scratch = *memory;
    scratch_bytes_ += bytes;
  }
  for (std::size_t i = 0; i < waited_for.size(); ++i) {
    if (!waited_for[i]) continue;
    const auto event = driver_.create_event(Timing::Off);
    if (!event) return event.error();
    ends_[i] = *event;
  }
  return make_staging();
}

/// Allocates all staging memory before the first step: an allocation may wait for the GPU, which
/// may wait for a transfer that needs this rank to go on.
Result<void> CudaDevice::make_staging() {
  for (std::size_t i = 0; i < role_.ops.size(); ++i) {
    const Op& op = role_.ops[i];
    const bool counted = is_counted(op.kind);
    if (!counted && (!is_copy(op.kind) || op.moves_memory())) continue;
    const auto args = role_.args_of(op);
    const std::int64_t bytes =
        counted ? 2 * role_.buffer(args[2]).bytes.v : role_.buffer(args[0]).bytes.v;
    const auto pinned = driver_.allocate(Memory::PinnedHost, std::max<std::int64_t>(bytes, 1));
    if (!pinned) return pinned.error();
    staging_[static_cast<std::int32_t>(i)] = {*pinned, nullptr, static_cast<std::size_t>(bytes)};
  }
  return {};
}

Result<void> CudaDevice::use_graphs() {
  const auto unsupported = [](const std::string& message) {
    return Error{ErrorKind::Unsupported, message, std::nullopt};
  };
  if (program_.sync_every != 0) {
    return unsupported(
        "CUDA graphs: steps of local SGD differ in whether replicas synchronize; leave "
        "--cuda-graphs or [local_sgd] out");
  }
  if (program_.updates_per_step != 1) {
    return unsupported(
        "CUDA graphs: PipeDream updates weights within a step; leave --cuda-graphs out");
  }
  for (const Op& op : role_.ops) {
    if (op.stream == Stream::Host) {
      return unsupported(
          "CUDA graphs: the host computes in every step (offload); leave --cuda-graphs out");
    }
    if (is_counted(op.kind)) {
      return unsupported(
          "CUDA graphs: the host must know how many rows go to each expert; give "
          "model.capacity_factor, or leave --cuda-graphs out");
    }
  }
  std::vector<StreamHandle> streams;
  for (const Queue& q : queues_) {
    if (q.handle != nullptr) streams.push_back(q.handle);
  }
  auto graph = StepGraph::create(driver_, control_, streams);
  if (!graph) return graph.error();
  graph_ = std::move(*graph);
  return {};
}

CudaDevice::~CudaDevice() {
  for (Queue& q : queues_) {
    if (q.handle != nullptr) static_cast<void>(driver_.synchronize(q.handle));
  }
  if (graph_) static_cast<void>(driver_.synchronize(control_));
  graph_.reset();
  for (auto& [op, event] : arrivals_) driver_.release(event);
  for (const EventHandle event : ends_) {
    if (event != nullptr) driver_.release(event);
  }
  for (const auto& moments : times_) {
    for (const EventHandle event : moments) {
      if (event != nullptr) driver_.release(event);
    }
  }
  for (auto& [op, staging] : staging_) driver_.release(Memory::PinnedHost, staging.pinned);
  for (Queue& q : queues_) {
    if (q.scratch != nullptr) driver_.release(Memory::Device, q.scratch);
    if (q.handle != nullptr) driver_.release(q.handle);
  }
  if (control_ != nullptr) driver_.release(control_);
  if (transit_ != nullptr) driver_.release(Memory::PinnedHost, transit_);
  if (host_arena_ != nullptr) driver_.release(Memory::PinnedHost, host_arena_);
  if (arena_ != nullptr) driver_.release(Memory::Device, arena_);
}

Result<void> CudaDevice::blocking_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (auto done = driver_.copy(control_, to, from, static_cast<std::int64_t>(bytes)); !done) {
    return done;
  }
  return driver_.synchronize(control_);
}

Result<void> CudaDevice::write(std::int64_t offset, std::span<const std::byte> from) {
  while (!from.empty()) {
    const std::size_t bytes = std::min(from.size(), kTransitBytes);
    std::memcpy(transit_, from.data(), bytes);
    if (auto done = blocking_copy(arena_ + offset, transit_, bytes); !done) return done;
    offset += static_cast<std::int64_t>(bytes);
    from = from.subspan(bytes);
  }
  return {};
}

Result<void> CudaDevice::read(std::int64_t offset, std::span<std::byte> to) {
  while (!to.empty()) {
    const std::size_t bytes = std::min(to.size(), kTransitBytes);
    if (auto done = blocking_copy(transit_, arena_ + offset, bytes); !done) return done;
    std::memcpy(to.data(), transit_, bytes);
    offset += static_cast<std::int64_t>(bytes);
    to = to.subspan(bytes);
  }
  return {};
}

Result<void> CudaDevice::fill(std::int64_t offset, std::int64_t bytes, std::uint8_t value) {
  if (auto done = driver_.fill(control_, arena_ + offset, value, bytes); !done) return done;
  return driver_.synchronize(control_);
}

}  // namespace lockstep::cuda
