// Every key of the table by itself: what is outside its range, or of another kind of scenario.
#include "core/spec/keys/keys.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "core/spec/validate/validate.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

Scenario tiny(Architecture architecture = Architecture::Llama) {
  Scenario s;
  s.model.architecture = architecture;
  s.model.layers = 2;
  if (architecture == Architecture::Resnet) {
    s.model.blocks = {1, 1};
    s.training.seq_len = 1;
    s.training.local_batch_size = 2;
    return s;
  }
  s.model.hidden = 32;
  s.model.heads = s.model.kv_heads = 4;
  s.model.head_dim = 8;
  s.model.ffn_hidden = 64;
  s.model.vocab = 50;
  s.model.max_seq_len = s.training.seq_len = 16;
  return s;
}

/// Another value of the member than it has.
template <class T>
void change(T& member) {
  if constexpr (std::is_same_v<T, bool>) {
    member = !member;
  } else if constexpr (std::is_arithmetic_v<T>) {
    member += 1;
  } else if constexpr (std::is_enum_v<T>) {
    const auto all = choices(T{});
    member = all[0].second == member ? all[1].second : all[0].second;
  } else if constexpr (requires { member.has_value(); }) {
    member.emplace();
  } else if constexpr (requires { member.v; }) {
    member.v += 1;
  } else {
    member.emplace_back();
  }
}
void change(std::string& member) { member += "x"; }

enum class Spoil { BelowRange, Foreign };

/// Visits all keys, spoils the one of a number, and remembers what it is.
class Spoiler {
 public:
  Spoiler(const Scenario& scenario, Spoil how, int at) : scenario_(scenario), how_(how), at_(at) {}
  template <class T>
  void section(const char* name, T& spec, bool) {
    path_ = std::string(name) + ".";
    only(kAll);
    describe(*this, spec);
  }
  template <class T>
  void key(const char* name, T& member, const Range& range = {}) {
    const bool takes = how_ == Spoil::Foreign
                           ? !whose_->has(scenario_)
                           : !range.text().empty() && whose_->has(scenario_) && !range.has(-1e6);
    if (!takes || count_++ != at_) return;
    key_ = path_ + name;
    what_ = whose_->what;
    if (how_ == Spoil::Foreign) return change(member);
    if constexpr (std::is_arithmetic_v<T>) member = static_cast<T>(-1000000);
    if constexpr (requires { member.v; }) member.v = -1000000;
  }
  template <class T>
  void key(const char* name, T& member, UnitPrefix, const Range& range = {}) {
    key(name, member, range);
  }
  void only(const Whose& whose) { whose_ = &whose; }
  template <class T>
  void table(const char*, T&) {}
  template <class T>
  void tables(const char*, T&) {}

  const std::string& key() const { return key_; }
  const std::string& what() const { return what_; }

 private:
  const Scenario& scenario_;
  Spoil how_;
  int at_, count_ = 0;
  std::string path_, key_, what_;
  const Whose* whose_ = &kAll;
};

/// Spoils one key after the other of a scenario that is sound. Returns how many there were.
int spoil_each(const Scenario& sound, Spoil how) {
  REQUIRE(validate(sound).empty());
  for (int i = 0;; ++i) {
    Scenario s = sound;
    Spoiler spoiler(sound, how, i);
    describe_sections(spoiler, s);
    if (spoiler.key().empty()) return i;
    const std::vector<Fault> faults = validate(s);
    INFO(spoiler.key());
    REQUIRE(faults.size() == 1);
    CHECK(faults.front().key == spoiler.key());
    CHECK(faults.front().error.message.starts_with(spoiler.key() + " "));
    if (how == Spoil::Foreign) {
      CHECK(faults.front().error.message.find("applies only to " + spoiler.what()) !=
            std::string::npos);
    }
  }
}

TEST_CASE("a number outside of its key's range is refused, whichever key", "[core][spec]") {
  CHECK(spoil_each(tiny(), Spoil::BelowRange) > 90);
  CHECK(spoil_each(tiny(Architecture::Gpt2), Spoil::BelowRange) <
        spoil_each(tiny(), Spoil::BelowRange));
  CHECK(spoil_each(tiny(Architecture::Resnet), Spoil::BelowRange) > 60);
}

TEST_CASE("a key that nothing reads is refused, whichever key", "[core][spec]") {
  CHECK(spoil_each(tiny(), Spoil::Foreign) > 50);
  CHECK(spoil_each(tiny(Architecture::Resnet), Spoil::Foreign) > 70);
}

}  // namespace
}  // namespace lockstep
