#include <cuda_runtime.h>

#include <array>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "backends/cuda/cudnn/graph.hpp"
#include "backends/cuda/toolkit/cudnn_library.hpp"
#include "backends/cuda/toolkit/shared_library.hpp"

#ifdef LOCKSTEP_HAVE_CUDNN
#include <cudnn_graph.h>

namespace lockstep::cuda {
namespace {

using cudnn::Graph;
using cudnn::Operation;
using cudnn::Tensor;

constexpr std::size_t kOldest =
    91000;  // takes -infinity for what is masked; clears what it adds to
constexpr std::int64_t kAlignment = 16;

struct Calls {
  decltype(&cudnnGetVersion) version;
  decltype(&cudnnGetErrorString) error_string;
  decltype(&cudnnGetLastErrorString) last_error;
  decltype(&cudnnCreate) create;
  decltype(&cudnnDestroy) destroy;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnBackendCreateDescriptor) descriptor_create;
  decltype(&cudnnBackendDestroyDescriptor) descriptor_destroy;
  decltype(&cudnnBackendSetAttribute) set;
  decltype(&cudnnBackendGetAttribute) get;
  decltype(&cudnnBackendFinalize) finalize;
  decltype(&cudnnBackendExecute) execute;

  bool load(SharedLibrary& library) {
    return library.get(version, "cudnnGetVersion") &&
           library.get(error_string, "cudnnGetErrorString") &&
           library.get(last_error, "cudnnGetLastErrorString") &&
           library.get(create, "cudnnCreate") && library.get(destroy, "cudnnDestroy") &&
           library.get(set_stream, "cudnnSetStream") &&
           library.get(descriptor_create, "cudnnBackendCreateDescriptor") &&
           library.get(descriptor_destroy, "cudnnBackendDestroyDescriptor") &&
           library.get(set, "cudnnBackendSetAttribute") &&
           library.get(get, "cudnnBackendGetAttribute") &&
           library.get(finalize, "cudnnBackendFinalize") &&
           library.get(execute, "cudnnBackendExecute");
  }
};

Error unsupported(const std::string& why) {
  return {ErrorKind::Unsupported, "cuDNN: " + why, std::nullopt};
}

/// The library, opened once for all GPUs; its path is searched as for every program.
Result<const Calls*> calls() {
  static SharedLibrary library({"libcudnn.so.9"});
  static Calls loaded{};
  static const bool complete = library.found() && loaded.load(library);
  if (!complete) return unsupported(library.error());
  if (loaded.version() < kOldest) {
    return unsupported("version " + std::to_string(loaded.version()) + " is older than " +
                       std::to_string(kOldest));
  }
  return &loaded;
}

cudnnDataType_t type_of(DType type) {
  switch (type) {
    case DType::BF16:
      return CUDNN_DATA_BFLOAT16;
    case DType::I32:
      return CUDNN_DATA_INT32;
    case DType::U8:
      return CUDNN_DATA_BOOLEAN;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

/// Keeps the first error of the calls that build descriptors; after it they do nothing.
class Builder {
 public:
  explicit Builder(const Calls& calls) : calls_(calls) {}
  ~Builder() {
    for (auto at = made_.rbegin(); at != made_.rend(); ++at) calls_.descriptor_destroy(*at);
  }
  Builder(Builder&& other) noexcept
      : calls_(other.calls_), made_(std::exchange(other.made_, {})), error_(other.error_) {}
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;
  Builder& operator=(Builder&&) = delete;

  const std::optional<Error>& error() const { return error_; }

  cudnnBackendDescriptor_t create(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t descriptor = nullptr;
    if (error_) return descriptor;
    check(calls_.descriptor_create(type, &descriptor), "cudnnBackendCreateDescriptor");
    if (descriptor != nullptr) made_.push_back(descriptor);
    return descriptor;
  }
  template <class T>
  void set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
           cudnnBackendAttributeType_t type, const T* values, std::int64_t count) {
    if (!error_) check(calls_.set(descriptor, name, type, count, values), "attribute", name);
  }
  template <class T>
  void set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
           cudnnBackendAttributeType_t type, const T& value) {
    set(descriptor, name, type, &value, 1);
  }
  void set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
           cudnnBackendDescriptor_t value) {
    set(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, &value, 1);
  }
  void finalize(cudnnBackendDescriptor_t descriptor) {
    if (!error_) check(calls_.finalize(descriptor), "cudnnBackendFinalize");
  }
  /// Takes over what was made elsewhere.
  void keep(cudnnBackendDescriptor_t descriptor) { made_.push_back(descriptor); }
  /// Of an attribute that is a list of descriptors.
  std::vector<cudnnBackendDescriptor_t> get(cudnnBackendDescriptor_t from,
                                            cudnnBackendAttributeName_t name,
                                            cudnnBackendDescriptorType_t type) {
    std::int64_t count = 0;
    if (error_) return {};
    check(calls_.get(from, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr), "attribute",
          name);
    std::vector<cudnnBackendDescriptor_t> found;
    for (std::int64_t i = 0; i < count; ++i) found.push_back(create(type));
    if (error_ || count == 0) return {};
    check(calls_.get(from, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, found.data()),
          "attribute", name);
    found.resize(static_cast<std::size_t>(count));
    return found;
  }

