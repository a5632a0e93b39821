// The instruction sets that a program has, and of those the ones that this machine has. Compiled
// once for each selection of them (cmake/LockstepCpuKernels.cmake).
#include <cassert>

#include "backends/cpu/kernels/kernel_table.hpp"

namespace lockstep::cpu {

const KernelTables& kernel_tables() {
  static const KernelTables all = [] {
    KernelTables found;
#ifdef LOCKSTEP_ISA_BASELINE
    found.tables[found.count++] = baseline_table();
#endif
#ifdef LOCKSTEP_ISA_V3
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2")) {
      found.tables[found.count++] = v3_table();
    }
#endif
#ifdef LOCKSTEP_ISA_V4
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
      found.tables[found.count++] = v4_table();
      if (const Bf16Functions bf16 = bf16_tile_functions(); bf16.gemm != nullptr) {
        KernelTable& table = found.tables[found.count++] = v4_table();
        table.isa = "x86-64-v4-amx";
        table.bf16 = bf16;
      }
    }
#endif
    assert(found.count > 0);  // the program was built for another machine alone
    return found;
  }();
  return all;
}

}  // namespace lockstep::cpu
