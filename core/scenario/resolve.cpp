#include "core/scenario/resolve.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "core/base/nearest.hpp"
#include "core/base/read_file.hpp"
#include "core/model/frozen.hpp"
#include "core/scenario/key_list.hpp"
#include "core/spec/foreign_names.hpp"
#include "core/spec/usual_framework.hpp"
#include "core/spec/validate/warnings.hpp"

namespace lockstep {
namespace {

// The tolerance of an expectation without one, as `key = 57.0`: the error of writing a decimal.
constexpr double kExactRelative = 1e-9;

// Keys of torchtitan that mean what a key of ours says in other words.
constexpr const char* kMicrobatchSize = "pipeline_parallel_microbatch_size";
constexpr const char* kRotateMethod = "context_parallel_rotate_method";
enum class RotateMethod { AllGather, AllToAll };
constexpr auto choices(RotateMethod) {
  return Choices<RotateMethod, 2>{
      {{"allgather", RotateMethod::AllGather}, {"alltoall", RotateMethod::AllToAll}}};
}

struct SectionNames {
  template <class T>
  void section(const char* name, T&, bool /*printed*/) {
    list.emplace_back(name);
  }
  std::vector<std::string> list;
};

/// What may stand at the top of a file.
const std::vector<std::string>& section_names() {
  static const std::vector<std::string> names = [] {
    SectionNames found{{"name", "sweep", "expect"}};
    Scenario s;
    s.costs.emplace();
    describe_sections(found, s);
    return found.list;
  }();
  return names;
}

/// The place of the deepest part of a dotted key that the user wrote; `otherwise` if there is none.
const Location& locate(const Node& root, std::string_view key, const Location& otherwise) {
  const Node* at = &root;
  const Location* found = &otherwise;
  while (at && at->is_table()) {
    const std::size_t dot = key.find('.');
    at = at->find(key.substr(0, dot));
    if (at) found = &at->at;
    if (dot == std::string_view::npos) break;
    key.remove_prefix(dot + 1);
  }
  return *found;
}

class Resolver {
 public:
  Resolver(const Node& root, const std::string& file, Software software, ProfileCache& profiles,
           Diagnostics& diagnostics)
      : root_(root),
        software_(software),
        profiles_(profiles),
        diagnostics_(diagnostics),
        start_{{file, 1, 1}, {}} {
    const std::filesystem::path path(file);
    s_.name = path.stem().string();
    s_.directory = path.has_parent_path() ? path.parent_path().string() : ".";
  }

  Scenario resolve() {
    check_top_level();
    if (const Node* name = root_.find("name")) {
      if (name->kind == Node::Kind::String) {
        s_.name = name->text;
      } else {
        diagnostics_.add(name->at, "name must be a string");
      }
    }
    HfModel model;
    const bool model_known =
        resolve_model(section("model"), s_.directory, start_, diagnostics_, model);
    s_.model = std::move(model.model);
    read("lora", s_.model.lora);
    const bool cluster_known =
        resolve_cluster(section("cluster"), s_.directory, profiles_, diagnostics_, s_.cluster);
    read("data_loader", s_.cluster.loader);
    read("activation_checkpoint", s_.activation_checkpoint);
    read("optimizer", s_.optimizer);
    read("lr_scheduler", s_.lr_scheduler);
    read("loss_scale", s_.loss_scale);
    read("checkpoint", s_.checkpoint);
    read("validation", s_.validation);
    read("campaign", s_.campaign);
    read("what_if", s_.what_if);
    read_parallelism();
    if (cluster_known) take_rest_of_cluster();
    read_framework();
    read("local_sgd", s_.strategy.local_sgd);
    read("power_sgd", s_.strategy.power_sgd);
    read("training", s_.training);
    warn_of_dropouts(model.dropouts);
    take_ways_of_framework();
    read_schedule();
    if (const Node* costs = section("costs")) read_costs(*costs);
    if (const Node* expect = section("expect")) read_expectations(*expect, "");
    fill_defaults();
    report_validation(model_known, cluster_known);
    return std::move(s_);
  }

 private:
  void check_top_level() {
    for (const Node& child : root_.children) {
      const auto& names = section_names();
      if (std::find(names.begin(), names.end(), child.key) != names.end()) continue;
      const std::string what = child.is_table() ? "section [" + child.key + "]"
                                                : "key '" + child.key + "' outside any section";
      const std::string home = child.is_table() ? "" : section_of_key(child.key);
      const auto trainer = child.is_table() ? trainer_of_section(child.key) : std::nullopt;
      diagnostics_.add(child.key_at, "unknown " + what +
                                         (trainer ? "; " + std::string(spoken_name(*trainer)) +
                                                        " has it: `lockstep import " +
                                                        std::string(command_name(*trainer)) +
                                                        " FILE` makes a scenario of such a file"
                                          : home.empty() ? suggest(child.key, names)
                                                         : "; it belongs in [" + home + "]"));
    }
  }

