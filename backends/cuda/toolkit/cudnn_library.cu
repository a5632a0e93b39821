#include <cuda_runtime.h>

#include <array>
#include <bit>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "backends/cuda/cudnn/graph.hpp"
#include "backends/cuda/toolkit/cudnn_library.hpp"
#include "backends/cuda/toolkit/cudnn_lowering.hpp"

#ifdef LOCKSTEP_HAVE_CUDNN
namespace lockstep::cuda {
namespace {

using cudnn::Graph;
using cudnn::Tensor;

/// Takes -infinity for what is masked; clears what it adds to.
constexpr std::size_t kOldest = 91000;

/// The functions of the library, which is opened once for all GPUs, on the system's search path.
Result<const CudnnCalls*> calls() {
  static SharedLibrary library({"libcudnn.so.9"});
  static CudnnCalls loaded{};
  static const bool complete = library.found() && loaded.load(library);
  if (!complete) return cudnn_error(library.error());
  if (loaded.version() < kOldest) {
    return cudnn_error("version " + std::to_string(loaded.version()) + " is older than " +
                       std::to_string(kOldest));
  }
  return &loaded;
}

struct Plan {
  Graph graph;
  CudnnBuilder made;  // owns what `plan` refers to
  cudnnBackendDescriptor_t plan = nullptr;
  std::int64_t workspace = 0;  // bytes of the engine's workspace, which lies after the graph's
};

/// What plans depend on.
using Key = std::vector<std::int64_t>;
Key key_of(const Kernel& kernel) {
  Key key{static_cast<std::int64_t>(kernel.kind), static_cast<std::int64_t>(kernel.dtype),
          kernel.accumulate ? 1 : 0};
  key.insert(key.end(), kernel.dims.begin(), kernel.dims.end());
  for (const double scalar : kernel.scalars) key.push_back(std::bit_cast<std::int64_t>(scalar));
  for (const auto* operands : {&kernel.in, &kernel.out}) {
    key.push_back(static_cast<std::int64_t>(operands->size()));
    for (const Operand& operand : *operands) {
      key.push_back(operand.present() ? static_cast<std::int64_t>(operand.dtype) : -1);
    }
  }
  return key;
}

}  // namespace

struct CudnnLibrary::State {
  const CudnnCalls& calls;
  cudnnHandle_t handle = nullptr;
  std::mutex mutex;  // guards the handle, which has one stream at a time
  std::map<Key, std::optional<Plan>> plans;

  explicit State(const CudnnCalls& all) : calls(all) {}
  ~State() {
    plans.clear();
    if (handle != nullptr) calls.destroy(handle);
  }

  std::optional<Plan> make_plan(const Kernel& kernel) {
    std::optional<Graph> graph = cudnn::graph_of(kernel);
    if (!graph) return std::nullopt;
    CudnnBuilder build(calls);
    const auto operation_graph = lower(build, *graph, handle);
    for (const cudnnBackendDescriptor_t engine : engines(calls, build, operation_graph, nullptr)) {
      if (build.error()) break;
      // An engine that does not compile here is skipped.
      cudnnBackendDescriptor_t plan = nullptr;
      if (calls.descriptor_create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) !=
          CUDNN_STATUS_SUCCESS) {
        break;
      }
      build.keep(plan);
      std::int64_t bytes = 0, count = 0;
      const bool ready =
          calls.set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle) ==
              CUDNN_STATUS_SUCCESS &&
          calls.set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                    &engine) == CUDNN_STATUS_SUCCESS &&
          calls.finalize(plan) == CUDNN_STATUS_SUCCESS &&
          calls.get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
                    &bytes) == CUDNN_STATUS_SUCCESS;
      if (!ready || bytes + graph->workspace_bytes > kMostWorkspace) continue;
      return Plan{std::move(*graph), std::move(build), plan, bytes};
    }
    return std::nullopt;
  }
  const std::optional<Plan>& plan_of(const Kernel& kernel) {
    Key key = key_of(kernel);
    auto at = plans.find(key);
    if (at == plans.end()) at = plans.emplace(std::move(key), make_plan(kernel)).first;
    return at->second;
  }
};

CudnnLibrary::CudnnLibrary(std::unique_ptr<State> state) : state_(std::move(state)) {}
CudnnLibrary::~CudnnLibrary() = default;

Result<std::unique_ptr<CudnnLibrary>> CudnnLibrary::open() {
  const auto loaded = calls();
  if (!loaded) return loaded.error();
  auto state = std::make_unique<State>(**loaded);
  if (const cudnnStatus_t status = (*loaded)->create(&state->handle);
      status != CUDNN_STATUS_SUCCESS) {
    return Error{ErrorKind::Device, std::string("cudnnCreate: ") + (*loaded)->error_string(status),
                 std::nullopt};
  }
  return std::unique_ptr<CudnnLibrary>(new CudnnLibrary(std::move(state)));
}

