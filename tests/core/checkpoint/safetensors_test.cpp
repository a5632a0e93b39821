#include "core/checkpoint/safetensors.hpp"

#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace lockstep;

namespace {

Tensor tensor_of(DType dtype, std::vector<std::int64_t> shape, unsigned seed) {
  std::int64_t bytes = size_of(dtype);
  for (std::int64_t extent : shape) bytes *= extent;
  Tensor tensor{dtype, std::move(shape), {}};
  std::mt19937 random(seed);
  for (std::int64_t i = 0; i < bytes; ++i) {
    tensor.data.push_back(static_cast<std::byte>(random() & 0xff));
  }
  return tensor;
}

std::string length_prefix(std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>((length >> (8 * i)) & 0xff);
  return bytes;
}

/// A file with this header and `data_bytes` bytes of data.
std::string file_of(const std::string& header, std::size_t data_bytes) {
  return length_prefix(header.size()) + header + std::string(data_bytes, 'd');
}

Error error_of(const std::string& bytes) {
  const TemporaryFolder folder;
  write_bytes(folder / "bad.safetensors", bytes);
  const Result<SafetensorsFile> file = read_safetensors(folder / "bad.safetensors");
  REQUIRE_FALSE(file.ok());
  CHECK_THAT(file.error().message, ContainsSubstring("bad.safetensors"));
  return file.error();
}

void check_parse_error(const std::string& bytes, const std::string& message) {
  const Error error = error_of(bytes);
  CHECK(error.kind == ErrorKind::Parse);
  CHECK_THAT(error.message, ContainsSubstring(message));
}

}  // namespace

TEST_CASE("a file reads back as it was written, for every element type", "[core][checkpoint]") {
  const TemporaryFolder folder;
  SafetensorsFile file;
  file.metadata = {{"step", "7"}, {"note", "\"quoted\" \n µ"}};
  unsigned seed = 0;
  for (DType dtype : {DType::F32, DType::F64, DType::BF16, DType::F16, DType::I32, DType::U8}) {
    const std::string name(to_string(dtype));
    file.tensors[name + ".matrix"] = tensor_of(dtype, {3, 5}, ++seed);
    file.tensors[name + ".scalar"] = tensor_of(dtype, {}, ++seed);
    file.tensors[name + ".empty"] = tensor_of(dtype, {4, 0}, ++seed);
  }
  std::vector<NamedTensor> tensors;
  for (const auto& [name, tensor] : file.tensors) tensors.push_back({name, &tensor});
  REQUIRE(write_safetensors(folder / "x.safetensors", tensors, file.metadata).ok());

  const Result<SafetensorsFile> back = read_safetensors(folder / "x.safetensors");
  REQUIRE(back.ok());
  CHECK(back->tensors == file.tensors);
  CHECK(back->metadata == file.metadata);
}

TEST_CASE("a file is, byte for byte, what the format's text says", "[core][checkpoint]") {
  const TemporaryFolder folder;
  Tensor bytes{DType::U8, {3}, {std::byte{'a'}, std::byte{'b'}, std::byte{'c'}}};
  Tensor one{DType::F32, {1}, std::vector<std::byte>(4)};
  const float value = 1.0F;  // 00 00 80 3f
  std::memcpy(one.data.data(), &value, 4);
  // The wider type goes first although its name is the later one: offset 0 suits both.
  REQUIRE(write_safetensors(folder / "x.safetensors", {{"a", &bytes}, {"b", &one}}, {}).ok());
  const std::string header = R"({"a":{"data_offsets":[4,7],"dtype":"U8","shape":[3]},)"
                             R"("b":{"data_offsets":[0,4],"dtype":"F32","shape":[1]}})";
  const std::string padding((8 - header.size() % 8) % 8, ' ');
  CHECK(read_bytes(folder / "x.safetensors") == length_prefix(header.size() + padding.size()) +
                                                    header + padding +
                                                    std::string("\x00\x00\x80\x3f", 4) + "abc");
}

TEST_CASE("every tensor of a file is aligned to its element", "[core][checkpoint]") {
  const TemporaryFolder folder;
  const Tensor a = tensor_of(DType::U8, {3}, 1);
  const Tensor b = tensor_of(DType::BF16, {3}, 2);
  const Tensor c = tensor_of(DType::F32, {3}, 3);
  const Tensor d = tensor_of(DType::F64, {3}, 4);
  REQUIRE(write_safetensors(folder / "x.safetensors", {{"a", &a}, {"b", &b}, {"c", &c}, {"d", &d}},
                            {{"k", "v"}})
              .ok());
  const std::string bytes = read_bytes(folder / "x.safetensors");
  const auto position = [&](const Tensor& tensor) {
    return bytes.find(
        std::string(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()));
  };
  CHECK(position(b) % 2 == 0);
  CHECK(position(c) % 4 == 0);
  CHECK(position(d) % 8 == 0);
}

