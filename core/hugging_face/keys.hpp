// HfKeys: the keys of a config.json of Hugging Face's transformers, which a family of models
// describes once, to be read and to be written.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "core/hugging_face/members.hpp"

namespace lockstep {

/// Reads every key into the value that is given with it, or writes that value. `otherwise` is what
/// transformers' configuration class has where the key is missing.
class HfKeys {
 public:
  explicit HfKeys(HfMembers& in) : in_(&in) {}
  explicit HfKeys(nlohmann::ordered_json& out) : out_(&out) {}

  /// What is read; null where keys are written. What only concerns reading asks for it.
  HfMembers* reading() const { return in_; }

  void integer(const char* key, std::int64_t& value);  // an error if it is missing
  /// A 0 that is also assumed otherwise is not written.
  void integer(const char* key, std::int64_t& value, std::int64_t otherwise);
  void number(const char* key, double& value, double otherwise);
  /// Null stands for 0, which is written as null.
  void integer_or_null(const char* key, std::int64_t& value, std::int64_t otherwise);
  void number_or_null(const char* key, double& value, double otherwise);
  void boolean(const char* key, bool& value, bool otherwise);
  void text(const char* key, std::string& value, const char* otherwise);
  /// Writes a list or an object, which is read in other ways.
  void object(const char* key, const nlohmann::json& value);
  /// A share of dropout, which is of a training and not of a model here (HfMembers::dropout).
  void dropout(const char* key, double otherwise, const char* ours);
  /// A switch that is only built in one position.
  void only(const char* key, bool built, bool otherwise);
  /// A member that changes no number of a training.
  void ignore(const char* key);

 private:
  HfMembers* in_ = nullptr;
  nlohmann::ordered_json* out_ = nullptr;
};

}  // namespace lockstep
