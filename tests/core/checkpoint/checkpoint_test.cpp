#include "core/checkpoint/checkpoint.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint_store.hpp"
#include "core/checkpoint/safetensors.hpp"
#include "core/ir/unit.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace lockstep;

namespace {

Tensor tensor_of(std::vector<double> values) {
  Tensor tensor{DType::F64, {static_cast<std::int64_t>(values.size())}, {}};
  tensor.data.resize(values.size() * sizeof(double));
  std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
  return tensor;
}

TrainingState state_of(int step) {
  TrainingState state;
  state.step = step;
  state.samples = 8 * step;
  state.tensors["embed.wte"] = tensor_of({1.0 + step, 2.0});
  state.tensors["adam_m.embed.wte"] = tensor_of({0.5, -0.25});
  state.tensors["adam_v.embed.wte"] = tensor_of({1e-3, 1e-300});
  return state;
}

}  // namespace

TEST_CASE("a state loads as it was saved, from its folder and as the latest",
          "[core][checkpoint]") {
  const TemporaryFolder folder;
  const std::string directory = folder / "a/checkpoints";
  REQUIRE(save_checkpoint(state_of(10), directory).ok());
  REQUIRE(save_checkpoint(state_of(20), directory).ok());

  const Result<TrainingState> latest = load_checkpoint(directory);
  REQUIRE(latest.ok());
  CHECK(*latest == state_of(20));
  const Result<TrainingState> older = load_checkpoint(directory + "/step-10");
  REQUIRE(older.ok());
  CHECK(*older == state_of(10));
  CHECK(read_bytes(directory + "/latest") == "step-20\n");
}

TEST_CASE("a state of any kind lies in the optimizer's file", "[core][checkpoint]") {
  TrainingState state;
  state.tensors["w"] = tensor_of({1, 2});
  std::set<std::string> names;
  for (const StateRow& row : kStates) {
    if (row.is_parameters()) continue;
    names.insert(std::string(row.name) + (row.holder == Holder::Rank ? "3.w" : ".w"));
    if (row.holder == Holder::Replica) names.insert("replica1." + std::string(row.name) + ".w");
  }
  for (const std::string& name : names) state.tensors[name] = tensor_of({3, 4});
  const TemporaryFolder folder;
  REQUIRE(save_checkpoint(state, folder.path.string()).ok());
  const auto file = read_safetensors(folder / "step-0/optimizer.safetensors");
  REQUIRE(file.ok());
  std::set<std::string> saved;
  for (const auto& [name, tensor] : file->tensors) saved.insert(name);
  CHECK(saved == names);
  const auto loaded = load_checkpoint(folder.path.string());
  REQUIRE(loaded.ok());
  CHECK(loaded->tensors == state.tensors);
}

TEST_CASE("weights and optimizer state lie in files of their own", "[core][checkpoint]") {
  const TemporaryFolder folder;
  REQUIRE(save_checkpoint(state_of(3), folder.path.string()).ok());
  const Result<SafetensorsFile> model = read_safetensors(folder / "step-3/model.safetensors");
  const Result<SafetensorsFile> optimizer =
      read_safetensors(folder / "step-3/optimizer.safetensors");
  REQUIRE(model.ok());
  REQUIRE(optimizer.ok());
  CHECK(model->tensors.size() == 1);
  CHECK(model->tensors.contains("embed.wte"));
  CHECK(model->metadata.at("step") == "3");
  CHECK(optimizer->tensors.size() == 2);
  CHECK(optimizer->metadata.at("step") == "3");
}

