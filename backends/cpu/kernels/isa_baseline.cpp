// The kernels for any machine: SSE2 on x86-64, whatever the compiler's default is elsewhere.
#include "backends/cpu/kernels/simd_table.hpp"

namespace lockstep::cpu {

KernelTable baseline_table() { return make_table("baseline"); }

}  // namespace lockstep::cpu
