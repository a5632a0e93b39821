// Chakra: execution traces of MLCommons (schema et_def.proto, ChakraProtoMsg), one file PREFIX.N.et
// for each rank N: a message GlobalMetadata, then one Node after the other, each behind its length.
// docs/chakra.md says what becomes of our ops, and of whose nodes we can make a program.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.hpp"
#include "core/base/index_vector.hpp"
#include "core/base/result.hpp"

namespace lockstep {

/// The enumerators and their numbers are the schema's.
enum class ChakraType : std::uint8_t {
  Invalid,
  Metadata,
  MemoryLoad,
  MemoryStore,
  Compute,
  Send,
  Recv,
  Collective
};
enum class ChakraCollective : std::uint8_t {
  AllReduce,
  Reduce,
  AllGather,
  Gather,
  Scatter,
  Broadcast,
  AllToAll,
  ReduceScatter,
  ReduceScatterBlock,
  Barrier
};
inline constexpr int kNumChakraCollectives = static_cast<int>(ChakraCollective::Barrier) + 1;

struct ChakraNode {
  std::uint64_t id = 0;
  std::string name;
  ChakraType type = ChakraType::Invalid;
  std::vector<std::uint64_t> after_control, after_data;  // ids of nodes of the same file
  std::int64_t start_us = 0, duration_us = 0;
  std::string input_values;  // of metadata of PyTorch: its process groups

  // Attributes; the schema gives them by name. What a file does not say is 0, or empty.
  bool on_host = false;                        // is_cpu_op
  std::int64_t flops = 0;                      // num_ops
  std::int64_t bytes = 0;                      // tensor_size: memory read and written
  std::int64_t collective = 0;                 // comm_type: a ChakraCollective, unless damaged
  std::int64_t payload = 0;                    // comm_size: bytes that a rank puts in
  std::optional<std::int64_t> source, target;  // comm_src, comm_dst: ranks of a message
  std::int64_t tag = 0;                        // comm_tag
  std::string group;                           // pg_name; empty or "0": all ranks
  /// Ours: duration_ps, which says more exactly what duration_us rounds.
  std::int64_t duration_ps = 0;
  bool operator==(const ChakraNode&) const = default;
};

/// Ranks of a group, by the name that nodes call it. As JSON it is what ASTRA-sim takes as
/// --comm-group-configuration: {"1": [0, 1], …}.
using ChakraGroups = std::map<std::string, std::vector<Rank>>;
std::string groups_json(const ChakraGroups& groups);
Result<ChakraGroups> parse_groups(const std::string& text, const std::string& file);

/// The bytes of a file. A node has the attributes that its type needs, though they be 0.
std::string chakra_bytes(const std::vector<ChakraNode>& nodes);
/// Reads the bytes of a file. Errors: Parse, which says at which byte, if they are no such
/// messages, or a node stands twice, or has a time or size beyond the range of its type.
Result<std::vector<ChakraNode>> parse_chakra(const std::string& bytes, const std::string& file);

struct ChakraTrace {
  IndexVector<Rank, std::vector<ChakraNode>> ranks;
  ChakraGroups groups;
  std::vector<std::string> files;    // by rank
  std::vector<std::string> remarks;  // what a user should know, one sentence each
};

/// Whether `path` is a file .et, or a folder that has such files.
bool is_chakra(const std::string& path);
/// Reads PREFIX.0.et, PREFIX.1.et, …, of which `path` is one, the prefix, or a folder with files of
/// one prefix; and the groups, from PREFIX.json or comm_group.json beside them or from metadata of
/// PyTorch. Control dependencies on nodes that are in no file are left out with a remark: PyTorch's
/// name the call around an op, of which its outermost ones have none. Errors: those of the files;
/// InvalidSpec if a rank is missing or there are several prefixes.
Result<ChakraTrace> read_chakra(const std::string& path);

}  // namespace lockstep
