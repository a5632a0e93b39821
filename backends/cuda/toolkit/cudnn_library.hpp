// CudnnLibrary: kernels of one GPU by cuDNN, as the graphs of backends/cuda/cudnn; libcudnn_graph
// is opened at run time. A plan is made once per kernel and kept; only engines whose sums have one
// order are taken.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backends/cuda/driver.hpp"

namespace lockstep::cuda {

class CudnnLibrary {
 public:
  /// For the current GPU. Error Unsupported: the library is not found, or older than 9.10, or this
  /// binary was built without its header; Device: it does not come up.
  static Result<std::unique_ptr<CudnnLibrary>> open();
  ~CudnnLibrary();

  /// None: there is no engine for this kernel, or none that does with kMostWorkspace.
  std::optional<std::int64_t> workspace_bytes(const Kernel& kernel);
  /// False: as above, or an address is not aligned to 16 bytes; nothing is launched.
  Result<bool> launch(const KernelCall& call, StreamHandle stream, std::byte* workspace);

  static constexpr std::int64_t kMostWorkspace = std::int64_t{4} << 30;

 private:
  struct State;
  explicit CudnnLibrary(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// How many engines cuDNN has for the kernel on a GPU that need not be there: `device` describes it
/// (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION). Errors as of open(), and Unsupported if cuDNN takes
/// the graph not at all, with its reason.
Result<int> cudnn_engines(const Kernel& kernel, const std::string& device);

}  // namespace lockstep::cuda
