// CheckpointStore: where the processes of a run save its checkpoints together. Every process writes
// its pieces into the same files, so the folder must be one that all of them see; none holds a
// whole tensor that it does not own. A crash at any moment leaves the checkpoints before it whole.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/checkpoint/disk_file.hpp"
#include "core/checkpoint/manifest.hpp"
#include "core/checkpoint/safetensors.hpp"
#include "core/ir/training_state.hpp"

namespace lockstep {

/// What stands in every manifest of a run, and which checkpoints it keeps.
struct CheckpointRules {
  std::string run, version;
  Settings settings;
  int keep_latest_k = 0;  // 0: all
  int keep_every = 0;     // steps that it divides are kept in any case; 0: none for that
  /// Asked before anything is written: whether the run folder is still the run's.
  std::function<Result<void>()> check_folder = {};
};

class CheckpointStore final : public StateStore {
 public:
  /// Creates `directory` with the first checkpoint.
  CheckpointStore(std::string directory, CheckpointRules rules)
      : directory_(std::move(directory)), rules_(std::move(rules)) {}
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;
  /// Removes what has been begun and did not become a checkpoint, so that a full disk is not kept
  /// full.
  ~CheckpointStore() override;

  /// Errors: Device if there is less space than the checkpoint needs, or what the system says.
  Result<void> begin(const StateHead& head) override;
  Result<void> write(const StateHead& head, const std::string& tensor, std::int64_t begin,
                     std::span<const std::byte> values) override;
  Result<std::vector<std::byte>> finish_writing() override;
  std::string refusal() const override { return refusal_; }
  /// Also deletes those checkpoints of this run that its rules do not keep.
  Result<void> commit(const StateHead& head,
                      const std::vector<std::vector<std::byte>>& written) override;
  Result<std::unique_ptr<StateReader>> newest() const override;

 private:
  struct Part {
    std::uint64_t checksum = 0;
    std::int64_t elements = 0;
  };
  using Parts = std::map<std::string, Part>;  // by tensor
  std::string folder_of(int step, const char* ending) const;
  Result<void> told(Result<void> done) const;
  Result<void> begin_files(const StateHead& head);
  Result<void> commit_files(const StateHead& head,
                            const std::vector<std::vector<std::byte>>& written);
  Result<void> open(const StateHead& head);
  Result<void> add_parts(std::span<const std::byte> written, Parts& all) const;
  Result<void> publish(int step);
  void drop_unfinished();
  void delete_old(int newest) const;

  std::string directory_;
  CheckpointRules rules_;
  std::string unfinished_;  // the folder of a save that this process has begun and not published
  // Of the save that is under way.
  std::map<std::string, SafetensorsIndex> layout_;
  std::map<std::string, DiskFile> files_;
  Parts parts_;
  std::string refusal_;
};

}  // namespace lockstep