std::optional<std::int64_t> CudnnLibrary::workspace_bytes(const Kernel& kernel) {
  if (!cudnn::may_have_graph(kernel.kind)) return std::nullopt;
  const std::lock_guard lock(state_->mutex);
  const std::optional<Plan>& plan = state_->plan_of(kernel);
  if (!plan) return std::nullopt;
  return plan->graph.workspace_bytes + plan->workspace;
}

Result<bool> CudnnLibrary::launch(const KernelCall& call, StreamHandle stream,
                                  std::byte* workspace) {
  if (!cudnn::may_have_graph(call.kernel->kind)) return false;  // most launches need no look-up
  const std::lock_guard lock(state_->mutex);
  const std::optional<Plan>& plan = state_->plan_of(*call.kernel);
  if (!plan) return false;
  std::vector<std::int64_t> ids;
  std::vector<void*> addresses;
  std::vector<float> values(plan->graph.tensors.size());
  for (std::size_t i = 0; i < plan->graph.tensors.size(); ++i) {
    const Tensor& tensor = plan->graph.tensors[i];
    const auto operand = static_cast<std::size_t>(tensor.operand);
    void* address = nullptr;
    switch (tensor.place) {
      case Tensor::Place::Virtual:
        continue;
      case Tensor::Place::Value:
        values[i] = tensor.value;
        address = &values[i];
        break;
      case Tensor::Place::Input:
        address = call.in[operand] + tensor.offset;
        break;
      case Tensor::Place::Output:
        address = call.out[operand] + tensor.offset;
        break;
      case Tensor::Place::Workspace:
        address = workspace + tensor.offset;
        break;
    }
    if (tensor.place != Tensor::Place::Value &&
        reinterpret_cast<std::uintptr_t>(address) % kCudnnAlignment != 0) {
      return false;
    }
    ids.push_back(cudnn_id(static_cast<int>(i)));
    addresses.push_back(address);
  }
  CudnnBuilder build(state_->calls);
  const auto pack = build.create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  const auto count = static_cast<std::int64_t>(ids.size());
  void* const behind = workspace + plan->graph.workspace_bytes;
  build.set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids.data(), count);
  build.set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, addresses.data(),
            count);
  build.set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, behind);
  build.finalize(pack);
  if (build.error()) return *build.error();
  const CudnnCalls& calls = state_->calls;
  cudnnStatus_t status = calls.set_stream(state_->handle, reinterpret_cast<cudaStream_t>(stream));
  if (status == CUDNN_STATUS_SUCCESS) status = calls.execute(state_->handle, plan->plan, pack);
  if (status == CUDNN_STATUS_SUCCESS) return true;
  return Error{ErrorKind::Device, std::string("cudnnBackendExecute: ") + calls.error_string(status),
               std::nullopt};
}

Result<int> cudnn_engines(const Kernel& kernel, const std::string& device) {
  const auto loaded = calls();
  if (!loaded) return loaded.error();
  const std::optional<Graph> graph = cudnn::graph_of(kernel);
  if (!graph) return 0;
  CudnnBuilder build(**loaded);
  const auto description = build.create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  build.set(description, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, device.data(),
            static_cast<std::int64_t>(device.size()));
  build.finalize(description);
  const auto operation_graph = lower(build, *graph, nullptr);
  const auto found = engines(**loaded, build, operation_graph, description);
  if (build.error()) return *build.error();
  return static_cast<int>(found.size());
}

}  // namespace lockstep::cuda

#else

namespace lockstep::cuda {

struct CudnnLibrary::State {};
CudnnLibrary::CudnnLibrary(std::unique_ptr<State> state) : state_(std::move(state)) {}
CudnnLibrary::~CudnnLibrary() = default;
namespace {
const Error kNoHeader{ErrorKind::Unsupported, "this binary was built without cuDNN's header",
                      std::nullopt};
}
Result<std::unique_ptr<CudnnLibrary>> CudnnLibrary::open() { return kNoHeader; }
std::optional<std::int64_t> CudnnLibrary::workspace_bytes(const Kernel&) { return std::nullopt; }
Result<bool> CudnnLibrary::launch(const KernelCall&, StreamHandle, std::byte*) { return false; }
Result<int> cudnn_engines(const Kernel&, const std::string&) { return kNoHeader; }

}  // namespace lockstep::cuda

#endif