TEST_CASE("saving a step again replaces it and leaves nothing behind", "[core][checkpoint]") {
  const TemporaryFolder folder;
  TrainingState state = state_of(5);
  REQUIRE(save_checkpoint(state, folder.path.string()).ok());
  state.tensors["embed.wte"] = tensor_of({-1, -2, -3});
  state.tensors.erase("adam_m.embed.wte");
  state.tensors.erase("adam_v.embed.wte");
  // What a crash in the middle of an earlier attempt left there must not matter.
  std::filesystem::create_directories(folder.path / "step-5.new");
  write_bytes(folder / "step-5.new/junk", "x");
  REQUIRE(save_checkpoint(state, folder.path.string()).ok());

  const Result<TrainingState> back = load_checkpoint(folder.path.string());
  REQUIRE(back.ok());
  CHECK(*back == state);
  std::size_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path)) {
    CHECK((entry.path().filename() == "step-5" || entry.path().filename() == "latest"));
    ++entries;
  }
  CHECK(entries == 2);
  CHECK_FALSE(std::filesystem::exists(folder.path / "step-5/junk"));
}

TEST_CASE("weights of another tool load as step 0 without optimizer state", "[core][checkpoint]") {
  const TemporaryFolder folder;
  const Tensor tensor = tensor_of({1, 2});
  REQUIRE(
      write_safetensors(folder / "model.safetensors", {{"w", &tensor}}, {{"format", "pt"}}).ok());
  const Result<TrainingState> state = load_checkpoint(folder.path.string());
  REQUIRE(state.ok());
  CHECK(state->step == 0);
  CHECK(state->tensors.size() == 1);
}

TEST_CASE("a checkpoint that is not whole is refused", "[core][checkpoint]") {
  const TemporaryFolder folder;
  const std::string directory = folder.path.string();
  const auto check = [&](ErrorKind kind, const std::string& message) {
    const Result<TrainingState> state = load_checkpoint(directory);
    REQUIRE_FALSE(state.ok());
    CHECK(state.error().kind == kind);
    CHECK_THAT(state.error().message, ContainsSubstring(message));
  };
  SECTION("no checkpoint at all") { check(ErrorKind::InvalidSpec, "no checkpoint here"); }
  SECTION("an empty pointer") {
    write_bytes(folder / "latest", "");
    check(ErrorKind::InvalidSpec, "no checkpoint here");
  }
  SECTION("a pointer that leaves the folder") {
    write_bytes(folder / "latest", "../../etc\n");
    check(ErrorKind::Parse, "is not step-N");
  }
  SECTION("a pointer to a step that is gone") {
    write_bytes(folder / "latest", "step-8\n");
    check(ErrorKind::InvalidSpec, "names step-8");
  }
  REQUIRE(save_checkpoint(state_of(1), directory).ok());
  SECTION("the optimizer's file is missing") {
    std::filesystem::remove(folder.path / "step-1/optimizer.safetensors");
    check(ErrorKind::Parse, "optimizer.safetensors: is missing");
  }
  SECTION("a file is cut short") {
    const std::string path = folder / "step-1/model.safetensors";
    const std::string bytes = read_bytes(path);
    write_bytes(path, bytes.substr(0, bytes.size() - 1));
    check(ErrorKind::Parse, "truncated");
  }
  SECTION("the two files are of different steps") {
    REQUIRE(save_checkpoint(state_of(2), directory).ok());
    std::filesystem::copy_file(folder.path / "step-1/optimizer.safetensors",
                               folder.path / "step-2/optimizer.safetensors",
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::remove_all(folder.path / "step-1");
    check(ErrorKind::Parse, "optimizer.safetensors: damaged: its header");
  }
  SECTION("the manifest is missing") {
    std::filesystem::remove(folder.path / "step-1/manifest.json");
    check(ErrorKind::Parse, "--accept checksums");
    const auto found = find_checkpoint(directory, true);
    REQUIRE(found.ok());
    CHECK_FALSE(found->verified);
    CHECK(found->manifest.step == 1);
  }
  SECTION("a moment has another shape than its parameter") {
    TrainingState state = state_of(1);
    state.tensors["adam_m.embed.wte"] = tensor_of({1});
    REQUIRE(save_checkpoint(state, directory).ok());
    check(ErrorKind::Parse, "adam_m.embed.wte");
  }
  SECTION("the step is no number") {
    const Tensor tensor = tensor_of({1, 2});
    REQUIRE(
        write_safetensors(folder / "step-1/model.safetensors", {{"w", &tensor}}, {{"step", "1x"}})
            .ok());
    std::filesystem::remove(folder.path / "step-1/optimizer.safetensors");
    std::filesystem::remove(folder.path / "step-1/manifest.json");
    check(ErrorKind::Parse, "no step in the metadata");
  }
}

TEST_CASE("every changed byte of a checkpoint is found", "[core][checkpoint]") {
  const TemporaryFolder folder;
  const std::string directory = folder.path.string();
  REQUIRE(save_checkpoint(state_of(7), directory).ok());
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "manifest.json"}) {
    const std::string path = folder / ("step-7/" + std::string(name));
    const std::string bytes = read_bytes(path);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      for (const int bit : {0, 6}) {
        std::string changed = bytes;
        changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
        write_bytes(path, changed);
        INFO(name << " byte " << i << " bit " << bit);
        const auto state = load_checkpoint(directory);
        // White space between the tokens of the manifest means nothing.
        const bool blank = std::string(name) == "manifest.json" && state.ok();
        CHECK((!state.ok() || (blank && *state == state_of(7))));
        if (!state.ok()) CHECK(exit_code(state.error().kind) == 2);
      }
    }
    write_bytes(path, bytes);
  }
  CHECK(load_checkpoint(directory).ok());
}

