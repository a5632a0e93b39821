// input: says what the program is given beside its ops: the samples of a step, how the ranks divide
// them, and the tables of integers that its copies bring.
#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "core/base/index_vector.hpp"
#include "core/lower/passes/passes.hpp"
#include "core/lower/update/update_rule.hpp"

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
  if (s.training.has_documents()) {
    samples.document_end = s.training.eod_token;
    samples.mean_document = s.training.mean_document_length;
    samples.ignores_ends = s.training.eod_mask_loss;
  }
  samples.masked = s.masked_tokens();
  if (samples.masked > 0) samples.mask_token = s.model.mask_token;
  if (images) {
    samples.mean = kMean;
    samples.deviation = kDeviation;
  }
  return samples;
}

/// A rank's coordinates along the axes by which lists may differ: "pp", "cp", "cp_heads" and "tp".
/// Ranks of "tp" that hold the same keys are counted, too.
struct Coordinates {
  int pp = 0, cp = 0, heads = 0, tp = 0;
};

/// Calls f for all coordinates below `sizes`, in the order of ranks.
template <class F>
void for_each(Coordinates sizes, const F& f) {
  for (int pp = 0; pp < sizes.pp; ++pp) {
    for (int cp = 0; cp < sizes.cp; ++cp) {
      for (int heads = 0; heads < sizes.heads; ++heads) {
        for (int tp = 0; tp < sizes.tp; ++tp) f(Coordinates{pp, cp, heads, tp});
      }
    }
  }
}

/// A table with a list for all of such coordinates. A dimension along which all lists are equal is
/// left out.
IndexTable tabulate(const Mesh& mesh, TableKind kind,
                    const std::function<IndexList(Coordinates)>& list_of) {
  const Coordinates sizes{mesh.size_of("pp"), mesh.size_of("cp"), mesh.size_of("cp_heads"),
                          tensor_ranks(mesh)};
  Coordinates kept{1, 1, 1, 1};
  for_each(sizes, [&](Coordinates at) {
    const IndexList list = list_of(at);
    const auto differs = [&](int Coordinates::*axis) {
      Coordinates first = at;
      first.*axis = 0;
      if (at.*axis > 0 && list != list_of(first)) kept.*axis = sizes.*axis;
    };
    differs(&Coordinates::pp);
    differs(&Coordinates::cp);
    differs(&Coordinates::heads);
    differs(&Coordinates::tp);
  });
  IndexTable table;
  table.kind = kind;
  if (kept.pp > 1) table.dims.push_back(mesh.index_of("pp"));
  if (kept.cp > 1) table.dims.push_back(mesh.index_of("cp"));
  if (kept.heads > 1) table.dims.push_back(mesh.index_of("cp_heads"));
  for (const std::string_view dim : kTensorDims) {
    if (kept.tp > 1 && mesh.size_of(dim) > 1) table.dims.push_back(mesh.index_of(dim));
  }
  for_each(kept, [&](Coordinates at) { table.lists.push_back(list_of(at)); });
  return table;
}

IndexRange one(std::int64_t value) {
  const auto integer = static_cast<std::int32_t>(value);
  return {integer, integer};
}
IndexList single(std::int64_t value) { return {{one(value)}}; }

using Elements = IndexArray<HostData, std::optional<std::int64_t>, kNumHostData>;

/// By data, the number of elements of the buffers that copies of it fill; nullopt if there is no
/// such copy.
Elements elements_from_host(const Draft& draft) {
  Elements elements;
  for (const DraftRole& out : draft.roles) {
    for (const Op& op : out.role.ops) {
      if (op.kind != OpKind::HostToDevice || elements[op.host()]) continue;
      const Buffer& buffer = out.role.buffer(out.role.args_of(op)[0]);
      elements[op.host()] = buffer.bytes.v / size_of(buffer.dtype);
    }
  }
  return elements;
}

}  // namespace

