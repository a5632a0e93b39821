#include "core/checkpoint/checkpoint_store.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/base/file_fault.hpp"
#include "core/base/hash.hpp"
#include "core/base/json_depth.hpp"
#include "core/checkpoint/checkpoint.hpp"
#include "core/checkpoint/layout.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using namespace checkpoint;
using nlohmann::json;

Error write_error(const fs::path& path, const std::error_code& code) {
  return {kind_of_file_fault(code.value()),
          path.string() + ": cannot be written: " + code.message(), std::nullopt};
}

/// The largest that the manifest of a state can become, whatever its checksums are.
std::uintmax_t most_of_manifest(const CheckpointRules& rules, const StateHead& head,
                                const std::map<std::string, SafetensorsIndex>& layout) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  Manifest manifest{
      rules.run, rules.version, head.step, head.samples.value_or(0), rules.settings, {}, {}};
  for (const auto& [name, index] : layout) manifest.heads[name] = kMost;
  for (const auto& [tensor, info] : head.tensors) manifest.tensors[tensor] = kMost;
  return print_manifest(manifest).size();
}

/// The disk space of a file of so many bytes, on file systems with the usual blocks.
std::uintmax_t in_blocks(std::uintmax_t bytes) {
  constexpr std::uintmax_t kBlock = 4096;
  return (bytes + kBlock - 1) / kBlock * kBlock;
}

}  // namespace

std::string CheckpointStore::folder_of(int step, const char* ending) const {
  return (fs::path(directory_) / (std::string(kStepPrefix) + std::to_string(step) + ending))
      .string();
}

/// A run that saves has had its folder: if it is not there any more, that is no path that the user
/// gave wrongly, and the same command may well succeed once it is back.
Result<void> CheckpointStore::told(Result<void> done) const {
  if (done || !rules_.check_folder) return done;
  if (auto there = rules_.check_folder(); !there) return there;
  return done;
}

Result<void> CheckpointStore::begin(const StateHead& head) { return told(begin_files(head)); }

Result<void> CheckpointStore::commit(const StateHead& head,
                                     const std::vector<std::vector<std::byte>>& written) {
  return told(commit_files(head, written));
}

Result<void> CheckpointStore::begin_files(const StateHead& head) {
  auto layout = lay_out_files(head);
  if (!layout) return layout.error();
  if (rules_.check_folder) {
    if (auto there = rules_.check_folder(); !there) return there;
  }
  const fs::path folder = folder_of(head.step, ".new");
  std::error_code code;
  drop_unfinished();
  fs::remove_all(folder, code);  // what a crash left behind
  fs::create_directories(folder, code);
  if (code) return write_error(folder, code);
  unfinished_ = folder.string();
  // Beside the tensors there are the manifest and `latest`.
  std::uintmax_t bytes = in_blocks(most_of_manifest(rules_, head, *layout)) + in_blocks(1);
  for (const auto& [name, index] : *layout) {
    bytes += in_blocks(static_cast<std::uintmax_t>(index.file_bytes));
  }
  const auto make_room = [&]() -> Result<void> {
    const fs::space_info space = fs::space(directory_, code);
    if (!code && space.available < bytes) {
      return Error{ErrorKind::Device,
                   folder.string() + ": the checkpoint needs " + std::to_string(bytes) +
                       " bytes, and the disk has " + std::to_string(space.available) + " left",
                   std::nullopt};
    }
    for (const auto& [name, index] : *layout) {
      auto file = DiskFile::create((folder / name).string());
      if (!file) return file.error();
      if (auto room = file->reserve(index.file_bytes); !room) return room;
      if (auto wrote = file->write(0, index.head.data(), index.head.size()); !wrote) return wrote;
      if (auto synced = file->sync(); !synced) return synced;
    }
    return {};
  };
  auto made = make_room();
  if (!made) drop_unfinished();
  return made;
}

CheckpointStore::~CheckpointStore() { drop_unfinished(); }

void CheckpointStore::drop_unfinished() {
  std::error_code ignored;
  if (!unfinished_.empty()) fs::remove_all(unfinished_, ignored);
  unfinished_.clear();
}

Result<void> CheckpointStore::open(const StateHead& head) {
  auto layout = lay_out_files(head);
  if (!layout) return layout.error();
  layout_ = std::move(*layout);
  refusal_.clear();
  for (const auto& [name, index] : layout_) {
    auto file = DiskFile::open_to_write((fs::path(folder_of(head.step, ".new")) / name).string());
    if (!file) {
      return Error{file.error().kind,
                   file.error().message + " (all processes write into the same run folder)",
                   std::nullopt};
    }
    files_.emplace(name, std::move(*file));
  }
  return {};
}

Result<void> CheckpointStore::write(const StateHead& head, const std::string& tensor,
                                    std::int64_t begin, std::span<const std::byte> values) {
  if (files_.empty()) {
    if (auto opened = told(open(head)); !opened) return opened;
  }
  const std::string file = file_of(tensor);
  const SafetensorsIndex::Entry& entry = layout_.at(file).tensors.at(tensor);
  const std::int64_t size = size_of(entry.info.dtype);
  const std::int64_t first = begin / size;
  if (const auto bad = first_not_finite(values, entry.info.dtype); bad && refusal_.empty()) {
    refusal_ = "step " + std::to_string(head.step) + " is not saved: element " +
               std::to_string(first + *bad) + " of " + tensor + " is not a finite number";
  }
  Part& part = parts_[tensor];
  part.checksum += checksum_of(values, entry.info.dtype, first);
  part.elements += static_cast<std::int64_t>(values.size()) / size;
  return files_.at(file).write(entry.begin + begin, values.data(), values.size());
}

