#include "core/scenario/presets.hpp"
#include "core/scenario/resolve.hpp"

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

}  // namespace

void resolve_framework(const Node* section, Diagnostics& diagnostics, FrameworkSpec& out) {
  Reader in(section, "framework", diagnostics);
  in.field("preset", out.preset);
  std::vector<std::string> names;
  bool known = false;
  for (const EmbeddedProfile& preset : embedded_frameworks()) {
    names.emplace_back(preset.name);
    if (preset.name != out.preset) continue;
    known = true;
    const Result<Node> root =
        parse_document(preset.text, "frameworks/" + std::string(preset.name) + ".toml");
    if (!root) {
      diagnostics.add({*root.error().where, {}}, root.error().message);
      continue;
    }
    Reader figures(&*root, "", diagnostics);
    describe(figures, out);
    figures.finish();
  }
  if (!known) {
    diagnostics.add(in.node("preset")->at, "unknown framework preset '" + out.preset + "'" +
                                               suggest_and_list(out.preset, names));
  }
  describe(in, out);
  in.finish();
  check_figures(out, in, diagnostics);
}

}  // namespace lockstep
