// Nsight Systems: reads what `nsys export --type sqlite` writes, as the files of its processes.
#pragma once

#include <string>

#include "core/trace/kineto/file.hpp"
#include "core/trace/kineto/span_source.hpp"

namespace lockstep::kineto {

/// Whether this build can read exports of Nsight Systems (it was built with SQLite).
bool has_sqlite();

/// Reads the kernels, copies, fills, CUDA graphs, CUDA calls and NVTX ranges of an export. Each
/// process becomes a file of its own, without a rank: the ranks of a job on one machine; they share
/// a clock. A launch of a CUDA graph whose kernels were not traced (nsys's default) is one span of
/// the device. A range of NVTX is an
/// annotation. Steps are ranges named as PyTorch's ("ProfilerStep#3"). NCCL's kernels are told by
/// their names, which do not say how much they move. Tables that a version of nsys does not write
/// are taken as empty. Errors: Parse: no SQLite database, not one of nsys, or cancelled;
/// Unsupported: built without SQLite.
Result<Files> parse_nsight(const std::string& path, NameTable& names, const ImportOptions& options);

/// Reads the columns of the row that became a span: `at` is its Event::at, `name` its name. Columns
/// that are empty are left out, numbers of strings are given as the strings. Errors: Parse if the
/// row is no longer there or has another name; Unsupported: built without SQLite.
Result<SpanArguments> read_nsight_arguments(const std::string& path, std::uint64_t at,
                                            const std::string& name);

}  // namespace lockstep::kineto