Result<std::vector<std::byte>> CheckpointStore::finish_writing() {
  json receipt = json::object();
  for (const auto& [tensor, part] : parts_) receipt[tensor] = {part.checksum, part.elements};
  parts_.clear();
  Result<void> synced;
  for (auto& [name, file] : files_) {
    if (synced) synced = file.sync();
  }
  files_.clear();
  if (!synced) return synced.error();
  const std::string text = receipt.dump();
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return std::vector<std::byte>(bytes, bytes + text.size());
}

Result<void> CheckpointStore::add_parts(std::span<const std::byte> written, Parts& all) const {
  const auto* text = reinterpret_cast<const char*>(written.data());
  const bool deep = nests_too_deep({text, written.size()});
  const json receipt = deep ? json() : json::parse(text, text + written.size(), nullptr, false);
  bool good = receipt.is_object();
  if (good) {
    for (const auto& [tensor, part] : receipt.items()) {
      good = good && part.is_array() && part.size() == 2 && part[0].is_number_unsigned() &&
             part[1].is_number_integer();
      if (!good) break;
      all[tensor].checksum += part[0].get<std::uint64_t>();
      all[tensor].elements += part[1].get<std::int64_t>();
    }
  }
  if (good) return {};
  return Error{ErrorKind::Device, "a process says nothing sensible of what it has saved",
               std::nullopt};
}

Result<void> CheckpointStore::commit_files(const StateHead& head,
                                           const std::vector<std::vector<std::byte>>& written) {
  auto layout = lay_out_files(head);
  if (!layout) return layout.error();
  Parts all;
  for (const std::vector<std::byte>& receipt : written) {
    if (auto added = add_parts(receipt, all); !added) return added;
  }
  Manifest manifest{
      rules_.run, rules_.version, head.step, head.samples.value_or(0), rules_.settings, {}, {}};
  for (const auto& [name, index] : *layout) manifest.heads[name] = fnv1a(index.head);
  for (const auto& [tensor, info] : head.tensors) {
    if (all[tensor].elements != info.elements()) {
      return Error{ErrorKind::Device,
                   "step " + std::to_string(head.step) + " is not saved: of " + tensor + " " +
                       std::to_string(all[tensor].elements) + " elements were written instead of " +
                       std::to_string(info.elements()),
                   std::nullopt};
    }
    manifest.tensors[tensor] = all[tensor].checksum;
  }
  const fs::path folder = folder_of(head.step, ".new");
  if (auto wrote = replace_file((folder / kManifestFile).string(), print_manifest(manifest));
      !wrote) {
    return wrote;
  }
  if (auto published = publish(head.step); !published) return published;
  delete_old(head.step);
  return {};
}

/// Gives step-N.new its name. `latest` is written first: from then on, find_checkpoint() takes the
/// new state, under whichever of its names a crash leaves it.
Result<void> CheckpointStore::publish(int step) {
  const std::string name = std::string(kStepPrefix) + std::to_string(step);
  const std::string fresh = folder_of(step, ".new"), final = folder_of(step, ""),
                    old = folder_of(step, ".old");
  std::error_code code;
  if (fs::exists(final, code)) {
    fs::remove_all(old, code);
    fs::rename(final, old, code);
    if (code) return write_error(final, code);
  }
  if (auto told = replace_file((fs::path(directory_) / kLatestFile).string(), name + "\n"); !told) {
    if (fs::exists(old, code)) fs::rename(old, final, code);
    return told;
  }
  unfinished_.clear();
  fs::rename(fresh, final, code);
  if (code) return write_error(final, code);
  if (auto synced = sync_folder(directory_); !synced) return synced;
  fs::remove_all(old, code);
  return {};
}

void CheckpointStore::delete_old(int newest) const {
  if (rules_.keep_latest_k == 0) return;
  std::vector<int> steps;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(directory_, code)) {
    const auto step = step_of(entry.path().filename().string());
    if (!step || *step > newest) continue;
    const std::string manifest = (entry.path() / kManifestFile).string();
    const auto read = read_manifest(manifest);
    if (read && read->run == rules_.run) steps.push_back(*step);
  }
  std::sort(steps.rbegin(), steps.rend());
  for (std::size_t i = static_cast<std::size_t>(rules_.keep_latest_k); i < steps.size(); ++i) {
    if (rules_.keep_every > 0 && steps[i] % rules_.keep_every == 0) continue;
    fs::remove_all(folder_of(steps[i], ""), code);
  }
}

Result<std::unique_ptr<StateReader>> CheckpointStore::newest() const {
  const auto found = find_checkpoint(directory_);
  if (!found) return found.error();
  return open_checkpoint(*found);
}

}  // namespace lockstep