TEST_CASE("checksums of parts add up to that of the whole, and tell every change",
          "[core][checkpoint]") {
  std::vector<std::byte> values(64);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::byte>(i * 37);
  const std::span<const std::byte> all(values);
  for (const DType dtype : {DType::F32, DType::F64, DType::BF16, DType::U8}) {
    const auto size = static_cast<std::size_t>(size_of(dtype));
    const std::uint64_t whole = checksum_of(all, dtype, 0);
    CHECK(checksum_of(all.subspan(24), dtype, static_cast<std::int64_t>(24 / size)) +
              checksum_of(all.first(24), dtype, 0) ==
          whole);
    std::vector<std::byte> swapped = values;  // two elements in each other's place
    std::swap_ranges(swapped.begin(), swapped.begin() + static_cast<std::ptrdiff_t>(size),
                     swapped.begin() + 16);
    CHECK(checksum_of(swapped, dtype, 0) != whole);
  }
  const std::vector<double> bad = {1, -0.0, 1e308, std::numeric_limits<double>::infinity(), 0};
  CHECK(first_not_finite(std::as_bytes(std::span(bad)), DType::F64) == 3);
  CHECK_FALSE(first_not_finite(std::as_bytes(std::span(bad)).first(24), DType::F64).has_value());
}

TEST_CASE("the newest whole checkpoint is found when the latest is damaged", "[core][checkpoint]") {
  const TemporaryFolder folder;
  const std::string directory = folder.path.string();
  for (const int step : {2, 10, 4}) REQUIRE(save_checkpoint(state_of(step), directory).ok());
  const auto step_found = [&]() {
    const auto found = find_checkpoint(directory);
    return found ? found->manifest.step : -1;
  };
  CHECK(step_found() == 4);  // the last one, although another has a higher number
  SECTION("the pointer is damaged") {
    write_bytes(folder / "latest", "step-x\n");
    CHECK(step_found() == 10);
    CHECK_THAT(find_checkpoint(directory)->damaged.at(0), ContainsSubstring("is not step-N"));
  }
  SECTION("the newest is gone") {
    std::filesystem::remove_all(folder / "step-4");
    CHECK(step_found() == 10);
    CHECK_THAT(find_checkpoint(directory)->damaged.at(0),
               ContainsSubstring("latest names step-4, which is not there"));
  }
  SECTION("a tensor is damaged") {
    std::string bytes = read_bytes(folder / "step-4/model.safetensors");
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_bytes(folder / "step-4/model.safetensors", bytes);
    CHECK(step_found() == 10);
    const auto found = find_checkpoint(directory);
    REQUIRE(found->damaged.size() == 1);
    CHECK_THAT(found->damaged[0], ContainsSubstring("tensor \"embed.wte\" is not what was saved"));
    // The one that is named is not replaced by another.
    CHECK_FALSE(find_checkpoint(directory + "/step-4").ok());
  }
  SECTION("all are damaged") {
    for (const char* name : {"step-2", "step-4", "step-10"}) {
      write_bytes(folder / (std::string(name) + "/model.safetensors"), "x");
    }
    const auto found = find_checkpoint(directory);
    REQUIRE_FALSE(found.ok());
    CHECK_THAT(found.error().message, ContainsSubstring("step-2") && ContainsSubstring("step-4"));
    CHECK(any_checkpoint(directory));
  }
}

