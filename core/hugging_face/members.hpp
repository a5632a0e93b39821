// HfMembers: the keys of a config.json of Hugging Face, none of which is passed over in silence.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.hpp"

namespace lockstep {

/// Reads the members of one JSON object, which must outlive it. It remembers the first fault, and
/// which members were asked for.
class HfMembers {
 public:
  HfMembers(const nlohmann::json& object, std::string path)
      : object_(object), path_(std::move(path)) {}

  std::int64_t integer(const char* key) {
    const nlohmann::json* value = find(key);
    return value == nullptr ? fail(std::string("'") + key + "' is missing")
                            : read_integer(key, *value);
  }
  std::int64_t integer(const char* key, std::int64_t otherwise) {
    const nlohmann::json* value = find(key);
    return value == nullptr ? otherwise : read_integer(key, *value);
  }
  double number(const char* key, double otherwise) {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_number()) fail(std::string("'") + key + "' is not a number");
    return value->is_number() ? value->get<double>() : otherwise;
  }
  bool boolean(const char* key, bool otherwise) {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) fail(std::string("'") + key + "' is not true or false");
    return value->is_boolean() ? value->get<bool>() : otherwise;
  }
  std::string text(const char* key, const char* otherwise) {
    const nlohmann::json* value = find(key);
    return value != nullptr && value->is_string() ? value->get<std::string>() : otherwise;
  }
  /// Says that the member changes no number of this model.
  void ignore(const char* key) { asked_.insert(key); }
  /// Whether the member is there, be it null.
  bool has(const char* key) const { return object_.contains(key); }
  /// Whether there is a list that is not empty.
  bool has_elements(const char* key) {
    const nlohmann::json* const value = list(key);
    return value != nullptr && !value->empty();
  }
  /// Null if there is no such list.
  const nlohmann::json* list(const char* key) {
    const nlohmann::json* value = find(key);
    if (value != nullptr && !value->is_array()) fail(std::string("'") + key + "' is no list");
    return value != nullptr && value->is_array() ? value : nullptr;
  }
  /// Null if there is no such object.
  const nlohmann::json* object(const char* key) {
    const nlohmann::json* value = find(key);
    if (value != nullptr && !value->is_object()) fail(std::string("'") + key + "' is no object");
    return value != nullptr && value->is_object() ? value : nullptr;
  }
  std::int64_t fail(const std::string& why, ErrorKind kind = ErrorKind::Parse) {
    if (!error_) error_ = Error{kind, path_ + ": " + why, std::nullopt};
    return 0;
  }
  void refuse(const std::string& why) { fail(why, ErrorKind::Unsupported); }
  /// Says what the model computes and Lockstep does not, where it takes next to no time and memory,
  /// so that the model can still be simulated.
  void lacks(const std::string& what) { lacking_ += (lacking_.empty() ? "" : ", ") + what; }
  /// Tells of the value of a key that is only computed as `built`.
  void only(const char* key, bool built, bool otherwise) {
    if (boolean(key, otherwise) != built)
      lacks(std::string(key) + " = " + (built ? "false" : "true"));
  }
  const std::string& lacking() const { return lacking_; }
  void warn(const std::string& what) { warnings_.push_back(path_ + ": " + what); }
  /// Notes a dropout, which is of a training and not of a model here. `ours` is the key of
  /// [training] that says it.
  void dropout(const char* key, double otherwise, const char* ours) {
    const double p = number(key, otherwise);
    if (p == 0) return;
    const std::string share = nlohmann::json(p).dump();
    dropouts_[ours] = path_ + ": " + key + " = " + share + " is not applied: give training." +
                      ours + " = " + share + " to train with it";
  }
  /// Warns of every member that nobody asked for and that may change numbers.
  void warn_of_rest();
  const std::optional<Error>& error() const { return error_; }
  std::vector<std::string> take_warnings() { return std::move(warnings_); }
  std::map<std::string, std::string> take_dropouts() { return std::move(dropouts_); }

 private:
  const nlohmann::json* find(const char* key) {
    asked_.insert(key);
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  std::int64_t read_integer(const char* key, const nlohmann::json& value);
  const nlohmann::json& object_;
  std::string path_;
  std::set<std::string, std::less<>> asked_;
  std::optional<Error> error_;
  std::string lacking_;
  std::vector<std::string> warnings_;
  std::map<std::string, std::string> dropouts_;
};

}  // namespace lockstep