  const Node* section(const char* name) {
    const Node* found = root_.find(name);
    if (!found || found->is_table()) return found;
    diagnostics_.add(found->at, "[" + std::string(name) + "] must be a table, got " +
                                    std::string(describe_kind(found->kind)));
    return nullptr;
  }

  template <class T>
  void read(const char* name, T& out) {
    Reader in(section(name), name, diagnostics_);
    describe(in, out);
    in.finish();
  }

  /// Reads [parallelism], also by the keys that only torchtitan has.
  void read_parallelism() {
    StrategySpec& p = s_.strategy;
    Reader in(section("parallelism"), "parallelism", diagnostics_);
    describe(in, p);
    int size = 0;
    in.field(kMicrobatchSize, size);
    RotateMethod rotate = RotateMethod::AllGather;
    in.field(kRotateMethod, rotate);
    in.finish();
    if (stands_for(in, kRotateMethod, "context_parallel_method")) {
      p.context_parallel_method = rotate == RotateMethod::AllGather
                                      ? ContextParallelMethod::AllGather
                                      : ContextParallelMethod::Ring;
    }
    if (stands_for(in, kMicrobatchSize, "pipeline_parallel_microbatches")) microbatch_size_ = size;
  }

  /// A GPU runs what people run on it, unless the file says which software, or durations are given.
  void read_framework() {
    FrameworkSpec& framework = s_.cluster.framework;
    const bool own = software_ == Software::Own || s_.cluster.device.is_host();
    if (!own && section("costs") == nullptr) {
      StrategySpec plan = s_.strategy;
      // A model that is not divided yet, on several GPUs, is about to be: by what can divide it.
      const bool open = plan.world_size() == 1 && s_.cluster.capacity() > 1;
      if (open && !s_.model.is_vision()) plan.tensor_parallel_degree = 2;
      framework.preset = framework_of_plan(plan).preset;
    }
    resolve_framework(section("framework"), s_.directory, diagnostics_, framework);
  }

  /// Warns of the dropouts of a Hugging Face model that the training says nothing of.
  void warn_of_dropouts(const std::map<std::string, std::string>& dropouts) {
    for (const auto& [key, warning] : dropouts) {
      if (given("training", key)) continue;
      diagnostics_.warn(locate(root_, "model.hf_config", start_), warning);
    }
  }

  /// Whether torchtitan's key is given. An error if ours is, too.
  bool stands_for(const Reader& in, const char* theirs, const char* ours) {
    if (!in.given(theirs)) return false;
    if (in.given(ours)) {
      const std::string path = "parallelism.";
      diagnostics_.add_for_key(
          path + ours, locate(root_, path + theirs, start_),
          std::string(theirs) + " and " + ours + " say the same: give one of them");
    }
    return true;
  }

  /// Counts the microbatches that torchtitan's key sizes.
  void count_microbatches() {
    if (!microbatch_size_) return;
    const std::string key = "parallelism.pipeline_parallel_microbatches";
    const int batch = s_.training.local_batch_size;
    std::string fault;
    if (!given("training", "local_batch_size")) {
      fault = " needs training.local_batch_size, which it divides";
    } else if (*microbatch_size_ < 1 || batch % *microbatch_size_ != 0) {
      fault = " does not divide local_batch_size=" + std::to_string(batch);
    }
    if (fault.empty()) {
      s_.strategy.pipeline_parallel_microbatches = batch / *microbatch_size_;
      return;
    }
    diagnostics_.add_for_key(
        key, locate(root_, std::string("parallelism.") + kMicrobatchSize, start_),
        std::string(kMicrobatchSize) + "=" + std::to_string(*microbatch_size_) + fault);
  }

  /// Reads the user's own schedule, a CSV file of PyTorch. Its path is relative to the scenario's
  /// folder.
  void read_schedule() {
    const std::string key = "parallelism.pipeline_parallel_schedule_csv";
    const std::string& name = s_.strategy.pipeline_parallel_schedule_csv;
    if (name.empty()) return;
    const std::string path = (std::filesystem::path(s_.directory) / name).string();
    const Result<std::string> text = read_file(path);
    if (!text) {
      diagnostics_.add_for_key(key, locate(root_, key, start_), text.error().message,
                               ErrorKind::Parse);
      return;
    }
    Result<Schedule> schedule = parse_schedule_csv(*text, path);
    if (schedule) {
      schedule->copies = copies_of_model(*schedule, s_.strategy.num_stages());
      s_.strategy.pipeline_parallel_schedule_actions = std::move(*schedule);
    } else {
      diagnostics_.add_for_key(key, {*schedule.error().where, {}}, schedule.error().message,
                               ErrorKind::Parse);
    }
  }

