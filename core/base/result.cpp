#include "core/base/result.hpp"

namespace lockstep {

Error invalid(std::string message, const char* file, int line) {
  return {ErrorKind::InvalidSpec, std::move(message), std::nullopt, file, line};
}

std::string to_string(const Error& error) {
  std::string text;
  if (error.where) {
    text += error.where->file;
    if (error.where->line > 0) {
      text += ":" + std::to_string(error.where->line) + ":" + std::to_string(error.where->column);
    }
    text += ": ";
  }
  text += error.message;
  if (error.kind == ErrorKind::Internal) {
    text += std::string(" [raised at ") + error.raised_file + ":" +
            std::to_string(error.raised_line) + "]";
  }
  return text;
}

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Parse:
    case ErrorKind::InvalidSpec:
    case ErrorKind::Unsupported:
      return 2;
    case ErrorKind::OutOfMemory:
      return 3;
    case ErrorKind::Device:
      return 4;
    case ErrorKind::Expectation:
      return 5;
    case ErrorKind::Internal:
      return 70;
  }
  return 70;
}

}  // namespace lockstep
