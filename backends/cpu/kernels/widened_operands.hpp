// WidenedOperands: lets a float32 kernel run on 16-bit operands, as hardware does. Operands are
// widened, arithmetic and sums are in float32, and results are rounded once when they are stored.
// Quantized states are likewise read before a kernel and written behind it.
#pragma once

#include "backends/cpu/kernels/kernel_table.hpp"
#include "core/base/quantized_state.hpp"
#include "core/base/thread_team.hpp"
#include "core/ir/kernels/kernel.hpp"

namespace lockstep::cpu {

class WidenedOperands {
 public:
  /// Makes `args` point to float32 copies of the kernel's 16-bit operands, and to copies of
  /// quantized states in its own type of sums, in the calling thread's scratch memory. An operand
  /// that is updated in place has one copy.
  WidenedOperands(const Kernel& kernel, KernelArgs& args, ThreadTeam& team);
  /// Rounds the copies of outputs to their type, into the operands' own memory.
  void store() const;

 private:
  struct Copy {
    std::byte* narrow = nullptr;
    void* wide = nullptr;
    std::int64_t elements = 0;
    DType dtype = DType::BF16;  // of what lies at `narrow`
  };
  /// A quantized state and its values.
  struct State {
    QuantizedState shape;
    std::byte* state = nullptr;
    void* values = nullptr;
  };
  void* next_scratch(std::size_t bytes);
  Copy add(std::byte* address, std::int64_t elements, DType dtype);
  /// Calls body(state, first, last, values) for ranges of blocks of every quantized state.
  template <class Body>
  void each_state(const Body& body) const;
  void widen(const Copy& copy) const;
  void narrow(const Copy& copy) const;

  ThreadTeam& team_;
  int num_copies_ = 0, num_outputs_ = 0, num_states_ = 0, num_scratch_ = 0;
  Copy copies_[kScratchOperands];
  Copy outputs_[kMaxOperands];
  State states_[2];
  bool values_are_f64_ = false;  // those of states, else float32
};

}  // namespace lockstep::cpu
