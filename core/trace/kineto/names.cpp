#include "core/trace/kineto/names.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>

#include "core/base/index_vector.hpp"

namespace lockstep::kineto {
namespace {

template <class T, std::size_t N>
T find_or(const std::array<std::pair<std::string_view, T>, N>& table, std::string_view name,
          T otherwise) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [name](const auto& entry) { return entry.first == name; });
  return found == table.end() ? otherwise : found->second;
}

}  // namespace

std::string_view to_string(Kind kind) {
  constexpr IndexArray<Kind, std::string_view, 22> kNames = {
      "compute",        "forward",   "backward",   "optimizer", "all_reduce",    "all_gather",
      "reduce_scatter", "broadcast", "all_to_all", "reduce",    "gather",        "scatter",
      "barrier",        "send",      "recv",       "send_recv", "communication", "memcpy",
      "memset",         "host",      "annotation", "sync"};
  static_assert(kNames.size() == to_size(Kind::Sync) + 1);
  return kNames[kind];
}

Category category_of(std::string_view cat) {
  // Names with capitals are those of PyTorch before 1.11.
  constexpr Category kKernel{Family::Device, Kind::Compute};
  constexpr Category kMemcpy{Family::Device, Kind::Memcpy};
  constexpr Category kMemset{Family::Device, Kind::Memset};
  constexpr Category kMark{Family::Host, Kind::Annotation};
  constexpr std::array<std::pair<std::string_view, Category>, 14> kCategories = {{
      {"kernel", kKernel},
      {"gpu_memcpy", kMemcpy},
      {"gpu_memset", kMemset},
      {"gpu_user_annotation", {Family::DeviceAnnotation, Kind::Annotation}},
      {"user_annotation", kMark},
      {"cuda_sync", {Family::DeviceSync, Kind::Sync}},
      {"cuda_event", {Family::DeviceSync, Kind::Sync}},
      {"collective_comm", {Family::Device, Kind::Communication}},
      {"mtia_ccp_events", kKernel},
      {"Trace", kMark},
      {"Kernel", kKernel},
      {"Memcpy", kMemcpy},
      {"Memset", kMemset},
      {"cuda_profiler_range", {Family::DeviceAnnotation, Kind::Annotation}},
  }};
  return find_or(kCategories, cat, Category{});
}

Kind kind_of_collective(std::string_view name) {
  std::string letters;  // "allgatherbase"
  for (const char c : name.substr(0, name.find('('))) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isalpha(u)) letters += static_cast<char>(std::tolower(u));
  }
  // A name that contains another one comes before it.
  constexpr std::array<std::pair<std::string_view, Kind>, 13> kParts = {{
      {"allreduce", Kind::AllReduce},
      {"allgather", Kind::AllGather},
      {"reducescatter", Kind::ReduceScatter},
      {"alltoall", Kind::AllToAll},
      {"broadcast", Kind::Broadcast},
      {"sendrecv", Kind::SendRecv},
      {"barrier", Kind::Barrier},
      {"reduce", Kind::Reduce},
      {"gather", Kind::Gather},
      {"scatter", Kind::Scatter},
      {"send", Kind::Send},
      {"recv", Kind::Recv},
      {"receive", Kind::Recv},
  }};
  for (const auto& [part, kind] : kParts) {
    if (letters.find(part) != std::string::npos) return kind;
  }
  return Kind::Communication;
}

bool is_collective_kernel(std::string_view name) {
  for (const std::string_view prefix : {"nccl", "rccl", "hccl", "msccl"}) {
    if (name.starts_with(prefix)) return true;
  }
  return name.find("ncclKernel") != std::string_view::npos ||
         name.find("ncclDevKernel") != std::string_view::npos;
}

std::int64_t bytes_of_dtype(std::string_view dtype) {
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 17> kSizes = {{
      {"Byte", 1},
      {"Char", 1},
      {"Bool", 1},
      {"Float8_e4m3fn", 1},
      {"Float8_e5m2", 1},
      {"Float8_e4m3fnuz", 1},
      {"Float8_e5m2fnuz", 1},
      {"Short", 2},
      {"Half", 2},
      {"BFloat16", 2},
      {"Int", 4},
      {"Float", 4},
      {"Long", 8},
      {"Double", 8},
      {"ComplexFloat", 8},
      {"ComplexHalf", 4},
      {"ComplexDouble", 16},
  }};
  return find_or(kSizes, dtype, std::int64_t{0});
}

std::vector<int> parse_ranks(std::string_view text) {
  std::vector<int> ranks;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    int rank = 0;
    const auto [next, error] = std::from_chars(at, end, rank);
    if (error == std::errc() && rank >= 0) ranks.push_back(rank);
    at = next == at ? at + 1 : next;
  }
  return ranks;
}

std::int32_t step_of(std::string_view name) {
  constexpr std::string_view kPrefix = "ProfilerStep#";
  if (!name.starts_with(kPrefix)) return -1;
  std::int32_t step = -1;
  const char* const end = name.data() + name.size();
  const auto [next, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return error == std::errc() && next == end && step >= 0 ? step : -1;
}

}  // namespace lockstep::kineto
