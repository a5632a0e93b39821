#ifdef LOCKSTEP_HAVE_CUDA
#include "backends/cuda/toolkit/multiplier.hpp"

#include <random>
#include <vector>

#include "core/calibration/calibration.hpp"
#include "tests/backends/cuda/toolkit/cpu_cublaslt.hpp"
#include "tests/catch.hpp"

namespace lockstep::cuda {
namespace {

using test::lt_record;
using test::cpu_lt::gelu;
using test::cpu_lt::gelu_slope;

cudaDataType type_of(DType dtype) {
  return dtype == DType::F64 ? CUDA_R_64F : dtype == DType::BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/// Elements in memory, `shift` elements behind an address that is aligned to 256 bytes.
class Matrix {
 public:
  Matrix(DType dtype, std::int64_t elements, std::int64_t shift = 0)
      : dtype_(dtype),
        elements_(elements),
        memory_(static_cast<std::size_t>((elements + shift) * size_of(dtype)) + 256) {
    const auto begin = reinterpret_cast<std::uintptr_t>(memory_.data());
    at_ = memory_.data() + (256 - begin % 256) % 256 + shift * size_of(dtype);
  }
  void randomize(unsigned seed) {
    std::mt19937 random(seed);
    // Values are sixteenths, so that sums of products are exact in every type but for the last
    // rounding.
    for (std::int64_t i = 0; i < elements_; ++i) {
      test::cpu_lt::put(type_of(dtype_), at_, i, static_cast<double>(random() % 33) / 16 - 1);
    }
  }
  double operator[](std::int64_t i) const { return test::cpu_lt::get(type_of(dtype_), at_, i); }
  std::byte* at() { return at_; }

 private:
  DType dtype_;
  std::int64_t elements_;
  std::vector<std::byte> memory_;
  std::byte* at_ = nullptr;
};

/// A product, its operands, and the expected result.
struct Product {
  Kernel kernel;
  Matrix a, b, bias, resid, c;
  std::vector<double> sum_so_far;
  Batch batch;

  Product(DType in, DType out, std::int64_t m, std::int64_t n, std::int64_t k, bool ta, bool tb,
          bool has_bias, bool has_resid, bool accumulate, std::int64_t shift = 0, int batches = 1)
      : kernel(calibration_kernel(KernelKind::Gemm, in, {m, n, k, ta ? 1 : 0, tb ? 1 : 0}, {},
                                  has_resid ? 2 : 1)),
        a(in, batches * m * k, shift),
        b(in, batches * k * n, shift),
        bias(out, batches * n, shift),
        resid(out, m * n, shift),
        c(out, batches * m * n, shift) {
    kernel.accumulate = accumulate;
    for (std::size_t i : {2, 3}) kernel.in[i].dtype = out;
    if (!has_bias) kernel.in[2] = {};
    kernel.out[0].dtype = out;
    unsigned seed = 1;
    for (Matrix* x : {&a, &b, &bias, &resid, &c}) x->randomize(seed++);
    if (batches > 1) batch = {batches, m * k, k * n, n, m * n};
    for (std::int64_t i = 0; i < batches * m * n; ++i) sum_so_far.push_back(c[i]);
  }
  KernelCall call() {
    KernelCall call{&kernel, {a.at(), b.at()}, {c.at()}, nullptr, {}};
    if (kernel.in[2].present()) call.in[2] = bias.at();
    if (kernel.in[3].present()) call.in[3] = resid.at();
    return call;
  }
  double expected(std::int64_t p, std::int64_t i, std::int64_t j) const {
    const auto& d = kernel.dims;
    double x = 0;
    for (std::int64_t l = 0; l < d[2]; ++l) {
      x += a[p * batch.a + (d[3] != 0 ? l * d[0] + i : i * d[2] + l)] *
           b[p * batch.b + (d[4] != 0 ? j * d[2] + l : l * d[1] + j)];
    }
    if (kernel.in[2].present()) x += bias[p * batch.bias + j];
    if (kernel.in[3].present()) x += resid[i * d[1] + j];
    const std::int64_t at = p * batch.c + i * d[1] + j;
    return kernel.accumulate ? x + sum_so_far[at] : x;
  }
};

double tolerance(DType dtype) { return dtype == DType::BF16 ? 4e-3 : 1e-6; }

Multiplier unrecorded() {
  lt_record() = {};
  return Multiplier(test::cpu_cublaslt());
}

struct Fixture {
  Multiplier multiplier = unrecorded();
  std::vector<std::byte> workspace =
      std::vector<std::byte>(static_cast<std::size_t>(Multiplier::kWorkspaceBytes));
  Result<bool> multiply(const KernelCall& call, const KernelCall* next = nullptr,
                        const Batch& batch = {}) {
    return multiplier.multiply(call, next, batch, nullptr, workspace.data());
  }
};

}  // namespace

TEST_CASE("products of row-major matrices are what cuBLASLt is asked for", "[backends][cuda]") {
  Fixture lt;
  struct Types {
    DType in, out;
  };
  int products = 0;
  for (const Types types : {Types{DType::F64, DType::F64}, Types{DType::F32, DType::F32},
                            Types{DType::BF16, DType::BF16}, Types{DType::BF16, DType::F32}}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        for (const int extra : {0, 1, 2, 3, 4}) {  // nothing, bias, residual, both, a sum so far
          for (const int batches : {1, 3}) {
            const bool has_resid = extra == 2 || extra == 3;
            if (batches > 1 && has_resid) continue;
            Product p(types.in, types.out, 5, 7, 3, ta, tb, extra % 2 == 1, has_resid, extra == 4,
                      products % 3, batches);
            INFO(to_string(types.in) << " to " << to_string(types.out) << ta << tb << extra);
            const auto done = lt.multiply(p.call(), nullptr, p.batch);
            REQUIRE(done.ok());
            REQUIRE(*done);
            ++products;
            for (std::int64_t b = 0; b < batches; ++b) {
              for (std::int64_t i = 0; i < 5; ++i) {
                for (std::int64_t j = 0; j < 7; ++j) {
                  CHECK(p.c[b * p.batch.c + i * 7 + j] ==
                        Approx(p.expected(b, i, j)).epsilon(tolerance(types.out)));
                }
              }
            }
          }
        }
      }
    }
  }
  CHECK(lt_record().products == products);
}

