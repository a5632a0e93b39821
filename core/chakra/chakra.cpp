#include "core/chakra/chakra.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "core/base/json_depth.hpp"
#include "core/base/protobuf.hpp"
#include "core/base/read_file.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLongestFile = std::int64_t{4} << 30;
constexpr const char* kVersion = "0.0.4";  // of the schema

// Fields of GlobalMetadata, Node, IOInfo and AttributeProto.
constexpr std::uint32_t kMetadataVersion = 1;
constexpr std::uint32_t kId = 1, kName = 2, kType = 3, kControl = 4, kData = 5, kStart = 6,
                        kDuration = 7, kInputs = 8, kAttribute = 10;
constexpr std::uint32_t kInputValues = 1;
constexpr std::uint32_t kAttributeName = 1, kInt32 = 7, kInt64 = 9, kUint64 = 13, kSint32 = 15,
                        kSint64 = 17, kFixed32 = 19, kFixed64 = 21, kSfixed64 = 25, kBool = 27,
                        kString = 29;

/// One attribute of a node: where it is kept, by the type in which the feeders of Chakra read it.
struct Attribute {
  std::string_view name;
  std::uint32_t field;
  std::int64_t ChakraNode::*number;
};
constexpr Attribute kNumbers[] = {{"num_ops", kInt64, &ChakraNode::flops},
                                  {"tensor_size", kUint64, &ChakraNode::bytes},
                                  {"comm_type", kInt64, &ChakraNode::collective},
                                  {"comm_size", kInt64, &ChakraNode::payload},
                                  {"comm_tag", kInt32, &ChakraNode::tag},
                                  {"duration_ps", kInt64, &ChakraNode::duration_ps}};
constexpr std::pair<std::string_view, std::optional<std::int64_t> ChakraNode::*> kPeers[] = {
    {"comm_src", &ChakraNode::source}, {"comm_dst", &ChakraNode::target}};

void put_number(ProtobufWriter& node, std::string_view name, std::uint32_t field,
                std::int64_t value) {
  ProtobufWriter attribute;
  attribute.bytes(kAttributeName, name);
  attribute.varint(field, static_cast<std::uint64_t>(value));
  node.bytes(kAttribute, attribute.text());
}

void put_ids(ProtobufWriter& node, std::uint32_t field, const std::vector<std::uint64_t>& ids) {
  if (ids.empty()) return;
  std::string packed;
  for (std::uint64_t id : ids) {
    for (; id >= 0x80; id >>= 7U) packed += static_cast<char>(id | 0x80U);
    packed += static_cast<char>(id);
  }
  node.bytes(field, packed);
}

/// Which attributes are written: those that a node of its type must have, though they be 0.
bool has_number(const ChakraNode& node, std::string_view name) {
  const ChakraType type = node.type;
  if (name == "num_ops") return type == ChakraType::Compute;
  if (name == "tensor_size") {
    return type == ChakraType::Compute || type == ChakraType::MemoryLoad ||
           type == ChakraType::MemoryStore;
  }
  if (name == "comm_type") return type == ChakraType::Collective;
  if (name == "comm_size") return type >= ChakraType::Send;
  if (name == "comm_tag") return type == ChakraType::Send || type == ChakraType::Recv;
  return node.duration_ps > 0;
}

/// A number of an attribute, whatever integer type it has; nothing for other types.
std::optional<std::int64_t> number_of(const ProtobufField& field) {
  const auto unfolded = [&] {  // zigzag
    return static_cast<std::int64_t>(field.value >> 1U) ^
           -static_cast<std::int64_t>(field.value & 1U);
  };
  if (field.holds_bytes) return std::nullopt;
  switch (field.number) {
    case kSint32:
    case kSint64:
      return unfolded();
    case kInt32:
    case kInt64:
    case kInt32 + 4:  // uint32
    case kUint64:
    case kFixed32:
    case kFixed64:
    case kFixed32 + 4:  // sfixed32
    case kSfixed64:
    case kBool:
      return field.integer();
    default:
      return std::nullopt;
  }
}

