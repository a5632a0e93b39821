#include <array>
#include <compare>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "backends/cuda/toolkit/cublaslt.hpp"
#include "backends/cuda/toolkit/multiplier.hpp"
#include "backends/cuda/toolkit/shared_library.hpp"
#include "core/base/float8.hpp"

namespace lockstep::cuda {
namespace {

bool load(SharedLibrary& library, CublasLt& calls) {
  return library.get(calls.create, "cublasLtCreate") &&
         library.get(calls.destroy, "cublasLtDestroy") &&
         library.get(calls.status_name, "cublasLtGetStatusName") &&
         library.get(calls.matmul, "cublasLtMatmul") &&
         library.get(calls.desc_create, "cublasLtMatmulDescCreate") &&
         library.get(calls.desc_destroy, "cublasLtMatmulDescDestroy") &&
         library.get(calls.desc_set, "cublasLtMatmulDescSetAttribute") &&
         library.get(calls.layout_create, "cublasLtMatrixLayoutCreate") &&
         library.get(calls.layout_destroy, "cublasLtMatrixLayoutDestroy") &&
         library.get(calls.layout_set, "cublasLtMatrixLayoutSetAttribute") &&
         library.get(calls.preference_create, "cublasLtMatmulPreferenceCreate") &&
         library.get(calls.preference_destroy, "cublasLtMatmulPreferenceDestroy") &&
         library.get(calls.preference_set, "cublasLtMatmulPreferenceSetAttribute") &&
         library.get(calls.heuristic, "cublasLtMatmulAlgoGetHeuristic") &&
         library.get(calls.version, "cublasLtGetVersion");
}

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return CUDA_R_64F;
    case DType::BF16:
      return CUDA_R_16BF;
    case DType::F16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

/// The type of codes with so many bits of mantissa (core/base/float8.hpp).
cudaDataType_t type_of_codes(int mantissa) {
  return mantissa == kE4M3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
}

/// What a library of this version can do on a GPU of this compute capability with scales of blocks
/// (cuBLAS documentation, cublasLtMatmulMatrixScale_t and the layouts of scaling factors).
struct BlockScales {
  bool of_128 = false;  // float32, of 1 x 128 or 128 x 128: compute capability 9.0, from 12.9 on
  bool of_32 = false;   // powers of two of 1 x 32: 10.0 and later, from 12.8 on
};
BlockScales block_scales_of(std::size_t version) {
  int device = 0, major = 0;
  const bool known =
      cudaGetDevice(&device) == cudaSuccess &&
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess;
  if (!known) {
    static_cast<void>(cudaGetLastError());  // no GPU is there, as in tests
    return {};
  }
  return {version >= 120900 && major == 9, version >= 120800 && major >= 10};
}

// cublasLtMatmulMatrixScale_t by value, because headers older than the library lack some.
constexpr std::int32_t kOneScale = 0, kScalesOf32 = 2, kScalesOf128 = 4, kScalesOf128x128 = 5;

/// The codes of a ScaledGemm's two factors, and how the library reads their scales. Bits of
/// mantissa that are 0 stand for other types.
struct Codes {
  int a = 0, b = 0;
  std::int32_t a_mode = kOneScale, b_mode = kOneScale;
  explicit operator bool() const { return a != 0; }
  bool in_blocks() const { return a_mode != kOneScale; }
  auto operator<=>(const Codes&) const = default;
};

/// How cuBLASLt is asked for a product of codes; nullopt if it is not: it needs float32 scales
/// here, and sizes that are multiples of 16, as its documentation requires; of blocks those that it
/// has, of which not both factors may be squares.
std::optional<Codes> codes_of(const Kernel& kernel, const BlockScales& can) {
  const auto& d = kernel.dims;
  Codes codes{static_cast<int>(kernel.scalars[0]), static_cast<int>(kernel.scalars[1])};
  const bool aligned = d[0] % 16 == 0 && d[1] % 16 == 0 && d[2] % 16 == 0;
  const bool single = kernel.in[4].dtype == DType::F32 && kernel.in[5].dtype == DType::F32;
  if (!aligned || !single || d[7] != 0) return std::nullopt;
  if (d[3] >= d[0] && d[4] >= d[1] && d[5] >= d[2]) return codes;
  const auto mode = [&](std::int64_t across) {
    if (can.of_32 && d[5] == 32 && across == 1) return kScalesOf32;
    if (can.of_128 && d[5] == 128 && d[2] % 128 == 0) {
      if (across == 1) return kScalesOf128;
      if (across == 128) return kScalesOf128x128;
    }
    return kOneScale;
  };
  codes.a_mode = mode(d[3]);
  codes.b_mode = mode(d[4]);
  const bool squares = codes.a_mode == kScalesOf128x128 && codes.b_mode == kScalesOf128x128;
  if (codes.a_mode == kOneScale || codes.b_mode == kOneScale || squares) return std::nullopt;
  return codes;
}

// CUBLASLT_MATMUL_DESC_A_SCALE_MODE and B_SCALE_MODE, likewise.
constexpr auto kScaleModeOfA = static_cast<cublasLtMatmulDescAttributes_t>(31),
               kScaleModeOfB = static_cast<cublasLtMatmulDescAttributes_t>(32);

constexpr std::int64_t rounded_up(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

/// The scales of a factor as the library wants them: those of 128 line by line for each block of
/// columns, lines rounded up to 4; those of squares as here, but rows of them rounded up to 4;
/// those of 32 as exponents, in tiles of 128 lines by 4 blocks.
struct LaidScales {
  const float* from;
  std::byte* to;
  std::int64_t lines, parts;  // of scales
  std::int32_t mode;
  std::int64_t bytes() const {
    if (mode == kScalesOf32) return rounded_up(lines, 128) * rounded_up(parts, 4);
    return 4 * (mode == kScalesOf128 ? rounded_up(lines, 4) * parts : lines * rounded_up(parts, 4));
  }
};

__global__ void lay_scales(LaidScales s) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= s.lines * s.parts) return;
  const std::int64_t line = i / s.parts, part = i % s.parts;
  if (s.mode == kScalesOf32) {
    const std::int64_t tile = line / 128 * ((s.parts + 3) / 4) + part / 4;
    const std::int64_t at = line % 32 * 16 + line % 128 / 32 * 4 + part % 4;
    const auto exponent = static_cast<unsigned char>(__float_as_uint(s.from[i]) >> 23);
    reinterpret_cast<unsigned char*>(s.to)[tile * 512 + at] = exponent;
    return;
  }
  const std::int64_t padded_lines = (s.lines + 3) / 4 * 4, padded_parts = (s.parts + 3) / 4 * 4;
  reinterpret_cast<float*>(
      s.to)[s.mode == kScalesOf128 ? part * padded_lines + line : line * padded_parts + part] =
      s.from[i];
}

cublasComputeType_t compute_type(DType in, bool tf32) {
  return in == DType::F64 ? CUBLAS_COMPUTE_64F
         : tf32           ? CUBLAS_COMPUTE_32F_FAST_TF32
                          : CUBLAS_COMPUTE_32F;
}

/// The largest power of two up to 256 that divides the address, and the bytes from one matrix of a
/// batch to the next, because algorithms ask for alignments.
std::uint32_t alignment(const void* address, std::int64_t step = 0) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | static_cast<std::uintptr_t>(step) |
                    std::uintptr_t{256};
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

/// The addresses of a product, by cuBLASLt's names for its matrices; null for what is absent.
struct Addresses {
  const void *a = nullptr, *b = nullptr, *c = nullptr, *bias = nullptr, *auxiliary = nullptr;
  const void *a_scale = nullptr, *b_scale = nullptr;
  void* d = nullptr;
};

/// The properties of a product on which the choice of an algorithm depends.
struct Key {
  std::array<std::int64_t, 5> dims;
  DType in, out;
  Codes codes;
  bool tf32;
  cublasLtEpilogue_t epilogue;
  std::array<std::uint32_t, 6> aligned;  // A, B, C, D, bias, auxiliary
  std::array<std::int64_t, 5> batch;
  auto order() const { return std::tie(dims, in, out, codes, tf32, epilogue, aligned, batch); }
  bool operator<(const Key& other) const { return order() < other.order(); }
};

/// The epilogue of a product. GELU keeps its argument in the auxiliary output, and GELU's gradient
/// reads it there.
cublasLtEpilogue_t epilogue_of(bool bias, const KernelCall* next) {
  if (next == nullptr) return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  if (next->kernel->kind == KernelKind::GeluBackward) return CUBLASLT_EPILOGUE_DGELU;
  return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
}

struct Plan {
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  bool has_algorithm = false;
  cublasLtMatmulAlgo_t algorithm{};
};

}  // namespace

