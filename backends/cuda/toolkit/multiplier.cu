#include <cublasLt.h>

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "backends/cuda/toolkit/multiplier.hpp"
#include "backends/cuda/toolkit/shared_library.hpp"

namespace lockstep::cuda {
namespace {

struct Calls {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
};

bool load(SharedLibrary& library, Calls& calls) {
  return library.get(calls.create, "cublasLtCreate") &&
         library.get(calls.destroy, "cublasLtDestroy") &&
         library.get(calls.matmul, "cublasLtMatmul") &&
         library.get(calls.desc_create, "cublasLtMatmulDescCreate") &&
         library.get(calls.desc_set, "cublasLtMatmulDescSetAttribute") &&
         library.get(calls.layout_create, "cublasLtMatrixLayoutCreate") &&
         library.get(calls.layout_set, "cublasLtMatrixLayoutSetAttribute") &&
         library.get(calls.preference_create, "cublasLtMatmulPreferenceCreate") &&
         library.get(calls.preference_set, "cublasLtMatmulPreferenceSetAttribute") &&
         library.get(calls.preference_destroy, "cublasLtMatmulPreferenceDestroy") &&
         library.get(calls.heuristic, "cublasLtMatmulAlgoGetHeuristic");
}

cudaDataType_t type_of(DType dtype) {
  return dtype == DType::F64 ? CUDA_R_64F : dtype == DType::BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/// Largest power of two up to 256 that divides the address, and the bytes from one matrix of a
/// batch to the next: algorithms ask for alignments.
std::uint32_t alignment(const void* address, std::int64_t step = 0) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | static_cast<std::uintptr_t>(step) |
                    std::uintptr_t{256};
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

using Key =
    std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool, DType, DType,
               cublasLtEpilogue_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t,
               std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

/// GELU keeps its argument in the auxiliary output, GELU's gradient reads it there.
bool has_auxiliary(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
         epilogue == CUBLASLT_EPILOGUE_DGELU;
}
cublasLtEpilogue_t epilogue_of(bool bias, const KernelCall* next) {
  if (next == nullptr) return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  if (next->kernel->kind == KernelKind::GeluBackward) return CUBLASLT_EPILOGUE_DGELU;
  return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
}

struct Plan {
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  std::optional<cublasLtMatmulAlgo_t> algorithm;
};

}  // namespace

struct Multiplier::State {
  SharedLibrary library;
  Calls calls;
  cublasLtHandle_t handle = nullptr;
  std::mutex mutex;
  std::map<Key, Plan> plans;

  State() : library({CUDART_VERSION >= 13000 ? "libcublasLt.so.13" : "libcublasLt.so.12"}) {}
  bool open() {
    return library.found() && load(library, calls) &&
           calls.create(&handle) == CUBLAS_STATUS_SUCCESS;
  }

  /// Row-major c = op(a) op(b) is column-major c' = op(b)' op(a)': cuBLASLt's A is our b.
  Plan make_plan(const Kernel& kernel, DType out, cublasLtEpilogue_t epilogue,
                 const std::uint32_t (&aligned)[4], const gpu::Batch& batch) {
    const auto m = static_cast<std::uint64_t>(kernel.dims[0]);
    const auto n = static_cast<std::uint64_t>(kernel.dims[1]);
    const auto k = static_cast<std::uint64_t>(kernel.dims[2]);
    const bool ta = kernel.dims[3] != 0, tb = kernel.dims[4] != 0;
    const bool f64 = kernel.dtype == DType::F64;
    const cudaDataType_t in_type = type_of(kernel.dtype), out_type = type_of(out);
    Plan plan;
    calls.desc_create(&plan.desc, f64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                      f64 ? CUDA_R_64F : CUDA_R_32F);
    const cublasOperation_t first = tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    calls.desc_set(plan.desc, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
    calls.desc_set(plan.desc, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
    calls.desc_set(plan.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (has_auxiliary(epilogue)) {
      const auto row = static_cast<std::int64_t>(n);
      calls.desc_set(plan.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &row, sizeof row);
    }
    calls.layout_create(&plan.a, in_type, tb ? k : n, tb ? n : k,
                        static_cast<std::int64_t>(tb ? k : n));
    calls.layout_create(&plan.b, in_type, ta ? m : k, ta ? k : m,
                        static_cast<std::int64_t>(ta ? m : k));
    calls.layout_create(&plan.c, out_type, n, m, static_cast<std::int64_t>(n));
    if (batch.count > 1) {
      const auto count = static_cast<std::int32_t>(batch.count);
      for (const auto& [layout, step] :
           {std::pair{plan.a, batch.b}, {plan.b, batch.a}, {plan.c, batch.c}}) {
        calls.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
        calls.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step);
      }
      calls.desc_set(plan.desc, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, &batch.bias,
                     sizeof batch.bias);
    }
    cublasLtMatmulPreference_t preference = nullptr;
    calls.preference_create(&preference);
    const auto workspace = static_cast<std::size_t>(kWorkspaceBytes);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
      calls.preference_set(preference, what, &value, sizeof value);
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned[0]);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned[1]);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, aligned[2]);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, aligned[3]);
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    const cublasStatus_t status = calls.heuristic(handle, plan.desc, plan.a, plan.b, plan.c, plan.c,
                                                  preference, 1, &best, &found);
    if (status == CUBLAS_STATUS_SUCCESS && found > 0 && best.state == CUBLAS_STATUS_SUCCESS) {
      plan.algorithm = best.algo;
    }
    calls.preference_destroy(preference);
    return plan;
  }
};

