#include "core/trace/kernel_family.hpp"

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "core/base/index_vector.hpp"
#include "core/base/lower_case.hpp"

namespace lockstep {
namespace {

using Part = std::pair<std::string_view, KernelFamily>;

// The first part that a name contains decides, so that what is special stands before what is
// general: CUTLASS also has attention, and an index kernel is elementwise, too. The names are those
// of PyTorch, cuBLAS, cuDNN, CUTLASS, Triton (as torch.compile names its kernels), Apex and
// Transformer Engine.
constexpr auto kParts = std::to_array<Part>({
    {"adam", KernelFamily::Optimizer},
    {"multi_tensor", KernelFamily::Optimizer},
    {"foreach", KernelFamily::Optimizer},
    {"optimizer", KernelFamily::Optimizer},
    {"sgd", KernelFamily::Optimizer},
    {"fmha", KernelFamily::Attention},
    {"flash", KernelFamily::Attention},
    {"attention", KernelFamily::Attention},
    {"attn", KernelFamily::Attention},
    {"sdpa", KernelFamily::Attention},
    {"convolution", KernelFamily::Convolution},
    {"convolve", KernelFamily::Convolution},
    {"conv1d", KernelFamily::Convolution},
    {"conv2d", KernelFamily::Convolution},
    {"conv3d", KernelFamily::Convolution},
    {"implicit_gemm", KernelFamily::Convolution},
    {"winograd", KernelFamily::Convolution},
    {"fprop", KernelFamily::Convolution},
    {"dgrad", KernelFamily::Convolution},
    {"wgrad", KernelFamily::Convolution},
    {"layer_norm", KernelFamily::Normalization},
    {"layernorm", KernelFamily::Normalization},
    {"rms_norm", KernelFamily::Normalization},
    {"rmsnorm", KernelFamily::Normalization},
    {"batch_norm", KernelFamily::Normalization},
    {"batchnorm", KernelFamily::Normalization},
    {"bn_fw", KernelFamily::Normalization},
    {"bn_bw", KernelFamily::Normalization},
    {"group_norm", KernelFamily::Normalization},
    {"rowwisemoments", KernelFamily::Normalization},
    {"gemm", KernelFamily::Product},
    {"gemv", KernelFamily::Product},
    {"cutlass", KernelFamily::Product},
    {"cublas", KernelFamily::Product},
    {"nvjet", KernelFamily::Product},
    {"xmma", KernelFamily::Product},
    {"wgmma", KernelFamily::Product},
    {"matmul", KernelFamily::Product},
    {"splitk", KernelFamily::Product},
    {"triton_tem", KernelFamily::Product},
    {"dot_kernel", KernelFamily::Product},
    {"index", KernelFamily::Indexing},
    {"embedding", KernelFamily::Indexing},
    {"gather", KernelFamily::Indexing},
    {"scatter", KernelFamily::Indexing},
    {"catarray", KernelFamily::Indexing},
    {"transpose", KernelFamily::Indexing},
    {"permute", KernelFamily::Indexing},
    {"softmax", KernelFamily::Reduction},
    {"reduce", KernelFamily::Reduction},
    {"triton_red", KernelFamily::Reduction},
    {"triton_per", KernelFamily::Reduction},
    {"argmax", KernelFamily::Reduction},
    {"cumsum", KernelFamily::Reduction},
    {"devicescan", KernelFamily::Reduction},
    {"topk", KernelFamily::Reduction},
    {"sort", KernelFamily::Reduction},
    {"cross_entropy", KernelFamily::Reduction},
    {"nll_loss", KernelFamily::Reduction},
    {"elementwise", KernelFamily::Elementwise},
    {"pointwise", KernelFamily::Elementwise},
    {"triton_", KernelFamily::Elementwise},
    {"dropout", KernelFamily::Elementwise},
    {"gelu", KernelFamily::Elementwise},
    {"silu", KernelFamily::Elementwise},
    {"swiglu", KernelFamily::Elementwise},
    {"relu", KernelFamily::Elementwise},
    {"rotary", KernelFamily::Elementwise},
    {"rope", KernelFamily::Elementwise},
    {"distribution", KernelFamily::Elementwise},
    {"cast", KernelFamily::Elementwise},
    {"convert", KernelFamily::Elementwise},
    {"copy", KernelFamily::Elementwise},
    {"fill", KernelFamily::Elementwise},
});

std::optional<KernelFamily> family_in(std::string_view name) {
  for (const auto& [part, family] : kParts) {
    if (name.find(part) != std::string_view::npos) return family;
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(KernelFamily family) {
  constexpr IndexArray<KernelFamily, std::string_view, kNumKernelFamilies> kNames = {
      "matrix product", "attention",   "convolution",    "normalization", "reduction",
      "indexing",       "elementwise", "optimizer step", "other compute"};
  return kNames[family];
}

KernelFamily family_of_kernel(std::string_view name) {
  std::string lower = lower_case(name);
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  for (std::size_t at; (at = lower.find(kAnonymous)) != std::string::npos;) {
    lower.erase(at, kAnonymous.size());
  }
  const std::string_view whole = lower;
  const auto found = family_in(whole.substr(0, whole.find_first_of("<(")));
  return found ? *found : family_in(whole).value_or(KernelFamily::Other);
}

}  // namespace lockstep
