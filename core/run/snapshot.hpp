// StateSnapshot: what the ranks of this process save, copied to the host while training goes on.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/quantized_state.hpp"
#include "core/ir/program.hpp"
#include "core/run/executor.hpp"
#include "core/run/first_error.hpp"
#include "core/run/rank_memory.hpp"

namespace lockstep {

/// The elements that are copied of a rank are those of which it is the lowest that holds them, so
/// all processes together copy every element once.
class StateSnapshot {
 public:
  struct Piece {
    std::string tensor;
    std::int64_t begin = 0;         // byte within the whole tensor
    std::size_t at = 0, count = 0;  // bytes within the copy
  };

  /// Gets the memory of the copy, so that the first one takes no longer than the others. `ports`
  /// are those of this process's ranks; what they point to must outlive the snapshot.
  StateSnapshot(const Program& program, std::span<const RankPort> ports);

  /// From now on the copy is to be one of the ranks' present state. No copy() may be running.
  void begin();
  /// Copies what is left to copy, and blocks until all is there. Any thread may call it, and those
  /// that call it at once share the work. Error: that of a device.
  Result<void> copy();
  /// Whether copy() may run beside a step that has not come to first_update() yet.
  bool beside_step() const { return beside_step_; }

  const std::vector<Piece>& pieces() const { return pieces_; }
  std::span<const std::byte> values(const Piece& piece) const {
    return {bytes_.data() + piece.at, piece.count};
  }

 private:
  struct Block {  // what one thread copies at a time
    RankMemory memory;
    Tier tier = Tier::Device;
    std::int64_t from = 0;  // offset in the arena of the tier
    std::size_t to = 0, count = 0;
  };
  Result<void> copy(const Block& block);
  void read_states();

  /// A quantized state, whose bytes are copied to `from`, and whose values begin at `to`.
  struct State {
    QuantizedState shape;
    std::size_t from = 0, to = 0;
  };
  std::vector<std::byte> bytes_;
  std::vector<State> states_;
  std::vector<Piece> pieces_;
  std::vector<Block> blocks_;
  bool beside_step_ = true;
  std::atomic<std::size_t> next_ = 0, copied_ = 0, done_ = 0;  // blocks; done_ when states are read
  FirstError failure_;
};

/// The first op of a rank's step that writes anything that is saved; past the last op if none does.
OpId first_update(const Program& program, Rank rank);

}  // namespace lockstep
