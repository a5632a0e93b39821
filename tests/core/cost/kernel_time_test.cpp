#include "core/cost/kernel_time.hpp"

#include "core/cost/attention_time.hpp"
#include "core/cost/product_time.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

Kernel kernel(KernelKind kind, std::vector<std::int64_t> dims, std::size_t in, std::size_t out) {
  Kernel k;
  k.kind = kind;
  k.dtype = DType::BF16;
  std::copy(dims.begin(), dims.end(), k.dims.begin());
  for (std::size_t i = 0; i < in; ++i) k.in.push_back({static_cast<std::int16_t>(i), k.dtype, 0});
  for (std::size_t i = 0; i < out; ++i) {
    k.out.push_back({static_cast<std::int16_t>(in + i), k.dtype, 0});
  }
  return k;
}
Kernel gemm(std::int64_t m, std::int64_t n, std::int64_t k, bool weight_gradient = false) {
  return kernel(KernelKind::Gemm, {m, n, k, weight_gradient, !weight_gradient}, 2, 1);
}
Kernel attention(std::int64_t seq, std::int64_t head_dim, bool backward = false) {
  return kernel(backward ? KernelKind::AttentionBackward : KernelKind::AttentionForward,
                {1, seq, 8, 8, head_dim, 0}, backward ? 4 : 1, backward ? 1 : 2);
}

/// 100 units that reach half of 100 TFLOP/s; memory so fast that it never counts.
DeviceSpec units() {
  DeviceSpec d;
  d.peaks = {{DType::F32, {10e12}}, {DType::BF16, {100e12}}};
  d.memory_bandwidth = {1e18};
  d.compute_units = 100;
  d.compute_capability = 8;
  d.matmul_efficiency = 0.5;
  return d;
}
/// 1 TB/s and units so fast that they never count.
DeviceSpec memory() {
  DeviceSpec d;
  d.peaks = {{DType::F32, {1e24}}, {DType::BF16, {1e24}}};
  d.memory_bandwidth = {1e12};
  return d;
}
FrameworkSpec with(AttentionKernel attention) {
  FrameworkSpec f;
  f.attention = attention;
  return f;
}

TEST_CASE("a product of whole waves takes its operations at the rate of its units",
          "[core][cost]") {
  // 10 × 10 tiles of 256 × 128 on 100 units: one wave, of 2·256·128 k operations a unit and 6 us.
  const double unit = 100e12 / 100 * 0.5;
  const double wave = 2.0 * 256 * 128 * 65536 / unit + 6e-6;
  CHECK(kernel_time(gemm(2560, 1280, 65536), units()).v == Approx(wave));
  CHECK(kernel_time(gemm(5120, 1280, 65536), units()).v == Approx(2 * wave));
}

TEST_CASE("a product of a few tiles more than a wave pays for a part of another", "[core][cost]") {
  const double even = kernel_time(gemm(2560, 1280, 65536), units()).v;
  const double more = kernel_time(gemm(2560 + 256, 1280, 65536), units()).v;
  CHECK(more > 1.12 * even);  // 10 % more work
  CHECK(more < 2 * even);     // smaller tiles or a divided sum do better than a second wave
}

TEST_CASE("a divided sum helps where tiles are few", "[core][cost]") {
  const double wide = 2.0 * 256 * 128 * 65536 / (100e12 / 100 * 0.5);
  CHECK(kernel_time(gemm(256, 128, 65536), units()).v < wide / 6);  // of 8 parts at most
}

TEST_CASE("contiguous dimensions that 8 does not divide slow a product", "[core][cost]") {
  const double aligned = kernel_time(gemm(2560, 1280, 4096), units()).v;
  const double fixed = 6e-6;
  const auto time = [](std::int64_t n) { return kernel_time(gemm(2560, n, 4096), units()).v; };
  CHECK(time(1276) - fixed == Approx((aligned - fixed) / 0.75));
  CHECK(time(1278) - fixed == Approx((aligned - fixed) / 0.5));
  CHECK(time(1279) - fixed == Approx((aligned - fixed) / 0.35));
}

