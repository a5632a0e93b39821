// Flavors: the sizes that torchtitan has by name (models/llama3/__init__.py,
// models/qwen3/__init__.py of version 0.2). Internal to core/handover.
#pragma once

#include <array>
#include <cstdint>

namespace lockstep {

struct Flavor {
  const char* family;
  const char* name;
  const char* preset;  // of the same sizes; null: there is none
  std::int64_t layers, hidden, heads, kv_heads, head_dim, ffn_hidden, vocab;
  double rope_theta;
  bool qk_norm, tied;
};

inline constexpr std::array<Flavor, 11> kFlavors = {{
    {"llama3", "8B", "llama3-8b", 32, 4096, 32, 8, 128, 14336, 128256, 500000, false, false},
    {"llama3", "70B", "llama3-70b", 80, 8192, 64, 8, 128, 28672, 128256, 500000, false, false},
    {"llama3", "405B", "llama3-405b", 126, 16384, 128, 8, 128, 53248, 128256, 500000, false, false},
    {"llama3", "debugmodel", nullptr, 6, 256, 16, 16, 16, 768, 2048, 500000, false, false},
    {"qwen3", "debugmodel", nullptr, 8, 256, 16, 8, 128, 3072, 2048, 1e6, true, true},
    {"qwen3", "0.6B", nullptr, 28, 1024, 16, 8, 128, 3072, 151936, 1e6, true, true},
    {"qwen3", "1.7B", nullptr, 28, 2048, 16, 8, 128, 6144, 151936, 1e6, true, true},
    {"qwen3", "4B", nullptr, 36, 2560, 32, 8, 128, 9728, 151936, 1e6, true, true},
    {"qwen3", "8B", nullptr, 36, 4096, 32, 8, 128, 12288, 151936, 1e6, true, false},
    {"qwen3", "14B", nullptr, 40, 5120, 40, 8, 128, 17408, 151936, 1e6, true, false},
    {"qwen3", "32B", nullptr, 64, 5120, 64, 8, 128, 25600, 151936, 1e6, true, false},
}};

}  // namespace lockstep