struct Multiplier::State {
  CublasLt calls;
  cublasLtHandle_t handle = nullptr;
  cublasStatus_t created;
  std::mutex mutex;
  std::map<Key, Plan> plans;
  BlockScales blocks;

  explicit State(const CublasLt& from)
      : calls(from),
        created(calls.create(&handle)),
        blocks(block_scales_of(calls.version == nullptr ? 0 : calls.version())) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    for (const auto& [key, plan] : plans) {
      calls.desc_destroy(plan.desc);
      for (cublasLtMatrixLayout_t layout : {plan.a, plan.b, plan.c}) calls.layout_destroy(layout);
    }
    if (created == CUBLAS_STATUS_SUCCESS) calls.destroy(handle);
  }

  Error failed(const char* call, cublasStatus_t status) const {
    return {ErrorKind::Device, std::string(call) + ": " + calls.status_name(status), std::nullopt};
  }

  void set_pointers(const Plan& plan, const Addresses& at) const {
    if (at.bias != nullptr) {
      calls.desc_set(plan.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &at.bias, sizeof at.bias);
    }
    for (const auto& [what, scale] : {std::pair{CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, at.a_scale},
                                      {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, at.b_scale}}) {
      if (scale != nullptr) calls.desc_set(plan.desc, what, &scale, sizeof scale);
    }
    if (at.auxiliary != nullptr) {
      calls.desc_set(plan.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &at.auxiliary,
                     sizeof at.auxiliary);
    }
  }

  /// Row-major c = op(a) op(b) is column-major c' = op(b)' op(a)': cuBLASLt's A is our b.
  Plan make_plan(const Key& key, const Batch& batch, const Addresses& at) const {
    const auto m = static_cast<std::uint64_t>(key.dims[0]);
    const auto n = static_cast<std::uint64_t>(key.dims[1]);
    const auto k = static_cast<std::uint64_t>(key.dims[2]);
    const bool ta = key.dims[3] != 0, tb = key.dims[4] != 0;
    const bool f64 = key.in == DType::F64;
    const cudaDataType_t out_type = type_of(key.out);
    const cudaDataType_t a_type = key.codes ? type_of_codes(key.codes.b) : type_of(key.in);
    const cudaDataType_t b_type = key.codes ? type_of_codes(key.codes.a) : type_of(key.in);
    Plan plan;
    calls.desc_create(&plan.desc, compute_type(key.in, key.tf32), f64 ? CUDA_R_64F : CUDA_R_32F);
    const cublasOperation_t first = tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    calls.desc_set(plan.desc, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
    calls.desc_set(plan.desc, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
    calls.desc_set(plan.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &key.epilogue, sizeof key.epilogue);
    if (at.auxiliary != nullptr) {
      const auto row = static_cast<std::int64_t>(n);
      calls.desc_set(plan.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &row, sizeof row);
    }
    calls.layout_create(&plan.a, a_type, tb ? k : n, tb ? n : k,
                        static_cast<std::int64_t>(tb ? k : n));
    calls.layout_create(&plan.b, b_type, ta ? m : k, ta ? k : m,
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
    if (key.codes.in_blocks()) {  // cuBLASLt's A is our b
      calls.desc_set(plan.desc, kScaleModeOfA, &key.codes.b_mode, sizeof key.codes.b_mode);
      calls.desc_set(plan.desc, kScaleModeOfB, &key.codes.a_mode, sizeof key.codes.a_mode);
    }
    set_pointers(plan, at);  // the choice also depends on their alignment
    cublasLtMatmulPreference_t preference = nullptr;
    calls.preference_create(&preference);
    const auto workspace = static_cast<std::size_t>(kWorkspaceBytes);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
      calls.preference_set(preference, what, &value, sizeof value);
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
    // Sums stay in the compute type until they are complete, also if they are split along k.
    const std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.aligned[0]);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.aligned[1]);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.aligned[2]);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.aligned[3]);
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    const cublasStatus_t status = calls.heuristic(handle, plan.desc, plan.a, plan.b, plan.c, plan.c,
                                                  preference, 1, &best, &found);
    if (status == CUBLAS_STATUS_SUCCESS && found > 0 && best.state == CUBLAS_STATUS_SUCCESS) {
      plan.has_algorithm = true;
      plan.algorithm = best.algo;
    }
    calls.preference_destroy(preference);
    return plan;
  }
};

