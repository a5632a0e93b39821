// input: says what the program is given beside its ops: the samples of a step, how the ranks divide
// them, and the tables of integers that its copies bring.
#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "core/base/index_vector.hpp"
#include "core/lower/passes/passes.hpp"

namespace lockstep {
namespace {

/// Mean and deviation of ImageNet, with which torchvision's models are trained.
constexpr std::array<double, 3> kMean = {0.485, 0.456, 0.406};
constexpr std::array<double, 3> kDeviation = {0.229, 0.224, 0.225};

Samples samples_of(const Scenario& s, const Mesh& mesh) {
  const bool images = s.model.is_vision();
  Samples samples;
  samples.kind = images ? SampleKind::Images : SampleKind::Tokens;
  samples.length = images ? s.model.image_size : s.training.seq_len;
  samples.classes = images ? s.model.classes : s.model.vocab;
  samples.per_step = s.global_batch_size();
  samples.microbatch = s.microbatch_size();
  for (const char* name : {"dp_replicate", "dp_shard", "dp_reshard", "ep"}) {
    if (mesh.size_of(name) > 1) samples.over.push_back(mesh.index_of(name));
  }
  samples.shuffled = s.training.reshuffle;
  if (images) {
    samples.mean = kMean;
    samples.deviation = kDeviation;
  }
  return samples;
}

int tensor_parallel_ranks(const Mesh& mesh) {
  return mesh.size_of("tp") * mesh.size_of("kv_replicate");
}

/// A table with a list for every pair of coordinates along "cp" and "tp". A dimension along which
/// all lists are equal is left out.
IndexTable tabulate(const Mesh& mesh, TableKind kind,
                    const std::function<IndexList(int cp, int tp)>& list_of) {
  const int cps = mesh.size_of("cp"), tps = tensor_parallel_ranks(mesh);
  IndexVector<int, IndexList> all;
  for (int cp = 0; cp < cps; ++cp) {
    for (int tp = 0; tp < tps; ++tp) all.push_back(list_of(cp, tp));
  }
  const auto at = [&](int cp, int tp) -> const IndexList& { return all[cp * tps + tp]; };
  bool by_cp = false, by_tp = false;
  for (int cp = 0; cp < cps; ++cp) {
    for (int tp = 0; tp < tps; ++tp) {
      by_cp = by_cp || at(cp, tp) != at(0, tp);
      by_tp = by_tp || at(cp, tp) != at(cp, 0);
    }
  }
  IndexTable table;
  table.kind = kind;
  if (by_cp) table.dims.push_back(mesh.index_of("cp"));
  for (const char* dim : {"tp", "kv_replicate"}) {
    if (by_tp && mesh.size_of(dim) > 1) table.dims.push_back(mesh.index_of(dim));
  }
  for (int cp = 0; cp < (by_cp ? cps : 1); ++cp) {
    for (int tp = 0; tp < (by_tp ? tps : 1); ++tp) table.lists.push_back(at(cp, tp));
  }
  return table;
}

IndexList single(std::int64_t value) {
  IndexList list;
  append(list, static_cast<std::int32_t>(value));
  return list;
}

/// The number of elements of the buffers that copies of `data` fill; nullopt if there is no such
/// copy.
std::optional<std::int64_t> elements_of(const Draft& draft, HostData data) {
  for (const DraftRole& out : draft.roles) {
    for (const Op& op : out.role.ops) {
      if (op.kind != OpKind::HostToDevice || op.host() != data) continue;
      const Buffer& buffer = out.role.buffer(out.role.args_of(op)[0]);
      return buffer.bytes.v / size_of(buffer.dtype);
    }
  }
  return std::nullopt;
}

}  // namespace

void input(Draft& draft) {
  if (draft.program.tokens_per_step == 0) return;  // the synthetic model reads no data
  const Scenario& s = draft.scenario;
  const Mesh& mesh = draft.program.mesh;
  Input& input = draft.program.input;
  input.samples = samples_of(s, mesh);
  const auto add = [&](TableKind kind, const std::function<IndexList(int, int)>& list_of) {
    input.tables.push_back(tabulate(mesh, kind, list_of));
  };
  const std::int64_t own = s.own_seq_len();
  /// The positions in their sequences of tokens [first, first + count) of a rank's rows, which are
  /// counted one row after the other.
  const auto positions = [&](int cp, std::int64_t first, std::int64_t count) {
    IndexList list;
    for (std::int64_t i = first; i < first + count; ++i) {
      append(list, static_cast<std::int32_t>(s.position(cp, i % own)));
    }
    return list;
  };
  if (s.strategy.context_parallel_degree > 1) {
    add(TableKind::Order, [&](int cp, int) { return positions(cp, 0, own); });
  }
  const std::int64_t part = ceil_div(s.model.vocab, tensor_parallel_ranks(mesh));
  if (tensor_parallel_ranks(mesh) > 1) {
    add(TableKind::Shift, [&](int, int tp) { return single(tp * part); });
  }
  if (const auto elements = elements_of(draft, HostData::Positions)) {
    // The copy brings all rows, or the rank's share of them. Rows repeat, and so does the list.
    const bool shared = *elements < s.microbatch_size() * own;
    add(TableKind::Positions, [&](int cp, int tp) {
      return positions(cp, shared ? tp * *elements : 0, std::min(*elements, own));
    });
  }
  if (const auto elements = elements_of(draft, HostData::Starts)) {
    const auto parts = static_cast<int>(*elements) / 2 - 1;
    add(TableKind::Starts, [&](int cp, int) {
      IndexList list;
      for (int p = -1; p < parts; ++p) {  // the rank's own pieces come first
        for (const int piece : {0, 1}) {
          append(list, static_cast<std::int32_t>(s.position(p < 0 ? cp : p, piece * (own / 2))));
        }
      }
      return list;
    });
  }
  if (elements_of(draft, HostData::Columns)) {
    add(TableKind::Columns, [&](int, int tp) {
      return single(std::clamp<std::int64_t>(s.model.vocab - tp * part, 0, part));
    });
  }
}

}  // namespace lockstep
