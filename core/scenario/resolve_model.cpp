#include <filesystem>
#include <numeric>

#include "core/hugging_face/config.hpp"
#include "core/scenario/presets.hpp"
#include "core/scenario/resolve.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t kLargestSize = std::int64_t{1} << 40;  // keeps the products below in range

/// Derives what the user left open where another size is given: the width of a head, which is
/// hidden / heads, or with latent attention the sum of its parts; as many key/value heads as query
/// heads if the base had that; and the feed-forward width, as the architecture has it.
void derive_sizes(const Reader& in, const ModelSpec& base, Diagnostics& diagnostics, ModelSpec& m) {
  if (m.has_batch_norm()) {
    if (!in.given("layers") && in.given("blocks")) {
      m.layers = std::accumulate(m.blocks.begin(), m.blocks.end(), std::int64_t{0});
    }
    return;
  }
  const bool in_range = m.hidden > 0 && m.hidden < kLargestSize && m.heads > 0;
  if (!in_range) return;  // validate() reports it
  if (m.is_latent()) {
    if (!in.given("head_dim")) m.head_dim = m.latent.qk_head_dim();
    if (!in.given("kv_heads")) m.kv_heads = m.heads;
  } else if (!in.given("head_dim") && (in.given("hidden") || in.given("heads"))) {
    if (m.hidden % m.heads != 0) {
      const Node* at = in.given("hidden") ? in.node("hidden") : in.node("heads");
      diagnostics.add(at->at,
                      "heads=" + std::to_string(m.heads) +
                          " does not divide hidden=" + std::to_string(m.hidden) + ": give head_dim",
                      ErrorKind::InvalidSpec);
    }
    m.head_dim = m.hidden / m.heads;
  }
  if (!in.given("kv_heads") && in.given("heads") && base.kv_heads == base.heads) {
    m.kv_heads = m.heads;
  }
  if (!in.given("ffn_hidden") && in.given("hidden")) {
    // A gated network has 2/3 of 4 × hidden, up to the next multiple of 256 (Touvron et al. 2023,
    // and the configs of Llama's released weights).
    m.ffn_hidden = m.is_gated() ? round_up(ceil_div(8 * m.hidden, 3), 256) : 4 * m.hidden;
  }
}

}  // namespace

bool resolve_model(const Node* section, const std::string& directory, const Location& missing,
                   Diagnostics& diagnostics, HfModel& out) {
  ModelSpec& m = out.model;
  Reader in(section, "model", diagnostics);
  std::string preset, hf_config;
  in.field("preset", preset);
  in.field("hf_config", hf_config);
  bool known = true;
  if (in.given("preset") && in.given("hf_config")) {
    diagnostics.add(in.node("hf_config")->at, "give model.preset or model.hf_config, not both");
    known = false;
  } else if (const Node* at = in.node("preset")) {
    const std::optional<ModelSpec> found = find_model_preset(preset);
    if (found) {
      m = *found;
    } else {
      known = false;
      const bool read = at->kind == Node::Kind::String || !preset.empty();  // --set needs no quotes
      if (read) {
        diagnostics.add(at->at, "unknown model preset '" + preset + "'" +
                                    suggest_and_list(preset, model_preset_names()));
      }
    }
  } else if (const Node* at = in.node("hf_config")) {
    const auto path = (std::filesystem::path(directory) / hf_config).lexically_normal();
    const Result<HfModel> read = read_hf_config(path.string());
    if (read) {
      out = *read;
      for (const std::string& warning : read->warnings) diagnostics.warn(at->at, warning);
    } else {
      known = false;
      diagnostics.add(at->at, read.error().message, read.error().kind);
    }
  } else if (!in.given("architecture")) {
    diagnostics.add(section ? section->at : missing,
                    "[model] needs a preset, an hf_config, or an architecture with its sizes");
    known = false;
  }
  const ModelSpec base = m;
  describe(in, m);
  const bool from_sizes = !in.given("preset") && !in.given("hf_config");
  if (from_sizes && !in.given("tied_embeddings")) {
    m.tied_embeddings = m.architecture == Architecture::Gpt2;
  }
  if (from_sizes && !in.given("name")) m.name = "custom";
  if (known) derive_sizes(in, base, diagnostics, m);
  in.finish();
  return known;
}

}  // namespace lockstep
