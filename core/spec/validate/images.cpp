// What models of labelled images have in common, and the patches of a vision transformer.
#include "core/spec/validate/faults.hpp"

namespace lockstep {

void validate_image_target(const Scenario& s, Faults& faults) {
  if (s.training.seq_len != 1) {
    faults.add("training.seq_len", "seq_len is of text; an image has one target: leave it out");
  }
}

void validate_patches(const Scenario& s, Faults& faults) {
  const ModelSpec& m = s.model;
  if (m.architecture != Architecture::Vit) return;
  validate_image_target(s, faults);
  if (m.image_size % m.patch_size != 0) {
    faults.add("model.patch_size",
               "patch_size=" + std::to_string(m.patch_size) + " does not divide image_size=" +
                   std::to_string(m.image_size) + ": patches lie side by side and cover the image");
  }
}

}  // namespace lockstep