TEST_CASE("a header may be spaced, in any order, and end in padding", "[core][checkpoint]") {
  const TemporaryFolder folder;
  write_bytes(folder / "x.safetensors",
              file_of(R"({ "y" : {"shape":[2],"data_offsets":[3,5],"dtype":"U8"},)"
                      R"( "x" : {"dtype":"U8","shape":[1,3],"data_offsets":[0,3]} }    )",
                      5));
  const Result<SafetensorsFile> file = read_safetensors(folder / "x.safetensors");
  REQUIRE(file.ok());
  CHECK(file->tensors.at("x").shape == std::vector<std::int64_t>{1, 3});
  CHECK(file->tensors.at("y").data.size() == 2);
}

TEST_CASE("a file that cannot be opened is the user's error", "[core][checkpoint]") {
  const TemporaryFolder folder;
  for (const std::string& path : {folder / "none.safetensors", folder.path.string()}) {
    const Result<SafetensorsFile> file = read_safetensors(path);
    REQUIRE_FALSE(file.ok());
    CHECK(file.error().kind == ErrorKind::InvalidSpec);
    CHECK_THAT(file.error().message, ContainsSubstring(path));
  }
  const Tensor tensor = tensor_of(DType::F32, {1}, 1);
  const Result<void> written = write_safetensors(folder / "no/such/folder", {{"x", &tensor}}, {});
  REQUIRE_FALSE(written.ok());
  CHECK_THAT(written.error().message, ContainsSubstring("No such file or directory"));
}

TEST_CASE("a tensor whose data does not fit its shape is never written", "[core][checkpoint]") {
  const TemporaryFolder folder;
  Tensor tensor = tensor_of(DType::F32, {2}, 1);
  const Result<void> twice =
      write_safetensors(folder / "x.safetensors", {{"x", &tensor}, {"x", &tensor}}, {});
  CHECK_FALSE(twice.ok());
  tensor.data.pop_back();
  CHECK_FALSE(write_safetensors(folder / "x.safetensors", {{"x", &tensor}}, {}).ok());
  CHECK_FALSE(std::filesystem::exists(folder.path / "x.safetensors"));
}

