// FolderClaim: what a run has put into its folder before it has begun goes with it if it is
// refused, and an older run that was there comes back.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// Whether a name in a run folder is that under which a run writes one of its files at first
/// (NewFile). A run that was killed leaves such files.
bool is_half_written(const std::string& name);

class FolderClaim {
 public:
  /// Looks at a folder that a run is about to take: whether it is there, and what it holds.
  /// `checkpoints` is the name of its folder of checkpoints.
  FolderClaim(std::string folder, std::string checkpoints);
  FolderClaim(const FolderClaim&) = delete;
  FolderClaim& operator=(const FolderClaim&) = delete;

  /// From here on the destructor cleans up: the run holds the folder's lock. What describes an
  /// older run is put aside, into a folder of its own (.before), from which the next claim takes it
  /// back should this process be killed. Files that a killed run has not written to their ends go.
  void arm();
  /// The run has begun, and its folder stays. The report and the trace of an older run go: they
  /// would be taken for this one's until it has ended.
  void keep();
  /// Unless the run has begun: gives an older run its description back, or else removes this one's
  /// description, its empty metrics and the lock, and the folder if the run has made it. A folder
  /// that has come to hold more, such as a record of what hung, stays as it is.
  ~FolderClaim();

 private:
  void look();
  bool holds_more() const;
  void give_back() const;
  void end_older() const;
  std::string folder_, checkpoints_;
  std::vector<std::string> names_;  // what was there, but for the lock and what was put aside
  std::vector<std::string> logs_;   // likewise, in its folder for TensorBoard
  bool was_there_ = false, armed_ = false;
};

}  // namespace lockstep
