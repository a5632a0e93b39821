#include <filesystem>

#include "core/base/read_file.hpp"
#include "core/scenario/presets.hpp"
#include "core/scenario/resolve.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/spec/validate/validate.hpp"

namespace lockstep {
namespace {

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
  for (const Fault& fault : faults_of_keys(out)) {
    const Node* at = figures.node(fault.key);
    diagnostics.add(at != nullptr ? at->at : Location{{file, 1, 1}, {}}, fault.error.message,
                    fault.error.kind);
  }
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
      out.preset = FrameworkSpec{}.preset;
      read_figures(*text, path.string(), diagnostics, out);
    } else {
      diagnostics.add(at->at, text.error().message + " (a framework profile)");
    }
  } else {
    read_preset(in, diagnostics, out);
  }
  describe(in, out);
  in.finish();
}

}  // namespace lockstep
