// What imports read, and what names in their files say.
#include <cctype>

#include "core/handover/plan_import.hpp"

namespace lockstep {

std::vector<double> counts_in(std::string_view name) {
  std::vector<double> counts;
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  for (std::size_t at = 0; at < name.size(); ++at) {
    const bool begins = is_digit(name[at]) &&
                        (at == 0 || (std::isalnum(static_cast<unsigned char>(name[at - 1])) == 0 &&
                                     name[at - 1] != '.'));
    if (!begins) continue;
    double value = 0, place = 1;
    bool fraction = false;
    while (at < name.size() && (is_digit(name[at]) || (name[at] == '.' && !fraction))) {
      if (name[at] == '.') {
        fraction = true;
      } else if (fraction) {
        place /= 10;
        value += place * (name[at] - '0');
      } else {
        value = value * 10 + (name[at] - '0');
      }
      ++at;
    }
    const char unit = at < name.size() ? name[at] : '\0';
    const bool ends =
        at + 1 >= name.size() || std::isalnum(static_cast<unsigned char>(name[at + 1])) == 0;
    if (!ends) continue;
    if (unit == 'b' || unit == 'B') counts.push_back(value * 1e9);
    if (unit == 'm' || unit == 'M') counts.push_back(value * 1e6);
  }
  return counts;
}

std::string readable_plans() {
  return "What can be read:\n"
         "  hf          config.json, safetensors and tokenizers of Hugging Face's transformers\n"
         "  torchtitan  TOML of torchtitan 0.2 (0.2.1, 0.2.2), with its names of 2024 and 2025\n"
         "  megatron    scripts, lists and test YAML of Megatron-LM's arguments, up to core_v0.18, "
         "and\n"
         "              of Megatron-DeepSpeed\n"
         "  deepspeed   JSON of DeepSpeed 0.5 to 0.18, also with the \"auto\" of Hugging Face's "
         "Trainer\n"
         "Known, and answered with what to import instead: files of NeMo, GPT-NeoX, Accelerate,\n"
         "axolotl, LLaMA-Factory, Megatron Core (YAML), torchtitan's registries of 2026 (Python).";
}

}  // namespace lockstep