class NodeReader {
 public:
  /// Returns a fault, or nothing.
  std::string read(std::string_view bytes, ChakraNode& node) {
    ProtobufReader reader(bytes);
    while (const std::optional<ProtobufField> field = reader.next()) {
      if (std::string fault = take(*field, node); !fault.empty()) return fault;
    }
    return reader.damaged() ? "no message of kind Node" : "";
  }

 private:
  static std::string take(const ProtobufField& field, ChakraNode& node) {
    const auto time = [&](std::int64_t& at) -> std::string {
      at = field.integer();
      constexpr std::int64_t kLatest = std::numeric_limits<std::int64_t>::max() / 1000000;
      return at >= 0 && at <= kLatest ? "" : "a time beyond the range of picoseconds";
    };
    switch (field.number) {
      case kId:
        node.id = field.value;
        return "";
      case kName:
        node.name = field.bytes;
        return "";
      case kType:
        if (field.value > static_cast<std::uint64_t>(ChakraType::Collective)) {
          return "a node of an unknown type " + std::to_string(field.value);
        }
        node.type = static_cast<ChakraType>(field.value);
        return "";
      case kControl:
        return take_ids(field, node.after_control);
      case kData:
        return take_ids(field, node.after_data);
      case kStart:
        return time(node.start_us);
      case kDuration:
        return time(node.duration_us);
      case kInputs: {
        ProtobufReader reader(field.bytes);
        while (const std::optional<ProtobufField> part = reader.next()) {
          if (part->number == kInputValues) node.input_values = part->bytes;
        }
        return reader.damaged() ? "no message of kind IOInfo" : "";
      }
      case kAttribute:
        return take_attribute(field.bytes, node);
      default:
        return "";  // of a later version
    }
  }

  static std::string take_ids(const ProtobufField& field, std::vector<std::uint64_t>& ids) {
    if (!field.holds_bytes) {
      ids.push_back(field.value);
      return "";
    }
    ProtobufReader reader(field.bytes);
    while (!reader.at_end()) {
      const std::optional<std::uint64_t> id = reader.varint();
      if (!id) return "a list of ids that ends in the middle";
      ids.push_back(*id);
    }
    return "";
  }

  static std::string take_attribute(std::string_view bytes, ChakraNode& node) {
    ProtobufReader reader(bytes);
    std::string_view name, text;
    std::optional<std::int64_t> number;
    while (const std::optional<ProtobufField> field = reader.next()) {
      if (field->number == kAttributeName) name = field->bytes;
      if (field->number == kString) text = field->bytes;
      if (const auto value = number_of(*field)) number = value;
    }
    if (reader.damaged()) return "no message of kind AttributeProto";
    if (name == "pg_name") node.group = text.empty() && number ? std::to_string(*number) : text;
    if (!number) return "";
    if (name == "is_cpu_op") node.on_host = *number != 0;
    for (const Attribute& a : kNumbers) {
      if (name != a.name) continue;
      if (*number < 0) return std::string(name) + " = " + std::to_string(*number) + " is negative";
      node.*a.number = *number;
    }
    for (const auto& [peer, at] : kPeers) {
      if (name == peer) node.*at = *number;
    }
    return "";
  }
};

Error damaged(const std::string& file, std::size_t at, const std::string& what) {
  return Error{ErrorKind::Parse, "at byte " + std::to_string(at) + ": " + what,
               SourceSpan{file, 1, 1}};
}

/// PyTorch's metadata: "['[{"pg_name": "0", "ranks": [0, 1], …}, …]']". No ranks: all of them.
void take_process_groups(const std::string& text, int world, ChakraGroups& groups) {
  if (text.size() < 5) return;
  if (nests_too_deep(text)) return;
  const auto list = nlohmann::json::parse(text.substr(2, text.size() - 4), nullptr, false);
  if (!list.is_array()) return;
  for (const auto& group : list) {
    if (!group.is_object() || !group.contains("pg_name") || !group["pg_name"].is_string()) continue;
    std::vector<Rank>& ranks = groups[group["pg_name"].get<std::string>()];
    ranks.clear();
    for (const auto& rank : group.value("ranks", nlohmann::json::array())) {
      if (rank.is_number_integer()) ranks.push_back(rank.get<Rank>());
    }
    for (Rank r = 0; ranks.empty() && r < world; ++r) ranks.push_back(r);
  }
}

