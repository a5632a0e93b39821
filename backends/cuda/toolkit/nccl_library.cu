#include "backends/cuda/toolkit/nccl_library.hpp"

#ifdef LOCKSTEP_HAVE_NCCL
#include <nccl.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>

#include "backends/cuda/toolkit/gpu_driver.hpp"
#include "backends/cuda/toolkit/shared_library.hpp"

namespace lockstep::cuda {
namespace {

struct Calls {
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRankConfig) init_rank;
  decltype(&ncclCommGetAsyncError) get_async_error;
  decltype(&ncclCommAbort) abort;
  decltype(&ncclCommDestroy) destroy;
  decltype(&ncclGetErrorString) error_string;
  decltype(&ncclGetLastError) last_error;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclReduceScatter) reduce_scatter;
  decltype(&ncclReduce) reduce;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) receive;
};

bool load(SharedLibrary& library, Calls& calls) {
  return library.get(calls.get_unique_id, "ncclGetUniqueId") &&
         library.get(calls.init_rank, "ncclCommInitRankConfig") &&
         library.get(calls.get_async_error, "ncclCommGetAsyncError") &&
         library.get(calls.abort, "ncclCommAbort") &&
         library.get(calls.destroy, "ncclCommDestroy") &&
         library.get(calls.error_string, "ncclGetErrorString") &&
         library.get(calls.last_error, "ncclGetLastError") &&
         library.get(calls.group_start, "ncclGroupStart") &&
         library.get(calls.group_end, "ncclGroupEnd") &&
         library.get(calls.all_reduce, "ncclAllReduce") &&
         library.get(calls.all_gather, "ncclAllGather") &&
         library.get(calls.reduce_scatter, "ncclReduceScatter") &&
         library.get(calls.reduce, "ncclReduce") && library.get(calls.broadcast, "ncclBroadcast") &&
         library.get(calls.send, "ncclSend") && library.get(calls.receive, "ncclRecv");
}

/// A handle is the address of NCCL's communicator, where NCCL may write until all members have
/// joined.
ncclComm_t of(CommHandle comm) { return *reinterpret_cast<ncclComm_t*>(comm); }
cudaStream_t of(StreamHandle stream) { return reinterpret_cast<cudaStream_t>(stream); }

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return ncclFloat64;
    case DType::BF16:
      return ncclBfloat16;
    case DType::F16:
      return ncclFloat16;
    case DType::I32:
      return ncclInt32;
    case DType::U8:
      return ncclUint8;
    default:
      return ncclFloat32;
  }
}

std::size_t count(std::int64_t elements) { return static_cast<std::size_t>(elements); }

class NcclLibrary final : public Nccl {
 public:
  explicit NcclLibrary(const Calls& calls) : calls_(calls) {}

  Result<NcclId> unique_id() override {
    ncclUniqueId id;
    if (auto done = check(calls_.get_unique_id(&id), "ncclGetUniqueId"); !done) {
      return done.error();
    }
    NcclId bytes;
    static_assert(sizeof id == sizeof bytes);
    std::memcpy(bytes.data(), &id, sizeof id);
    return bytes;
  }
  Result<CommHandle> join(Driver& gpu, const NcclId& id, int size, int position,
                          int blocks) override {
    make_current(gpu);
    ncclUniqueId own;
    std::memcpy(&own, id.data(), sizeof own);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.maxCTAs = blocks;
    ncclComm_t* comm = nullptr;
    {
      const std::lock_guard lock(mutex_);
      comm = &comms_.emplace_back(nullptr);
    }
    const auto status = calls_.init_rank(comm, size, own, position, &config);
    if (auto done = check(status, "ncclCommInitRankConfig"); !done) return done.error();
    return reinterpret_cast<CommHandle>(comm);
  }
  Result<bool> ready(CommHandle comm) override {
    if (of(comm) == nullptr) return false;
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = calls_.get_async_error(of(comm), &state);
    if (auto done = check(asked, "ncclCommGetAsyncError"); !done) return done.error();
    if (state == ncclInProgress) return false;
    if (auto done = check(state, "NCCL"); !done) return done.error();
    return true;
  }
  void abort(CommHandle comm) override {
    if (of(comm) != nullptr) calls_.abort(of(comm));
  }
  void destroy(CommHandle comm) override { calls_.destroy(of(comm)); }