TEST_CASE("a crash at any moment of saving leaves a state to go on from", "[core][checkpoint]") {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  const std::string directory = folder.path.string();
  REQUIRE(save_checkpoint(state_of(1), directory).ok());
  const auto found = [&] {
    const auto state = load_checkpoint(directory);
    return state.ok() ? state->step : -1;
  };
  SECTION("before the manifest was written") {
    REQUIRE(save_checkpoint(state_of(2), directory).ok());
    fs::rename(folder.path / "step-2", folder.path / "step-2.new");
    fs::remove(folder.path / "step-2.new/manifest.json");
    write_bytes(folder / "latest", "step-1\n");
    CHECK(found() == 1);
    mend_checkpoints(directory);
    CHECK_FALSE(fs::exists(folder.path / "step-2.new"));
    CHECK(found() == 1);
  }
  SECTION("between latest and the last name") {
    REQUIRE(save_checkpoint(state_of(2), directory).ok());
    fs::rename(folder.path / "step-2", folder.path / "step-2.new");
    CHECK(found() == 2);
    mend_checkpoints(directory);
    CHECK(fs::exists(folder.path / "step-2"));
    CHECK(found() == 2);
  }
  SECTION("between the two names of a step that is saved again") {
    fs::rename(folder.path / "step-1", folder.path / "step-1.old");
    CHECK(found() == 1);
    mend_checkpoints(directory);
    CHECK(fs::exists(folder.path / "step-1"));
    CHECK(found() == 1);
  }
  SECTION("in the first save of all") {
    fs::rename(folder.path / "step-1", folder.path / "step-1.new");
    fs::remove(folder.path / "step-1.new/manifest.json");
    fs::remove(folder.path / "latest");
    CHECK_FALSE(any_checkpoint(directory));
    mend_checkpoints(directory);
    CHECK(fs::is_empty(folder.path));
    CHECK(save_checkpoint(state_of(1), directory).ok());
  }
}

TEST_CASE("checkpoints of a run that its rules do not keep are deleted, and no others",
          "[core][checkpoint]") {
  const TemporaryFolder folder;
  const std::string directory = folder.path.string();
  REQUIRE(save_checkpoint(state_of(5), directory).ok());  // of another run
  std::filesystem::create_directories(folder.path / "step-1");
  write_bytes(folder / "step-1/thesis.txt", "words");
  CheckpointStore store(directory, {"mine", "0", {}, 2, 20});
  for (int step = 10; step <= 60; step += 10) {
    const TrainingState state = state_of(step);
    const StateHead head = HeldState(state).head();
    REQUIRE(store.begin(head).ok());
    for (const auto& [name, tensor] : state.tensors) {
      REQUIRE(store.write(head, name, 0, tensor.data).ok());
    }
    REQUIRE(store.commit(head, {*store.finish_writing()}).ok());
  }
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path)) {
    names.insert(entry.path().filename().string());
  }
  CHECK(names == std::set<std::string>{"latest", "step-1", "step-5", "step-20", "step-40",
                                       "step-50", "step-60"});
  CHECK(read_bytes(folder / "step-1/thesis.txt") == "words");
}