struct Named {
  std::string prefix;
  Rank rank = 0;
};
/// "PREFIX.12.et" as its parts.
std::optional<Named> named(const fs::path& path) {
  const std::string text = path.string();
  if (!text.ends_with(".et")) return std::nullopt;
  const std::size_t end = text.size() - 3, dot = text.rfind('.', end - 1);
  if (end == 0 || dot == std::string::npos || dot + 1 == end) return std::nullopt;
  Named found{text.substr(0, dot), 0};
  const auto [stop, error] = std::from_chars(text.data() + dot + 1, text.data() + end, found.rank);
  if (error != std::errc() || stop != text.data() + end || found.rank < 0) return std::nullopt;
  return found;
}

/// The prefix that `path` means.
Result<std::string> prefix_of(const std::string& path) {
  std::error_code error;
  if (const auto file = named(path)) return file->prefix;
  if (!fs::is_directory(path, error)) return path;
  std::string prefix;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    const auto file = named(entry.path());
    if (!file) continue;
    if (!prefix.empty() && prefix != file->prefix) {
      return invalid(path + " has Chakra traces of several programs, " + prefix + " and " +
                     file->prefix + ": name one of them");
    }
    prefix = file->prefix;
  }
  if (prefix.empty()) return invalid(path + " has no file NAME.RANK.et");
  return prefix;
}

Result<void> read_groups(const std::string& prefix, ChakraTrace& trace) {
  for (const auto& nodes : trace.ranks) {
    for (const ChakraNode& node : nodes) {
      if (node.type != ChakraType::Metadata) continue;
      take_process_groups(node.input_values, static_cast<int>(trace.ranks.size()), trace.groups);
    }
  }
  std::error_code error;
  for (const fs::path& path :
       {fs::path(prefix + ".json"), fs::path(prefix).parent_path() / "comm_group.json"}) {
    if (!fs::exists(path, error)) continue;
    const Result<std::string> text = read_file(path.string());
    if (!text) return text.error();
    Result<ChakraGroups> groups = parse_groups(*text, path.string());
    if (!groups) return groups.error();
    for (auto& [name, ranks] : *groups) trace.groups[name] = std::move(ranks);
    break;
  }
  for (const auto& [name, ranks] : trace.groups) {
    for (const Rank rank : ranks) {
      if (rank >= 0 && rank < static_cast<Rank>(trace.ranks.size())) continue;
      return invalid(prefix + ": group " + name + " has rank " + std::to_string(rank) +
                     ", and there are files of " + std::to_string(trace.ranks.size()) + " ranks");
    }
  }
  return {};
}

void leave_out_absent(ChakraTrace& trace) {
  std::size_t absent = 0;
  for (std::vector<ChakraNode>& nodes : trace.ranks) {
    std::unordered_set<std::uint64_t> ids;
    for (const ChakraNode& node : nodes) ids.insert(node.id);
    for (ChakraNode& node : nodes) {
      absent += std::erase_if(node.after_control, [&](auto id) { return !ids.contains(id); });
    }
  }
  if (absent == 0) return;
  trace.remarks.push_back(std::to_string(absent) +
                          " control dependencies on nodes that are not in the files: left out");
}

}  // namespace

std::string groups_json(const ChakraGroups& groups) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [name, ranks] : groups) json[name] = ranks;
  return json.dump() + "\n";
}

Result<ChakraGroups> parse_groups(const std::string& text, const std::string& file) {
  const auto json =
      nests_too_deep(text) ? nlohmann::json() : nlohmann::json::parse(text, nullptr, false);
  const Error fault{ErrorKind::Parse, R"(not groups of ranks, {"1": [0, 1], ...})",
                    SourceSpan{file, 1, 1}};
  if (!json.is_object()) return fault;
  ChakraGroups groups;
  for (const auto& [name, ranks] : json.items()) {
    if (!ranks.is_array()) return fault;
    for (const auto& rank : ranks) {
      if (!rank.is_number_integer()) return fault;
      groups[name].push_back(rank.get<Rank>());
    }
    std::sort(groups[name].begin(), groups[name].end());
  }
  return groups;
}