  Result<void> group_start() override { return check(calls_.group_start(), "ncclGroupStart"); }
  Result<void> group_end() override { return check(calls_.group_end(), "ncclGroupEnd"); }
  Result<void> all_reduce(CommHandle comm, StreamHandle stream, std::byte* buffer,
                          std::int64_t elements, DType dtype, bool largest) override {
    return check(calls_.all_reduce(buffer, buffer, count(elements), type_of(dtype),
                                   largest ? ncclMax : ncclSum, of(comm), of(stream)),
                 "ncclAllReduce");
  }
  Result<void> all_gather(CommHandle comm, StreamHandle stream, const std::byte* from,
                          std::byte* to, std::int64_t elements, DType dtype) override {
    return check(calls_.all_gather(from, to, count(elements), type_of(dtype), of(comm), of(stream)),
                 "ncclAllGather");
  }
  Result<void> reduce_scatter(CommHandle comm, StreamHandle stream, const std::byte* from,
                              std::byte* to, std::int64_t elements, DType dtype) override {
    return check(calls_.reduce_scatter(from, to, count(elements), type_of(dtype), ncclSum, of(comm),
                                       of(stream)),
                 "ncclReduceScatter");
  }
  Result<void> reduce(CommHandle comm, StreamHandle stream, const std::byte* from, std::byte* to,
                      std::int64_t elements, DType dtype, int root) override {
    return check(calls_.reduce(from, to, count(elements), type_of(dtype), ncclSum, root, of(comm),
                               of(stream)),
                 "ncclReduce");
  }
  Result<void> broadcast(CommHandle comm, StreamHandle stream, std::byte* buffer,
                         std::int64_t elements, DType dtype, int root) override {
    return check(calls_.broadcast(buffer, buffer, count(elements), type_of(dtype), root, of(comm),
                                  of(stream)),
                 "ncclBroadcast");
  }
  Result<void> send(CommHandle comm, StreamHandle stream, const std::byte* from,
                    std::int64_t elements, DType dtype, int to) override {
    return check(calls_.send(from, count(elements), type_of(dtype), to, of(comm), of(stream)),
                 "ncclSend");
  }
  Result<void> receive(CommHandle comm, StreamHandle stream, std::byte* to, std::int64_t elements,
                       DType dtype, int from) override {
    return check(calls_.receive(to, count(elements), type_of(dtype), from, of(comm), of(stream)),
                 "ncclRecv");
  }

 private:
  /// The error of a call, if any. ncclInProgress is none: calls on a non-blocking communicator may
  /// return it.
  Result<void> check(ncclResult_t status, const char* call) {
    if (status == ncclSuccess || status == ncclInProgress) return {};
    std::string message = std::string(call) + ": " + calls_.error_string(status);
    if (const char* last = calls_.last_error(nullptr); last != nullptr && *last != '\0') {
      message += std::string("; ") + last;
    }
    return Error{ErrorKind::Device, std::move(message), std::nullopt};
  }

  Calls calls_;
  std::mutex mutex_;
  std::deque<ncclComm_t> comms_;  // a deque, because addresses must not change
};

}  // namespace

Result<std::unique_ptr<Nccl>> open_nccl() {
  // This has to be set before NCCL's first call. Rings and trees are then connected when ranks
  // join, and not in a step.
  setenv("NCCL_RUNTIME_CONNECT", "0", 0);
  SharedLibrary library({"libnccl.so.2"});
  Calls calls{};
  if (!library.found() || !load(library, calls)) {
    return Error{
        ErrorKind::Unsupported,
        "NCCL is not available here (" + library.error() + "); --communicator local needs none",
        std::nullopt};
  }
  return std::unique_ptr<Nccl>(std::make_unique<NcclLibrary>(calls));
}

}  // namespace lockstep::cuda
#else

namespace lockstep::cuda {

Result<std::unique_ptr<Nccl>> open_nccl() {
  return Error{ErrorKind::Unsupported,
               "this binary was built without NCCL's header; --communicator local needs none",
               std::nullopt};
}

}  // namespace lockstep::cuda
#endif