TEST_CASE("a state counts only if all of it was written, and all of it is finite",
          "[core][checkpoint]") {
  const TemporaryFolder folder;
  CheckpointStore store(folder.path.string(), {});
  TrainingState state = state_of(3);
  const StateHead head = HeldState(state).head();
  REQUIRE(store.begin(head).ok());
  const auto write = [&](const char* name, std::size_t bytes) {
    return store.write(head, name, 0, std::span(state.tensors.at(name).data).first(bytes));
  };
  REQUIRE(write("embed.wte", 8).ok());  // one of two elements
  REQUIRE(write("adam_m.embed.wte", 16).ok());
  REQUIRE(write("adam_v.embed.wte", 16).ok());
  const auto half = store.finish_writing();
  const auto committed = store.commit(head, {*half});
  REQUIRE_FALSE(committed.ok());
  CHECK_THAT(committed.error().message, ContainsSubstring("of embed.wte 1 elements were written"));
  CHECK_FALSE(store.commit(head, {std::vector<std::byte>(9, std::byte{0x7b})}).ok());
  CHECK_FALSE(find_checkpoint(folder.path.string()).ok());

  state.tensors["embed.wte"] = tensor_of({1, std::nan("")});
  const auto saved = save_checkpoint(state, folder.path.string());
  REQUIRE_FALSE(saved.ok());
  CHECK_THAT(saved.error().message,
             ContainsSubstring("element 1 of embed.wte is not a finite number"));
}

TEST_CASE("a save that fails leaves nothing that keeps a full disk full", "[core][checkpoint]") {
  const TemporaryFolder folder;
  const std::string directory = folder.path.string();
  REQUIRE(save_checkpoint(state_of(1), directory).ok());
  const auto names = [&] {
    std::set<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path)) {
      all.insert(entry.path().filename().string());
    }
    return all;
  };
  const std::set<std::string> before = names();
  TrainingState state = state_of(2);
  const StateHead head = HeldState(state).head();
  const auto write_all = [&](CheckpointStore& store) {
    for (const auto& [name, tensor] : state.tensors) {
      REQUIRE(store.write(head, name, 0, tensor.data).ok());
    }
    return *store.finish_writing();
  };
  SECTION("its manifest cannot be written") {
    CheckpointStore store(directory, {});
    REQUIRE(store.begin(head).ok());
    const auto written = write_all(store);
    std::filesystem::create_directories(folder.path / "step-2.new/manifest.json.new");
    CHECK_FALSE(store.commit(head, {written}).ok());
  }
  SECTION("the name of the newest cannot be written, of a step that is saved again") {
    REQUIRE(save_checkpoint(state, directory).ok());
    CheckpointStore store(directory, {});
    REQUIRE(store.begin(head).ok());
    const auto written = write_all(store);
    std::filesystem::create_directories(folder.path / "latest.new");
    CHECK_FALSE(store.commit(head, {written}).ok());
    std::filesystem::remove(folder.path / "latest.new");
    CHECK(find_checkpoint(directory)->manifest.step == 2);
    std::filesystem::remove_all(folder.path / "step-2");
  }
  SECTION("the run folder was moved") {
    CheckpointRules rules;
    rules.check_folder = [] { return invalid("moved"); };
    CheckpointStore store(directory, rules);
    const auto begun = store.begin(head);
    REQUIRE_FALSE(begun.ok());
    CHECK(begun.error().message == "moved");
  }
  SECTION("it is begun, and the run ends") {
    CheckpointStore store(directory, {});
    REQUIRE(store.begin(head).ok());
  }
  CHECK(names() == before);
}

TEST_CASE("a checkpoint folder that cannot be made is the user's error", "[core][checkpoint]") {
  const TemporaryFolder folder;
  write_bytes(folder / "file", "not a folder");
  const Result<void> saved = save_checkpoint(state_of(1), folder / "file/checkpoints");
  REQUIRE_FALSE(saved.ok());
  CHECK(saved.error().kind == ErrorKind::InvalidSpec);
  CHECK_THAT(saved.error().message, ContainsSubstring("cannot be written"));
}