std::string chakra_bytes(const std::vector<ChakraNode>& nodes) {
  ProtobufWriter file, metadata;
  metadata.bytes(kMetadataVersion, kVersion);
  file.delimited(metadata.text());
  for (const ChakraNode& node : nodes) {
    ProtobufWriter message;
    if (node.id != 0) message.varint(kId, node.id);
    message.bytes(kName, node.name);
    message.varint(kType, static_cast<std::uint64_t>(node.type));
    put_ids(message, kControl, node.after_control);
    put_ids(message, kData, node.after_data);
    if (node.start_us != 0) message.varint(kStart, static_cast<std::uint64_t>(node.start_us));
    if (node.duration_us != 0) {
      message.varint(kDuration, static_cast<std::uint64_t>(node.duration_us));
    }
    put_number(message, "is_cpu_op", kBool, node.on_host ? 1 : 0);
    for (const Attribute& a : kNumbers) {
      if (has_number(node, a.name)) put_number(message, a.name, a.field, node.*a.number);
    }
    for (const auto& [name, at] : kPeers) {
      if (node.*at) put_number(message, name, kInt32, *(node.*at));
    }
    if (!node.group.empty()) {
      ProtobufWriter attribute;
      attribute.bytes(kAttributeName, "pg_name");
      attribute.bytes(kString, node.group);
      message.bytes(kAttribute, attribute.text());
    }
    file.delimited(message.text());
  }
  return file.text();
}

Result<std::vector<ChakraNode>> parse_chakra(const std::string& bytes, const std::string& file) {
  ProtobufReader reader(bytes);
  const std::optional<std::string_view> metadata = reader.delimited();
  if (!metadata) return damaged(file, 0, "no Chakra trace: it does not begin with its metadata");
  ProtobufReader fields(*metadata);
  while (fields.next()) {
  }
  if (fields.damaged()) return damaged(file, 0, "no message of kind GlobalMetadata");
  std::vector<ChakraNode> nodes;
  std::unordered_set<std::uint64_t> ids;
  while (!reader.at_end()) {
    const std::size_t at = reader.at();
    const std::optional<std::string_view> message = reader.delimited();
    if (!message) return damaged(file, at, "the file ends in the middle of a node");
    ChakraNode& node = nodes.emplace_back();
    if (const std::string fault = NodeReader().read(*message, node); !fault.empty()) {
      return damaged(file, at, fault);
    }
    if (!ids.insert(node.id).second) {
      return damaged(file, at, "node " + std::to_string(node.id) + " stands twice");
    }
  }
  return nodes;
}

bool is_chakra(const std::string& path) {
  std::error_code error;
  if (path.ends_with(".et") || fs::exists(path + ".0.et", error)) return true;
  if (!fs::is_directory(path, error)) return false;
  return std::any_of(fs::directory_iterator(path, error), fs::directory_iterator(),
                     [](const fs::directory_entry& e) { return named(e.path()).has_value(); });
}

Result<ChakraTrace> read_chakra(const std::string& path) {
  const Result<std::string> prefix = prefix_of(path);
  if (!prefix) return prefix.error();
  ChakraTrace trace;
  std::error_code error;
  for (Rank rank = 0;; ++rank) {
    const std::string file = *prefix + "." + std::to_string(rank) + ".et";
    if (!fs::exists(file, error)) break;
    const Result<std::string> bytes = read_file(file, kLongestFile);
    if (!bytes) return bytes.error();
    Result<std::vector<ChakraNode>> nodes = parse_chakra(*bytes, file);
    if (!nodes) return nodes.error();
    trace.ranks.push_back(std::move(*nodes));
    trace.files.push_back(file);
  }
  if (trace.ranks.empty()) return invalid(*prefix + ".0.et: no such file");
  leave_out_absent(trace);
  if (auto groups = read_groups(*prefix, trace); !groups) return groups.error();
  return trace;
}

}  // namespace lockstep
