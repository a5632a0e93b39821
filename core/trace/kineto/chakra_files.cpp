#include "core/trace/kineto/chakra_files.hpp"

#include <algorithm>
#include <map>

#include "core/chakra/chakra.hpp"

namespace lockstep::kineto {
namespace {

Kind kind_of(const ChakraNode& node) {
  switch (node.type) {
    case ChakraType::MemoryLoad:
    case ChakraType::MemoryStore:
      return Kind::Memcpy;
    case ChakraType::Send:
      return Kind::Send;
    case ChakraType::Recv:
      return Kind::Recv;
    case ChakraType::Collective:
      break;
    default:
      return node.on_host ? Kind::Host : Kind::Compute;
  }
  switch (static_cast<ChakraCollective>(node.collective)) {
    case ChakraCollective::AllReduce:
      return Kind::AllReduce;
    case ChakraCollective::Reduce:
      return Kind::Reduce;
    case ChakraCollective::AllGather:
      return Kind::AllGather;
    case ChakraCollective::Gather:
      return Kind::Gather;
    case ChakraCollective::Scatter:
      return Kind::Scatter;
    case ChakraCollective::Broadcast:
      return Kind::Broadcast;
    case ChakraCollective::AllToAll:
      return Kind::AllToAll;
    case ChakraCollective::ReduceScatter:
    case ChakraCollective::ReduceScatterBlock:
      return Kind::ReduceScatter;
    case ChakraCollective::Barrier:
      return Kind::Barrier;
  }
  return Kind::Communication;  // of a comm_type that the schema does not have
}

/// The thread that a node's time belongs to. Groups are lanes of their own, as NCCL's streams are.
std::string place_of(const ChakraNode& node) {
  if (node.on_host) return "host";
  switch (node.type) {
    case ChakraType::Collective:
      return node.group.empty() ? "collectives" : "collectives of group " + node.group;
    case ChakraType::Send:
      return "sends";
    case ChakraType::Recv:
      return "receives";
    case ChakraType::MemoryLoad:
    case ChakraType::MemoryStore:
      return "memory";
    default:
      return "compute";
  }
}

class RankFile {
 public:
  RankFile(const ChakraTrace& trace, Rank rank, NameTable& names) : trace_(trace), names_(names) {
    file_.path = trace.files[to_size(rank)];
    file_.has_events = true;
    file_.rank = rank;
    file_.world_size = static_cast<int>(trace.ranks.size());
    bool begun = false;
    for (const ChakraNode& node : trace.ranks[rank]) {
      if (node.type == ChakraType::Invalid || node.type == ChakraType::Metadata) continue;
      add(node, rank);
      const Nanoseconds begin = file_.events.back().begin;
      file_.start = begun ? std::min(file_.start, begin) : begin;
      begun = true;
    }
    for (Event& event : file_.events) event.begin -= file_.start, event.end -= file_.start;
    file_.wall_clock = true;  // the files of one run count from one time
  }
  File take() { return std::move(file_); }

 private:
  void add(const ChakraNode& node, Rank rank) {
    constexpr Nanoseconds kMicrosecond = 1000;
    Event event;
    const std::int64_t length =
        node.duration_ps > 0 ? node.duration_ps / 1000 : node.duration_us * kMicrosecond;
    event.begin = std::min(node.start_us * kMicrosecond, kLatestBegin);
    event.end = event.begin + std::min(length, kLatestBegin);
    event.name = names_.id(node.name);
    event.kind = kind_of(node);
    event.track = track(place_of(node), node.on_host ? Family::Host : Family::Device);
    if (node.type >= ChakraType::Send) event.transfer = transfer(node, rank);
    file_.events.push_back(event);
  }

  std::int32_t track(const std::string& place, Family family) {
    const auto [known, fresh] = tracks_.try_emplace(place, file_.tracks.size());
    if (fresh) {
      file_.places.push_back({"rank", place, "", {-1, -1, -1, -1}});
      file_.tracks.push_back({static_cast<std::int32_t>(file_.places.size() - 1), family});
    }
    return static_cast<std::int32_t>(known->second);
  }

  std::int32_t transfer(const ChakraNode& node, Rank rank) {
    Transfer transfer;
    transfer.bytes = node.payload;
    if (node.type == ChakraType::Collective) {
      transfer.group = group(node.group);
      const auto members = static_cast<std::int64_t>(file_.groups[transfer.group].ranks.size());
      if (node.collective == static_cast<std::int64_t>(ChakraCollective::AllGather)) {
        transfer.bytes *= std::max<std::int64_t>(1, members);  // the whole, as Transfer says
      }
    } else {
      transfer.source = static_cast<int>(node.source.value_or(rank));
      transfer.destination = static_cast<int>(node.target.value_or(rank));
    }
    file_.transfers.push_back(transfer);
    return static_cast<std::int32_t>(file_.transfers.size() - 1);
  }

  std::int32_t group(const std::string& name) {
    const auto [known, fresh] = groups_.try_emplace(name, file_.groups.size());
    if (fresh) {
      ProcessGroup group{name.empty() ? "all" : name, {}};
      const auto listed = trace_.groups.find(name);
      if (listed != trace_.groups.end()) {
        group.ranks = listed->second;
      } else {
        for (const Rank r : trace_.ranks.ids()) group.ranks.push_back(r);
      }
      file_.groups.push_back(std::move(group));
    }
    return static_cast<std::int32_t>(known->second);
  }

  static constexpr Nanoseconds kLatestBegin = std::numeric_limits<Nanoseconds>::max() / 4000;
  const ChakraTrace& trace_;
  NameTable& names_;
  File file_;
  std::map<std::string, std::size_t> tracks_, groups_;
};

}  // namespace

Result<Files> parse_chakra_files(const std::string& path, NameTable& names) {
  const Result<ChakraTrace> trace = read_chakra(path);
  if (!trace) return trace.error();
  const bool timed = std::any_of(trace->ranks.begin(), trace->ranks.end(), [](const auto& nodes) {
    return std::any_of(nodes.begin(), nodes.end(),
                       [](const ChakraNode& node) { return node.start_us > 0; });
  });
  if (!timed) {
    return invalid(path +
                   ": the Chakra nodes do not say when they began, so that they are a program: "
                   "lockstep run " +
                   path + " --cluster PRESET simulates it");
  }
  Files files;
  for (const Rank rank : trace->ranks.ids()) {
    files.push_back(RankFile(*trace, rank, names).take());
  }
  return files;
}

}  // namespace lockstep::kineto