  void read_costs(const Node& table) {
    Reader in(&table, "costs", diagnostics_);
    describe(in, s_.costs.emplace());
    in.finish();
    for (const char* key : {"forward", "backward_input", "backward_weight"}) {
      if (in.given(key)) continue;
      diagnostics_.add_for_key(std::string("costs.") + key, table.at,
                               std::string("[costs] needs '") + key + "' (seconds)",
                               ErrorKind::InvalidSpec);
    }
  }

  /// Collects the expected values. Dotted keys and sub-sections make up the key of an expectation;
  /// an inline table { value = … } is a value with its tolerance.
  void read_expectations(const Node& table, const std::string& prefix) {
    for (const Node& child : table.children) {
      const std::string key = prefix + child.key;
      if (child.is_table() && !child.inline_table && !child.children.empty()) {
        read_expectations(child, key + ".");
        continue;
      }
      Expectation expectation;
      expectation.key = key;
      expectation.where = child.key_at.span;
      if (read_tolerance(child, key, expectation)) s_.expect.push_back(std::move(expectation));
    }
  }

  bool read_tolerance(const Node& node, const std::string& key, Expectation& out) {
    if (node.is_number()) {
      out.value = node.number;
      out.relative = kExactRelative;
      if (std::isfinite(node.number)) return true;
    }
    if (!node.is_table()) {
      diagnostics_.add(node.at, "expected value of '" + key +
                                    "' must be a finite number or { value, relative, absolute, "
                                    "min, max }");
      return false;
    }
    Reader in(&node, "expect." + key, diagnostics_);
    double min = 0, max = 0;
    in.field("value", out.value);
    in.field("relative", out.relative);
    in.field("absolute", out.absolute);
    in.field("min", min);
    in.field("max", max);
    in.finish();
    if (in.given("min")) out.min = min;
    if (in.given("max")) out.max = max;
    const bool range = out.min || out.max;
    if (range == in.given("value") || (range && (in.given("relative") || in.given("absolute")))) {
      diagnostics_.add(node.at,
                       "'" + key +
                           "' needs either value (with relative or absolute) or "
                           "min and max",
                       ErrorKind::InvalidSpec);
      return false;
    }
    if (!range && !in.given("relative") && !in.given("absolute")) out.relative = kExactRelative;
    if (!(out.relative >= 0 && out.absolute >= 0)) {
      diagnostics_.add(node.at, "a tolerance must not be negative", ErrorKind::InvalidSpec);
    }
    return true;
  }

  bool given(std::string_view table, std::string_view key) const {
    const Node* at = root_.find(table);
    return at && at->is_table() && at->find(key);
  }

  /// What a framework does unless [parallelism] and [training] say otherwise.
  void take_ways_of_framework() {
    const FrameworkSpec& f = s_.cluster.framework;
    StrategySpec& p = s_.strategy;
    const bool gathers = p.state_shards() > 1 && p.zero_stage > 0 && p.zero_stage < 3;
    if (!given("parallelism", "overlap_grad_reduce")) p.overlap_grad_reduce = f.overlap_grad_reduce;
    if (!given("parallelism", "overlap_param_gather") && gathers) {
      p.overlap_param_gather = f.overlap_param_gather;
    }
    if (!given("parallelism", "all_reduce_each_microbatch")) {
      p.all_reduce_each_microbatch = f.all_reduce_each_microbatch;
    }
    if (f.waits_for_messages && !given("parallelism", "pipeline_parallel_p2p") &&
        !s_.strategy.vocabulary_parallel_pipeline &&
        p.pipeline_parallel_schedule == PipelineSchedule::OneFOneB) {
      p.pipeline_parallel_p2p = P2pPosting::Fused;
    }
    if (p.sequence_parallel()) s_.cluster.framework.scatters_messages = false;  // ranks have parts
    // Chunks overlap the same products in the program.
    if (p.tensor_parallel_chunks > 1 && !given("framework", "overlaps_products")) {
      s_.cluster.framework.overlaps_products = false;
    }
    if (!f.prefetches_gathers && !given("parallelism", "fsdp_prefetch")) p.fsdp_prefetch = 0;
    if (f.gradients_as_parameters && !given("training", "mixed_precision_reduce")) {
      s_.training.mixed_precision_reduce = s_.training.mixed_precision_param;
    }
  }