TEST_CASE("products in 8 bits have their own rate, not the output layer's or Muon's",
          "[core][cost]") {
  DeviceSpec d = units();
  d.fp8_rate = {200e12};
  FrameworkSpec f;
  f.fp8 = Fp8Recipe::Delayed;
  const double whole = kernel_time(gemm(2560, 1280, 4096), d).v;
  CHECK(kernel_time(gemm(2560, 1280, 4096), d, f).v - 6e-6 == Approx((whole - 6e-6) / (2 * 0.88)));
  for (const char* function : {"head.F", "newton_schulz.2560x1280"}) {
    CHECK(function_time({function, {}, {gemm(2560, 1280, 4096)}}, d, f).v == Approx(whole));
  }
  d.fp8_rate = {};  // a card without
  CHECK(kernel_time(gemm(2560, 1280, 4096), d, f).v == Approx(whole));
}

TEST_CASE("products of codes have the rate of 8 bits, or without units for it that of their type",
          "[core][cost]") {
  DeviceSpec d = units();
  const auto scaled = [](std::int64_t k) {
    Kernel kernel = gemm(2560, 1280, k);
    kernel.kind = KernelKind::ScaledGemm;
    kernel.dims = {2560, 1280, k, 1, 128, 128, 0};
    for (Operand& factor : kernel.in) factor.dtype = DType::U8;
    return kernel;
  };
  const double whole = kernel_time(gemm(2560, 1280, 4096), d).v;
  CHECK(kernel_time(scaled(4096), d).v == Approx(whole));
  d.fp8_rate = {200e12};
  const double narrow = kernel_time(scaled(4096), d).v;
  CHECK(narrow - 6e-6 == Approx((whole - 6e-6) / (2 * 0.88)));
  // 16 bytes are 16 codes; 8 of them are loaded at three quarters of the rate.
  CHECK(kernel_time(scaled(4104), d).v - 6e-6 == Approx((narrow - 6e-6) * 4104 / 4096 / 0.75));
  // [framework] fp8 is of products of 16 bits, and charges these no cast.
  FrameworkSpec f;
  f.fp8 = Fp8Recipe::Current;
  CHECK(kernel_time(scaled(4096), d, f).v == Approx(narrow));
}

TEST_CASE("to round to 8 bits is to read an element and to write a byte and a part of a scale",
          "[core][cost]") {
  Kernel k = kernel(KernelKind::Quantize, {4096, 1024, 0, 1, 128, 0}, 2, 2);
  k.in[1] = {};
  k.out[0].dtype = DType::U8;
  k.out[1].dtype = DType::F32;
  CHECK(work(k).bytes.v == 4096 * 1024 * 3 + 4096 * 8 * 4);
  CHECK(kernel_time(k, memory()).v == Approx(static_cast<double>(work(k).bytes.v) / 1e12));
}

TEST_CASE("products in 4 bits go before those in 8, at the cost of a cast by blocks",
          "[core][cost]") {
  DeviceSpec d = units();
  d.fp8_rate = {200e12};
  FrameworkSpec f;
  f.fp8 = Fp8Recipe::Delayed;
  f.fp4 = Fp4Recipe::Nvfp4;
  const double whole = kernel_time(gemm(2560, 1280, 4096), d).v;
  const double eight = kernel_time(gemm(2560, 1280, 4096), d, f).v;
  d.fp4_rate = {400e12};
  CHECK(kernel_time(gemm(2560, 1280, 4096), d, f).v - 6e-6 == Approx((whole - 6e-6) / (4 * 0.88)));
  CHECK(kernel_time(gemm(2560, 1280, 4096), d, f).v < eight);
  CHECK(function_time({"head.F", {}, {gemm(2560, 1280, 4096)}}, d, f).v == Approx(whole));
  // Where memory counts: the input's elements are read, read again for the tensor's scale in NVFP4,
  // and written twice, with a scale of 8 bits for 16 or 32 of them.
  d.memory_bandwidth = {1e9};
  d.compute_units = 1;
  d.peaks = {{DType::BF16, {1e24}}};
  d.fp4_rate = {1e24};
  const double moved = kernel_time(gemm(256, 128, 64), d).v, inputs = 256 * 64;
  CHECK(kernel_time(gemm(256, 128, 64), d, f).v - moved ==
        Approx(inputs * (2 + 2 + 2 * (0.5 + 1.0 / 16)) / 1e9));
  f.fp4 = Fp4Recipe::Mxfp4;
  CHECK(kernel_time(gemm(256, 128, 64), d, f).v - moved ==
        Approx(inputs * (2 + 2 * (0.5 + 1.0 / 32)) / 1e9));
}

