// TrainingState: the values of a program's parameters and optimizer states, whole (unsharded) and
// by name, so that any layout can continue what any other began. StateReader and StateStore are
// how a state that no process holds as a whole is read and saved, piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/loss_scale.hpp"
#include "core/base/result.hpp"

namespace lockstep {

struct Tensor {
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;  // dense row-major, host byte order (little endian)
  bool operator==(const Tensor&) const = default;
};

/// What a tensor is, without its values.
struct TensorInfo {
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;
  std::int64_t elements() const {
    std::int64_t product = 1;
    for (const std::int64_t extent : shape) product *= extent;
    return product;
  }
  std::int64_t bytes() const { return elements() * size_of(dtype); }
  bool operator==(const TensorInfo&) const = default;
};

/// The keys of `tensors` are "<parameter>", "adam_m.<parameter>" and "adam_v.<parameter>". Of
/// replicas that train apart, these are the first one's, and those of replica i have "replica<i>."
/// before them; "outer.<parameter>" and "outer_momentum.<parameter>" are all replicas'.
struct TrainingState {
  int step = 0;  // steps done, those included that a loss scale skipped
  /// Samples of the data that were read; unknown: those of `step` steps of the program that goes
  /// on.
  std::optional<std::int64_t> samples;
  std::optional<LossScale> loss_scale = std::nullopt;  // of the next step, if losses are scaled
  int steps_apart = 0;  // steps since replicas that train apart were last brought together
  std::map<std::string, Tensor> tensors;
  bool operator==(const TrainingState&) const = default;
};

/// All of a TrainingState but the values.
struct StateHead {
  int step = 0;
  std::optional<std::int64_t> samples;
  std::map<std::string, TensorInfo> tensors;
  std::map<std::string, std::string> notes;  // what else belongs to the state, as short texts
};

/// The loss scale and TrainingState::steps_apart among the notes of a state; what is not there, or
/// 0, has none.
std::map<std::string, std::string> notes_of(const std::optional<LossScale>& scale, int steps_apart);
/// The reverse; nullopt if there is none. Error: Parse if it is not what to_string(LossScale)
/// writes.
Result<std::optional<LossScale>> loss_scale_of(const StateHead& head);

/// TrainingState::steps_apart; 0 if no note gives it. Error: Parse if it is no count.
Result<int> steps_apart_of(const StateHead& head);

/// A state whose values are read in pieces. Thread-safe.
class StateReader {
 public:
  virtual ~StateReader() = default;
  const StateHead& head() const { return head_; }
  /// Reads bytes of a tensor of head(), from byte `begin` of its values on. Requires that they lie
  /// within it.
  virtual Result<void> read(const std::string& tensor, std::int64_t begin,
                            std::span<std::byte> to) const = 0;

 protected:
  StateHead head_;
};

/// A state in memory, which must outlive it.
class HeldState final : public StateReader {
 public:
  explicit HeldState(const TrainingState& state) : state_(state) {
    head_.step = state.step;
    head_.samples = state.samples;
    head_.notes = notes_of(state.loss_scale, state.steps_apart);
    for (const auto& [name, tensor] : state.tensors) {
      head_.tensors[name] = {tensor.dtype, tensor.shape};
    }
  }
  Result<void> read(const std::string& tensor, std::int64_t begin,
                    std::span<std::byte> to) const override {
    const std::vector<std::byte>& data = state_.tensors.at(tensor).data;
    if (data.size() < to.size() || static_cast<std::size_t>(begin) > data.size() - to.size()) {
      return invalid("initial state: tensor '" + tensor + "' holds " + std::to_string(data.size()) +
                     " bytes instead of " + std::to_string(head_.tensors.at(tensor).bytes()));
    }
    if (!to.empty()) std::memcpy(to.data(), data.data() + begin, to.size());
    return {};
  }

 private:
  const TrainingState& state_;
};

/// Where all processes of a run save its state together. For each save the leader calls begin();
/// then every process writes its pieces and calls finish_writing(); then the leader calls commit()
/// with what that returned everywhere. Nothing of a save counts before its commit(). One save at a
/// time, from one thread.
struct StateStore {
  virtual ~StateStore() = default;
  /// Makes room for a state. Errors: Device if there is not enough.
  virtual Result<void> begin(const StateHead& head) = 0;
  /// Writes bytes of a tensor of `head`, from byte `begin` of its values on; whole elements.
  virtual Result<void> write(const StateHead& head, const std::string& tensor, std::int64_t begin,
                             std::span<const std::byte> values) = 0;
  /// Waits until all that this process has written is on the disk. Returns what commit() needs.
  virtual Result<std::vector<std::byte>> finish_writing() = 0;
  /// Why this process's part of the save that is under way must not count: it holds a number that
  /// is not finite. Empty if it may.
  virtual std::string refusal() const = 0;
  /// Makes the state the newest one.
  virtual Result<void> commit(const StateHead& head,
                              const std::vector<std::vector<std::byte>>& written) = 0;
  /// The newest state that was committed.
  virtual Result<std::unique_ptr<StateReader>> newest() const = 0;
};

}  // namespace lockstep
