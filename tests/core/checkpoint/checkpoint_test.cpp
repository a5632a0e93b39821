#include "core/checkpoint/checkpoint.hpp"

#include <cstring>
#include <string>
#include <vector>

#include "core/checkpoint/safetensors.hpp"
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
    check(ErrorKind::InvalidSpec, "optimizer.safetensors");
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
    check(ErrorKind::Parse, "of step 1, but model.safetensors is of step 2");
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
    check(ErrorKind::Parse, "no step in the metadata");
  }
}

TEST_CASE("a checkpoint folder that cannot be made is the user's error", "[core][checkpoint]") {
  const TemporaryFolder folder;
  write_bytes(folder / "file", "not a folder");
  const Result<void> saved = save_checkpoint(state_of(1), folder / "file/checkpoints");
  REQUIRE_FALSE(saved.ok());
  CHECK(saved.error().kind == ErrorKind::InvalidSpec);
  CHECK_THAT(saved.error().message, ContainsSubstring("cannot be written"));
}