TEST_CASE("GELU and its gradient are taken along in the epilogue", "[backends][cuda]") {
  Fixture lt;
  constexpr DType dtype = DType::BF16;
  for (const bool has_bias : {false, true}) {
    Product p(dtype, dtype, 5, 8, 3, false, true, has_bias, false, false);
    const Kernel gelu_kernel = calibration_kernel(KernelKind::GeluForward, dtype, {5 * 8});
    Matrix y(dtype, 5 * 8);
    const KernelCall next{&gelu_kernel, {p.c.at()}, {y.at()}, nullptr, {}};
    const auto done = lt.multiply(p.call(), &next);
    REQUIRE((done.ok() && *done));
    for (std::int64_t at = 0; at < 5 * 8; ++at) {
      const double x = p.expected(0, at / 8, at % 8);
      CHECK(p.c[at] == Approx(x).epsilon(tolerance(dtype)));
      CHECK(y[at] == Approx(gelu(x)).epsilon(tolerance(dtype)).margin(1e-6));
    }
  }
  Product p(dtype, dtype, 5, 8, 3, false, false, false, false, false);
  const Kernel slope_kernel = calibration_kernel(KernelKind::GeluBackward, dtype, {5 * 8});
  Matrix x(dtype, 5 * 8), dx(dtype, 5 * 8);
  x.randomize(9);
  const KernelCall next{&slope_kernel, {p.c.at(), x.at()}, {dx.at()}, nullptr, {}};
  const auto done = lt.multiply(p.call(), &next);
  REQUIRE((done.ok() && *done));
  for (std::int64_t at = 0; at < 5 * 8; ++at) {
    const double expected = p.expected(0, at / 8, at % 8) * gelu_slope(x[at]);
    CHECK(dx[at] == Approx(expected).epsilon(tolerance(dtype)).margin(1e-6));
  }
}