 private:
  void check(cudnnStatus_t status, const char* call, int detail = -1) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    std::array<char, 512> reason{};
    calls_.last_error(reason.data(), reason.size());
    error_ = unsupported(std::string(call) + (detail >= 0 ? " " + std::to_string(detail) : "") +
                         ": " + calls_.error_string(status) + "; " + reason.data());
  }

  const Calls& calls_;
  std::vector<cudnnBackendDescriptor_t> made_;
  std::optional<Error> error_;
};

std::int64_t id_of(int tensor) { return tensor + 1; }

cudnnBackendDescriptor_t lower(Builder& build, const Tensor& tensor, std::int64_t id) {
  const cudnnBackendDescriptor_t made = build.create(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  build.set(made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type_of(tensor.type));
  build.set(made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, tensor.dims.data(), 4);
  build.set(made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, tensor.strides.data(), 4);
  build.set(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  build.set(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignment);
  build.set(made, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN,
            tensor.place == Tensor::Place::Virtual);
  build.set(made, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN,
            tensor.place == Tensor::Place::Value);
  build.finalize(made);
  return made;
}

cudnnPointwiseMode_t pointwise_of(Operation::Kind kind) {
  switch (kind) {
    case Operation::Kind::Add:
      return CUDNN_POINTWISE_ADD;
    case Operation::Kind::Subtract:
      return CUDNN_POINTWISE_SUB;
    case Operation::Kind::Multiply:
      return CUDNN_POINTWISE_MUL;
    case Operation::Kind::Divide:
      return CUDNN_POINTWISE_DIV;
    case Operation::Kind::Exp:
      return CUDNN_POINTWISE_EXP;
    case Operation::Kind::Log:
      return CUDNN_POINTWISE_LOG;
    case Operation::Kind::Index:
      return CUDNN_POINTWISE_GEN_INDEX;
    case Operation::Kind::GreaterEqual:
      return CUDNN_POINTWISE_CMP_GE;
    case Operation::Kind::Select:
      return CUDNN_POINTWISE_BINARY_SELECT;
    default:
      return CUDNN_POINTWISE_IDENTITY;
  }
}

/// Operations of a graph, one cuDNN descriptor each.
class Lowering {
 public:
  Lowering(Builder& build, const Graph& graph) : build_(build) {
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
      tensors_.push_back(lower(build, graph.tensors[i], id_of(static_cast<int>(i))));
    }
    for (const Operation& operation : graph.operations) operations_.push_back(lower_one(operation));
  }
  cudnnBackendDescriptor_t operation_graph(cudnnHandle_t handle) {
    const cudnnBackendDescriptor_t made = build_.create(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    if (handle != nullptr) {
      build_.set(made, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
    }
    build_.set(made, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
               operations_.data(), static_cast<std::int64_t>(operations_.size()));
    build_.finalize(made);
    return made;
  }

 private:
  cudnnBackendDescriptor_t tensor(int index) const {
    return tensors_[static_cast<std::size_t>(index)];
  }

  cudnnBackendDescriptor_t lower_one(const Operation& operation) {
    switch (operation.kind) {
      case Operation::Kind::MatMul:
        return product(operation);
      case Operation::Kind::Convolution:
        return convolution(
            operation, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA});
      case Operation::Kind::ConvolutionInput:
        return convolution(operation, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                           {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA});
      case Operation::Kind::ConvolutionWeight:
        return convolution(operation,
                           CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                           {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA});
      case Operation::Kind::Reshape:
        return reshape(operation);
      case Operation::Kind::Max:
      case Operation::Kind::Sum:
        return reduction(operation);
      default:
        return pointwise(operation);
    }
  }

  cudnnBackendDescriptor_t product(const Operation& operation) {
    const auto how = build_.create(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    build_.set(how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    build_.finalize(how);
    const auto made = build_.create(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    build_.set(made, CUDNN_ATTR_OPERATION_MATMUL_ADESC, tensor(operation.in[0]));
    build_.set(made, CUDNN_ATTR_OPERATION_MATMUL_BDESC, tensor(operation.in[1]));
    build_.set(made, CUDNN_ATTR_OPERATION_MATMUL_CDESC, tensor(operation.out));
    build_.set(made, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    build_.finalize(made);
    return made;
  }

  /// Names: of both operands, the result, the convolution and the two factors.
  cudnnBackendDescriptor_t convolution(const Operation& operation,
                                       cudnnBackendDescriptorType_t type,
                                       const std::array<cudnnBackendAttributeName_t, 6>& names) {
    const auto how = build_.create(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    const std::array<std::int64_t, 2> ones{1, 1}, strides{operation.stride, operation.stride},
        pads{operation.pad, operation.pad};
    build_.set(how, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::int64_t{2});
    build_.set(how, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    build_.set(how, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
               CUDNN_CROSS_CORRELATION);
    build_.set(how, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, ones.data(), 2);
    build_.set(how, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, strides.data(), 2);
    build_.set(how, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, pads.data(), 2);
    build_.set(how, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, pads.data(), 2);
    build_.finalize(how);
    const auto made = build_.create(type);
    build_.set(made, names[0], tensor(operation.in[0]));
    build_.set(made, names[1], tensor(operation.in[1]));
    build_.set(made, names[2], tensor(operation.out));
    build_.set(made, names[3], how);
    build_.set(made, names[4], CUDNN_TYPE_FLOAT, 1.0F);
    build_.set(made, names[5], CUDNN_TYPE_FLOAT, 0.0F);
    build_.finalize(made);
    return made;
  }

  cudnnBackendDescriptor_t reshape(const Operation& operation) {
    const auto made = build_.create(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    build_.set(made, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, tensor(operation.in[0]));
    build_.set(made, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, tensor(operation.out));
    build_.finalize(made);
    return made;
  }

  cudnnBackendDescriptor_t reduction(const Operation& operation) {
    const auto how = build_.create(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    build_.set(
        how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE,
        operation.kind == Operation::Kind::Max ? CUDNN_REDUCE_TENSOR_MAX : CUDNN_REDUCE_TENSOR_ADD);
    build_.set(how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    build_.finalize(how);
    const auto made = build_.create(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    build_.set(made, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, tensor(operation.in[0]));
    build_.set(made, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, tensor(operation.out));
    build_.set(made, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    build_.finalize(made);
    return made;
  }

  cudnnBackendDescriptor_t pointwise(const Operation& operation) {
    const bool index = operation.kind == Operation::Kind::Index;
    const bool compares = operation.kind == Operation::Kind::GreaterEqual;
    const auto how = build_.create(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    build_.set(how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE,
               pointwise_of(operation.kind));
    build_.set(how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE,
               index      ? CUDNN_DATA_INT32
               : compares ? CUDNN_DATA_BOOLEAN
                          : CUDNN_DATA_FLOAT);
    if (index) {
      build_.set(how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, std::int64_t{operation.axis});
    }
    build_.finalize(how);
    const auto made = build_.create(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    build_.set(made, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    constexpr std::array kOperands = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                      CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                      CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
    for (std::size_t i = 0; i < kOperands.size(); ++i) {
      if (operation.in[i] >= 0) build_.set(made, kOperands[i], tensor(operation.in[i]));
    }
    build_.set(made, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tensor(operation.out));
    build_.finalize(made);
    return made;
  }

  Builder& build_;
  std::vector<cudnnBackendDescriptor_t> tensors_, operations_;
};

/// Engines that take the graph, the one that cuDNN thinks fastest first; without those that add up
/// in no fixed order. `device`: a description, or null for the handle's.
std::vector<cudnnBackendDescriptor_t> engines(const Calls& calls, Builder& build,
                                              cudnnBackendDescriptor_t operation_graph,
                                              cudnnBackendDescriptor_t device) {
  std::vector<cudnnBackendDescriptor_t> found;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    const auto heuristic = build.create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    build.set(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operation_graph);
    build.set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
    if (device != nullptr) build.set(heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
    build.finalize(heuristic);
    for (const cudnnBackendDescriptor_t config :
         build.get(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)) {
      const auto engine =
          build.get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
      if (engine.empty()) continue;
      std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
      std::int64_t count = 0;
      calls.get(engine[0], CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                static_cast<std::int64_t>(notes.size()), &count, notes.data());
      bool one_order = true;
      for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
        one_order = one_order && notes[i] != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
      }
      if (one_order) found.push_back(config);
    }
  }
  return found;
}

struct Plan {
  Graph graph;
  Builder made;  // owns what `plan` stands on
  cudnnBackendDescriptor_t plan = nullptr;
  std::int64_t workspace = 0;  // the engine's, behind the graph's
};

/// What plans depend on.
using Key = std::vector<std::int64_t>;
Key key_of(const Kernel& kernel) {
  Key key{static_cast<std::int64_t>(kernel.kind), static_cast<std::int64_t>(kernel.dtype),
          kernel.accumulate ? 1 : 0};
  key.insert(key.end(), kernel.dims.begin(), kernel.dims.end());
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
  const Calls& calls;
  cudnnHandle_t handle = nullptr;
  std::mutex mutex;  // the handle has one stream at a time
  std::map<Key, std::optional<Plan>> plans;

  explicit State(const Calls& all) : calls(all) {}
  ~State() {
    plans.clear();
    if (handle != nullptr) calls.destroy(handle);
  }

  std::optional<Plan> make_plan(const Kernel& kernel) {
    std::optional<Graph> graph = cudnn::graph_of(kernel);
    if (!graph) return std::nullopt;
    Builder build(calls);
    const auto operation_graph = Lowering(build, *graph).operation_graph(handle);
    for (const cudnnBackendDescriptor_t engine : engines(calls, build, operation_graph, nullptr)) {
      if (build.error()) break;
      // An engine that does not compile here is passed over.
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
  if (!cudnn::may_have_graph(call.kernel->kind)) return false;  // most launches: nothing to look up
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
        reinterpret_cast<std::uintptr_t>(address) % kAlignment != 0) {
      return false;
    }
    ids.push_back(id_of(static_cast<int>(i)));
    addresses.push_back(address);
  }
  Builder build(state_->calls);
  const auto pack = build.create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  const auto count = static_cast<std::int64_t>(ids.size());
  void* const behind = workspace + plan->graph.workspace_bytes;
  build.set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids.data(), count);
  build.set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, addresses.data(),
            count);
  build.set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, behind);
  build.finalize(pack);
  if (build.error()) return *build.error();
  const Calls& calls = state_->calls;
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
  Builder build(**loaded);
  const auto description = build.create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  build.set(description, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, device.data(),
            static_cast<std::int64_t>(device.size()));
  build.finalize(description);
  const auto operation_graph = Lowering(build, *graph).operation_graph(nullptr);
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
