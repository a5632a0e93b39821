#include "core/run/rank_runner.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "core/run/state_transfer.hpp"

namespace lockstep {
namespace {

constexpr std::uint8_t kPoison = 0xff;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

int coordinate_of(const Mesh& mesh, std::string_view dim, Rank rank) {
  const int i = mesh.index_of(dim);
  return i < 0 ? 0 : mesh.coordinate(rank, i);
}

/// The arena without its persistent buffers.
std::vector<std::pair<std::int64_t, std::int64_t>> transient_ranges(const Role& role) {
  std::vector<std::pair<std::int64_t, std::int64_t>> kept;
  for (const Buffer& buffer : role.buffers) {
    if (buffer.persistent() && !buffer.on_host)
      kept.emplace_back(buffer.offset, buffer.offset + buffer.bytes.v);
  }
  std::sort(kept.begin(), kept.end());
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  std::int64_t at = 0;
  for (const auto& [begin, end] : kept) {
    if (at < begin) ranges.emplace_back(at, begin);
    at = std::max(at, end);
  }
  if (at < role.arena.v) ranges.emplace_back(at, role.arena.v);
  return ranges;
}

/// Intensities as the model sees them: of the unit interval, less the channel's mean over ImageNet,
/// over its deviation (the figures that torchvision's models are trained with).
void write_image(const std::vector<std::int32_t>& pixels, DType dtype, std::byte* to) {
  constexpr double kMean[] = {0.485, 0.456, 0.406};
  constexpr double kDeviation[] = {0.229, 0.224, 0.225};
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const double value = (pixels[i] / 255.0 - kMean[i % 3]) / kDeviation[i % 3];
    const auto narrow = static_cast<float>(value);
    const auto bits = std::bit_cast<std::uint32_t>(narrow);
    const auto half = static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
    const void* const from = dtype == DType::F64    ? static_cast<const void*>(&value)
                             : dtype == DType::BF16 ? static_cast<const void*>(&half)
                                                    : &narrow;
    std::memcpy(to + i * index(size_of(dtype)), from, index(size_of(dtype)));
  }
}

double first_element(const std::vector<std::byte>& bytes, DType dtype) {
  if (dtype == DType::F64) {
    double value = 0;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  float value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace

RankRunner::RankRunner(const Program& program, const Scenario& scenario, const RankPort& port,
                       const BatchSource& batches)
    : program_(program),
      scenario_(scenario),
      role_(program.role_of(port.rank)),
      port_(port),
      batches_(batches),
      transient_(transient_ranges(role_)) {
  const Mesh& mesh = program.mesh;
  dp_size_ = 1;
  dp_index_ = 0;
  for (const char* dim : {"dp_replicate", "dp_shard", "dp_reshard", "ep"}) {
    dp_size_ *= mesh.size_of(dim);
    dp_index_ = dp_index_ * mesh.size_of(dim) + coordinate_of(mesh, dim, port.rank);
  }
  cp_index_ = coordinate_of(mesh, "cp", port.rank);
  addresses_.reserve(role_.args.size());
  sizes_.reserve(role_.args.size());
  for (const BufferId id : role_.args) {
    std::byte* const arena =
        role_.buffer(id).on_host ? port.device->host_arena() : port.device->arena();
    addresses_.push_back(arena + arena_offset(program, port.rank, id));
    sizes_.push_back(role_.buffer(id).bytes.v);
  }
  for (std::size_t i = 0; i < role_.ops.size(); ++i) {
    const Op& op = role_.ops[i];
    if (!is_copy(op.kind) || op.moves_memory()) continue;
    copies_.push_back({static_cast<std::int32_t>(i)});
    staging_.emplace_back(index(sizes_[op.args_begin]));
  }
}

Result<void> RankRunner::prepare(const TrainingState* state, const ExecutorOptions& options) {
  // Also without poison: the pages of the arena are touched here and not in the first step.
  if (auto filled = port_.device->fill(0, role_.arena.v, options.poison ? kPoison : 0); !filled) {
    return filled.error();
  }
  if (role_.host_arena.v > 0) {
    std::memset(port_.device->host_arena(), options.poison ? kPoison : 0,
                index(role_.host_arena.v));
  }
  return load_state(program_, port_.rank, *port_.device, scenario_.training.seed, state);
}

Result<RankStep> RankRunner::run_step(const StepContext& context, const ExecutorOptions& options) {
  if (options.poison) {
    if (auto poisoned = poison_transient(); !poisoned) return poisoned.error();
  }
  port_.device->begin_step(context);
  if (auto enqueued = enqueue_all(context); !enqueued) {
    // What is already enqueued may wait for peers, and they for this rank: let go of both.
    port_.communicator->abort(enqueued.error());
    static_cast<void>(port_.device->synchronize());
    return enqueued.error();
  }
  auto times = port_.device->synchronize();
  if (!times) return times.error();
  return RankStep{std::move(*times), metric(HostData::Loss), metric(HostData::GradNorm)};
}

Result<void> RankRunner::enqueue_all(const StepContext& context) {
  next_copy_ = 0;
  for (std::size_t i = 0; i < role_.ops.size(); ++i) {
    if (auto done = enqueue({static_cast<std::int32_t>(i)}, context); !done) return done.error();
  }
  return {};
}

Result<void> RankRunner::enqueue(OpId id, const StepContext& context) {
  const Op& op = role_.op(id);
  for (const OpId dependency : role_.after_of(op)) {
    if (role_.op(dependency).stream == op.stream) continue;  // the stream is in order already
    if (auto waits = port_.device->wait(op.stream, dependency); !waits) return waits.error();
  }
  const std::span<std::byte* const> args(addresses_.data() + op.args_begin, op.args_count);
  if (op.kind == OpKind::Call) return port_.device->enqueue_call(id, op, args);
  if (op.moves_memory()) {
    const bool to_device = op.kind == OpKind::HostToDevice;
    return port_.device->enqueue_copy(id, op, args[to_device ? 1 : 0], args[to_device ? 0 : 1],
                                      index(sizes_[op.args_begin]));
  }
  if (is_copy(op.kind)) {
    std::vector<std::byte>& staging = staging_[next_copy_++];
    if (op.kind == OpKind::HostToDevice) fill_input(op, context.step, staging);
    return port_.device->enqueue_copy(id, op, args[0], staging.data(), staging.size());
  }
  const std::span<const std::int64_t> bytes(sizes_.data() + op.args_begin, op.args_count);
  return port_.communicator->enqueue(id, op, args, bytes, role_.buffer(role_.args_of(op)[0]).dtype);
}

void RankRunner::fill_input(const Op& op, int step, std::vector<std::byte>& staging) {
  const Mesh& mesh = program_.mesh;
  const std::int64_t seq_len = scenario_.own_seq_len();
  const std::int64_t tp = coordinate_of(mesh, "tp", port_.rank);
  const std::int64_t part = ceil_div(scenario_.model.vocab, mesh.size_of("tp"));
  const std::span<std::int32_t> values(reinterpret_cast<std::int32_t*>(staging.data()),
                                       staging.size() / sizeof(std::int32_t));
  switch (op.host()) {
    case HostData::Columns:
      values[0] = static_cast<std::int32_t>(
          std::clamp<std::int64_t>(scenario_.model.vocab - tp * part, 0, part));
      return;
    case HostData::Positions: {
      const std::int64_t rows = scenario_.microbatch_size() * seq_len;
      const auto own = static_cast<std::int64_t>(values.size());
      const std::int64_t first = own < rows ? tp * own : 0;  // all rows, or the rank's share
      for (std::int64_t i = 0; i < own; ++i) {
        values[index(i)] =
            static_cast<std::int32_t>(scenario_.position(cp_index_, (first + i) % seq_len));
      }
      return;
    }
    case HostData::Starts: {
      const auto parts = static_cast<int>(values.size()) / 2 - 1;
      for (int part = -1; part < parts; ++part) {  // own pieces first
        const int rank = part < 0 ? cp_index_ : part;
        for (const int piece : {0, 1}) {
          values[index(2 * (part + 1) + piece)] =
              static_cast<std::int32_t>(scenario_.position(rank, piece * (seq_len / 2)));
        }
      }
      return;
    }
    default:
      fill_batch(op, step, staging);
      if (op.host() == HostData::Images) return;
      for (std::int32_t& id : values) id -= static_cast<std::int32_t>(tp * part);
  }
}

void RankRunner::fill_batch(const Op& op, int step, std::vector<std::byte>& staging) {
  const auto targets_of_sample = index(scenario_.training.seq_len);
  const ModelSpec& model = scenario_.model;
  std::vector<std::int32_t> inputs(model.is_vision() ? index(model.image_elements())
                                                     : targets_of_sample);
  std::vector<std::int32_t> targets(targets_of_sample);
  const auto& wanted = op.host() == HostData::Targets ? targets : inputs;
  const DType dtype = role_.buffer(role_.args_of(op)[0]).dtype;
  const bool images = op.host() == HostData::Images;
  std::vector<std::int32_t> own(images ? 0 : index(scenario_.own_seq_len()));
  const std::size_t row_bytes = (images ? wanted.size() : own.size()) * index(size_of(dtype));
  const std::size_t rows = staging.size() / row_bytes;
  const std::int64_t global_batch = scenario_.global_batch_size();
  const std::int64_t first = step * global_batch + dp_index_ * (global_batch / dp_size_) +
                             std::max(op.microbatch, 0) * std::int64_t{scenario_.microbatch_size()};
  for (std::size_t row = 0; row < rows; ++row) {
    batches_(first + static_cast<std::int64_t>(row), inputs, targets);
    std::byte* const to = staging.data() + row * row_bytes;
    if (images) {
      write_image(inputs, dtype, to);
      continue;
    }
    for (std::size_t i = 0; i < own.size(); ++i) {
      own[i] = wanted[index(scenario_.position(cp_index_, static_cast<std::int64_t>(i)))];
    }
    std::memcpy(to, own.data(), row_bytes);
  }
}

Result<void> RankRunner::poison_transient() {
  for (const auto& [begin, end] : transient_) {
    if (auto filled = port_.device->fill(begin, end - begin, kPoison); !filled) {
      return filled.error();
    }
  }
  return {};
}

std::optional<double> RankRunner::metric(HostData data) const {
  for (std::size_t i = copies_.size(); i-- > 0;) {
    const Op& op = role_.op(copies_[i]);
    if (op.kind == OpKind::DeviceToHost && op.host() == data) {
      return first_element(staging_[i], role_.buffer(role_.args_of(op)[0]).dtype);
    }
  }
  return std::nullopt;
}

}  // namespace lockstep
