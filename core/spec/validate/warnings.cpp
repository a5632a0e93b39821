#include "core/spec/validate/warnings.hpp"

#include <cmath>
#include <string>

#include "core/spec/keys/usual.hpp"

namespace lockstep {
namespace {

/// Wu and He 2018 (Group Normalization), figure 1: the error of a ResNet-50 rises below 16 images
/// per worker.
constexpr int kFewImages = 16;

double peak_tflops(const DeviceSpec& device, DType type) {
  for (const PeakRate& peak : device.peaks) {
    if (peak.dtype == type) return peak.rate.v / 1e12;
  }
  return 0;
}

/// Cards older than bfloat16 compute it, if at all, as float32: core/cost takes the next wider
/// type.
void warn_of_missing_bfloat16(const Scenario& s, std::vector<Warning>& found) {
  const DeviceSpec& device = s.cluster.device;
  const double half = peak_tflops(device, DType::F16), single = peak_tflops(device, DType::F32);
  const bool lacks = half > 0 && single > 0 && peak_tflops(device, DType::BF16) == 0;
  if (!lacks || s.training.param_dtype() != DType::BF16) return;
  const auto text = [](double tflops) { return std::to_string(std::lround(tflops)); };
  found.push_back(
      {s.training.keeps_master() ? "training.mixed_precision_param" : "training.dtype",
       device.name + " has no units for bfloat16: products run at the rate of float32, " +
           text(single) + " TFLOP/s, not at float16's " + text(half) +
           "; give training.mixed_precision_param = \"float16\", which trains with a loss scale"});
}

/// GPUs older than 8 bits (before compute capability 8.9) have no units for them.
void warn_of_missing_fp8(const Scenario& s, std::vector<Warning>& found) {
  const DeviceSpec& device = s.cluster.device;
  const bool is_gpu = peak_tflops(device, DType::F16) > 0;
  if (s.training.fp8 == Fp8Format::None || device.fp8_rate.v > 0 || !is_gpu) return;
  found.push_back({"training.fp8",
                   device.name +
                       " has no units for 8 bits (fp8_tflops): codes are widened, and products run "
                       "at the rate of " +
                       std::string(to_string(s.training.param_dtype())) +
                       ", so that fp8 costs time and gains none; leave it out"});
}

/// Finds keys that only other optimizers read: sweeps over optimizers give them, too.
class UnreadKeys : public KeyVisitor<UnreadKeys> {
 public:
  explicit UnreadKeys(OptimizerKind optimizer) : optimizer_(optimizer) {}
  template <class T>
  void field(const char* name, const T& member) {
    const bool given = member != *static_cast<const T*>(*usual_++);
    const std::string readers = given ? optimizers_that_read(name) : "";
    if (readers.empty() || info(optimizer_).reads(name)) return;
    found.push_back(
        {"optimizer." + std::string(name), "has no effect: only name=" + readers + " reads it"});
  }
  std::vector<Warning> found;

 private:
  OptimizerKind optimizer_;
  const void* const* usual_ = usual_members<OptimizerSpec>().data();
};

/// Tensor parallelism divides rows of the products that end a layer.
void warn_of_divided_blocks(const Scenario& s, std::vector<Warning>& found) {
  const ModelSpec& m = s.model;
  const int parts = s.strategy.tensor_parallel_degree, block = s.optimizer.state_block();
  if (block == 1 || parts == 1) return;
  const auto apart = [&](std::int64_t row) { return row % block != 0; };
  const std::int64_t heads = m.attention_width();
  if (!apart(m.hidden) && !apart(heads / parts) && !apart(m.ffn_hidden / parts)) return;
  found.push_back({"optimizer.block_size",
                   "blocks of " + std::to_string(block) + " elements do not divide what each of " +
                       std::to_string(parts) +
                       " tensor-parallel ranks holds of every row: some lie elsewhere than on one "
                       "rank, and 8-bit moments are rounded otherwise"});
}

}  // namespace

std::vector<Warning> warnings(const Scenario& s) {
  std::vector<Warning> found;
  const int ranks = s.strategy.synchronous_ranks();
  const int images = s.microbatch_size();
  if (s.model.has_batch_norm() && ranks > 1 && !s.strategy.sync_batch_norm && images < kFewImages) {
    found.push_back(
        {"parallelism.sync_batch_norm",
         "unsynchronized batch norm: each of " + std::to_string(ranks) +
             " ranks normalizes with the statistics of its own " + std::to_string(images) +
             (images == 1 ? " image" : " images") +
             ", so the loss is not that of one rank with all of them, and noisy below " +
             std::to_string(kFewImages) + "; sync_batch_norm = true takes them over all ranks"});
  }
  if (!s.training.reshuffle) {
    found.push_back({"training.reshuffle",
                     "no reshuffle between epochs: every epoch has the same samples in the same "
                     "batches on the same ranks; leave reshuffle at true"});
  }
  if (s.lr_scheduler.scale_with_ranks && ranks > 1 && s.lr_scheduler.warmup_steps == 0) {
    found.push_back(
        {"lr_scheduler.warmup_steps",
         "the learning rate is scaled by " + std::to_string(ranks) +
             " ranks without warm-up: the first steps may diverge; warm up over 1 to 5 % "
             "of the steps"});
  }
  const LocalSgdSpec& apart = s.strategy.local_sgd;
  if (s.strategy.trains_apart() && apart.sync_steps > 0 &&
      s.training.steps % apart.sync_steps != 0) {
    found.push_back(
        {"local_sgd.sync_steps",
         "the last " + std::to_string(s.training.steps % apart.sync_steps) +
             " steps are not synchronized: the weights that a checkpoint gives to others "
             "are the first replica's; let sync_steps divide training.steps"});
  }
  warn_of_missing_bfloat16(s, found);
  warn_of_missing_fp8(s, found);
  warn_of_divided_blocks(s, found);
  UnreadKeys unread(s.optimizer.name);
  describe(unread, s.optimizer);
  found.insert(found.end(), unread.found.begin(), unread.found.end());
  return found;
}

}  // namespace lockstep