Multiplier::Multiplier() : state_(std::make_unique<State>()) {
  if (!state_->open()) state_.reset();
}

Multiplier::~Multiplier() {
  if (state_) state_->calls.destroy(state_->handle);
}

Result<bool> Multiplier::multiply(const KernelCall& call, const KernelCall* next,
                                  const gpu::Batch& batch, StreamHandle stream,
                                  std::byte* workspace) {
  if (!state_) return false;
  const Kernel& kernel = *call.kernel;
  const auto dtype_of = [&](const std::vector<Operand>& operands, std::size_t i) {
    return i < operands.size() && operands[i].present() ? operands[i].dtype : DType::U8;
  };
  const DType out = dtype_of(kernel.out, 0);
  const bool bias = call.in[2] != nullptr, resid = call.in[3] != nullptr;
  if (bias && dtype_of(kernel.in, 2) != out) return false;
  if (resid && (kernel.accumulate || dtype_of(kernel.in, 3) != out)) return false;
  if (kernel.dims[0] == 0 || kernel.dims[1] == 0 || kernel.dims[2] == 0) return false;
  const cublasLtEpilogue_t epilogue = epilogue_of(bias, next);
  const void* auxiliary = nullptr;
  if (next != nullptr) {
    if (kernel.dtype == DType::F64 || resid || kernel.accumulate) return false;
    const bool gradient = epilogue == CUBLASLT_EPILOGUE_DGELU;
    auxiliary = gradient ? next->in[1] : call.out[0];
    // What cuBLASLt asks of the auxiliary matrix.
    if (kernel.dims[1] % 8 != 0 || alignment(auxiliary) < 16) return false;
  }
  std::byte* const result = next != nullptr ? next->out[0] : call.out[0];
  std::byte* const c = resid ? call.in[3] : result;
  const std::int64_t in_bytes = size_of(kernel.dtype), out_bytes = size_of(out);
  const std::uint32_t aligned[4] = {
      alignment(call.in[1], batch.b * in_bytes), alignment(call.in[0], batch.a * in_bytes),
      alignment(c, batch.c * out_bytes), alignment(result, batch.c * out_bytes)};
  const auto& d = kernel.dims;
  const Key key{d[0],        d[1],     d[2],       d[3] != 0,  d[4] != 0,  kernel.dtype,
                out,         epilogue, aligned[0], aligned[1], aligned[2], aligned[3],
                batch.count, batch.a,  batch.b,    batch.bias, batch.c};
  const std::lock_guard lock(state_->mutex);
  auto at = state_->plans.find(key);
  if (at == state_->plans.end()) {
    at = state_->plans.emplace(key, state_->make_plan(kernel, out, epilogue, aligned, batch)).first;
  }
  const Plan& plan = at->second;
  if (!plan.algorithm) return false;
  if (bias) {
    const void* pointer = call.in[2];
    state_->calls.desc_set(plan.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &pointer, sizeof pointer);
  }
  if (next != nullptr) {
    state_->calls.desc_set(plan.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &auxiliary,
                           sizeof auxiliary);
  }
  const double one = 1, added = kernel.accumulate || resid ? 1 : 0;
  const auto one_single = static_cast<float>(one), added_single = static_cast<float>(added);
  const bool f64 = kernel.dtype == DType::F64;
  const void* alpha = f64 ? static_cast<const void*>(&one) : &one_single;
  const void* beta = f64 ? static_cast<const void*>(&added) : &added_single;
  const cublasStatus_t status = state_->calls.matmul(
      state_->handle, plan.desc, alpha, call.in[1], plan.a, call.in[0], plan.b, beta, c, plan.c,
      result, plan.c, &*plan.algorithm, workspace, static_cast<std::size_t>(kWorkspaceBytes),
      reinterpret_cast<cudaStream_t>(stream));
  if (status == CUBLAS_STATUS_SUCCESS) return true;
  return Error{ErrorKind::Device, "cublasLtMatmul: status " + std::to_string(status), std::nullopt};
}

}  // namespace lockstep::cuda
