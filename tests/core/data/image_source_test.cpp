#include "core/data/image_source.hpp"

#include <algorithm>
#include <fstream>
#include <set>
#include <vector>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

struct Sample {
  std::vector<std::int32_t> pixels;
  std::int32_t label = -1;
  auto operator<=>(const Sample&) const = default;
};

Sample read(const ImageSource& source, std::int64_t sample, int size) {
  Sample s;
  s.pixels.resize(static_cast<std::size_t>(size * size * 3));
  source.fill(sample, s.pixels, s.label);
  return s;
}

/// Record r: label r mod 10, and every byte of channel c is r + 100 c.
void write_records(const std::string& path, int first, int count) {
  std::ofstream file(path, std::ios::binary);
  for (int r = first; r < first + count; ++r) {
    file.put(static_cast<char>(r % 10));
    for (int c = 0; c < 3; ++c) {
      for (int i = 0; i < 1024; ++i) file.put(static_cast<char>(r + 100 * c));
    }
  }
}

TEST_CASE("synthetic images repeat for a seed and differ between classes", "[core][data]") {
  const auto source = open_image_source("", 16, 4, 7), again = open_image_source("", 16, 4, 7);
  const auto other = open_image_source("", 16, 4, 8);
  REQUIRE((source.ok() && again.ok() && other.ok()));
  std::set<std::int32_t> labels;
  // Means of the pixels of each class: the noise averages out, the patterns do not.
  std::vector<std::vector<double>> mean(4, std::vector<double>(16 * 16 * 3, 0));
  std::vector<int> count(4, 0);
  for (int i = 0; i < 400; ++i) {
    const Sample s = read(**source, i, 16);
    CHECK(s == read(**again, i, 16));
    CHECK(*std::min_element(s.pixels.begin(), s.pixels.end()) >= 0);
    CHECK(*std::max_element(s.pixels.begin(), s.pixels.end()) <= 255);
    REQUIRE((s.label >= 0 && s.label < 4));
    labels.insert(s.label);
    const auto k = static_cast<std::size_t>(s.label);
    ++count[k];
    for (std::size_t p = 0; p < s.pixels.size(); ++p) mean[k][p] += s.pixels[p];
  }
  CHECK(labels.size() == 4);
  CHECK(read(**source, 0, 16) != read(**other, 0, 16));
  for (std::size_t a = 0; a < 4; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      double distance = 0;
      for (std::size_t p = 0; p < mean[a].size(); ++p) {
        distance += std::abs(mean[a][p] / count[a] - mean[b][p] / count[b]) / 768;
      }
      CHECK(distance > 10);  // two independent colours of 0 … 63 differ by 21 on average
    }
  }
}

TEST_CASE("CIFAR-10 files are read whole, planes turned into channels", "[core][data]") {
  const TemporaryFolder folder;
  write_records(folder / "data_batch_1.bin", 0, 12);
  write_records(folder / "data_batch_2.bin", 12, 8);
  write_records(folder / "test_batch.bin", 20, 5);  // not for training
  const auto source = open_image_source(folder.path.string(), 32, 10, 3);
  REQUIRE(source.ok());
  CHECK((*source)->num_images() == 20);
  std::set<std::int32_t> first, second;
  bool same_order = true;
  for (int i = 0; i < 20; ++i) {
    const Sample s = read(**source, i, 32), t = read(**source, 20 + i, 32);
    const std::int32_t r = s.pixels[0];
    CHECK(s.label == r % 10);
    CHECK(s.pixels[1] == r + 100);
    CHECK(s.pixels[3 * 1023 + 2] == r + 200);
    first.insert(r);
    second.insert(t.pixels[0]);
    same_order &= s == t;
  }
  CHECK(first.size() == 20);  // every image once per epoch
  CHECK(second == first);
  CHECK_FALSE(same_order);
  const auto fixed = open_image_source(folder.path.string(), 32, 10, 3, false);
  REQUIRE(fixed.ok());
  for (int i = 0; i < 20; ++i) CHECK(read(**fixed, i, 32) == read(**fixed, 20 + i, 32));
}

TEST_CASE("a data set that does not fit is an error with its name", "[core][data]") {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& name, int size, int classes) {
    const auto source = open_image_source(folder / name, size, classes, 1);
    REQUIRE_FALSE(source.ok());
    return source.error().message;
  };
  CHECK_THAT(message("missing", 32, 10), ContainsSubstring("neither a file nor a folder"));
  CHECK_THAT(message(".", 32, 10), ContainsSubstring("holds no data_batch_*.bin"));
  write_records(folder / "data_batch_1.bin", 0, 10);
  CHECK_THAT(message(".", 224, 10), ContainsSubstring("image_size is 224"));
  CHECK_THAT(message(".", 32, 9), ContainsSubstring("holds class 9, the model has 9 classes"));
  std::ofstream(folder / "short.bin", std::ios::binary) << "abc";
  CHECK_THAT(message("short.bin", 32, 10), ContainsSubstring("has 3 bytes"));
}

}  // namespace
}  // namespace lockstep
