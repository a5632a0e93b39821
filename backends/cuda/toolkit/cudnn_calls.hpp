// cuDNN calls: the functions of cuDNN, which are found at run time, and a builder of descriptors of
// its backend API.
#pragma once

#ifdef LOCKSTEP_HAVE_CUDNN
#include <cudnn_graph.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/toolkit/shared_library.hpp"
#include "core/base/result.hpp"

namespace lockstep::cuda {

struct CudnnCalls {
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

inline Error cudnn_error(const std::string& why) {
  return {ErrorKind::Unsupported, "cuDNN: " + why, std::nullopt};
}

/// Builds descriptors. It keeps the first error; after it, calls do nothing.
class CudnnBuilder {
 public:
  explicit CudnnBuilder(const CudnnCalls& calls) : calls_(calls) {}
  ~CudnnBuilder() {
    for (auto at = made_.rbegin(); at != made_.rend(); ++at) calls_.descriptor_destroy(*at);
  }
  CudnnBuilder(CudnnBuilder&& other) noexcept
      : calls_(other.calls_), made_(std::exchange(other.made_, {})), error_(other.error_) {}
  CudnnBuilder(const CudnnBuilder&) = delete;
  CudnnBuilder& operator=(const CudnnBuilder&) = delete;
  CudnnBuilder& operator=(CudnnBuilder&&) = delete;

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
  /// Takes ownership of a descriptor that was made elsewhere.
  void keep(cudnnBackendDescriptor_t descriptor) { made_.push_back(descriptor); }
  /// The value of an attribute that is a list of descriptors.
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
    error_ = cudnn_error(std::string(call) + (detail >= 0 ? " " + std::to_string(detail) : "") +
                         ": " + calls_.error_string(status) + "; " + reason.data());
  }

  const CudnnCalls& calls_;
  std::vector<cudnnBackendDescriptor_t> made_;
  std::optional<Error> error_;
};

}  // namespace lockstep::cuda

#endif
