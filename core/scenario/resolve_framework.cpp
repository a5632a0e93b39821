#include <filesystem>

#include "core/base/read_file.hpp"
#include "core/scenario/presets.hpp"
#include "core/scenario/resolve.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {
namespace {

void check_figures(const FrameworkSpec& f, const Reader& in, Diagnostics& diagnostics) {
  const auto not_negative = [&](const char* key, double value) {
    const Node* node = in.node(key);
    if (value >= 0 || node == nullptr) return;
    diagnostics.add(node->at, std::string(key) + " must not be negative", ErrorKind::InvalidSpec);
  };
  not_negative("host_kernel_us", f.host_kernel.v);
  not_negative("layer_us", f.layer.v);
  not_negative("step_us", f.step.v);
  not_negative("float32_logits", f.float32_logits);
  not_negative("kept_logits", f.kept_logits);
  not_negative("optimizer_bytes", f.optimizer_bytes);
  not_negative("context_mb", static_cast<double>(f.context.v));
  not_negative("workspaces", f.workspaces);
  not_negative("communicators", f.communicators);
  not_negative("fragments", f.fragments);
  not_negative("cached", f.cached);
  const Node* rate = in.node("new_matmul_rate");
  if (rate != nullptr && !(f.new_matmul_rate > 0)) {
    diagnostics.add(rate->at, "new_matmul_rate must be positive", ErrorKind::InvalidSpec);
  }
}

void read_figures(std::string_view text, const std::string& file, Diagnostics& diagnostics,
                  FrameworkSpec& out) {
  const Result<Node> root = parse_document(text, file);
  if (!root) {
    diagnostics.add({*root.error().where, {}}, root.error().message);
    return;
  }
  Reader figures(&*root, "", diagnostics);
  describe(figures, out);
  figures.finish();
  check_figures(out, figures, diagnostics);
}

void read_preset(const Reader& in, Diagnostics& diagnostics, FrameworkSpec& out) {
  for (const EmbeddedProfile& preset : embedded_frameworks()) {
    if (preset.name == out.preset) {
      read_figures(preset.text, "frameworks/" + std::string(preset.name) + ".toml", diagnostics,
                   out);
      return;
    }
  }
  diagnostics.add(in.node("preset")->at,
                  "unknown framework preset '" + out.preset + "'" +
                      suggest_and_list(out.preset, framework_preset_names()));
}

}  // namespace

void resolve_framework(const Node* section, const std::string& directory, Diagnostics& diagnostics,
                       FrameworkSpec& out) {
  Reader in(section, "framework", diagnostics);
  std::string profile;
  in.field("preset", out.preset);
  in.field("profile", profile);
  if (const Node* at = in.node("profile")) {
    const auto path = (std::filesystem::path(directory) / profile).lexically_normal();
    const Result<std::string> text = read_file(path.string());
    if (in.given("preset")) {
      diagnostics.add(at->at, "give framework.preset or framework.profile, not both");
    } else if (text) {
      read_figures(*text, path.string(), diagnostics, out);
    } else {
      diagnostics.add(at->at, text.error().message + " (a framework profile)");
    }
  } else {
    read_preset(in, diagnostics, out);
  }
  describe(in, out);
  in.finish();
  check_figures(out, in, diagnostics);
}

}  // namespace lockstep
