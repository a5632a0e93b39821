// Oracle: what the comparisons with PyTorch share: how to find it, and weights to start from.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>

#include "core/ir/program.hpp"
#include "core/ir/training_state.hpp"

namespace lockstep::oracle {

struct Outcome {
  int status = -1;
  std::string output;
};

inline Outcome run_command(const std::string& command) {
  Outcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 512> part{};
  while (std::fgets(part.data(), part.size(), pipe) != nullptr) outcome.output += part.data();
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.status = WEXITSTATUS(status);
  return outcome;
}

/// A Python that has PyTorch; Debian's is not always the first in PATH. Empty if there is none.
inline const std::string& find_python() {
  static const std::string found = [] {
    for (const std::string python : {"python3", "/usr/bin/python3"}) {
      if (run_command(python + " -c 'import torch, numpy' >/dev/null 2>&1").status == 0) {
        return python;
      }
    }
    return std::string();
  }();
  return found;
}

/// Random weights, of which none has a special value: biases are not 0, and weights of norms not 1.
inline TrainingState random_weights(const Program& program) {
  TrainingState state;
  std::mt19937 random(17);
  const DType dtype = sum_type(program.dtype);  // that of a master copy beside bfloat16
  for (const Parameter& parameter : program.parameters) {
    if (parameter.name.ends_with(kFactorScales)) continue;  // powers of two, which begin as 1
    const bool norm_weight = parameter.init == InitKind::Ones;
    std::normal_distribution<double> values(norm_weight ? 1.0 : 0.0, 0.1);
    Tensor tensor{dtype, parameter.shape, {}};
    tensor.data.resize(static_cast<std::size_t>(parameter.elements() * size_of(dtype)));
    for (std::int64_t i = 0; i < parameter.elements(); ++i) {
      const double value = values(random);
      const float narrow = static_cast<float>(value);
      const bool wide = dtype == DType::F64;
      std::memcpy(tensor.data.data() + i * size_of(dtype),
                  wide ? static_cast<const void*>(&value) : &narrow, wide ? 8 : 4);
    }
    state.tensors.emplace(parameter.name, std::move(tensor));
  }
  return state;
}

struct StepNumbers {
  double loss = 0, grad_norm = 0;
};

}  // namespace lockstep::oracle
