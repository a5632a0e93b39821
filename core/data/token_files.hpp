// TokenFiles: the tokens of a text file, a folder of text, or llm.c .bin shards, as one sequence.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.hpp"

namespace lockstep {

/// The tokens of all files, one file after the other. Reading is const and thread-safe.
struct TokenFiles {
  virtual ~TokenFiles() = default;
  virtual std::int64_t size() const = 0;
  virtual int largest_token() const = 0;  // requires size() >= 1
  virtual bool are_bytes() const = 0;     // of text, rather than made by a tokenizer
  /// Tokens [begin, begin + out.size()); requires that range to lie in [0, size()). Throws
  /// std::runtime_error, naming the file, if one has become shorter since it was opened, or holds
  /// tokens outside [0, largest_token()].
  virtual void read(std::int64_t begin, std::span<std::int32_t> out) const = 0;
};

/// Opens llm.c shards or text. A `.bin` file, or the .bin files that lie directly in a folder, are
/// shards (core/data/token_shards.hpp) and are read as they are needed. Anything else is text, with
/// one token per byte: the files of text_files(), but for those that are not UTF-8 text or hold a
/// NUL.
Result<std::unique_ptr<TokenFiles>> open_token_files(const std::string& path);

/// The files of a folder, recursively, in the order of their paths, which may be text: all but
/// hidden files and folders, folders named `build` or `runs`, and symbolic links.
Result<std::vector<std::filesystem::path>> text_files(const std::filesystem::path& folder);

}  // namespace lockstep
