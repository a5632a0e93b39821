// A stand-in for cuBLASLt: products of matrices in the host's memory, described as its header says.
// An algorithm does not accept smaller alignments than those for which it was requested.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>

#include "backends/cuda/toolkit/cublaslt.hpp"
#include "core/base/bfloat16.hpp"

namespace lockstep::cuda::test {

/// What calls the stand-in got since the record was cleared.
struct LtRecord {
  int handles = 0, live = 0;  // live: descriptions and preferences that are not destroyed
  int chosen = 0, products = 0;
  cublasStatus_t create = CUBLAS_STATUS_SUCCESS,
                 matmul = CUBLAS_STATUS_SUCCESS;  // what they return
  bool has_algorithm = true;
};
inline LtRecord& lt_record() {
  static LtRecord record;
  return record;
}

namespace cpu_lt {

struct Layout {
  cudaDataType type;
  std::int64_t rows, cols, ld;
  std::int32_t batch = 1;
  std::int64_t step = 0;
};
struct Desc {
  cublasComputeType_t compute;
  cudaDataType scale;
  std::map<int, std::int64_t> set;  // by attribute; pointers, too
  std::int64_t get(cublasLtMatmulDescAttributes_t what, std::int64_t otherwise = 0) const {
    const auto at = set.find(what);
    return at == set.end() ? otherwise : at->second;
  }
};
struct Preference {
  std::map<int, std::int64_t> set;
};

inline std::int64_t number(const void* from, std::size_t bytes) {
  std::int64_t value = 0;
  std::memcpy(&value, from, bytes);
  return value;
}
template <class T, class Opaque>
T* of(Opaque* opaque) {
  return reinterpret_cast<T*>(opaque);
}
template <class T, class Opaque>
const T& of(const Opaque* opaque) {
  return *reinterpret_cast<const T*>(opaque);
}

inline double get(cudaDataType type, const void* at, std::int64_t i) {
  if (type == CUDA_R_64F) return static_cast<const double*>(at)[i];
  if (type == CUDA_R_32F) return static_cast<double>(static_cast<const float*>(at)[i]);
  return static_cast<double>(static_cast<float>(static_cast<const bfloat16*>(at)[i]));
}
inline void put(cudaDataType type, void* at, std::int64_t i, double x) {
  if (type == CUDA_R_64F) {
    static_cast<double*>(at)[i] = x;
  } else if (type == CUDA_R_32F) {
    static_cast<float*>(at)[i] = static_cast<float>(x);
  } else {
    static_cast<bfloat16*>(at)[i] = static_cast<bfloat16>(static_cast<float>(x));
  }
}

inline constexpr double kSlope = 0.7978845608028654, kCube = 0.044715;
inline double gelu(double x) { return 0.5 * x * (1 + std::tanh(kSlope * (x + kCube * x * x * x))); }
inline double gelu_slope(double x) {
  const double t = std::tanh(kSlope * (x + kCube * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kSlope * (1 + 3 * kCube * x * x);
}

inline std::int64_t lowest_bit(std::int64_t address) {
  return address == 0 ? 256 : std::min<std::int64_t>(256, address & -address);
}

inline bool has_bias(std::int64_t epilogue) { return (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }
inline bool has_auxiliary(std::int64_t epilogue) { return (epilogue & 128) != 0; }

inline cublasStatus_t choose(cublasLtHandle_t, cublasLtMatmulDesc_t desc_,
                             cublasLtMatrixLayout_t a_, cublasLtMatrixLayout_t b_,
                             cublasLtMatrixLayout_t c_, cublasLtMatrixLayout_t d_,
                             cublasLtMatmulPreference_t preference_, int count,
                             cublasLtMatmulHeuristicResult_t* results, int* found) {
  const auto& desc = of<Desc>(const_cast<const cublasLtMatmulDescOpaque_t*>(desc_));
  const Layout &a = *of<Layout>(a_), &b = *of<Layout>(b_), &c = *of<Layout>(c_),
               &d = *of<Layout>(d_);
  const auto& preference = of<Preference>(preference_)->set;
  *found = 0;
  const bool ta = desc.get(CUBLASLT_MATMUL_DESC_TRANSA) == CUBLAS_OP_T;
  const bool tb = desc.get(CUBLASLT_MATMUL_DESC_TRANSB) == CUBLAS_OP_T;
  const std::int64_t m = ta ? a.cols : a.rows, k = ta ? a.rows : a.cols;
  const std::int64_t n = tb ? b.rows : b.cols;
  for (const Layout* x : {&a, &b, &c, &d}) {
    if (x->ld < x->rows || x->batch != d.batch) return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (k != (tb ? b.cols : b.rows) || m != d.rows || n != d.cols || c.rows != m || c.cols != n ||
      a.type != b.type || c.type != d.type) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool f64 = a.type == CUDA_R_64F;
  if (desc.compute != (f64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F) ||
      desc.scale != (f64 ? CUDA_R_64F : CUDA_R_32F)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const std::int64_t epilogue = desc.get(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
  const std::int64_t row = desc.get(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
  if (has_auxiliary(epilogue) && (row < m || row % 8 != 0)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!lt_record().has_algorithm || count < 1) return CUBLAS_STATUS_NOT_SUPPORTED;
  ++lt_record().chosen;
  cublasLtMatmulHeuristicResult_t& result = results[0];
  result = {};
  const auto wanted = [&](int what) {
    const auto at = preference.find(what);
    return static_cast<std::uint64_t>(at == preference.end() ? 256 : at->second);
  };
  result.algo.data[0] = wanted(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
  result.algo.data[1] = wanted(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
  result.algo.data[2] = wanted(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
  result.algo.data[3] = wanted(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
  // "depend on its value to determine expected pointer alignment"
  result.algo.data[4] =
      static_cast<std::uint64_t>(lowest_bit(desc.get(CUBLASLT_MATMUL_DESC_BIAS_POINTER)));
  result.algo.data[5] =
      static_cast<std::uint64_t>(lowest_bit(desc.get(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER)));
  result.workspaceSize = wanted(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  result.state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t multiply(cublasLtHandle_t, cublasLtMatmulDesc_t desc_, const void* alpha_,
                               const void* a_at, cublasLtMatrixLayout_t a_, const void* b_at,
                               cublasLtMatrixLayout_t b_, const void* beta_, const void* c_at,
                               cublasLtMatrixLayout_t c_, void* d_at, cublasLtMatrixLayout_t d_,
                               const cublasLtMatmulAlgo_t* algo, void* workspace,
                               std::size_t workspace_bytes, cudaStream_t) {
  if (lt_record().matmul != CUBLAS_STATUS_SUCCESS) return lt_record().matmul;
  const auto& desc = of<Desc>(const_cast<const cublasLtMatmulDescOpaque_t*>(desc_));
  const Layout &a = *of<Layout>(a_), &b = *of<Layout>(b_), &c = *of<Layout>(c_),
               &d = *of<Layout>(d_);
  const std::int64_t epilogue = desc.get(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
  const auto* bias = reinterpret_cast<const void*>(desc.get(CUBLASLT_MATMUL_DESC_BIAS_POINTER));
  auto* aux = reinterpret_cast<void*>(desc.get(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER));
  const void* const addresses[] = {a_at,
                                   b_at,
                                   c_at,
                                   d_at,
                                   has_bias(epilogue) ? bias : nullptr,
                                   has_auxiliary(epilogue) ? aux : nullptr};
  for (std::size_t i = 0; i < std::size(addresses); ++i) {
    if (reinterpret_cast<std::uintptr_t>(addresses[i]) % algo->data[i] != 0) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
  }
  if (workspace == nullptr || workspace_bytes < (std::size_t{32} << 20)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if ((has_bias(epilogue) && bias == nullptr) || (has_auxiliary(epilogue) && aux == nullptr)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  ++lt_record().products;
  const double alpha = get(desc.scale, alpha_, 0), beta = get(desc.scale, beta_, 0);
  const bool ta = desc.get(CUBLASLT_MATMUL_DESC_TRANSA) == CUBLAS_OP_T;
  const bool tb = desc.get(CUBLASLT_MATMUL_DESC_TRANSB) == CUBLAS_OP_T;
  const std::int64_t inner = ta ? a.rows : a.cols;
  for (std::int64_t p = 0; p < d.batch; ++p) {
    for (std::int64_t j = 0; j < d.cols; ++j) {
      for (std::int64_t i = 0; i < d.rows; ++i) {
        double x = 0;
        for (std::int64_t l = 0; l < inner; ++l) {
          x += get(a.type, a_at, p * a.step + (ta ? l + i * a.ld : i + l * a.ld)) *
               get(b.type, b_at, p * b.step + (tb ? j + l * b.ld : l + j * b.ld));
        }
        x *= alpha;
        if (beta != 0) x += beta * get(c.type, c_at, p * c.step + i + j * c.ld);
        if (has_bias(epilogue)) {
          x += get(d.type, bias, p * desc.get(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE) + i);
        }
        const std::int64_t in_aux = i + j * desc.get(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
        if (epilogue == CUBLASLT_EPILOGUE_DGELU) x *= gelu_slope(get(d.type, aux, in_aux));
        if (epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
          put(d.type, aux, in_aux, x);
          x = gelu(x);
        }
        put(d.type, d_at, p * d.step + i + j * d.ld, x);
      }
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

template <class T, class Opaque>
cublasStatus_t destroy(Opaque* opaque) {
  --lt_record().live;
  delete of<T>(opaque);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace cpu_lt

inline CublasLt cpu_cublaslt() {
  using namespace cpu_lt;
  CublasLt calls;
  calls.create = [](cublasLtHandle_t* handle) {
    if (lt_record().create != CUBLAS_STATUS_SUCCESS) return lt_record().create;
    ++lt_record().handles;
    *handle = reinterpret_cast<cublasLtHandle_t>(&lt_record());
    return CUBLAS_STATUS_SUCCESS;
  };
  calls.destroy = [](cublasLtHandle_t) { return --lt_record().handles, CUBLAS_STATUS_SUCCESS; };
  calls.status_name = [](cublasStatus_t status) {
    return status == CUBLAS_STATUS_NOT_INITIALIZED ? "CUBLAS_STATUS_NOT_INITIALIZED"
                                                   : "CUBLAS_STATUS_INTERNAL_ERROR";
  };
  calls.desc_create = [](cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                         cudaDataType scale) {
    ++lt_record().live;
    *desc = reinterpret_cast<cublasLtMatmulDesc_t>(new Desc{compute, scale, {}});
    return CUBLAS_STATUS_SUCCESS;
  };
  calls.desc_destroy = [](cublasLtMatmulDesc_t desc) { return destroy<Desc>(desc); };
  calls.desc_set = [](cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t what,
                      const void* from, std::size_t bytes) {
    of<Desc>(desc)->set[what] = number(from, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  calls.layout_create = [](cublasLtMatrixLayout_t* layout, cudaDataType type, std::uint64_t rows,
                           std::uint64_t cols, std::int64_t ld) {
    ++lt_record().live;
    *layout = reinterpret_cast<cublasLtMatrixLayout_t>(
        new Layout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols), ld});
    return CUBLAS_STATUS_SUCCESS;
  };
  calls.layout_destroy = [](cublasLtMatrixLayout_t layout) { return destroy<Layout>(layout); };
  calls.layout_set = [](cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t what,
                        const void* from, std::size_t bytes) {
    if (what == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) {
      of<Layout>(layout)->batch = static_cast<std::int32_t>(number(from, bytes));
    } else if (what == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) {
      of<Layout>(layout)->step = number(from, bytes);
    } else {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    return CUBLAS_STATUS_SUCCESS;
  };
  calls.preference_create = [](cublasLtMatmulPreference_t* preference) {
    ++lt_record().live;
    *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
    return CUBLAS_STATUS_SUCCESS;
  };
  calls.preference_destroy = [](cublasLtMatmulPreference_t p) { return destroy<Preference>(p); };
  calls.preference_set = [](cublasLtMatmulPreference_t preference,
                            cublasLtMatmulPreferenceAttributes_t what, const void* from,
                            std::size_t bytes) {
    of<Preference>(preference)->set[what] = number(from, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  calls.heuristic = choose;
  calls.matmul = multiply;
  return calls;
}

}  // namespace lockstep::cuda::test
