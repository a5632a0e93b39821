#include "gui/model/run/look.hpp"

#include <array>
#include <utility>

#include "core/base/index_vector.hpp"
#include "core/trace/kernel_family.hpp"

namespace lockstep::gui {
namespace {

struct Names {
  std::string_view kind, letters, long_name;
};

constexpr std::array<Names, kNumLooks> kNames = {{
    {"forward", "F", "forward"},
    {"backward", "B", "backward"},
    {"backward_input", "I", "backward for input"},
    {"backward_weight", "W", "backward for weight"},
    {"recompute", "R", "recompute"},
    {"optimizer", "O", "optimizer"},
    {"product", "M", "matrix product"},
    {"attention", "A", "attention"},
    {"convolution", "K", "convolution"},
    {"normalization", "N", "normalization"},
    {"reduction", "Σ", "reduction"},
    {"indexing", "[]", "indexing"},
    {"elementwise", "E", "elementwise"},
    {"other", "+", "other compute"},
    {"all_reduce", "AR", "all-reduce"},
    {"all_gather", "AG", "all-gather"},
    {"reduce_scatter", "RS", "reduce-scatter"},
    {"broadcast", "BC", "broadcast"},
    {"all_to_all", "A2A", "all-to-all"},
    {"send", "S", "send"},
    {"recv", "r", "receive"},
    {"communication", "T", "other transfer"},
    {"copy", "C", "copy"},
    {"host", "H", "host"},
}};

/// Kinds that occur in traces from elsewhere only, and rotations, which are messages of all.
constexpr std::pair<std::string_view, Look> kForeign[] = {
    {"memcpy", Look::Copy},
    {"memset", Look::Copy},
    {"annotation", Look::Host},
    {"sync", Look::Host},
    {"reduce", Look::OtherTransfer},
    {"gather", Look::OtherTransfer},
    {"scatter", Look::OtherTransfer},
    {"barrier", Look::OtherTransfer},
    {"send_recv", Look::OtherTransfer},
    {"rotate", Look::OtherTransfer},
};

const Names& names(Look look) { return kNames[to_size(look)]; }

}  // namespace

Look look_of_kind(std::string_view kind) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i].kind == kind) return static_cast<Look>(i);
  }
  for (const auto& [name, look] : kForeign) {
    if (name == kind) return look;
  }
  return Look::OtherCompute;
}

Look look_of_kernel(std::string_view name) {
  constexpr IndexArray<KernelFamily, Look, kNumKernelFamilies> kLooks = {
      Look::Product,  Look::Attention,   Look::Convolution, Look::Normalization, Look::Reduction,
      Look::Indexing, Look::Elementwise, Look::Optimizer,   Look::OtherCompute};
  return kLooks[family_of_kernel(name)];
}

std::string_view letters(Look look) { return names(look).letters; }
std::string_view long_name(Look look) { return names(look).long_name; }

std::string label(const TraceOp& op, Look look) {
  std::string text(letters(look));
  if (op.microbatch >= 0) text += std::to_string(op.microbatch);
  if (look >= Look::AllReduce && op.layer >= 0) text += " L" + std::to_string(op.layer);
  return text;
}

}  // namespace lockstep::gui
