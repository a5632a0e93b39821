// Memory snapshots: reads what torch.cuda.memory._dump_snapshot() writes, as a Trace that tells of
// memory only.
#pragma once

#include <string>

#include "core/base/result.hpp"
#include "core/trace/kineto/kineto.hpp"

namespace lockstep {

/// Reads a pickle of {"segments": …, "device_traces": …}. Every device with a history becomes a
/// rank, whose samples say after every event what is allocated and what the allocator keeps beside
/// that ("cached"). The history begins in the middle of a run; how much was there before follows
/// from `segments`, which are those at its end. Errors: Parse: no pickle, not plain values, no
/// snapshot, or one without a history (torch.cuda.memory._record_memory_history() was not called).
Result<ImportedTrace> read_memory_snapshot(const std::string& path,
                                           const ImportOptions& options = {});

}  // namespace lockstep
