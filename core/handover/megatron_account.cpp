#include "core/handover/megatron_account.hpp"

#include <algorithm>
#include <charconv>

namespace lockstep {
namespace {

// Arguments that change neither what is computed nor where, by their beginnings.
constexpr std::string_view kWithoutEffect[] = {"log-",
                                               "tensorboard-",
                                               "wandb-",
                                               "save",
                                               "load",
                                               "no-load-",
                                               "no-save-",
                                               "ckpt-",
                                               "dist-ckpt-",
                                               "data-",
                                               "split",
                                               "tokenizer-",
                                               "vocab-file",
                                               "merge-file",
                                               "tiktoken-",
                                               "mock-data",
                                               "num-workers",
                                               "dataloader-",
                                               "no-mmap-",
                                               "no-create-attention-mask",
                                               "create-attention-mask",
                                               "legacy-tokenizer",
                                               "use-checkpoint-args",
                                               "use-checkpoint-opt",
                                               "auto-detect-ckpt-format",
                                               "finetune",
                                               "pretrained-checkpoint",
                                               "async-save",
                                               "use-dist-ckpt",
                                               "use-persistent-ckpt-worker",
                                               "distributed-",
                                               "master-",
                                               "node-rank",
                                               "rdzv-",
                                               "max-restarts",
                                               "standalone",
                                               "tee",
                                               "redirects",
                                               "role",
                                               "local-ranks-filter",
                                               "no-python",
                                               "module",
                                               "run-path",
                                               "manual-gc",
                                               "exit-",
                                               "timing-",
                                               "profile",
                                               "use-pytorch-profiler",
                                               "nvtx-",
                                               "use-mcore-models",
                                               "transformer-impl",
                                               "enable-experimental",
                                               "disable-gloo-process-groups",
                                               "no-check-for-nan",
                                               "check-for-",
                                               "no-one-logger",
                                               "enable-one-logger",
                                               "trust-remote-code",
                                               "export-",
                                               "eval-iters",
                                               "eval-interval",
                                               "skip-train",
                                               "test-mode",
                                               "empty-unused-memory-level",
                                               "use-te",
                                               "non-persistent-",
                                               "deterministic-mode",
                                               "record-memory-history",
                                               "memory-snapshot",
                                               "attention-softmax-in-fp32",
                                               "no-async-tensor-model-parallel-allreduce",
                                               "override-",
                                               "use-legacy-models",
                                               "train-data-path",
                                               "valid-data-path",
                                               "mmap",
                                               "inference-",
                                               "rdzv-",
                                               "local-rank",
                                               "deepspeed-config",
                                               "use-checkpoint-lr-scheduler",
                                               "no-pipeline-parallel",
                                               "partition-activations",
                                               "init-method",
                                               "container-",
                                               "job-name",
                                               "gpus-per-node",
                                               "cpus-per-task",
                                               "ntasks-per-node",
                                               "partition",
                                               "time",
                                               "exclusive",
                                               "account",
                                               "output",
                                               "error",
                                               "mem"};

// What decides which kernels compute the same, by parts of names.
constexpr std::string_view kKernels[] = {"fusion",          "fp8-",        "fp4-", "cuda-graph",
                                         "tp-comm-overlap", "grouped-gemm"};

/// Whether the first words of a name are these: "save-interval" begins with "save", "saved" does
/// not.
bool begins_with(std::string_view name, std::string_view begin) {
  if (!name.starts_with(begin)) return false;
  return begin.ends_with('-') || name.size() == begin.size() || name[begin.size()] == '-';
}

/// What an argument of its first versions, before global batches, or of Megatron-DeepSpeed is
/// called now.
std::string present_name(const std::string& name) {
  if (name == "batch-size") return "micro-batch-size";
  if (name == "model-parallel-size") return "tensor-model-parallel-size";
  // Megatron-DeepSpeed has experts of its own.
  if (name == "moe-expert-parallel-size") return "expert-model-parallel-size";
  if (name == "moe-train-capacity-factor") return "moe-expert-capacity-factor";
  if (name == "moe-loss-coeff") return "moe-aux-loss-coeff";
  if (name == "topk") return "moe-router-topk";
  if (name == "expert-interval") return "moe-layer-freq";
  return name == "warmup" ? "lr-warmup-fraction" : name;
}

std::string shown(const MegatronArgument& a) {
  return "--" + a.name + (a.value.empty() ? "" : " " + a.value);
}

std::string megatron_name(std::string_view key) {
  return std::string(name_for(Trainer::Megatron, key));
}

/// Arguments without a key of ours by their name that decide the plan, too.
constexpr std::string_view kDeciding[] = {"padded-vocab-size",
                                          "pad-vocab-size-to",
                                          "zero-stage",
                                          "moe-ffn-hidden-size",
                                          "make-vocab-size-divisible-by",
                                          "num-layers-per-virtual-pipeline-stage",
                                          "topk",
                                          "expert-interval",
                                          "moe-expert-parallel-size",
                                          "rotary-percent"};

/// Whether sizes, degrees, batch or precision follow from an argument.
bool decides(const std::string& name) {
  if (std::find(std::begin(kDeciding), std::end(kDeciding), name) != std::end(kDeciding)) {
    return true;
  }
  const std::string_view key = key_for(Trainer::Megatron, name);
  return key.starts_with("model.") || key.starts_with("parallelism.") ||
         key == "training.seq_len" || key == "training.local_batch_size" ||
         key == "training.global_batch_size" || key.starts_with("activation_checkpoint.");
}

}  // namespace

bool is_without_effect(std::string_view name) {
  return std::any_of(std::begin(kWithoutEffect), std::end(kWithoutEffect),
                     [&](std::string_view begin) { return begins_with(name, begin); });
}

std::optional<Error> MegatronAccount::unknown_decision(const std::string& file) const {
  for (const std::string& name : order_) {
    const MegatronArgument& argument = given_.at(name);
    if (argument.unknown.empty() || !decides(name)) continue;
    Error error =
        invalid(shown(argument) + ": this decides the plan and is not known: " + argument.unknown +
                "; or give --arg " + name + "=VALUE");
    error.where = SourceSpan{file, argument.line, 1};
    return error;
  }
  return std::nullopt;
}

std::vector<std::string> MegatronAccount::shown_arguments() const {
  std::vector<std::string> all;
  for (const std::string& name : order_) all.push_back(given_.at(name).name);
  return all;
}

MegatronAccount::MegatronAccount(const std::vector<MegatronArgument>& arguments)
    : plan_(Trainer::Megatron) {
  for (const MegatronArgument& argument : arguments) {
    const std::string name = present_name(argument.name);
    const auto [at, first] = given_.try_emplace(name, argument);
    if (first) {
      order_.push_back(name);
    } else if (at->second.value != argument.value) {
      plan_.assume("of " + shown(at->second) + " and " + shown(argument) +
                   " the last, as Megatron-LM does");
      at->second = argument;
    }
  }
}

std::string MegatronAccount::from(const std::string& name) const { return shown(given_.at(name)); }

std::string MegatronAccount::word(const std::string& name) {
  const auto at = given_.find(name);
  if (at == given_.end()) return "";
  know(name);
  return at->second.value.substr(0, at->second.value.find(' '));
}

bool MegatronAccount::flag(const std::string& name) {
  if (!given(name)) return false;
  const std::string value = word(name);
  return value != "false" && value != "False";
}

std::optional<double> MegatronAccount::number(const std::string& name) {
  std::string text = word(name);
  if (text.empty()) return std::nullopt;
  std::erase(text, '_');  // 300_000_000, as Python reads it
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size()) return value;
  const std::string& unknown = given_.find(name)->second.unknown;
  plan_.know_not(from(name) + ": " +
                 (unknown.empty() ? std::string("this is not a number") : unknown));
  return std::nullopt;
}