Multiplier::Multiplier() {
  SharedLibrary library({CUDART_VERSION >= 13000 ? "libcublasLt.so.13" : "libcublasLt.so.12"});
  CublasLt calls;
  if (library.found() && load(library, calls)) state_ = std::make_unique<State>(calls);
}

Multiplier::Multiplier(const CublasLt& calls) : state_(std::make_unique<State>(calls)) {}

Multiplier::~Multiplier() = default;

Result<bool> Multiplier::multiply(const KernelCall& call, const KernelCall* next,
                                  const Batch& batch, StreamHandle stream, std::byte* workspace) {
  if (!state_) return false;
  State& state = *state_;
  if (state.created != CUBLAS_STATUS_SUCCESS) return state.failed("cublasLtCreate", state.created);
  const Kernel& kernel = *call.kernel;
  const auto dtype_of = [&](const std::vector<Operand>& operands, std::size_t i) {
    return i < operands.size() && operands[i].present() ? operands[i].dtype : DType::U8;
  };
  const DType out = dtype_of(kernel.out, 0);
  const bool bias = call.in[2] != nullptr, resid = call.in[3] != nullptr;
  Codes codes;
  if (kernel.kind == KernelKind::ScaledGemm) {
    const auto taken = codes_of(kernel, state.blocks);
    if (!taken) return false;
    codes = *taken;
  } else if (kernel.in[0].dtype != kernel.dtype || kernel.in[1].dtype != kernel.dtype) {
    return false;
  }
  if (bias && dtype_of(kernel.in, 2) != out) return false;
  if (resid && (kernel.accumulate || dtype_of(kernel.in, 3) != out)) return false;
  if (kernel.dims[0] == 0 || kernel.dims[1] == 0 || kernel.dims[2] == 0) return false;
  std::byte* const result = next != nullptr ? next->out[0] : call.out[0];
  Addresses at{call.in[1],
               call.in[0],
               resid ? call.in[3] : result,
               call.in[2],
               nullptr,
               codes ? call.in[5] : nullptr,
               codes ? call.in[4] : nullptr,
               result};
  const auto of_factor = [&](std::size_t i, std::int32_t mode, std::byte* to) {
    const auto& d = kernel.dims;
    return LaidScales{reinterpret_cast<const float*>(call.in[4 + i]), to,
                      (d[i] + d[3 + i] - 1) / d[3 + i], (d[2] + d[5] - 1) / d[5], mode};
  };
  std::array<LaidScales, 2> laid{};
  if (codes.in_blocks()) {
    laid[0] = of_factor(0, codes.a_mode, call.scratch);
    laid[1] = of_factor(1, codes.b_mode, call.scratch + rounded_up(laid[0].bytes(), 256));
    at.a_scale = laid[1].to;
    at.b_scale = laid[0].to;
  }
  const cublasLtEpilogue_t epilogue = epilogue_of(bias, next);
  if (next != nullptr) {
    // The library does not say how exact its GELU is, so it is not used in float32, in which
    // results are compared.
    if (size_of(kernel.dtype) != 2 || resid || kernel.accumulate) return false;
    at.auxiliary = epilogue == CUBLASLT_EPILOGUE_DGELU ? next->in[1] : call.out[0];
    // cuBLASLt requires this of the auxiliary matrix.
    if (kernel.dims[1] % 8 != 0 || alignment(at.auxiliary) < 16) return false;
  }
  const std::int64_t in_bytes = codes ? 1 : size_of(kernel.dtype), out_bytes = size_of(out);
  const bool ta = !codes && kernel.dims[3] != 0, tb = codes || kernel.dims[4] != 0;
  const Key key{{kernel.dims[0], kernel.dims[1], kernel.dims[2], ta, tb},
                kernel.dtype,
                out,
                codes,
                kernel.tf32,
                epilogue,
                {alignment(at.a, batch.b * in_bytes), alignment(at.b, batch.a * in_bytes),
                 alignment(at.c, batch.c * out_bytes), alignment(at.d, batch.c * out_bytes),
                 alignment(at.bias, batch.bias * out_bytes), alignment(at.auxiliary)},
                {batch.count, batch.a, batch.b, batch.bias, batch.c}};
  const std::lock_guard lock(state.mutex);
  auto known = state.plans.find(key);
  if (known == state.plans.end()) {
    known = state.plans.emplace(key, state.make_plan(key, batch, at)).first;
  }
  Plan& plan = known->second;
  if (!plan.has_algorithm) return false;
  state.set_pointers(plan, at);
  for (const LaidScales& scales : laid) {
    if (scales.to == nullptr) continue;
    constexpr unsigned kThreads = 256;
    const auto blocks =
        static_cast<unsigned>((scales.lines * scales.parts + kThreads - 1) / kThreads);
    lay_scales<<<blocks, kThreads, 0, reinterpret_cast<cudaStream_t>(stream)>>>(scales);
  }
  const double one = 1, added = kernel.accumulate || resid ? 1 : 0;
  const auto one_single = static_cast<float>(one), added_single = static_cast<float>(added);
  const bool f64 = kernel.dtype == DType::F64;
  const void* alpha = f64 ? static_cast<const void*>(&one) : &one_single;
  const void* beta = f64 ? static_cast<const void*>(&added) : &added_single;
  const cublasStatus_t status = state.calls.matmul(
      state.handle, plan.desc, alpha, at.a, plan.a, at.b, plan.b, beta, at.c, plan.c, at.d, plan.c,
      &plan.algorithm, workspace, static_cast<std::size_t>(kWorkspaceBytes),
      reinterpret_cast<cudaStream_t>(stream));
  if (status == CUBLAS_STATUS_SUCCESS) return true;
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) return state.failed("cublasLtMatmul", status);
  plan.has_algorithm = false;  // nothing was launched, and it will not be tried again
  return false;
}

}  // namespace lockstep::cuda
