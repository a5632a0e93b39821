// libFuzzer target: parse_program on any text. No text may crash it, and what it accepts must
// survive print, parse and print again, verify and fold.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/ir/text/text.hpp"
#include "core/ir/verify/verify.hpp"

namespace {

// A short text may ask for a million ranks; reading it is cheap, comparing all of them is not.
constexpr int kMaxVerifiedRanks = 1024;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto program = lockstep::parse_program(text);
  if (!program.ok()) return 0;
  const std::string printed = lockstep::print(*program);
  const auto again = lockstep::parse_program(printed);
  if (!again.ok() || !(*again == *program) || lockstep::print(*again) != printed) std::abort();
  if (program->mesh.world_size() <= kMaxVerifiedRanks) (void)lockstep::verify(*program);
  return 0;
}
