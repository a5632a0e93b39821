#include "core/data/dataset.hpp"

#include <filesystem>
#include <memory>
#include <utility>

#include "core/data/image_source.hpp"
#include "core/data/token_source.hpp"

namespace lockstep {

Result<SampleSource> open_dataset(const Scenario& scenario) {
  const TrainingSpec& training = scenario.training;
  const ModelSpec& model = scenario.model;
  std::string path = training.dataset;
  if (!path.empty()) path = (std::filesystem::path(scenario.directory) / path).string();
  using Values = std::span<std::int32_t>;
  if (model.is_vision()) {
    auto images =
        open_image_source(path, static_cast<int>(model.image_size), static_cast<int>(model.classes),
                          training.seed, training.reshuffle);
    if (!images) return images.error();
    return SampleSource([source = std::shared_ptr<ImageSource>(std::move(*images))](
                            std::int64_t sample, Values pixels, Values label) {
      source->fill(sample, pixels, label[0]);
    });
  }
  auto tokens = open_token_source(path, training.seq_len, static_cast<int>(model.vocab),
                                  training.seed, training.reshuffle);
  if (!tokens) return tokens.error();
  return SampleSource([source = std::shared_ptr<TokenSource>(std::move(*tokens))](
                          std::int64_t sample, Values inputs, Values targets) {
    source->fill(sample, inputs, targets);
  });
}

}  // namespace lockstep
