// The kernels for any machine: with SSE2 on x86-64, elsewhere with what the compiler's default is.
#include "backends/cpu/kernels/simd_table.hpp"

namespace lockstep::cpu {

KernelTable baseline_table() { return make_table("baseline"); }

}  // namespace lockstep::cpu
