#include "core/ir/op.hpp"

#include <algorithm>
#include <array>

#include "core/base/index_vector.hpp"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, kNumBufferKinds> kBufferKindNames = {
    "param", "param_full", "grad",  "master", "optimizer",     "activation", "boundary",
    "comm",  "workspace",  "input", "metric", "param_version", "outer"};

constexpr std::array<std::string_view, kNumOpKinds> kOpKindNames = {"call",
                                                                    "all_reduce",
                                                                    "all_gather",
                                                                    "reduce_scatter",
                                                                    "broadcast",
                                                                    "all_to_all",
                                                                    "all_to_all_rows",
                                                                    "all_gather_rows",
                                                                    "reduce_scatter_rows",
                                                                    "rotate",
                                                                    "send",
                                                                    "recv",
                                                                    "host_to_device",
                                                                    "device_to_host",
                                                                    "drive_to_host",
                                                                    "host_to_drive"};

constexpr std::array<std::string_view, kNumStreams> kStreamNames = {
    "compute",      "layer",        "gather",        "reduce",        "replicate",
    "send_forward", "recv_forward", "send_backward", "recv_backward", "copy",
    "copy_back",    "host",         "stages",        "drive_read",    "drive_write"};

constexpr std::array<std::string_view, kNumTiers> kTierNames = {"device", "host", "drive"};

constexpr std::array<std::string_view, kNumHostData> kHostDataNames = {"tokens",
                                                                       "targets",
                                                                       "images",
                                                                       "documents",
                                                                       "document_spans",
                                                                       "document_positions",
                                                                       "windows",
                                                                       "dropout_keys",
                                                                       "all_dropout_keys",
                                                                       "attention_dropout",
                                                                       "positions",
                                                                       "starts",
                                                                       "columns",
                                                                       "part",
                                                                       "shards",
                                                                       "loss_scale",
                                                                       "loss",
                                                                       "grad_norm",
                                                                       "memory"};

template <class Names, class Enum>
std::string_view name_of(const Names& names, Enum value) {
  const std::size_t i = to_size(value);
  return i < names.size() ? names[i] : "?";
}

}  // namespace

std::string_view to_string(BufferKind kind) { return name_of(kBufferKindNames, kind); }
std::string_view to_string(OpKind kind) { return name_of(kOpKindNames, kind); }
std::string_view to_string(Tier tier) { return name_of(kTierNames, tier); }
std::string_view to_string(Stream stream) { return name_of(kStreamNames, stream); }
std::string_view to_string(HostData data) { return name_of(kHostDataNames, data); }

std::optional<HostData> host_data_of(std::string_view formal) {
  const auto* const end = kHostDataNames.begin() + to_size(HostData::LossScale) + 1;
  const auto* const found = std::find(kHostDataNames.begin(), end, formal);
  if (found == end) return std::nullopt;
  return static_cast<HostData>(found - kHostDataNames.begin());
}

bool operator==(const Op& a, const Op& b) {
  return a.kind == b.kind && a.stream == b.stream && a.phase == b.phase &&
         a.after_count == b.after_count && a.target == b.target && a.args_count == b.args_count &&
         a.layer == b.layer && a.stage == b.stage && a.root == b.root && a.largest == b.largest &&
         a.microbatch == b.microbatch;
}

}  // namespace lockstep
