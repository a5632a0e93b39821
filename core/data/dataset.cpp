#include "core/data/dataset.hpp"

#include <memory>
#include <utility>

#include "core/data/image_source.hpp"
#include "core/data/masked_tokens.hpp"
#include "core/data/token_source.hpp"

namespace lockstep {

Result<SampleSource> open_dataset(const Samples& samples, std::uint64_t seed,
                                  const std::string& path) {
  if (samples.kind == SampleKind::None) {
    return Error{ErrorKind::InvalidSpec,
                 "the program copies data but does not say which: a line \"samples\" is missing",
                 std::nullopt};
  }
  const auto length = static_cast<int>(samples.length), classes = static_cast<int>(samples.classes);
  using Values = std::span<std::int32_t>;
  if (samples.kind == SampleKind::Images) {
    auto images = open_image_source(path, length, classes, seed, samples.shuffled);
    if (!images) return images.error();
    return SampleSource([source = std::shared_ptr<ImageSource>(std::move(*images))](
                            std::int64_t sample, Values pixels, Values label) {
      source->fill(sample, pixels, label[0]);
    });
  }
  auto tokens =
      open_token_source(path, length, classes, seed, samples.shuffled,
                        {static_cast<std::int32_t>(samples.document_end), samples.mean_document});
  if (!tokens) return tokens.error();
  return SampleSource([source = std::shared_ptr<TokenSource>(std::move(*tokens)), samples, seed](
                          std::int64_t sample, Values inputs, Values targets) {
    source->fill(sample, inputs, targets);
    if (samples.masked > 0) mask_tokens(samples, seed, sample, inputs, targets);
  });
}

}  // namespace lockstep
