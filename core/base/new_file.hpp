// NewFile: how every file is written that is to appear whole or not at all.
#pragma once

#include <string>

#include "core/base/result.hpp"

namespace lockstep {

/// A file is written under a name of its own beside `path`, and takes the place of what was there
/// once it is whole. What stood at `path` decides how: a link stays one, and the file behind it is
/// replaced; permissions stay; a pipe or a device (/dev/stdout) is written into. For a file that a
/// run keeps in its own folder, Links::Replaced puts a file in the place of whatever stood there,
/// so that nothing is written elsewhere.
enum class Links { Followed, Replaced };
class NewFile {
 public:
  explicit NewFile(const std::string& path, Links links = Links::Followed);
  ~NewFile();  // removes what was written, unless it was put in place
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  const std::string& temporary() const { return temporary_; }  // where to write
  /// To be called when the file is written and closed. Error Device: there is a folder at `path`,
  /// or a file that may not be written.
  Result<void> put_in_place();
  /// "cannot write PATH: " and what errno says; Error Device.
  Error failure() const;

 private:
  std::string path_, target_, temporary_;
  bool in_place_ = false;
};

/// Writes a file so that it appears whole or not at all. Error Device.
Result<void> write_file(const std::string& path, const std::string& text,
                        Links links = Links::Followed);

/// The same for a file that a run keeps in its folder: it never goes elsewhere through a link.
inline Result<void> write_own(const std::string& path, const std::string& text) {
  return write_file(path, text, Links::Replaced);
}

}  // namespace lockstep
