// Scenario: what is trained, where and how, read from the text that docs/scenario.md describes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/result.hpp"

namespace lockstep::api {
inline namespace v1 {

/// A scenario that can be lowered. It is a value, and cheap to copy.
class LOCKSTEP_EXPORT Scenario {
 public:
  /// Reads a file. An override is "section.key=value", as --set of the command line takes it. All
  /// faults of the file are reported; a file with a [sweep] is one, see load_sweep().
  static Result<Scenario> load(const std::string& path, const std::vector<std::string>& set = {});
  /// The same of a text; relative paths in it are relative to the folder of `file`, which names it
  /// in errors.
  static Result<Scenario> parse(const std::string& text, const std::vector<std::string>& set = {},
                                const std::string& file = "scenario.toml");
  static Result<std::vector<Scenario>> parse_sweep(const std::string& text,
                                                   const std::vector<std::string>& set = {},
                                                   const std::string& file = "scenario.toml");
  /// Every point of a file's [sweep], or its only scenario.
  static Result<std::vector<Scenario>> load_sweep(const std::string& path,
                                                  const std::vector<std::string>& set = {});

  std::string label() const;  // of a point of a sweep: "training.seq_len=2048 …"; else empty
  std::string text() const;   // with every key written out; parse() reads it back
  int ranks() const;
  const std::vector<std::string>& warnings() const;  // what is allowed but rarely meant

  struct Data;  // the library's own
  explicit Scenario(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  const Data& data() const { return *data_; }

 private:
  std::shared_ptr<const Data> data_;
};

}  // namespace v1
}  // namespace lockstep::api