  /// Fills in defaults that depend on other values.
  void fill_defaults() {
    count_microbatches();
    const ModelSpec& m = s_.model;
    if (m.is_vision() && !given("training", "seq_len")) s_.training.seq_len = 1;
    if (!given("training", "seq_len") && m.max_seq_len > 0 && m.max_seq_len < s_.training.seq_len) {
      s_.training.seq_len = static_cast<int>(m.max_seq_len);
    }
    if (!given("training", "local_batch_size")) {  // one sequence per microbatch
      s_.training.local_batch_size = std::max(1, s_.strategy.pipeline_parallel_microbatches);
    }
    if (m.is_text() && m.learns_positions() && m.max_seq_len == 0 &&
        !given("model", "max_seq_len")) {
      s_.model.max_seq_len = s_.training.seq_len;
    }
    choose_precision();
  }

  /// A device with units for bfloat16 computes in it, and the optimizer keeps float32 masters, as
  /// everybody trains on it, unless the file names a type.
  void choose_precision() {
    const auto& peaks = s_.cluster.device.peaks;
    const bool units = std::any_of(peaks.begin(), peaks.end(),
                                   [](const PeakRate& peak) { return peak.dtype == DType::BF16; });
    const bool named = given("training", "dtype") || given("training", "mixed_precision_param");
    if (!units || named || s_.model.architecture == Architecture::Synthetic) return;
    s_.training.mixed_precision_param = PartDType::BF16;
  }

  /// Resolves data_parallel_shard_degree = -1, which, as in torchtitan, takes the ranks that the
  /// other degrees leave.
  void take_rest_of_cluster() {
    StrategySpec& p = s_.strategy;
    if (p.data_parallel_shard_degree != -1) return;
    const ClusterSpec& c = s_.cluster;
    // validate() reports so many ranks, and degrees below 1.
    if (1.0 * c.nodes * c.devices_per_node * c.ranks_per_device > 1e9) return;
    const std::int64_t capacity = c.capacity();
    std::int64_t others = 1;
    for (const int degree : {p.data_parallel_replicate_degree, p.context_parallel_degree,
                             p.tensor_parallel_degree, p.pipeline_parallel_degree}) {
      if (degree < 1 || capacity < 1) return;
      others = std::min(others * degree, capacity + 1);
    }
    const std::string key = "parallelism.data_parallel_shard_degree";
    if (others > capacity || capacity % others != 0) {
      diagnostics_.add_for_key(key, locate(root_, key, start_),
                               "data_parallel_shard_degree=-1 takes the rest of the cluster, but "
                               "the other degrees do not divide its " +
                                   std::to_string(capacity) + " ranks",
                               ErrorKind::InvalidSpec);
      return;
    }
    p.data_parallel_shard_degree = static_cast<int>(capacity / others);
  }

  void report_validation(bool model_known, bool cluster_known) {
    std::vector<Fault> faults = validate(s_);
    // Which parameters a model has is known only of sizes that are not refused.
    if (faults.empty() && !s_.model.frozen.empty()) {
      for (Error& fault : faults_of_frozen(s_.model, build_layers(s_.model, {}))) {
        faults.push_back({"model.frozen", std::move(fault)});
      }
    }
    if (faults.empty()) {
      for (Warning& warning : warnings(s_)) {
        diagnostics_.warn(locate(root_, warning.key, start_), std::move(warning.message));
      }
    }
    for (Fault& fault : faults) {
      // A fault that follows from one already noted would mislead.
      if (diagnostics_.has_key(fault.key)) continue;
      if (!model_known && fault.key.starts_with("model.")) continue;
      if (!model_known && fault.key == "costs") continue;
      if (!cluster_known && (fault.key == "parallelism" || fault.key.starts_with("cluster."))) {
        continue;
      }
      diagnostics_.add(locate(root_, fault.key, start_), std::move(fault.error.message),
                       fault.error.kind);
    }
  }

  const Node& root_;
  Software software_;
  ProfileCache& profiles_;
  Diagnostics& diagnostics_;
  Location start_;
  std::optional<int> microbatch_size_;  // torchtitan's key
  Scenario s_;
};

}  // namespace

Scenario resolve(const Node& root, const std::string& file, Software software,
                 ProfileCache& profiles, Diagnostics& diagnostics) {
  return Resolver(root, file, software, profiles, diagnostics).resolve();
}

}  // namespace lockstep
