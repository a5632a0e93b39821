#include "backends/cuda/toolkit/cudnn_lowering.hpp"

#ifdef LOCKSTEP_HAVE_CUDNN

namespace lockstep::cuda {
namespace {

using cudnn::Graph;
using cudnn::Operation;
using cudnn::Tensor;

cudnnDataType_t type_of(DType type) {
  switch (type) {
    case DType::BF16:
      return CUDNN_DATA_BFLOAT16;
    case DType::F16:
      return CUDNN_DATA_HALF;
    case DType::I32:
      return CUDNN_DATA_INT32;
    case DType::U8:
      return CUDNN_DATA_BOOLEAN;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

cudnnBackendDescriptor_t lower(CudnnBuilder& build, const Tensor& tensor, std::int64_t id) {
  const cudnnBackendDescriptor_t made = build.create(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  build.set(made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type_of(tensor.type));
  build.set(made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, tensor.dims.data(), 4);
  build.set(made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, tensor.strides.data(), 4);
  build.set(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  build.set(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kCudnnAlignment);
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

/// Makes a cuDNN descriptor of each operation of a graph.
class Lowering {
 public:
  Lowering(CudnnBuilder& build, const Graph& graph) : build_(build) {
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
      tensors_.push_back(lower(build, graph.tensors[i], cudnn_id(static_cast<int>(i))));
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

  /// `names` are those of the attributes for both operands, the result, the convolution and the two
  /// factors.
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

  CudnnBuilder& build_;
  std::vector<cudnnBackendDescriptor_t> tensors_, operations_;
};

}  // namespace

cudnnBackendDescriptor_t lower(CudnnBuilder& build, const Graph& graph, cudnnHandle_t handle) {
  return Lowering(build, graph).operation_graph(handle);
}

std::vector<cudnnBackendDescriptor_t> engines(const CudnnCalls& calls, CudnnBuilder& build,
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

}  // namespace lockstep::cuda

#endif
