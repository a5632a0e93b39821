// Manifest: what a checkpoint is, beside its tensors: of which run and step, where in the data,
// with which settings, and a checksum of every tensor. It is written last, so that a folder with a
// whole manifest is a whole checkpoint.
//
//   {"checksum": "<16 hex digits>", "manifest": {...}}
// The checksum is fnv1a of the manifest's text as nlohmann prints it without spaces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/result.hpp"

namespace lockstep {

/// Under which settings a state came about: what a run that goes on compares with its own. The keys
/// are those of a scenario ("training.seed"), in the order of the file.
using Settings = std::vector<std::pair<std::string, std::string>>;

struct Manifest {
  std::string run;      // identifies the run that began the training
  std::string version;  // of the program that wrote it
  int step = 0;
  std::int64_t samples = 0;  // of the data that were read
  Settings settings;
  std::map<std::string, std::uint64_t> heads;    // by file: fnv1a of the bytes before the values
  std::map<std::string, std::uint64_t> tensors;  // checksum_of() all elements
  bool operator==(const Manifest&) const = default;
};

std::string print_manifest(const Manifest& manifest);
/// Error Parse, naming `path`, if anything in the text has changed since it was printed.
Result<Manifest> parse_manifest(const std::string& text, const std::string& path);
/// Reads the file. Errors: InvalidSpec if it cannot be read; Parse if it is longer than any
/// manifest is, or by parse_manifest().
Result<Manifest> read_manifest(const std::string& path);

/// The sum, modulo 2^64, of a hash of each element's index and bits. So the checksum of a whole is
/// the sum of those of its parts, whoever computes them. `first` is the index of the first element.
std::uint64_t checksum_of(std::span<const std::byte> values, DType dtype, std::int64_t first);
/// The index of the first element that is not a finite number; nullopt if all are.
std::optional<std::int64_t> first_not_finite(std::span<const std::byte> values, DType dtype);

}  // namespace lockstep
