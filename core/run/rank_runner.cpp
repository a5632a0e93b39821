#include "core/run/rank_runner.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <numeric>
#include <string>

#include "core/base/bfloat16.hpp"
#include "core/base/documents.hpp"
#include "core/base/dropout.hpp"
#include "core/base/float16.hpp"
#include "core/base/index_vector.hpp"
#include "core/run/snapshot.hpp"
#include "core/run/state_transfer.hpp"
#include "core/run/straggler_watch.hpp"

namespace lockstep {
namespace {

constexpr std::uint8_t kPoison = 0xff;
constexpr std::int32_t kFirstRow = 0;  // where rows begin that no ranks share

/// The ranges of the arena in which no persistent buffer lies.
std::vector<std::pair<std::int64_t, std::int64_t>> transient_ranges(const Role& role) {
  std::vector<std::pair<std::int64_t, std::int64_t>> kept;
  for (const Buffer& buffer : role.buffers) {
    if (buffer.persistent() && buffer.tier == Tier::Device)
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

/// Writes the intensities of one image as the model reads them: channels last, normalized by
/// Samples::mean and deviation.
void write_image(const Samples& samples, const std::vector<std::int32_t>& pixels, DType dtype,
                 std::byte* to) {
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const std::size_t channel = i % samples.mean.size();
    const double value = (pixels[i] / 255.0 - samples.mean[channel]) / samples.deviation[channel];
    const auto narrow = static_cast<float>(value);
    const std::uint16_t half = dtype == DType::F16 ? float16(narrow).bits : bfloat16(narrow).bits;
    const void* const from = dtype == DType::F64   ? static_cast<const void*>(&value)
                             : dtype == DType::F32 ? static_cast<const void*>(&narrow)
                                                   : &half;
    std::memcpy(to + i * to_size(size_of(dtype)), from, to_size(size_of(dtype)));
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

RankRunner::RankRunner(const Program& program, const RankPort& port, const BatchSource& batches)
    : program_(program),
      role_(program.role_of(port.rank)),
      port_(port),
      training_batches_(batches),
      batches_(&batches),
      first_update_(first_update(program, port.rank)),
      first_synchronization_(first_synchronization(role_)),
      transient_(transient_ranges(role_)) {
  const Samples& samples = program.input.samples;
  const std::int64_t shares = size_over(program.mesh, samples.over);
  first_sample_ =
      position_over(program.mesh, samples.over, port.rank) * (samples.per_step / shares);
  const auto taken = [&](TableKind kind) {
    const IndexList* const given = list(kind);
    std::vector<std::int32_t> tokens(to_size(given != nullptr ? given->size() : samples.targets()));
    if (given != nullptr) {
      given->fill(tokens);
    } else {
      std::iota(tokens.begin(), tokens.end(), 0);
    }
    return tokens;
  };
  order_ = taken(TableKind::Order);
  queries_ = taken(TableKind::Queries);
  if (const IndexList* const shift = list(TableKind::Shift)) shift->fill({&shift_, 1});
  if (const IndexList* const rows = list(TableKind::Rows)) {
    first_rows_.resize(to_size(rows->size()));
    rows->fill(first_rows_);
  }
  addresses_.reserve(role_.args.size());
  sizes_.reserve(role_.args.size());
  for (const BufferId id : role_.args) {
    const Tier tier = role_.buffer(id).tier;
    std::byte* const arena =
        tier == Tier::Device ? port.device->arena() : port.device->host_arena();
    addresses_.push_back(tier == Tier::Drive ? nullptr  // a file has no addresses
                                             : arena + arena_offset(program, port.rank, id));
    sizes_.push_back(role_.buffer(id).bytes.v);
  }
  for (std::size_t i = 0; i < role_.ops.size(); ++i) {
    const Op& op = role_.ops[i];
    if (!is_copy(op.kind) || op.moves_memory()) continue;
    copies_.push_back({static_cast<std::int32_t>(i)});
    staging_.emplace_back(to_size(sizes_[op.args_begin]));
  }
}

Result<void> RankRunner::prepare(const StateReader* state, const ExecutorOptions& options) {
  // The arena is filled even if it is not poisoned, so that its pages are touched here and not in
  // the first step.
  if (auto filled = port_.device->fill(0, role_.arena.v, options.poison ? kPoison : 0); !filled) {
    return filled.error();
  }
  if (role_.host_arena.v > 0) {
    std::memset(port_.device->host_arena(), options.poison ? kPoison : 0,
                to_size(role_.host_arena.v));
  }
  return load_state(program_, port_.rank, {*port_.device, port_.drive}, program_.training.seed,
                    state);
}

Result<RankStep> RankRunner::run_step(const StepContext& context, std::int64_t sample,
                                      const ExecutorOptions& options,
                                      const std::function<Result<void>()>& before_update,
                                      const BatchSource* others) {
  batches_ = others != nullptr ? others : &training_batches_;
  step_sample_ = sample;
  step_loss_scale_ = context.loss_scale;
  loading_ = {};
  if (options.poison) {
    if (auto poisoned = poison_transient(); !poisoned) return poisoned.error();
  }
  port_.device->begin_step(context);
  if (auto enqueued = enqueue_all(context.synchronizes, before_update); !enqueued) {
    // What is already enqueued may wait for peers, and they for this rank; both must end.
    port_.communicator->abort(enqueued.error());
    static_cast<void>(port_.device->synchronize());
    return enqueued.error();
  }
  auto times = port_.device->synchronize();
  if (!times) return times.error();
  const Seconds waiting = time_waiting(*times);
  return RankStep{std::move(*times), metric(HostData::Loss), metric(HostData::GradNorm), waiting,
                  loading_};
}

template <class Move>
Result<void> RankRunner::move_persistent(const Move& move) {
  std::int64_t begin = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i <= transient_.size(); ++i) {
    const std::int64_t end = i < transient_.size() ? transient_[i].first : role_.arena.v;
    const auto bytes = to_size(end - begin);
    if (kept_.size() < at + bytes) kept_.resize(at + bytes);
    const std::span<std::byte> kept(kept_.data() + at, bytes);
    if (bytes > 0) {
      if (auto moved = move(begin, kept); !moved) return moved;
    }
    at += bytes;
    if (i < transient_.size()) begin = transient_[i].second;
  }
  return {};
}

Result<void> RankRunner::keep() {
  const std::byte* const host = port_.device->host_arena();
  if (role_.host_arena.v > 0) kept_on_host_.assign(host, host + role_.host_arena.v);
  if (port_.drive != nullptr) {
    if (auto kept = port_.drive->keep(); !kept) return kept;
  }
  return move_persistent(
      [&](std::int64_t at, std::span<std::byte> to) { return port_.device->read(at, to); });
}

Result<void> RankRunner::restore() {
  std::copy(kept_on_host_.begin(), kept_on_host_.end(), port_.device->host_arena());
  if (port_.drive != nullptr) {
    if (auto restored = port_.drive->restore(); !restored) return restored;
  }
  return move_persistent(
      [&](std::int64_t at, std::span<std::byte> from) { return port_.device->write(at, from); });
}

Result<void> RankRunner::enqueue_all(bool synchronizes,
                                     const std::function<Result<void>()>& before_update) {
  next_copy_ = 0;
  const OpId end = synchronizes ? role_.ops.next() : first_synchronization_;
  for (OpId id{0}; id <= end; ++id.v) {
    if (id == first_update_) {
      if (auto ready = before_update(); !ready) return ready;
    }
    if (id == end) break;
    if (auto done = enqueue(id); !done) return done.error();
  }
  return {};
}

Result<void> RankRunner::enqueue(OpId id) {
  const Op& op = role_.op(id);
  for (const OpId dependency : role_.after_of(op)) {
    if (role_.op(dependency).stream == op.stream) continue;  // the stream is in order already
    if (auto waits = port_.device->wait(op.stream, dependency); !waits) return waits.error();
  }
  const std::span<std::byte* const> args(addresses_.data() + op.args_begin, op.args_count);
  if (op.kind == OpKind::Call) return port_.device->enqueue_call(id, op, args);
  if (is_drive_copy(op.kind)) return enqueue_drive_copy(id);
  if (op.moves_memory()) {
    const bool to_device = op.kind == OpKind::HostToDevice;
    return port_.device->enqueue_copy(id, op, args[to_device ? 1 : 0], args[to_device ? 0 : 1],
                                      to_size(sizes_[op.args_begin]));
  }
  if (is_copy(op.kind)) {
    std::vector<std::byte>& staging = staging_[next_copy_++];
    if (op.kind == OpKind::HostToDevice) {
      const auto begin = std::chrono::steady_clock::now();
      try {
        fill_input(op, staging);
      } catch (const std::exception& fault) {  // of the files with the data
        return Error{ErrorKind::Device, fault.what(), std::nullopt};
      }
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      if (op.brings_samples()) loading_ += Seconds{took.count()};
    }
    return port_.device->enqueue_copy(id, op, args[0], staging.data(), staging.size());
  }
  const std::span<const std::int64_t> bytes(sizes_.data() + op.args_begin, op.args_count);
  return port_.communicator->enqueue(id, op, args, bytes, role_.buffer(role_.args_of(op)[0]).dtype);
}

Result<void> RankRunner::enqueue_drive_copy(OpId id) {
  const Op& op = role_.op(id);
  const auto buffers = role_.args_of(op);
  const bool reads = op.kind == OpKind::DriveToHost;
  const std::int64_t offset = role_.arena_offset(buffers[reads ? 0 : 1]);
  const std::span<std::byte> memory(addresses_[op.args_begin + (reads ? 1 : 0)],
                                    to_size(sizes_[op.args_begin]));
  return port_.device->enqueue_host_work(id, op, [drive = port_.drive, reads, offset, memory] {
    return reads ? drive->read(offset, memory) : drive->write(offset, memory);
  });
}

const IndexList* RankRunner::list(TableKind kind) const {
  const IndexTable* const table = program_.input.table(kind);
  if (table == nullptr) return nullptr;
  return &table->lists[to_size(position_over(program_.mesh, table->dims, port_.rank))];
}

void RankRunner::fill_input(const Op& op, std::vector<std::byte>& staging) {
  const Samples& samples = program_.input.samples;
  const std::span<std::int32_t> values(reinterpret_cast<std::int32_t*>(staging.data()),
                                       staging.size() / sizeof(std::int32_t));
  const std::int64_t first =
      step_sample_ + first_sample_ + std::max(op.microbatch, 0) * samples.microbatch;
  switch (op.host()) {
    case HostData::Positions:
      return list(TableKind::Positions)->fill(values);
    case HostData::Starts:
      return list(TableKind::Starts)->fill(values);
    case HostData::Columns:
      return list(TableKind::Columns)->fill(values);
    case HostData::Part:
      return list(TableKind::Parts)->fill(values);
    case HostData::Shards:
      return list(TableKind::Shards)->fill(values);
    case HostData::DropoutKeys:
      return fill_dropout_keys(first, order_, first_rows_, values);
    case HostData::AllDropoutKeys:
      return fill_dropout_keys(first, order_, {&kFirstRow, 1}, values);
    case HostData::AttentionDropout:
      return fill_attention_dropout(first, values);
    case HostData::LossScale: {
      const auto scale = static_cast<float>(step_loss_scale_);
      std::memcpy(staging.data(), &scale, sizeof scale);
      return;
    }
    case HostData::Images:
      return fill_images(op, first, staging);
    default:
      return fill_tokens(op, first, values);
  }
}

void RankRunner::fill_images(const Op& op, std::int64_t first, std::vector<std::byte>& staging) {
  const Samples& samples = program_.input.samples;
  const DType dtype = role_.buffer(role_.args_of(op)[0]).dtype;
  std::vector<std::int32_t> pixels(to_size(samples.inputs())), label(1);
  const std::size_t image_bytes = pixels.size() * to_size(size_of(dtype));
  for (std::size_t at = 0; at < staging.size(); at += image_bytes, ++first) {
    (*batches_)(first, pixels, label);
    write_image(samples, pixels, dtype, staging.data() + at);
  }
}

void RankRunner::fill_tokens(const Op& op, std::int64_t first, std::span<std::int32_t> ids) {
  const Samples& samples = program_.input.samples;
  std::vector<std::int32_t> inputs(to_size(samples.inputs())), targets(to_size(samples.targets()));
  const auto& wanted = op.host() == HostData::Targets ? targets : inputs;
  const std::int32_t end = static_cast<std::int32_t>(samples.document_end);
  const HostData data = op.host();
  const auto window = static_cast<std::int32_t>(samples.window);
  const bool spans = data == HostData::DocumentSpans;
  const bool windows = data == HostData::Windows;
  const bool begins = spans || windows || data == HostData::Documents;
  const auto& taken = begins ? queries_ : order_;
  std::vector<std::int32_t> starts(end >= 0 ? inputs.size() : 0), ends(spans ? inputs.size() : 0);
  const std::size_t rows = spans ? ids.size() / 2 : ids.size();
  for (std::size_t at = 0; at < rows; at += taken.size(), ++first) {
    (*batches_)(first, inputs, targets);
    if (end >= 0) document_starts(inputs, end, starts);
    if (spans) document_ends(inputs, end, ends);
    for (std::size_t i = 0; i < taken.size(); ++i) {
      const std::int32_t token = taken[i];
      const bool ends_document = samples.ignores_ends && inputs[token] == end;
      const bool ignored =
          data == HostData::Targets && (ends_document || targets[token] == kIgnoredTarget);
      if (spans) ids[rows + at + i] = ends[token];
      ids[at + i] = windows                               ? std::max(0, token - window + 1)
                    : begins                              ? starts[token]
                    : data == HostData::DocumentPositions ? token - starts[token]
                    : ignored                             ? kIgnoredTarget
                                                          : wanted[token] - shift_;
    }
  }
}

void RankRunner::fill_attention_dropout(std::int64_t first, std::span<std::int32_t> values) const {
  const std::size_t rows = to_size(program_.input.samples.microbatch) * queries_.size();
  const std::span<std::int32_t> heads = values.first(values.size() - rows);
  if (const IndexList* const numbers = list(TableKind::Heads)) {
    numbers->fill(heads);
  } else {
    std::iota(heads.begin(), heads.end(), 0);
  }
  fill_dropout_keys(first, queries_, {&kFirstRow, 1}, values.last(rows));
}

void RankRunner::fill_dropout_keys(std::int64_t first, std::span<const std::int32_t> tokens,
                                   std::span<const std::int32_t> first_rows,
                                   std::span<std::int32_t> keys) const {
  const auto row_tokens = static_cast<std::int64_t>(tokens.size());
  const bool trains = batches_ == &training_batches_;
  const std::size_t part = keys.size() / first_rows.size();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::int64_t row = first_rows[i / part] + static_cast<std::int64_t>(i % part);
    keys[i] = trains ? dropout_key(program_.training.seed, first + row / row_tokens,
                                   tokens[to_size(row % row_tokens)])
                     : kNothingDropped;
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