std::int64_t MegatronAccount::integer(const std::string& name, std::int64_t otherwise) {
  const std::optional<double> value = number(name);
  return value ? whole_number(*value) : otherwise;
}

std::int64_t MegatronAccount::take(std::string_view key, std::int64_t otherwise) {
  const std::string name = megatron_name(key);
  const std::optional<double> value = number(name);
  const std::int64_t whole = value ? whole_number(*value) : otherwise;
  plan_.set(key, whole, value ? from(name) : "");
  return whole;
}

double MegatronAccount::take_real(std::string_view key, double otherwise) {
  const std::string name = megatron_name(key);
  const std::optional<double> value = number(name);
  plan_.number(key, value.value_or(otherwise), value ? from(name) : "");
  return value.value_or(otherwise);
}

void MegatronAccount::know_all(std::string_view begin) {
  for (const std::string& name : order_) {
    if (name.starts_with(begin)) know(name);
  }
}

void MegatronAccount::account_for_rest() {
  for (const std::string& name : order_) {
    if (known_.count(name) > 0) continue;
    const bool kernels = std::any_of(std::begin(kKernels), std::end(kKernels), [&](auto part) {
      return name.find(part) != std::string::npos;
    });
    if (is_without_effect(name)) {
      plan_.ignore(given_.at(name).name);
    } else if (kernels) {
      plan_.lose(from(name) + ": kernels are a framework's way here ([framework])");
    } else {
      plan_.lose_unknown(name, from(name));
    }
  }
}

}  // namespace lockstep
