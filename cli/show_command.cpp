// lockstep show: prints what a scenario means, without running it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "cli/commands.hpp"
#include "cli/json_text.hpp"
#include "cli/memory_text.hpp"
#include "cli/other_file.hpp"
#include "cli/show_json.hpp"
#include "core/base/nearest.hpp"
#include "core/base/result.hpp"
#include "core/format/format.hpp"
#include "core/format/table.hpp"
#include "core/ir/text/text.hpp"
#include "core/lower/capacity.hpp"
#include "core/lower/lower.hpp"
#include "core/model/model.hpp"
#include "core/plan/remedies.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/schedule/communication.hpp"
#include "core/session/simulation.hpp"

namespace lockstep {
namespace {

/// The order of the pipeline ranks' actions in the notation of torch.distributed.pipelining:
/// 0F0 0B0.
std::string schedule_text(const Program& program, std::optional<Rank> rank) {
  const int pp = program.mesh.index_of("pp");
  std::string text;
  int next = 0;  // the next pipeline coordinate; its ranks share one order
  for (Rank r = 0; r < program.mesh.world_size(); ++r) {
    const int coordinate = pp < 0 ? 0 : program.mesh.coordinate(r, pp);
    if (rank ? r != *rank : coordinate != next) continue;
    text += fmt::format("pp{}:", coordinate);
    for (const PipelineAction& a : actions_of(program.role_of(r))) {
      text += fmt::format(" {}{}{}", a.stage, to_string(a.phase), a.microbatch);
    }
    text += "\n";
    ++next;
  }
  return text;
}

/// The sizes of a model, on a line.
std::string sizes_text(const ModelSpec& spec) {
  const std::string images = fmt::format("images of {} x {} x 3, {} classes", spec.image_size,
                                         spec.image_size, spec.classes);
  if (spec.has_batch_norm()) {
    return fmt::format("{}: {} {} blocks, width {}, {}\n", spec.name, spec.layers,
                       spec.bottleneck ? "bottleneck" : "basic", spec.width, images);
  }
  return fmt::format(
      "{}: {} layers, hidden {}, {} heads ({} key/value) of {}, feed-forward {}, {}\n", spec.name,
      spec.layers, spec.hidden, spec.heads, spec.kv_heads, spec.head_dim, spec.ffn_hidden,
      spec.is_vision()
          ? fmt::format("patches of {} x {}, {}", spec.patch_size, spec.patch_size, images)
          : fmt::format("vocabulary {}", spec.vocab));
}

std::string model_text(const Scenario& scenario, const Program& program, const Screen& screen) {
  const ModelSpec& spec = scenario.model;
  if (spec.architecture == Architecture::Synthetic) {
    return fmt::format("{}: {} virtual stages of given times, no parameters\n", spec.name,
                       scenario.strategy.num_stages());
  }
  LayerShape shape;  // of one sequence, or one image
  shape.seq = scenario.training.seq_len;
  const Model model = layers_of(scenario);
  const double forward = model.forward_flops().v / static_cast<double>(shape.seq);
  std::string text = sizes_text(spec);
  if (spec.is_latent()) {
    const LatentSpec& latent = spec.latent;
    text += fmt::format(
        "latent attention: keys and values of {} columns, queries of {}; heads of {} + {} rotated, "
        "values of {}\n",
        latent.kv_lora_rank, latent.q_lora_rank > 0 ? latent.q_lora_rank : spec.hidden,
        latent.qk_nope_head_dim, latent.qk_rope_head_dim, latent.v_head_dim);
  }
  if (spec.dense_layers > 0) {
    text += fmt::format("{} dense blocks before those with experts, feed-forward {}\n",
                        spec.dense_layers, spec.dense_width());
  }
  if (spec.experts > 0) {
    const std::string blocks =
        spec.expert_period > 1 ? fmt::format("every {}. block", spec.expert_period) : "every block";
    const auto rows = spec.expert_rows(shape.own_rows(), shape.expert_parallel);
    const std::string room =
        spec.is_dropless()
            ? fmt::format("none dropped, with room for {} rows of a mean of {}", rows.places,
                          shape.own_rows() * spec.experts_per_token)
            : fmt::format("with room for {} of {} tokens",
                          spec.expert_capacity(shape.rows(), shape.expert_parallel), shape.rows());
    text +=
        fmt::format("{} experts in {}{}, {} per token, {}: {} active parameters\n", spec.experts,
                    blocks, spec.dense_layers > 0 ? " behind those" : "", spec.experts_per_token,
                    room, count_text(double(model.active_parameter_count(spec))));
  }
  text += fmt::format("{} parameters{}\n", count_text(double(model.parameter_count())),
                      spec.tied_embeddings ? "; the output layer shares the embedding" : "");
  if (spec.freezes()) {
    text += fmt::format("{} of them are trained\n", count_text(double(model.trained_count())));
  }
  text += fmt::format(
      "{} forward, {} forward and backward per {}\n\n", flops_text({forward}),
      flops_text({model.training_flops().v / static_cast<double>(shape.seq)}),
      spec.is_vision() ? "image" : fmt::format("token at {} tokens per sequence", shape.seq));
  text = wrapped(text, screen, 2);
  TextTable layers(
      {"layer", "parameters", spec.is_vision() ? "forward per image" : "forward per token"});
  std::set<int> counted;
  for (const Layer& layer : model.layers) {
    layers.add({layer.name, count_text(elements_of(model, layer, counted)),
                flops_text({layer.forward_flops.v / static_cast<double>(shape.seq)})});
  }
  TextTable parameters({"parameter", "shape", "elements"}, 2);
  for (const Parameter& p : program.parameters) {
    std::string dims;
    for (const std::int64_t d : p.shape) dims += (dims.empty() ? "" : " x ") + std::to_string(d);
    parameters.add({p.name, dims, count_text(double(p.elements()))});
  }
  return text + layers.text(screen) + "\n" + parameters.text(screen);
}

nlohmann::ordered_json shown(const std::string& what, const Scenario& scenario,
                             const Program& program, std::optional<Rank> rank) {
  if (what == "schedule") return schedule_json(program, rank);
  if (what == "memory") return memory_json(scenario, program, rank);
  if (what == "model") return model_json(scenario, program);
  return program_json(program, rank);
}

/// The text to print. A program that does not fit is shown all the same, with a warning.
Result<std::string> show(const ShowArguments& arguments, const Scenario& scenario,
                         const Console& console) {
  if (arguments.csv) {
    const Schedule schedule = lower_schedule(scenario);
    if (!arguments.communication) return print_schedule_csv(schedule);
    return print_communication_csv(schedule, scenario.strategy.fsdp_max_active_stages);
  }
  if (!arguments.after.empty()) {
    const auto& passes = pass_names();
    if (std::find(passes.begin(), passes.end(), arguments.after) == passes.end()) {
      return invalid("--after '" + arguments.after + "' is no pass" +
                     suggest(arguments.after, passes));
    }
  }
  std::string dump;
  PassObserver observer;
  if (!arguments.after.empty()) {
    observer = [&](std::string_view pass, const std::function<std::string()>& print_state) {
      if (pass == arguments.after) dump = print_state();
    };
  }
  const Result<Program> program = lower(scenario, observer);
  if (!dump.empty()) return dump;  // shown even if the finished program does not verify
  if (!program) return program.error();
  if (const auto fits = check_capacity(*program, scenario.cluster); !fits) {
    Error misfit = fits.error();
    misfit.message = "does not fit: " + misfit.message + "\n" +
                     remedies_text(remedies(scenario, simulated_layout, simulated_probe));
    report_warnings(console, {misfit});
  }
  std::optional<Rank> rank;
  if (arguments.rank) {
    const int world = program->mesh.world_size();
    if (*arguments.rank < 0 || *arguments.rank >= world) {
      return invalid(fmt::format("--rank {}: ranks are 0 to {}", *arguments.rank, world - 1));
    }
    rank = *arguments.rank;
  }
  if (arguments.json) return json_text(shown(arguments.what, scenario, *program, rank));
  if (arguments.what == "schedule") return schedule_text(*program, rank);
  if (arguments.what == "memory") return memory_text(scenario, *program, rank, console.screen());
  if (arguments.what == "model") return model_text(scenario, *program, console.screen());
  if (rank) return print_role(*program, program->role_of_rank[*rank]);
  return print(*program);
}

}  // namespace

int show_command(const ShowArguments& arguments, const Console& console) {
  static const std::vector<std::string> subjects = {"program", "schedule", "memory", "model"};
  const bool known = std::find(subjects.begin(), subjects.end(), arguments.what) != subjects.end();
  if (arguments.scenario.empty()) {
    return report_error(
        console, known ? invalid("lockstep show " + arguments.what + " needs a scenario (TOML)")
                       : invalid("lockstep show needs what to show: program, schedule, memory or "
                                 "model; then a scenario (TOML): lockstep show memory " +
                                 arguments.what));
  }
  if (!known) {
    return report_error(console, invalid("show '" + arguments.what + "' is not known" +
                                         suggest(arguments.what, subjects)));
  }
  if (!arguments.after.empty() && arguments.what != "program") {
    return report_error(console, invalid("--after goes with show program only"));
  }
  if (arguments.communication && !arguments.csv) {
    return report_error(console, invalid("--communication goes with --csv only"));
  }
  if (arguments.csv && (arguments.what != "schedule" || arguments.rank)) {
    return report_error(console, invalid("--csv goes with show schedule, of all ranks"));
  }
  if (arguments.json && (arguments.csv || !arguments.after.empty())) {
    return report_error(console, invalid("--json goes with neither --csv nor --after"));
  }
  if (const auto other = other_than_scenario(arguments.scenario)) {
    return report_error(console, *other);
  }
  const LoadedScenario loaded = load_scenario(arguments.scenario, arguments.set);
  if (!loaded.ok()) return report_errors(console, loaded.errors);
  report_warnings(console, loaded.warnings);
  if (arguments.json && loaded.points.size() > 1) {
    return report_error(console, invalid(arguments.scenario + " is a sweep, and --json shows one "
                                                              "scenario: choose it with --set"));
  }
  for (const SweepPoint& point : loaded.points) {
    if (loaded.points.size() > 1) console.out << "# " << point.label << "\n";
    const Result<std::string> text = show(arguments, point.scenario, console);
    if (!text) return report_error(console, text.error());
    console.out << *text;
  }
  return 0;
}

}  // namespace lockstep
