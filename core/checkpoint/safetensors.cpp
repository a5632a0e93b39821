#include "core/checkpoint/safetensors.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "core/base/json_depth.hpp"
#include "core/base/read_file.hpp"
#include "core/checkpoint/disk_file.hpp"

namespace lockstep {
namespace {

using nlohmann::json;

// The limit of the reference implementation. A header that claims to be longer has a broken length.
constexpr std::uint64_t kMaxHeader = 100'000'000;
constexpr std::uint64_t kLengthBytes = 8;
constexpr std::size_t kAlignment = 8;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 60;  // of a file

struct DTypeName {
  DType dtype;
  std::string_view name;
};
constexpr std::array<DTypeName, 6> kDTypeNames = {{{DType::F32, "F32"},
                                                   {DType::F64, "F64"},
                                                   {DType::BF16, "BF16"},
                                                   {DType::F16, "F16"},
                                                   {DType::I32, "I32"},
                                                   {DType::U8, "U8"}}};

/// Types of whole bytes that the format has beside them.
struct OtherType {
  std::string_view name;
  std::uint64_t bytes = 0;  // of an element
};
constexpr std::array<OtherType, 14> kOtherTypes = {{{"BOOL", 1},
                                                    {"I8", 1},
                                                    {"I16", 2},
                                                    {"U16", 2},
                                                    {"U32", 4},
                                                    {"I64", 8},
                                                    {"U64", 8},
                                                    {"C64", 8},
                                                    {"F8_E4M3", 1},
                                                    {"F8_E5M2", 1},
                                                    {"F8_E8M0", 1},
                                                    {"F8_E4M3FNUZ", 1},
                                                    {"F8_E5M2FNUZ", 1},
                                                    {"C128", 16}}};

std::string_view name_of(DType dtype) {
  for (const DTypeName& entry : kDTypeNames) {
    if (entry.dtype == dtype) return entry.name;
  }
  return "?";
}

std::optional<DType> dtype_of(std::string_view name) {
  for (const DTypeName& entry : kDTypeNames) {
    if (entry.name == name) return entry.dtype;
  }
  return std::nullopt;
}

struct Entry {
  std::string name;
  DType dtype = DType::F32;
  const OtherType* other = nullptr;  // instead of it
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes from the end of the header
};

/// The size of a tensor's data; nullopt if an extent is negative or the product exceeds int64.
std::optional<std::uint64_t> byte_size(std::uint64_t element,
                                       const std::vector<std::int64_t>& shape) {
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::uint64_t bytes = element;
  for (std::int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    const auto factor = static_cast<std::uint64_t>(extent);
    if (factor != 0 && bytes > kMax / factor) return std::nullopt;
    bytes *= factor;
  }
  return bytes;
}

std::optional<std::uint64_t> byte_size(DType dtype, const std::vector<std::int64_t>& shape) {
  return byte_size(static_cast<std::uint64_t>(size_of(dtype)), shape);
}

/// Stops at a key that occurs twice in an object, and at what is no JSON. (A callback of
/// json::parse() could find the same, but parses with one take time quadratic in the keys.)
class KeyWatch final : public nlohmann::json_sax<json> {
 public:
  std::string twice, fault;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    keys_.emplace_back();
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    return true;
  }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    twice = name;
    return false;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& e) override {
    const std::string_view what = e.what();
    const std::size_t prefix = what.find("] ");  // the library's name of the fault
    fault = what.substr(prefix == what.npos ? 0 : prefix + 2);
    return false;
  }

 private:
  std::vector<std::set<std::string>> keys_;  // of the open objects
};

/// Reads one file; every error names it.
class Reader {
 public:
  explicit Reader(const std::string& path, bool lists_others = false)
      : path_(path), lists_others_(lists_others) {}

