#include "core/trace/kernel_family.hpp"

#include <string>

#include "tests/catch.hpp"

namespace lockstep {
namespace {

TEST_CASE("kernels of PyTorch, cuBLAS, cuDNN and Triton belong to the family of what they do",
          "[core][trace]") {
  // Names as profiles of PyTorch 2 on H100 and A100 have them, cut where they go on for long.
  const std::pair<const char*, KernelFamily> kernels[] = {
      {"nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT", KernelFamily::Product},
      {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1",
       KernelFamily::Product},
      {"void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn>",
       KernelFamily::Product},
      {"ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_32x6_nn", KernelFamily::Product},
      {"void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>(Flash_fwd_params)",
       KernelFamily::Attention},
      {"fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention)",
       KernelFamily::Attention},
      {"void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>",
       KernelFamily::Convolution},
      {"sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nchw",
       KernelFamily::Convolution},
      {"void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)",
       KernelFamily::Normalization},
      {"void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float, float>",
       KernelFamily::Reduction},
      {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>",
       KernelFamily::Reduction},
      {"triton_red_fused__log_softmax_nll_loss_forward_3", KernelFamily::Reduction},
      {"void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2>",
       KernelFamily::Indexing},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::softmax_functor<float>>",
       KernelFamily::Elementwise},
      {"triton_poi_fused_add_gelu_7", KernelFamily::Elementwise},
      {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor>",
       KernelFamily::Optimizer},
      {"my_own_kernel", KernelFamily::Other},
      {"", KernelFamily::Other},
  };
  for (const auto& [name, family] : kernels) {
    INFO(name);
    CHECK(to_string(family_of_kernel(name)) == to_string(family));
  }
}

}  // namespace
}  // namespace lockstep