TEST_CASE("products that may be in TF32 have its rate where the device has one", "[core][cost]") {
  DeviceSpec d = units();
  Kernel product = gemm(2560, 1280, 4096);
  product.dtype = DType::F32;
  for (auto* operands : {&product.in, &product.out}) {
    for (Operand& operand : *operands) operand.dtype = DType::F32;
  }
  const double exact = kernel_time(product, d).v;
  product.tf32 = true;
  CHECK(kernel_time(product, d).v == exact);  // the device has no such units
  d.tf32_rate = {50e12};
  const double halves = kernel_time(gemm(2560, 1280, 4096), d).v;  // bfloat16, 100 TFLOP/s
  CHECK(kernel_time(product, d).v - 6e-6 == Approx(2 * (halves - 6e-6)));
  product.tf32 = false;
  CHECK(kernel_time(product, d).v == exact);
  Kernel convolution = kernel(KernelKind::Conv2dForward, {8, 32, 32, 64, 64, 3, 1}, 2, 1);
  convolution.dtype = DType::F32;
  d.compute_units = 0;
  const double slow = kernel_time(convolution, d).v;
  convolution.tf32 = true;
  CHECK(kernel_time(convolution, d).v == Approx(slow / 5));  // 10 and 50 TFLOP/s
}

TEST_CASE("libraries of a card's first year are slower on it and on later ones", "[core][cost]") {
  FrameworkSpec f;
  f.new_capability = 9;
  f.new_matmul_rate = 0.5;
  DeviceSpec d = units();
  const double time = kernel_time(gemm(2560, 1280, 4096), d).v;
  CHECK(kernel_time(gemm(2560, 1280, 4096), d, f).v == Approx(time));
  d.compute_capability = 9;
  CHECK(kernel_time(gemm(2560, 1280, 4096), d, f).v - 6e-6 == Approx(2 * (time - 6e-6)));
}

TEST_CASE("unfused attention moves every score between its kernels", "[core][cost]") {
  // Of 8·1024² scores of 2 bytes. Forward: written by the first product, read and written by the
  // softmax, read by the second product. Backward: four products, two reads and a write between.
  const double scores = 8.0 * 1024 * 1024;
  FrameworkSpec f = with(AttentionKernel::Unfused);
  CHECK(kernel_time(attention(1024, 64), memory(), f).v == Approx(scores * 8 / 1e12));
  CHECK(kernel_time(attention(1024, 64, true), memory(), f).v == Approx(scores * 14 / 1e12));
  Kernel drops = attention(1024, 64);  // reads and writes, and a byte of mask
  drops.scalars[0] = 0.1;
  CHECK(kernel_time(drops, memory(), f).v == Approx(scores * 13 / 1e12));
  f.attention_dropout = true;  // without the training's, or beside it
  CHECK(kernel_time(attention(1024, 64), memory(), f).v == Approx(scores * 13 / 1e12));
  CHECK(kernel_time(drops, memory(), f).v == Approx(scores * 13 / 1e12));
  f.fused_softmax = false;  // so does the mask of later tokens
  CHECK(kernel_time(attention(1024, 64), memory(), f).v == Approx(scores * 18 / 1e12));
}

TEST_CASE("heads of no whole 16 bytes get no matrix units in unfused attention", "[core][cost]") {
  const FrameworkSpec f = with(AttentionKernel::Unfused);
  const double flops = 2 * 2 * 8.0 * 1024 * 1024 * 128;  // both are padded to 128
  CHECK(kernel_time(attention(1024, 112), units(), f).v == Approx(flops / (0.4 * 100e12)));
  CHECK(kernel_time(attention(1024, 108), units(), f).v == Approx(flops / (0.4 * 10e12)));
}