  Result<SafetensorsFile> read() {
    Result<SafetensorsIndex> index = read_index();
    if (!index) return index.error();
    SafetensorsFile file;
    file.metadata = std::move(index->metadata);
    for (const Entry& entry : entries_) {
      Tensor tensor{entry.dtype, entry.shape, {}};
      tensor.data.resize(entry.end - entry.begin);
      in_.read(reinterpret_cast<char*>(tensor.data.data()),
               static_cast<std::streamsize>(tensor.data.size()));
      if (!in_) return parse_error("reading the data of \"" + entry.name + "\" failed");
      file.tensors.emplace(entry.name, std::move(tensor));
    }
    return file;
  }

  Result<SafetensorsIndex> read_index() {
    in_ = open_file(path_);
    in_.seekg(0, std::ios::end);
    const std::streamoff size = in_ ? static_cast<std::streamoff>(in_.tellg()) : -1;
    // A folder can be opened, too; it reports the largest possible offset as its size.
    if (size < 0 || size == std::numeric_limits<std::streamoff>::max()) {
      return Error{ErrorKind::InvalidSpec, path_ + ": cannot be read", {}};
    }
    in_.seekg(0);
    Result<json> header = read_header(static_cast<std::uint64_t>(size));
    if (!header) return header.error();
    Result<SafetensorsIndex> index = read_metadata(*header);
    if (!index) return index;
    Result<std::vector<Entry>> entries = read_entries(*header);
    if (!entries) return entries.error();
    if (Result<void> layout = check_layout(*entries); !layout) return layout.error();
    entries_ = std::move(*entries);
    index->file_bytes = static_cast<std::int64_t>(size);
    index->head = head_;
    for (const Entry& entry : entries_) {
      if (entry.other != nullptr) {
        index->others[entry.name] = entry.other->name;
        continue;
      }
      index->tensors[entry.name] = {{entry.dtype, entry.shape},
                                    static_cast<std::int64_t>(head_.size() + entry.begin)};
    }
    return index;
  }

 private:
  Error parse_error(const std::string& message) const {
    return {ErrorKind::Parse, path_ + ": " + message, {}};
  }

