#include "core/hugging_face/keys.hpp"

namespace lockstep {

void HfKeys::integer(const char* key, std::int64_t& value) {
  if (in_ != nullptr) {
    value = in_->integer(key);
  } else {
    (*out_)[key] = value;
  }
}

void HfKeys::integer(const char* key, std::int64_t& value, std::int64_t otherwise) {
  if (in_ != nullptr) {
    value = in_->integer(key, otherwise);
  } else if (value != 0 || otherwise != 0) {
    (*out_)[key] = value;
  }
}

void HfKeys::number(const char* key, double& value, double otherwise) {
  if (in_ != nullptr) {
    value = in_->number(key, otherwise);
  } else {
    (*out_)[key] = value;
  }
}

void HfKeys::integer_or_null(const char* key, std::int64_t& value, std::int64_t otherwise) {
  if (in_ != nullptr) {
    value = in_->integer(key, in_->has(key) ? 0 : otherwise);
  } else {
    (*out_)[key] = value == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
  }
}

void HfKeys::number_or_null(const char* key, double& value, double otherwise) {
  if (in_ != nullptr) {
    value = in_->number(key, in_->has(key) ? 0 : otherwise);
  } else {
    (*out_)[key] = value == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
  }
}

void HfKeys::boolean(const char* key, bool& value, bool otherwise) {
  if (in_ != nullptr) {
    value = in_->boolean(key, otherwise);
  } else {
    (*out_)[key] = value;
  }
}

void HfKeys::text(const char* key, std::string& value, const char* otherwise) {
  if (in_ != nullptr) {
    value = in_->text(key, otherwise);
  } else {
    (*out_)[key] = value;
  }
}

void HfKeys::object(const char* key, const nlohmann::json& value) {
  if (out_ != nullptr) (*out_)[key] = value;
}

void HfKeys::dropout(const char* key, double otherwise, const char* ours) {
  if (in_ != nullptr) {
    in_->dropout(key, otherwise, ours);
  } else {
    (*out_)[key] = 0.0;
  }
}

void HfKeys::only(const char* key, bool built, bool otherwise) {
  if (in_ != nullptr) {
    in_->only(key, built, otherwise);
  } else if (built != otherwise) {
    (*out_)[key] = built;
  }
}

void HfKeys::ignore(const char* key) {
  if (in_ != nullptr) in_->ignore(key);
}

}  // namespace lockstep
