// WidenedOperands: lets a float32 kernel run on 16-bit operands, as hardware does. Operands are
// widened, arithmetic and sums are in float32, and results are rounded once when they are stored.
#pragma once

#include "backends/cpu/kernels/kernel_table.hpp"
#include "core/base/thread_team.hpp"
#include "core/ir/kernels/kernel.hpp"

namespace lockstep::cpu {

class WidenedOperands {
 public:
  /// Makes `args` point to float32 copies of the kernel's 16-bit operands, in the calling
  /// thread's scratch memory. An operand that is updated in place has one copy.
  WidenedOperands(const Kernel& kernel, KernelArgs& args, ThreadTeam& team);
  /// Rounds the copies of outputs to their type, into the operands' own memory.
  void store() const;

 private:
  struct Copy {
    std::byte* narrow = nullptr;
    float* wide = nullptr;
    std::int64_t elements = 0;
    DType dtype = DType::BF16;  // of what lies at `narrow`
  };
  Copy add(std::byte* address, std::int64_t elements, DType dtype);
  void widen(const Copy& copy) const;
  void narrow(const Copy& copy) const;

  ThreadTeam& team_;
  int num_copies_ = 0, num_outputs_ = 0;
  Copy copies_[kScratchOperands];
  Copy outputs_[kMaxOperands];
};

}  // namespace lockstep::cpu