void input(Draft& draft) {
  if (draft.program.tokens_per_step == 0) return;  // the synthetic model reads no data
  const Scenario& s = draft.scenario;
  const Mesh& mesh = draft.program.mesh;
  Input& input = draft.program.input;
  input.samples = samples_of(s, mesh);
  const auto add = [&](TableKind kind, const std::function<IndexList(Coordinates)>& list_of) {
    input.tables.push_back(tabulate(mesh, kind, list_of));
  };
  const std::int64_t own = s.own_seq_len();
  /// The positions in their sequences of tokens [first, first + count) of a rank's rows, which are
  /// counted one row after the other.
  const auto positions = [&](Coordinates at, std::int64_t first, std::int64_t count) {
    const int cp = at.cp * mesh.size_of("cp_heads") + at.heads;
    IndexList list;
    for (std::int64_t i = first, next = i; i < first + count; i = next) {
      // Positions follow each other inside a half of a row.
      const std::int64_t row = i - i % own, half = row + own / 2;
      next = std::min(i < half ? half : row + own, first + count);
      const auto begin = static_cast<std::int32_t>(s.position(cp, i % own));
      append(list, {begin, begin + static_cast<std::int32_t>(next - i) - 1});
    }
    return list;
  };
  if (s.strategy.context_parallel_degree > 1) {
    add(TableKind::Order, [&](Coordinates at) { return positions(at, 0, own); });
  }
  const int sharers = s.strategy.head_ranks();
  const Elements filled = elements_from_host(draft);
  if (filled[HostData::Windows]) input.samples.window = s.model.sliding_window;
  const bool drops_attention = filled[HostData::AttentionDropout].has_value();
  const bool documents = filled[HostData::Documents].has_value() ||
                         filled[HostData::DocumentSpans].has_value() ||
                         filled[HostData::Windows].has_value();
  if ((documents || drops_attention) && s.strategy.key_ranks() > 1) {
    // Ranks that exchange tokens for heads attend with the tokens of all of them.
    add(TableKind::Queries, [&](Coordinates at) {
      IndexList list;
      for (int heads = 0; heads < sharers; ++heads) {
        for (const IndexRange& range : positions({at.pp, at.cp, heads, at.tp}, 0, own).ranges) {
          append(list, range);
        }
      }
      return list;
    });
  }
  // Where ranks of "tp" share the rows, these are divided into chunks, and each of them is shared:
  // of `own` rows, those of a chunk follow each other.
  const int chunks = s.strategy.tensor_parallel_chunks;
  const auto first_own_row = [&](Coordinates at, std::int64_t own, int chunk) {
    return (std::int64_t{chunk} * tensor_ranks(mesh) + at.tp) * (own / chunks);
  };
  const auto keys = filled[HostData::DropoutKeys];
  if (keys && *keys < s.microbatch_size() * own) {
    add(TableKind::Rows, [&](Coordinates at) {
      IndexList list;
      for (int c = 0; c < chunks; ++c) append(list, one(first_own_row(at, *keys, c)));
      return list;
    });
  }
  const int head_shares = tensor_ranks(mesh) * sharers;
  if (drops_attention && head_shares > 1) {
    // Ranks of "tp" divide the heads; those that exchange tokens for heads divide these again.
    const std::int64_t heads = s.model.heads / head_shares;
    add(TableKind::Heads, [&](Coordinates at) {
      const int sharer = sharers == 1 ? 0 : s.strategy.key_ranks() > 1 ? at.heads : at.cp;
      const std::int64_t first = (at.tp * sharers + sharer) * heads;
      return IndexList{{{one(first).first, one(first + heads - 1).last}}};
    });
  }
  // The vocabulary is divided over the ranks of "tp", or of "pp" and "tp".
  const bool over_stages = s.strategy.vocabulary_stages() > 1;
  const int parts = tensor_ranks(mesh) * s.strategy.vocabulary_stages();
  const std::int64_t part = ceil_div(s.model.vocab, parts);
  const auto first_word = [&](Coordinates at) {
    return ((over_stages ? at.pp * tensor_ranks(mesh) : 0) + at.tp) * part;
  };
  if (parts > 1) {
    add(TableKind::Shift, [&](Coordinates at) { return single(first_word(at)); });
  }
  if (const auto elements = filled[HostData::Positions]) {
    // The copy brings all rows, or the rank's share of them. Rows repeat, and so does the list.
    const bool shared = *elements < s.microbatch_size() * own;
    add(TableKind::Positions, [&](Coordinates at) {
      if (!shared) return positions(at, 0, std::min(*elements, own));
      if (chunks == 1) return positions(at, at.tp * *elements, std::min(*elements, own));
      IndexList list;
      for (int c = 0; c < chunks; ++c) {
        const IndexList part = positions(at, first_own_row(at, *elements, c), *elements / chunks);
        for (const IndexRange& range : part.ranges) append(list, range);
      }
      return list;
    });
  }
  if (filled[HostData::Starts]) {
    const int parts = s.strategy.key_ranks();
    add(TableKind::Starts, [&](Coordinates at) {
      IndexList list;
      const auto starts_of = [&](int part) {
        for (const int piece : {0, 1}) append(list, one(s.piece_start(part, piece)));
      };
      // Of keys that are gathered, the rank's own pieces come first, then those of all. Of keys
      // that are passed on, it is the rank's own and those of the rank that is so many before it.
      if (s.strategy.gathers_keys()) starts_of(at.cp);
      for (int p = 0; p < parts; ++p) {
        if (s.strategy.passes_keys()) starts_of(at.cp);
        starts_of(s.strategy.passes_keys() ? (at.cp + parts - p) % parts : p);
      }
      return list;
    });
  }
  if (rule_of(s.optimizer, false).reads_shard_number && s.strategy.state_shards() > 1) {
    const auto last = static_cast<std::int32_t>(s.strategy.state_shards()) - 1;
    add(TableKind::Shards, [&](Coordinates) { return IndexList{{{0, last}}}; });
  }
  if (s.model.lora.dropout > 0 && filled[HostData::Part]) {
    add(TableKind::Parts, [&](Coordinates at) { return single(at.tp); });
  }
  if (filled[HostData::Columns]) {
    add(TableKind::Columns, [&](Coordinates at) {
      return single(std::clamp<std::int64_t>(s.model.vocab - first_word(at), 0, part));
    });
  }
}

}  // namespace lockstep
