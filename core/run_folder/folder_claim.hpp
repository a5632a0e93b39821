// FolderClaim: what a run has put into its folder before it has begun goes with it if it is
// refused.
#pragma once

#include <string>

namespace lockstep {

class FolderClaim {
 public:
  /// Looks at a folder that a run is about to take: whether it is there, and holds nothing but a
  /// lock. `checkpoints` is the name of its folder of checkpoints.
  FolderClaim(std::string folder, std::string checkpoints);
  FolderClaim(const FolderClaim&) = delete;
  FolderClaim& operator=(const FolderClaim&) = delete;

  /// From here on the destructor cleans up: the run holds the folder's lock.
  void arm() { armed_ = was_empty_; }
  /// The run has begun, and its folder stays.
  void keep() { armed_ = false; }
  /// Unless the run has begun, removes its description, its empty metrics and the lock from a
  /// folder that was empty, and the folder if the run has made it. A folder that holds more, such
  /// as a record of what hung, stays as it is.
  ~FolderClaim();

 private:
  std::string folder_, checkpoints_;
  bool was_there_ = false, was_empty_ = true, armed_ = false;
};

}  // namespace lockstep
