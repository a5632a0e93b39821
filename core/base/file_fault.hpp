// kind_of_file_fault: whose fault it is that a file cannot be opened or written.
#pragma once

#include <cerrno>

#include "core/base/result.hpp"

namespace lockstep {

/// Device where the machine is short of something or fails, so that the same command may well
/// succeed later; otherwise InvalidSpec: a path that the user has to mend. `code` is errno.
inline ErrorKind kind_of_file_fault(int code) {
  switch (code) {
    case EMFILE:
    case ENFILE:
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EROFS:
    case ENOMEM:
    case EIO:
    case ESTALE:
      return ErrorKind::Device;
    default:
      return ErrorKind::InvalidSpec;
  }
}

}  // namespace lockstep
