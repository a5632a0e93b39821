// What models of labelled images have in common, and the patches of a vision transformer.
#include "core/spec/validate/faults.hpp"

namespace lockstep {

bool validate_image_target(const Scenario& s, Faults& faults) {
  const ModelSpec& m = s.model;
  bool sizes = faults.positive("model.image_size", m.image_size, kLargestImage);
  sizes &= faults.positive("model.classes", m.classes);
  if (s.training.seq_len != 1) {
    faults.add("training.seq_len", "seq_len is of text; an image has one target: leave it out");
  }
  return sizes;
}

void validate_patches(const Scenario& s, Faults& faults) {
  const ModelSpec& m = s.model;
  if (m.architecture != Architecture::Vit) {
    if (m.patch_size != 0) {
      faults.add("model.patch_size",
                 "patch_size is of the vit architecture, which alone cuts images into patches");
    }
    return;
  }
  const bool sizes = validate_image_target(s, faults);
  if (faults.positive("model.patch_size", m.patch_size) && sizes &&
      m.image_size % m.patch_size != 0) {
    faults.add("model.patch_size",
               "patch_size=" + std::to_string(m.patch_size) + " does not divide image_size=" +
                   std::to_string(m.image_size) + ": patches lie side by side and cover the image");
  }
  const auto of_text = [&](const char* key, bool given, const char* instead) {
    if (!given) return;
    faults.add(std::string("model.") + key, std::string(key) + " is of text; " + instead);
  };
  of_text("vocab", m.vocab != 0, "what an image can be is counted by classes");
  of_text("max_seq_len", m.max_seq_len != 0, "an image has a position for each of its patches");
  of_text("tied_embeddings", m.tied_embeddings, "patches and classes share no table");
  if (m.experts != 0 || m.shared_expert_hidden != 0) {
    faults.refuse(m.experts != 0 ? "model.experts" : "model.shared_expert_hidden",
                  "experts of vision transformers (V-MoE) are not built: leave them out");
  }
}

}  // namespace lockstep