  Result<json> read_header(std::uint64_t file_size) {
    std::array<unsigned char, kLengthBytes> length_bytes{};
    if (file_size < kLengthBytes) {
      return parse_error("not a safetensors file: " + std::to_string(file_size) +
                         " bytes, shorter than the header length");
    }
    in_.read(reinterpret_cast<char*>(length_bytes.data()), kLengthBytes);
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < kLengthBytes; ++i)
      length |= std::uint64_t{length_bytes[i]} << (8 * i);
    if (length > kMaxHeader) {
      return parse_error("not a safetensors file: header length " + std::to_string(length) +
                         " is above the limit of " + std::to_string(kMaxHeader));
    }
    if (length > file_size - kLengthBytes) {
      return parse_error("truncated: a header of " + std::to_string(length) +
                         " bytes in a file of " + std::to_string(file_size));
    }
    data_size_ = file_size - kLengthBytes - length;
    std::string text(length, '\0');
    in_.read(text.data(), static_cast<std::streamsize>(length));
    head_.assign(reinterpret_cast<const char*>(length_bytes.data()), kLengthBytes);
    head_ += text;
    if (!in_) return parse_error("reading the header failed");
    if (text.empty() || text.front() != '{') {
      return parse_error("not a safetensors file: the header does not start with '{'");
    }
    return parse_header(text);
  }

  /// Parses the header and refuses a name that occurs twice; nlohmann would keep the last of them.
  Result<json> parse_header(const std::string& text) const {
    if (nests_too_deep(text)) return parse_error("bad JSON header: it nests too deep");
    KeyWatch watch;
    if (json::sax_parse(text, &watch)) return json::parse(text);
    if (!watch.twice.empty()) {
      return parse_error("\"" + watch.twice + "\" occurs twice in the header");
    }
    return parse_error("bad JSON header: " + watch.fault);
  }

  Result<SafetensorsIndex> read_metadata(const json& header) const {
    SafetensorsIndex file;
    const auto metadata = header.find("__metadata__");
    if (metadata == header.end()) return file;
    if (!metadata->is_object()) return parse_error("\"__metadata__\" is not an object");
    for (const auto& [key, value] : metadata->items()) {
      if (!value.is_string()) return parse_error("\"__metadata__." + key + "\" is not a string");
      file.metadata.emplace(key, value.get<std::string>());
    }
    return file;
  }

  Result<std::vector<Entry>> read_entries(const json& header) const {
    std::vector<Entry> entries;
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__") continue;
      Result<Entry> entry = read_entry(name, value);
      if (!entry) return entry.error();
      entries.push_back(std::move(*entry));
    }
    return entries;
  }

  Result<Entry> read_entry(const std::string& name, const json& value) const {
    const auto fault = [&](const std::string& message) {
      return parse_error("tensor \"" + name + "\": " + message);
    };
    if (!value.is_object()) return fault("its entry is not an object");
    for (const auto& [key, unused] : value.items()) {
      if (key != "dtype" && key != "shape" && key != "data_offsets") {
        return fault("unknown key \"" + key + "\"");
      }
    }
    Entry entry;
    entry.name = name;
    const auto dtype = value.find("dtype");
    if (dtype == value.end() || !dtype->is_string()) return fault("no \"dtype\" text");
    const std::string& type = dtype->get_ref<const std::string&>();
    const std::optional<DType> known = dtype_of(type);
    const auto* const other = std::find_if(kOtherTypes.begin(), kOtherTypes.end(),
                                           [&](const OtherType& row) { return row.name == type; });
    if (!known && lists_others_ && other != kOtherTypes.end()) {
      entry.other = other;
    } else if (!known) {
      return Error{ErrorKind::Unsupported,
                   path_ + ": tensor \"" + name + "\": element type " + type +
                       " (known: F32 F64 BF16 F16 I32 U8)",
                   {}};
    }
    entry.dtype = known.value_or(DType::U8);
    const std::optional<std::vector<std::int64_t>> shape = counts(value, "shape");
    if (!shape) return fault("\"shape\" is not a list of counts");
    entry.shape = *shape;
    const std::optional<std::vector<std::int64_t>> offsets = counts(value, "data_offsets");
    if (!offsets || offsets->size() != 2) {
      return fault("\"data_offsets\" is not a pair of counts");
    }
    entry.begin = static_cast<std::uint64_t>((*offsets)[0]);
    entry.end = static_cast<std::uint64_t>((*offsets)[1]);
    const std::string range =
        "[" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + ")";
    if (entry.begin > entry.end) return fault("data_offsets " + range + " run backwards");
    if (entry.end > data_size_) {
      return fault("data_offsets " + range + " lie outside the " + std::to_string(data_size_) +
                   " bytes of data: truncated?");
    }
    const std::optional<std::uint64_t> bytes = entry.other != nullptr
                                                   ? byte_size(entry.other->bytes, entry.shape)
                                                   : byte_size(entry.dtype, entry.shape);
    if (!bytes) return fault("the shape overflows");
    if (*bytes != entry.end - entry.begin) {
      return fault("data_offsets " + range + " hold " + std::to_string(entry.end - entry.begin) +
                   " bytes, dtype and shape need " + std::to_string(*bytes));
    }
    return entry;
  }

  /// `value[key]` as a list of integers >= 0; nullopt if it is anything else.
  static std::optional<std::vector<std::int64_t>> counts(const json& value, const char* key) {
    const auto list = value.find(key);
    if (list == value.end() || !list->is_array()) return std::nullopt;
    std::vector<std::int64_t> result;
    for (const json& item : *list) {
      // The parser stores every integer without a sign as unsigned. "-0" is refused.
      if (!item.is_number_unsigned() ||
          item.get<std::uint64_t>() >
              static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        return std::nullopt;
      }
      result.push_back(item.get<std::int64_t>());
    }
    return result;
  }

  /// Sorts the entries by offset and checks that they cover each byte of the data exactly once.
  Result<void> check_layout(std::vector<Entry>& entries) const {
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    std::uint64_t covered = 0;
    for (const Entry& entry : entries) {
      if (entry.begin < covered) {
        return parse_error("tensor \"" + entry.name + "\": its data overlaps another tensor's");
      }
      if (entry.begin > covered) {
        return parse_error("bytes [" + std::to_string(covered) + ", " +
                           std::to_string(entry.begin) + ") of the data belong to no tensor");
      }
      covered = entry.end;
    }
    if (covered != data_size_) {
      return parse_error("the last " + std::to_string(data_size_ - covered) +
                         " bytes of the data belong to no tensor");
    }
    return {};
  }

  std::string path_;
  bool lists_others_ = false;
  std::ifstream in_;
  std::uint64_t data_size_ = 0;
  std::string head_;            // the bytes before the data
  std::vector<Entry> entries_;  // by offset
};

}  // namespace

