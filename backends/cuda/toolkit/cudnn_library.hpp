// CudnnLibrary: runs kernels on one GPU by cuDNN, as the graphs of backends/cuda/cudnn. The library
// is opened at run time. A plan is made once per kernel and kept. Only engines whose sums have one
// order are used.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backends/cuda/driver.hpp"

namespace lockstep::cuda {

class CudnnLibrary {
 public:
  /// Opens the library for the current GPU. Errors: Unsupported if the library is not found or is
  /// older than 9.10, or if this binary was built without its header; Device if it does not start.
  static Result<std::unique_ptr<CudnnLibrary>> open();
  ~CudnnLibrary();

  /// The workspace that the kernel needs; nullopt if there is no engine for it, or none that needs
  /// at most kMostWorkspace.
  std::optional<std::int64_t> workspace_bytes(const Kernel& kernel);
  /// Launches a kernel. Returns false, and launches nothing, if there is no such engine, or if an
  /// address is not aligned to 16 bytes.
  Result<bool> launch(const KernelCall& call, StreamHandle stream, std::byte* workspace);

  static constexpr std::int64_t kMostWorkspace = std::int64_t{4} << 30;

 private:
  struct State;
  explicit CudnnLibrary(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// How many engines cuDNN has for the kernel on a GPU that need not be there; `device` describes it
/// (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION). Errors: those of open(), and Unsupported, with
/// cuDNN's reason, if it does not accept the graph at all.
Result<int> cudnn_engines(const Kernel& kernel, const std::string& device);

}  // namespace lockstep::cuda
