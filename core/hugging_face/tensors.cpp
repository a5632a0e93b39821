#include "core/hugging_face/tensors.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace lockstep {
namespace {

/// Splits "blocks.7.attn.wo" into the number and the rest; -1 and the whole for another layer.
std::pair<std::int64_t, std::string> place_of(const std::string& name) {
  const std::string prefix = "blocks.";
  if (!name.starts_with(prefix)) return {-1, name};
  const std::size_t dot = name.find('.', prefix.size());
  return {std::stoll(name.substr(prefix.size())), name.substr(dot + 1)};
}

/// `text` with the number in the place of its first #.
std::string numbered(std::string text, std::int64_t number) {
  return text.replace(text.find('#'), 1, std::to_string(number));
}

/// "a.{q,k,v}.w" -> "a.q.w", "a.k.w", "a.v.w"
std::vector<std::string> alternatives(const std::string& name) {
  const std::size_t begin = name.find('{'), end = name.find('}');
  if (begin == std::string::npos) return {name};
  std::vector<std::string> names;
  for (std::size_t at = begin + 1; at <= end;) {
    const std::size_t comma = std::min(end, name.find(',', at));
    names.push_back(name.substr(0, begin) + name.substr(at, comma - at) + name.substr(end + 1));
    at = comma + 1;
  }
  return names;
}

/// Tensors with equal numbers of rows, or with those of queries, keys and values.
std::vector<HfTensor> stacked(const std::vector<std::string>& names,
                              const std::vector<std::int64_t>& shape, std::int64_t begin,
                              const ModelSpec& spec) {
  const std::int64_t inner =
      std::accumulate(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
  const std::int64_t keys = spec.kv_heads * spec.head_dim;
  const std::int64_t of_attention[] = {spec.heads * spec.head_dim, keys, keys};
  std::vector<HfTensor> tensors;
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::vector<std::int64_t> own = shape;
    own[0] = names.size() == 3 ? of_attention[i] : shape[0] / static_cast<int>(names.size());
    begin += tensors.empty() ? 0 : tensors.back().shape[0] * inner;
    tensors.push_back({names[i], std::move(own), begin});
  }
  return tensors;
}

/// The heads of queries, then those of keys and of values, in a tensor that has those of one head
/// behind each other.
std::vector<HfTensor> by_head(const std::string& name, const Parameter& parameter,
                              const ModelSpec& spec) {
  const std::int64_t head = parameter.elements() / (3 * spec.heads);
  std::vector<HfTensor> tensors;
  for (std::int64_t part = 0; part < 3; ++part) {
    for (std::int64_t h = 0; h < spec.heads; ++h) {
      tensors.push_back({.name = name,
                         .shape = parameter.shape,
                         .begin = (part * spec.heads + h) * head,
                         .skipped = (3 * h + part) * head,
                         .count = head});
    }
  }
  return tensors;
}

std::vector<HfTensor> tensors_of(const HfName& row, const std::string& name, const ModelSpec& spec,
                                 const Parameter& parameter) {
  const std::vector<std::int64_t>& shape = parameter.shape;
  if (row.how == HfHow::ByHead) return by_head(name, parameter, spec);
  if (name.find('#') == std::string::npos) {
    std::vector<HfTensor> tensors = stacked(alternatives(name), shape, 0, spec);
    for (HfTensor& tensor : tensors) {
      tensor.transposed = row.how == HfHow::Transposed;
      if (tensor.transposed) std::swap(tensor.shape[0], tensor.shape[1]);
      if (row.how == HfHow::LessOne) tensor.less = 1;
      if (row.how == HfHow::PaddingRows) {
        tensor.shape[0] += kHfPaddingRows;
        tensor.skipped = kHfPaddingRows * shape[1];
      }
    }
    return tensors;
  }
  std::vector<HfTensor> tensors;  // of one expert after the other
  const std::int64_t matrix = parameter.elements() / shape[0];
  for (std::int64_t e = 0; e < shape[0]; ++e) {
    for (HfTensor& tensor :
         stacked(alternatives(numbered(name, e)), {shape[1], shape[2]}, e * matrix, spec)) {
      tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

}  // namespace

std::int64_t HfTensor::elements() const {
  if (count > 0) return count;
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()) -
         skipped;
}

Result<std::vector<HfTensor>> hf_tensors(const HfFamily& family, const ModelSpec& spec,
                                         const Parameter& parameter) {
  const auto [block, rest] = place_of(parameter.name);
  const std::string prefix = block < 0 ? "" : numbered(std::string(family.block), block);
  for (const std::span<const HfName> names : family.names) {
    for (const HfName& row : names) {
      if (row.ours == rest) {
        return tensors_of(row, prefix + std::string(row.theirs), spec, parameter);
      }
    }
  }
  return Error{ErrorKind::Unsupported,
               "parameter '" + parameter.name + "' has no tensor in a " + std::string(family.type) +
                   " of Hugging Face's transformers that is known here",
               std::nullopt};
}

bool is_hf_leftover(const HfFamily& family, const ModelSpec& spec, std::string_view name) {
  if (name == "lm_head.weight" || name == "embed_out.weight") return spec.tied_embeddings;
  if (name.ends_with("rotary_emb.inv_freq")) return true;
  return std::any_of(family.leftovers.begin(), family.leftovers.end(), [&](std::string_view known) {
    return name.starts_with(known) || name.ends_with(known);
  });
}

}  // namespace lockstep