TEST_CASE("an epilogue is refused where its matrix is not as cuBLASLt wants it",
          "[backends][cuda]") {
  Fixture lt;
  const auto taken = [&](std::int64_t n, std::int64_t shift, DType dtype = DType::BF16) {
    Product p(dtype, dtype, 5, n, 3, false, true, true, false, false, shift);
    const Kernel kernel = calibration_kernel(KernelKind::GeluForward, dtype, {5 * n});
    Matrix y(dtype, 5 * n);
    const KernelCall next{&kernel, {p.c.at()}, {y.at()}, nullptr, {}};
    const auto done = lt.multiply(p.call(), &next);
    REQUIRE(done.ok());
    return *done;
  };
  CHECK(taken(16, 0));
  CHECK_FALSE(taken(12, 0));              // rows of whole eights
  CHECK_FALSE(taken(16, 1));              // aligned to 16 bytes
  CHECK_FALSE(taken(16, 0, DType::F32));  // its GELU may be a rough one
}

TEST_CASE("an algorithm is asked for once for a shape and its alignments, the bias's, too",
          "[backends][cuda]") {
  Fixture lt;
  Product p(DType::BF16, DType::BF16, 4, 8, 8, false, true, true, false, false);
  Matrix shifted(DType::BF16, 8, 1);
  shifted.randomize(3);
  for (int i = 0; i < 3; ++i) REQUIRE(*lt.multiply(p.call()));
  CHECK(lt_record().chosen == 1);
  KernelCall call = p.call();
  call.in[2] = shifted.at();
  for (int i = 0; i < 3; ++i) {
    const auto done = lt.multiply(call);
    REQUIRE(done.ok());
    REQUIRE(*done);
  }
  CHECK(lt_record().chosen == 2);
  REQUIRE(*lt.multiply(p.call()));
  CHECK(lt_record().chosen == 2);
  CHECK(lt_record().products == 7);
}

TEST_CASE("what cuBLASLt cannot do is left to others; what fails is an error that names it",
          "[backends][cuda]") {
  Product p(DType::F32, DType::F32, 4, 8, 8, false, true, false, false, false);
  {
    Fixture lt;
    lt_record().has_algorithm = false;
    const auto done = lt.multiply(p.call());
    CHECK((done.ok() && !*done));
  }
  {
    Fixture lt;
    Product mixed(DType::F32, DType::F32, 4, 8, 8, false, true, false, false, false);
    mixed.kernel.in[1].dtype = DType::BF16;
    const auto done = lt.multiply(mixed.call());
    CHECK((done.ok() && !*done));
    CHECK(lt_record().chosen == 0);
  }
  {
    Fixture lt;
    lt_record().matmul = CUBLAS_STATUS_NOT_SUPPORTED;
    const auto done = lt.multiply(p.call());
    CHECK((done.ok() && !*done));
    lt_record().matmul = CUBLAS_STATUS_SUCCESS;
    CHECK_FALSE(*lt.multiply(p.call()));  // the same all through a run
  }
  {
    Fixture lt;
    lt_record().matmul = CUBLAS_STATUS_INTERNAL_ERROR;
    const auto done = lt.multiply(p.call());
    REQUIRE_FALSE(done.ok());
    CHECK(done.error().kind == ErrorKind::Device);
    CHECK(done.error().message == "cublasLtMatmul: CUBLAS_STATUS_INTERNAL_ERROR");
  }
  lt_record() = {.create = CUBLAS_STATUS_NOT_INITIALIZED};
  Multiplier broken(test::cpu_cublaslt());
  const auto done = broken.multiply(p.call(), nullptr, {}, nullptr, nullptr);
  REQUIRE_FALSE(done.ok());
  CHECK(done.error().message == "cublasLtCreate: CUBLAS_STATUS_NOT_INITIALIZED");
}

TEST_CASE("a multiplier gives back all that it took", "[backends][cuda]") {
  {
    Fixture lt;
    for (const std::int64_t n : {8, 16}) {
      Product p(DType::F32, DType::F32, 4, n, 8, false, true, true, false, false);
      REQUIRE(*lt.multiply(p.call()));
    }
    CHECK(lt_record().live == 8);
  }
  CHECK(lt_record().live == 0);
  CHECK(lt_record().handles == 0);
}

}  // namespace lockstep::cuda
#endif
