// Foreign names: what other trainers call the keys of a scenario. The one table of both directions
// of core/handover and of the hints in errors of core/scenario.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace lockstep {

enum class Trainer { Torchtitan, Megatron, DeepSpeed, Peft };
/// As the command line takes it ("megatron"), and as sentences say it ("Megatron-LM").
std::string_view command_name(Trainer trainer);
std::string_view spoken_name(Trainer trainer);

/// A key of a scenario and its counterparts. Some count in other units or have other values; those
/// who write and read them know.
struct ForeignName {
  std::string_view key;         // "parallelism.tensor_parallel_degree"
  std::string_view torchtitan;  // a key of its TOML, dotted; empty: it has none
  std::string_view megatron;    // an argument, without dashes before it
  std::string_view deepspeed;   // a path in its JSON, dotted
  std::string_view peft = {};   // a key of LoraConfig in Hugging Face's PEFT
  std::string_view of(Trainer trainer) const;
};
std::span<const ForeignName> foreign_names();

/// A trainer's name for our key. Requires that it has one.
std::string_view name_for(Trainer trainer, std::string_view key);
/// Our key for a trainer's name; empty if there is none.
std::string_view key_for(Trainer trainer, std::string_view name);

/// Whose name a key is that is none of ours: its last part, with '-' and '_' alike.
struct ForeignMeaning {
  Trainer trainer;
  std::string_view name, key;
};
std::optional<ForeignMeaning> foreign_meaning(std::string_view word);
/// Whose section or key at the top of a file this is.
std::optional<Trainer> trainer_of_section(std::string_view name);

}  // namespace lockstep
