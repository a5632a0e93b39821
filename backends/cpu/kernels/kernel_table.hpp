// KernelTable: the interface between run_kernel() and the code that is compiled once per
// instruction set. Only plain types cross it: an inline template of std that is instantiated in a
// file built for AVX-512 could be the copy that the linker keeps for the whole program.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {
class ThreadTeam;
}

namespace lockstep::cpu {

/// A kernel with the addresses of its operands; null for an absent one. Addresses are aligned to
/// the size of an element, not more.
struct KernelArgs {
  const std::int64_t* dims = nullptr;
  const double* scalars = nullptr;
  std::byte* in[8] = {};
  std::byte* out[8] = {};
  bool in_f64[8] = {};  // whether the operand's own type is float64, else float32 or int32
  bool out_f64[8] = {};
  bool in_bf16[8] = {};  // likewise bfloat16; of Bf16Functions only, because others' are widened
  bool out_bf16[8] = {};
  bool accumulate = false;
  double lr = 0;
  std::int64_t step = 0;  // 0-based
  int layer = -1;         // of the op
  ThreadTeam* team = nullptr;
};

using KernelFunction = void (*)(const KernelArgs&);

/// Kernels whose operands need not be widened from bfloat16. Null where the machine has no
/// instructions for them.
struct Bf16Functions {
  /// A Gemm whose matrices A and B are bfloat16; each of the others is that or float32. Products of
  /// experts consist of such.
  KernelFunction gemm = nullptr;
  /// Attention whose operands are all bfloat16, but for lse, which is float32.
  KernelFunction attention_forward = nullptr, attention_backward = nullptr;
};

/// Entry points of one instruction set, indexed by KernelKind; null for a kind that is not
/// implemented.
struct KernelTable {
  const char* isa = "";
  KernelFunction f32[128] = {};
  KernelFunction f64[128] = {};
  Bf16Functions bf16;
  /// c[m,n] = beta * c + op(a)[m,k] op(b)[k,n] on the calling thread; beta is 0 or 1.
  void (*gemm_f32)(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                   std::int64_t lda, const float* b, std::int64_t ldb, int beta, float* c,
                   std::int64_t ldc) = nullptr;
  /// Runs `iterations` rounds of independent vector FMAs, to measure the peak of this machine, and
  /// returns a value that depends on all of them. A round has fma_flops_per_round operations.
  float (*fma_rounds_f32)(std::int64_t iterations) = nullptr;
  double (*fma_rounds_f64)(std::int64_t iterations) = nullptr;
  std::int64_t fma_flops_per_round_f32 = 0;
  std::int64_t fma_flops_per_round_f64 = 0;
};

KernelTable baseline_table();
KernelTable v3_table();  // AVX2 and FMA; x86-64 only
KernelTable v4_table();  // AVX-512; x86-64 only
/// KernelTable::bf16 with AMX; null if the processor or the system has none. To be called on
/// processors with AVX-512 only.
Bf16Functions bf16_tile_functions();

/// The tables that this machine can run, from the baseline to the best; found once.
struct KernelTables {
  KernelTable tables[4];
  int count = 0;
  const KernelTable& best() const { return tables[count - 1]; }
};
const KernelTables& kernel_tables();

/// ThreadTeam::parallel_for with a plain function.
void parallel_ranges(ThreadTeam& team, std::int64_t n, std::int64_t grain,
                     void (*body)(const void* context, std::int64_t begin, std::int64_t end),
                     const void* context);

/// The calling thread's scratch memory `slot`, at least `bytes` long and aligned to 64 bytes. It is
/// kept for reuse; its contents are undefined.
enum class Scratch : int { PackA, PackB, Tiles, Rows, Operands };
inline constexpr int kScratchOperands = 16;  // slots from Operands on, for widened operands
void* scratch(Scratch slot, std::size_t bytes);

}  // namespace lockstep::cpu