TEST_CASE("flash attention takes its part of the peak, less with few keys and odd heads",
          "[core][cost]") {
  const FrameworkSpec f = with(AttentionKernel::Flash2);
  const double flops = 2 * 128 * 8.0 * 2048 * 2049;
  const double part = flash_fraction(AttentionKernel::Flash2, 8, false) * 2048 / (2048 + 300);
  const double time = kernel_time(attention(2048, 128), units(), f).v;
  CHECK(time == Approx(flops / (part * 100e12)));
  // Heads of 112 are computed as heads of 128.
  CHECK(kernel_time(attention(2048, 112), units(), f).v == Approx(time));
  // FlashAttention 1 is slower, forward and backward, on either generation.
  for (const double capability : {8.0, 9.0}) {
    for (const bool backward : {false, true}) {
      CHECK(flash_fraction(AttentionKernel::Flash1, capability, backward) <
            flash_fraction(AttentionKernel::Flash2, capability, backward));
    }
  }
}

TEST_CASE("what is not fused is paid by the byte", "[core][cost]") {
  const auto extra = [](const Kernel& k, const FrameworkSpec& f) {
    return (kernel_time(k, memory(), f).v - kernel_time(k, memory()).v) * 1e12;
  };
  FrameworkSpec f;
  f.fused_gradient_accumulation = false;
  CHECK(extra(gemm(100, 200, 50, true), f) == Approx(100 * 200 * 8.0));  // 16 bits, both
  CHECK(extra(gemm(100, 200, 50), f) == Approx(0).margin(1e-9));
  Kernel wide = gemm(100, 200, 50, true);
  wide.out[0].dtype = DType::F32;
  CHECK(extra(wide, f) == Approx(100 * 200 * 12.0));
  f = {};
  f.float32_logits = 1;
  CHECK(extra(kernel(KernelKind::CrossEntropy, {10, 1000}, 2, 2), f) == Approx(10'000 * 32.0));
  f = {};
  f.fused_activation = false;
  CHECK(extra(kernel(KernelKind::GeluForward, {1000}, 1, 1), f) == Approx(4000.0));
  f = {};
  f.channels_last = false;
  // 2 images of 9 x 7 with 3 channels become 5 x 4 with 16, each read and written.
  const double images = 2.0 * (9 * 7 * 3 + 5 * 4 * 16);
  for (const KernelKind pass : {KernelKind::Conv2dForward, KernelKind::Conv2dBackwardInput,
                                KernelKind::Conv2dBackwardWeight}) {
    Kernel convolution = kernel(pass, {2, 9, 7, 3, 16, 3, 2}, 2, 1);
    CHECK(extra(convolution, f) == Approx(images * 2 * 2));
    convolution.dtype = DType::F32;
    CHECK(extra(convolution, f) == Approx(0).margin(1e-9));
    convolution.tf32 = true;
    CHECK(extra(convolution, f) == Approx(images * 2 * 4));
  }
}

TEST_CASE("a block and a step wait for the framework, and kernels for the host", "[core][cost]") {
  FrameworkSpec f;
  f.layer = {1e-3};
  f.step = {1.0};
  const DeviceSpec d = units();
  const auto more = [&](const Kernel& k) { return kernel_time(k, d, f).v - kernel_time(k, d).v; };
  CHECK(more(attention(64, 64)) == Approx(1e-3));
  CHECK(more(attention(64, 64, true)) == Approx(1e-3));
  CHECK(more(kernel(KernelKind::ClipCoefficient, {1}, 1, 2)) == Approx(1.0));
  CHECK(more(gemm(64, 64, 64)) == 0);
  f = {};
  const Function two{"f", {}, {gemm(64, 64, 64), gemm(64, 64, 64)}};
  f.host_kernel = {1e-2};  // in a lane of its own, which the simulator's engine has
  CHECK(function_time(two, d, f).v == function_time(two, d).v);
  f.launch_blocking = true;
  CHECK(function_time(two, d, f).v == Approx(2e-2 + function_time(two, d).v));
}

}  // namespace
}  // namespace lockstep