Result<SafetensorsIndex> lay_out(const std::map<std::string, TensorInfo>& tensors,
                                 const std::map<std::string, std::string>& metadata) {
  std::vector<const std::pair<const std::string, TensorInfo>*> order;
  for (const auto& tensor : tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return size_of(a->second.dtype) > size_of(b->second.dtype);
  });
  SafetensorsIndex index;
  index.metadata = metadata;
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const auto* item : order) {
    const auto& [name, info] = *item;
    const std::optional<std::uint64_t> bytes = byte_size(info.dtype, info.shape);
    if (!bytes || *bytes > kMostBytes || offset > kMostBytes) {
      return Error{ErrorKind::Internal, "tensor \"" + name + "\": its size overflows", {}};
    }
    header[name] = {{"dtype", name_of(info.dtype)},
                    {"shape", info.shape},
                    {"data_offsets", {offset, offset + *bytes}}};
    index.tensors[name] = {info, static_cast<std::int64_t>(offset)};
    offset += *bytes;
  }
  std::string text = header.dump();
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    index.head += static_cast<char>((std::uint64_t{text.size()} >> (8 * i)) & 0xff);
  }
  index.head += text;
  const auto before = static_cast<std::int64_t>(index.head.size());
  for (auto& [name, entry] : index.tensors) entry.begin += before;
  index.file_bytes = before + static_cast<std::int64_t>(offset);
  return index;
}

Result<void> write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  std::map<std::string, TensorInfo> infos;
  for (const NamedTensor& item : tensors) {
    const Tensor& tensor = *item.tensor;
    const std::string name(item.name);
    if (byte_size(tensor.dtype, tensor.shape) != tensor.data.size() ||
        !infos.emplace(name, TensorInfo{tensor.dtype, tensor.shape}).second) {
      return Error{ErrorKind::Internal,
                   "tensor \"" + name + "\": twice, or data that does not fit its shape",
                   {}};
    }
  }
  const Result<SafetensorsIndex> index = lay_out(infos, metadata);
  if (!index) return index.error();
  Result<DiskFile> file = DiskFile::create(path);
  if (!file) return file.error();
  if (auto head = file->write(0, index->head.data(), index->head.size()); !head) return head;
  for (const NamedTensor& item : tensors) {
    const std::vector<std::byte>& data = item.tensor->data;
    const std::int64_t begin = index->tensors.at(std::string(item.name)).begin;
    if (auto wrote = file->write(begin, data.data(), data.size()); !wrote) return wrote;
  }
  return file->sync();
}

Result<SafetensorsFile> read_safetensors(const std::string& path) { return Reader(path).read(); }

Result<SafetensorsIndex> read_safetensors_index(const std::string& path, bool lists_others) {
  return Reader(path, lists_others).read_index();
}

}  // namespace lockstep
