// The kernels for x86-64-v3 (compiled with that -march; see cmake/LockstepCpuKernels.cmake).
#if defined(__x86_64__)
#include "backends/cpu/kernels/simd_table.hpp"

#if !defined(__AVX2__) || !defined(__FMA__)
#error "isa_v3.cpp needs -march=x86-64-v3"
#endif

namespace lockstep::cpu {

KernelTable v3_table() { return make_table("x86-64-v3"); }

}  // namespace lockstep::cpu
#endif
