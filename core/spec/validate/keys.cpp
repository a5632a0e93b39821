// What the table of keys says of each key by itself: the numbers it may be, and whose it is.
#include <cstdio>
#include <utility>

#include "core/spec/keys/usual.hpp"
#include "core/spec/validate/faults.hpp"

namespace lockstep {
namespace {

class KeyCheck {
 public:
  KeyCheck(const Scenario& scenario, Faults& faults) : scenario_(&scenario), faults_(faults) {}
  explicit KeyCheck(Faults& faults) : faults_(faults) {}

  template <class Spec>
  void section(const char* name, const Spec& spec, bool /*printed*/) {
    section_ = name;
    usual_ = usual_members<Spec>().data();
    only(kAll);
    describe(*this, spec);
  }

  template <class T>
  void key(const char* name, const T& member, const Range& range = {}) {
    key(name, member, UnitPrefix::One, range);
  }
  template <class T>
  void key(const char* name, const T& member, UnitPrefix prefix, const Range& range = {}) {
    const T& usual = *static_cast<const T*>(*usual_++);
    if (!applies_) {
      if (member != usual)
        add(name, "applies only to " + std::string(whose_->what) + ": " + whose_->remedy);
    } else if constexpr (requires { number(member); }) {
      if (range.text().empty()) return;
      const double written = from_si(prefix, number(member));
      if (!range.has(written)) add(name, range.rule() + ", got " + text(written));
    }
  }
  void only(const Whose& whose) {
    whose_ = &whose;
    applies_ = scenario_ == nullptr || whose.has(*scenario_);
  }
  /// Tables are of profiles, and are judged where one is read.
  template <class T>
  void table(const char* name, const T& spec) {
    if (scenario_ != nullptr) return;
    const char* const outer = std::exchange(section_, name);
    describe(*this, spec);
    section_ = outer;
  }
  template <class T>
  void tables(const char*, const T&) {}

 private:
  template <class T>
  requires std::is_arithmetic_v<T>
  static double number(T value) { return static_cast<double>(value); }
  template <class Dim, class Rep>
  static double number(Quantity<Dim, Rep> value) {
    return static_cast<double>(value.v);
  }

  static std::string text(double value) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.12g", value);
    return digits;
  }
  void add(const char* name, const std::string& rule) {
    const std::string key = section_ + std::string(*section_ == '\0' ? "" : ".") + name;
    faults_.add(key, key + " " + rule);
  }

  const Scenario* scenario_ = nullptr;
  Faults& faults_;
  const char* section_ = "";
  const void* const* usual_ = nullptr;
  const Whose* whose_ = &kAll;
  bool applies_ = true;
};

}  // namespace

void check_keys(const Scenario& scenario, Faults& faults) {
  KeyCheck check(scenario, faults);
  describe_sections(check, scenario);
}

std::vector<Fault> faults_of_keys(const ClusterSpec& cluster) {
  Faults faults;
  KeyCheck(faults).section("", cluster, true);
  return faults.take();
}

std::vector<Fault> faults_of_keys(const FrameworkSpec& framework) {
  Faults faults;
  KeyCheck(faults).section("", framework, true);
  return faults.take();
}

}  // namespace lockstep
