#include "core/generate/decoder.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "core/base/convert.hpp"
#include "core/run/state_transfer.hpp"

namespace lockstep {
namespace {

/// Where pieces of `tokens` / 2 begin: those of the pass, then those of the cache.
std::vector<std::int32_t> starts_of(std::int64_t position, std::int64_t tokens,
                                    std::int64_t capacity) {
  const std::int64_t half = tokens / 2;
  std::vector<std::int32_t> starts = {static_cast<std::int32_t>(position),
                                      static_cast<std::int32_t>(position + half)};
  for (std::int64_t begin = 0; begin < capacity; begin += half) {
    starts.push_back(static_cast<std::int32_t>(begin));
  }
  return starts;
}

}  // namespace

Decoder::Decoder(const DecodeProgram& made, Device& device) : made_(made), device_(device) {
  const Role& role = made.program.roles[0];
  for (const BufferId id : role.args) {
    addresses_.push_back(device.arena() + role.arena_offset(id));
  }
}

Result<void> Decoder::load(const StateReader* state) {
  for (const Function& function : made_.program.functions) {
    for (const Kernel& kernel : function.kernels) {
      if (!device_.supports(kernel)) {
        return Error{ErrorKind::Unsupported,
                     "this device cannot run " + std::string(info(kernel.kind).name) + " in " +
                         std::string(to_string(kernel.dtype)),
                     std::nullopt};
      }
    }
  }
  if (auto filled = device_.fill(0, made_.program.roles[0].arena.v, 0); !filled) return filled;
  position_ = 0;
  return load_state(made_.program, 0, {device_}, 0, state);
}

Result<void> Decoder::clear() {
  const Role& role = made_.program.roles[0];
  position_ = 0;
  for (const BufferId cache : made_.caches) {
    const std::int64_t bytes = role.buffer(cache).bytes.v;
    if (auto filled = device_.fill(role.arena_offset(cache), bytes, 0); !filled) return filled;
  }
  return {};
}

Result<std::vector<float>> Decoder::read(std::span<const std::int32_t> ids, bool all) {
  const std::int64_t vocab = made_.vocab;
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocab) {
      return Error{
          ErrorKind::InvalidSpec,
          "token " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(vocab),
          std::nullopt};
    }
  }
  if (static_cast<std::int64_t>(ids.size()) > room()) {
    return Error{ErrorKind::InvalidSpec,
                 std::to_string(ids.size()) + " more tokens do not fit behind the " +
                     std::to_string(position_) + " before them: there is room for " +
                     std::to_string(made_.capacity),
                 std::nullopt};
  }
  std::vector<float> logits;
  while (!ids.empty()) {
    // The largest pass that is full, or else the smallest.
    const auto* pass = &made_.passes[0];
    for (const auto& other : made_.passes) {
      const bool full = other.tokens <= static_cast<std::int64_t>(ids.size());
      const bool now_full = pass->tokens <= static_cast<std::int64_t>(ids.size());
      if (full ? !now_full || other.tokens > pass->tokens
               : !now_full && other.tokens < pass->tokens) {
        pass = &other;
      }
    }
    const std::size_t count = std::min(ids.size(), to_size(pass->tokens));
    if (auto ran = run(*pass, ids.first(count)); !ran) return ran.error();
    ids = ids.subspan(count);
    if (!all && !ids.empty()) continue;
    for (std::size_t row = all ? 0 : count - 1; row < count; ++row) {
      append_logits(static_cast<std::int64_t>(row), logits);
    }
  }
  return logits;
}

Result<void> Decoder::run(const DecodeProgram::Pass& pass, std::span<const std::int32_t> ids) {
  const Role& role = made_.program.roles[0];
  std::vector<std::int32_t> tokens(to_size(pass.tokens), -1), positions(tokens);
  std::copy(ids.begin(), ids.end(), tokens.begin());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    positions[i] = static_cast<std::int32_t>(position_ + static_cast<std::int64_t>(i));
  }
  std::vector<std::int32_t> starts = starts_of(position_, pass.tokens, made_.capacity);
  std::vector<std::int32_t> windows(tokens.size());
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const std::int64_t first = position_ + static_cast<std::int64_t>(i) - made_.window + 1;
    windows[i] = static_cast<std::int32_t>(std::max<std::int64_t>(0, first));
  }
  const std::array inputs = {&tokens, &positions, &starts, &windows};
  const Op& last = role.op(pass.last);
  logits_.resize(to_size(role.buffer(role.args_of(last)[0]).bytes.v));
  StepContext context;
  context.timed = false;
  device_.begin_step(context);
  std::size_t copied = 0;
  Result<void> enqueued;
  for (OpId id = pass.first; id <= pass.last && enqueued; ++id.v) {
    const Op& op = role.op(id);
    const std::span<std::byte* const> args(addresses_.data() + op.args_begin, op.args_count);
    if (op.kind == OpKind::Call) {
      enqueued = device_.enqueue_call(id, op, args);
    } else if (op.kind == OpKind::HostToDevice) {
      std::vector<std::int32_t>& from = *inputs[copied++];
      enqueued = device_.enqueue_copy(id, op, args[0], from.data(), from.size() * sizeof from[0]);
    } else {
      enqueued = device_.enqueue_copy(id, op, args[0], logits_.data(), logits_.size());
    }
  }
  const auto ran = device_.synchronize();
  if (!enqueued) return enqueued;
  if (!ran) return ran.error();
  position_ += static_cast<std::int64_t>(ids.size());
  return {};
}

void Decoder::append_logits(std::int64_t row, std::vector<float>& to) const {
  const DType dtype = made_.program.dtype;
  const std::size_t vocab = to_size(made_.vocab), bytes = vocab * to_size(size_of(dtype));
  to.resize(to.size() + vocab);
  convert(std::span(logits_).subspan(to_size(row) * bytes, bytes), dtype,
          std::as_writable_bytes(std::span(to).last(vocab)), DType::F32);
}

}  // namespace lockstep
