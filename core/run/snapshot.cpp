#include "core/run/snapshot.hpp"

#include <algorithm>

#include "core/base/index_vector.hpp"
#include "core/run/state_transfer.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t kBlockBytes = 1 << 20;

}  // namespace

StateSnapshot::StateSnapshot(const Program& program, std::span<const RankPort> ports) {
  std::size_t used = 0;
  for (const SavedBuffer& saved : saved_buffers(program)) {
    const auto port = std::find_if(ports.begin(), ports.end(),
                                   [&](const RankPort& p) { return p.rank == saved.rank; });
    if (port == ports.end()) continue;
    const Role& role = program.role_of(saved.rank);
    const Buffer& buffer = role.buffer(saved.buffer);
    const std::int64_t size = size_of(saved.dtype);
    const QuantizedState& state = saved.quantized;
    const std::size_t raw = used;  // where the buffer's bytes are copied to
    if (state.elements > 0) {
      used = to_size(round_up(static_cast<std::int64_t>(raw) + buffer.bytes.v, size));
      states_.push_back({state, raw, used});
    }
    for (const ShardPiece& piece : saved.pieces) {
      pieces_.push_back({saved.prefix + program.parameters[piece.parameter].name,
                         piece.begin * size, used + to_size(piece.at * size),
                         to_size(piece.count * size)});
    }
    for (std::int64_t at = 0; at < buffer.bytes.v; at += kBlockBytes) {
      const std::size_t count = to_size(std::min(kBlockBytes, buffer.bytes.v - at));
      blocks_.push_back({{*port->device, port->drive},
                         buffer.tier,
                         role.arena_offset(saved.buffer) + at,
                         raw + to_size(at),
                         count});
    }
    used += to_size(state.elements > 0 ? state.elements * size : buffer.bytes.v);
    used = to_size(round_up(static_cast<std::int64_t>(used), std::int64_t{8}));
    beside_step_ = beside_step_ && port->device->reads_beside_step();
  }
  bytes_.resize(used);
  next_ = copied_ = done_ = blocks_.size();
}

void StateSnapshot::begin() {
  done_ = copied_ = 0;
  next_ = 0;
}

Result<void> StateSnapshot::copy() {
  for (std::size_t i = next_++; i < blocks_.size(); i = next_++) {
    if (const auto copied = copy(blocks_[i]); !copied) failure_.set(copied.error());
    if (++copied_ < blocks_.size()) continue;
    read_states();
    done_ = blocks_.size();
    done_.notify_all();
  }
  for (std::size_t done = done_; done < blocks_.size(); done = done_) done_.wait(done);
  return failure_.result();
}

void StateSnapshot::read_states() {
  for (const State& state : states_) {
    read_quantized(state.shape, bytes_.data() + state.from, 0, state.shape.blocks(),
                   reinterpret_cast<float*>(bytes_.data() + state.to));
  }
}

Result<void> StateSnapshot::copy(const Block& block) {
  return block.memory.read(block.tier, block.from, {bytes_.data() + block.to, block.count});
}

OpId first_update(const Program& program, Rank rank) {
  const Role& role = program.role_of(rank);
  const auto meets_saved = [&](std::int64_t begin, const Buffer& written) {
    return std::any_of(role.units.begin(), role.units.end(), [&](const Unit& unit) {
      return std::any_of(kStates.begin(), kStates.end(), [&](const StateRow& row) {
        if (!is_saved(unit, row)) return false;
        const BufferId id = unit.states[row.kind];
        const Buffer& buffer = role.buffer(id);
        const std::int64_t at = role.arena_offset(id);
        return buffer.tier == written.tier && begin < at + buffer.bytes.v &&
               at < begin + written.bytes.v;
      });
    });
  };
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    const Op& op = role.ops[i];
    const auto args = role.args_of(op);
    for (std::size_t a = 0; a < args.size(); ++a) {
      if (access(program, op, a) == Access::Read) continue;
      if (meets_saved(arena_offset(program, rank, args[a]), role.buffer(args[a]))) {
        return {static_cast<std::int32_t>(i)};
      }
    }
  }
  return {static_cast<std::int32_t>(role.ops.size())};
}

}  // namespace lockstep