TEST_CASE("a broken header is refused with the reason", "[core][checkpoint]") {
  check_parse_error("", "shorter than the header length");
  check_parse_error("1234567", "shorter than the header length");
  check_parse_error(length_prefix(3) + "{}", "truncated: a header of 3 bytes");
  check_parse_error(length_prefix(std::numeric_limits<std::uint64_t>::max()) + "{}", "limit");
  check_parse_error(length_prefix(100'000'001) + "{}", "limit");
  check_parse_error(file_of("", 0), "does not start with '{'");
  check_parse_error(file_of("[]", 0), "does not start with '{'");
  check_parse_error(file_of(" {}", 0), "does not start with '{'");
  check_parse_error(file_of("{", 0), "bad JSON header");
  check_parse_error(file_of("{} x", 0), "bad JSON header");
  check_parse_error(file_of("{\"\xff\":{}}", 0), "bad JSON header");
  check_parse_error(file_of(R"({"__metadata__":3})", 0), "not an object");
  check_parse_error(file_of(R"({"__metadata__":{"step":3}})", 0), "not a string");
  check_parse_error(file_of("{\"x\":" + std::string(200'000, '['), 0), "bad JSON header");
}

TEST_CASE("the time of a header grows with its tensors, not with their square",
          "[core][checkpoint]") {
  const TemporaryFolder folder;
  const auto seconds = [&](int tensors) {
    std::map<std::string, TensorInfo> infos;
    for (int i = 0; i < tensors; ++i) infos["layer." + std::to_string(i)] = {DType::U8, {1}};
    const auto index = lay_out(infos, {});
    REQUIRE(index.ok());
    write_bytes(folder / "many.safetensors",
                index->head + std::string(static_cast<std::size_t>(tensors), 'd'));
    const auto begin = std::chrono::steady_clock::now();
    const auto read = read_safetensors_index(folder / "many.safetensors");
    REQUIRE(read.ok());
    CHECK(read->tensors.size() == static_cast<std::size_t>(tensors));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  seconds(4000);
  CHECK(seconds(40000) < 50 * seconds(4000));  // it was 100 times, 20 s
}

TEST_CASE("a broken tensor entry is refused with its name", "[core][checkpoint]") {
  const auto entry = [](const std::string& text) { return file_of("{\"w\":" + text + "}", 4); };
  const std::string good = R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  const TemporaryFolder folder;
  write_bytes(folder / "good.safetensors", entry(good));
  REQUIRE(read_safetensors(folder / "good.safetensors").ok());

  check_parse_error(entry("[]"), "tensor \"w\": its entry is not an object");
  check_parse_error(entry(R"({"shape":[4],"data_offsets":[0,4]})"), "dtype");
  check_parse_error(entry(R"({"dtype":1,"shape":[4],"data_offsets":[0,4]})"), "dtype");
  check_parse_error(entry(R"({"dtype":"U8","data_offsets":[0,4]})"), "shape");
  check_parse_error(entry(R"({"dtype":"U8","shape":4,"data_offsets":[0,4]})"), "shape");
  check_parse_error(entry(R"({"dtype":"U8","shape":[-4],"data_offsets":[0,4]})"), "shape");
  check_parse_error(entry(R"({"dtype":"U8","shape":[4.0],"data_offsets":[0,4]})"), "shape");
  check_parse_error(entry(R"({"dtype":"U8","shape":[4]})"), "data_offsets");
  check_parse_error(entry(R"({"dtype":"U8","shape":[4],"data_offsets":[0]})"), "data_offsets");
  check_parse_error(entry(R"({"dtype":"U8","shape":[4],"data_offsets":[0,2,4]})"), "data_offsets");
  check_parse_error(entry(R"({"dtype":"U8","shape":[4],"data_offsets":[4,0]})"), "backwards");
  check_parse_error(entry(R"({"dtype":"U8","shape":[5],"data_offsets":[0,5]})"), "truncated?");
  check_parse_error(entry(R"({"dtype":"U8","shape":[4],"data_offsets":[0,18446744073709551615]})"),
                    "data_offsets");
  check_parse_error(entry(R"({"dtype":"U8","shape":[3],"data_offsets":[0,4]})"), "need 3");
  check_parse_error(entry(R"({"dtype":"F32","shape":[4],"data_offsets":[0,4]})"), "need 16");
  check_parse_error(
      entry(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]})"), "overflow");
  check_parse_error(entry(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4],"stride":1})"),
                    "unknown key \"stride\"");
  check_parse_error(file_of("{\"w\":" + good + ",\"w\":" + good + "}", 4), "occurs twice");

  const Error unsupported = error_of(entry(R"({"dtype":"I64","shape":[],"data_offsets":[0,4]})"));
  CHECK(unsupported.kind == ErrorKind::Unsupported);
  CHECK_THAT(unsupported.message, ContainsSubstring("I64"));
}

TEST_CASE("data that overlaps, has holes or is left over is refused", "[core][checkpoint]") {
  const auto two = [](const std::string& a, const std::string& b, std::size_t data) {
    return file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
                       R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}",
                   data);
  };
  check_parse_error(two("[0,4]", "[3,7]", 7), "tensor \"b\": its data overlaps");
  check_parse_error(two("[0,4]", "[0,4]", 4), "overlaps");
  check_parse_error(two("[0,4]", "[5,9]", 9), "bytes [4, 5) of the data belong to no tensor");
  check_parse_error(two("[1,5]", "[5,9]", 9), "bytes [0, 1)");
  check_parse_error(two("[0,4]", "[4,8]", 9), "last 1 bytes");
  check_parse_error(two("[0,4]", "[4,8]", 7), "truncated?");
}

TEST_CASE("no prefix of a file and no changed byte of it can crash the reader",
          "[core][checkpoint]") {
  const TemporaryFolder folder;
  const Tensor a = tensor_of(DType::F32, {2, 2}, 1);
  const Tensor b = tensor_of(DType::F64, {1}, 2);
  REQUIRE(write_safetensors(folder / "x", {{"a", &a}, {"b", &b}}, {{"step", "1"}}).ok());
  const std::string bytes = read_bytes(folder / "x");
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    write_bytes(folder / "cut", bytes.substr(0, length));
    CHECK_FALSE(read_safetensors(folder / "cut").ok());
  }
  const std::size_t header_end = bytes.size() - a.data.size() - b.data.size();
  for (std::size_t i = 0; i < header_end; ++i) {
    for (char value : {'\0', '"', '9', '\xff'}) {
      std::string changed = bytes;
      changed[i] = value;
      write_bytes(folder / "changed", changed);
      const Result<SafetensorsFile> file = read_safetensors(folder / "changed");
      if (!file) CHECK_FALSE(file.error().message.empty());
    }
  }
}
