// What a block of a transformer is made of. An architecture is a usual set of such parts; a model
// may have any other of them (ModelSpec).
#pragma once

#include <cstdint>

namespace lockstep {

enum class NormKind : std::uint8_t {
  LayerNorm,  // Ba et al. 2016, arXiv:1607.06450: less the mean, with a bias
  RmsNorm,    // Zhang and Sennrich 2019, arXiv:1910.07467: neither
};

/// Where norms stand around a branch f of a block, which is attention or the feed-forward network.
enum class NormPlace : std::uint8_t {
  Before,        // x + f(norm(x)): GPT-2, Llama
  BehindSum,     // norm(x + f(x)): Vaswani et al. 2017, BERT; no norm precedes the output layer
  BehindBranch,  // x + norm(f(x)): OLMo 2
  Around,        // x + norm(f(norm(x))): Gemma 2
};

/// What lies between the two linear layers of a feed-forward network. Gated ones multiply a
/// function of one half of the first layer's outputs by the other half (Shazeer 2020,
/// arXiv:2002.05202).
enum class Activation : std::uint8_t {
  Gelu,         // x Φ(x), in its approximation by tanh (Hendrycks and Gimpel 2016)
  Relu,         // max(x, 0)
  SquaredRelu,  // max(x, 0)², So et al. 2021, arXiv:2109.08668
  Swiglu,       // gated, by x sigmoid(x)
  Geglu,        // gated, by GELU
};
constexpr bool is_gated(Activation activation) {
  return activation == Activation::Swiglu || activation == Activation::Geglu;
}

enum class Positions : std::uint8_t {
  Learned,  // a row of a table is added to each token's
  Rotary,   // queries and keys are rotated (Su et al. 2021, arXiv:2104.09864)
  None,
};

struct BlockParts {
  NormKind norm = NormKind::LayerNorm;
  Activation activation = Activation::Gelu;
  Positions positions = Positions::Learned;
  bool biases = true;  // of all linear layers
};
inline constexpr BlockParts kGpt2Parts;
inline constexpr BlockParts kLlamaParts{NormKind::RmsNorm, Activation::Swiglu, Positions::Rotary,
                                        false};

}  // namespace lockstep
