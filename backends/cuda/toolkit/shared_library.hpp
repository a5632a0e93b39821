// SharedLibrary: a library opened at run time, by the first of its names that is found.
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string>

namespace lockstep::cuda {

class SharedLibrary {
 public:
  explicit SharedLibrary(std::initializer_list<const char*> names) {
    for (const char* name : names) {
      handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) return;
      if (const char* why = dlerror(); error_.empty() && why != nullptr) error_ = why;
    }
  }
  bool found() const { return handle_ != nullptr; }
  const std::string& error() const { return error_; }
  /// Sets `function` to the symbol of that name; false if the library lacks it.
  template <class F>
  bool get(F*& function, const char* name) {
    function = reinterpret_cast<F*>(dlsym(handle_, name));
    if (function == nullptr) error_ = std::string("no ") + name;
    return function != nullptr;
  }

 private:
  void* handle_ = nullptr;  // never closed, because libraries of CUDA cannot be closed safely
  std::string error_;
};

}  // namespace lockstep::cuda
