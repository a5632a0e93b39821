// The kernels for x86-64-v4 (compiled with that -march; see cmake/LockstepCpuKernels.cmake).
#if defined(__x86_64__)
#include "backends/cpu/kernels/simd_table.hpp"

#if !defined(__AVX512F__)
#error "isa_v4.cpp needs -march=x86-64-v4"
#endif

namespace lockstep::cpu {

KernelTable v4_table() { return make_table("x86-64-v4"); }

}  // namespace lockstep::cpu
#endif
