// safetensors: tensors by name in one file, in a format that other tools read, too
// (github.com/huggingface/safetensors, README "Format"). A file consists of the length of the
// header (u64, little-endian); the header, a JSON object name -> {dtype, shape, data_offsets
// [begin, end)} with free text under "__metadata__"; and the data, without holes. Offsets count
// from the end of the header.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/ir/training_state.hpp"

namespace lockstep {

struct SafetensorsFile {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;  // the free text under "__metadata__"
};

struct NamedTensor {
  std::string_view name;
  const Tensor* tensor = nullptr;
};

/// A file without its values: what it holds, and where.
struct SafetensorsIndex {
  struct Entry {
    TensorInfo info;
    std::int64_t begin = 0;  // first byte of its values, from the begin of the file
  };
  std::map<std::string, Entry> tensors;
  std::map<std::string, std::string> others;  // name -> type of those whose types are not read here
  std::map<std::string, std::string> metadata;
  std::string head;             // the bytes before the values
  std::int64_t file_bytes = 0;  // of the whole file
};

/// The file that holds these tensors. The header is padded with spaces to a multiple of 8 bytes and
/// wider types come first, so that every tensor is aligned to the size of its elements. Error
/// Internal if the sizes overflow.
Result<SafetensorsIndex> lay_out(const std::map<std::string, TensorInfo>& tensors,
                                 const std::map<std::string, std::string>& metadata);

/// Writes a new file, or over an old one, and waits until it is on the disk. Requires distinct
/// UTF-8 names, and data as long as dtype and shape say. Error InvalidSpec if the file cannot be
/// written.
Result<void> write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                               const std::map<std::string, std::string>& metadata);

/// Reads a whole file and checks all of it. Errors name the file and the tensor: InvalidSpec if it
/// cannot be opened, Unsupported for an element type that DType lacks, Parse for everything else
/// (no or bad header, duplicate names, offsets that overlap, leave holes, lie outside the file or
/// disagree with the shape, a truncated file).
Result<SafetensorsFile> read_safetensors(const std::string& path);
/// The same checks, without reading the values. `lists_others`: tensors of element types that DType
/// lacks are no error, but are listed in SafetensorsIndex::others.
Result<SafetensorsIndex> read_safetensors_index(const std::string& path, bool lists_others = false);

}  // namespace lockstep
