#include "core/run/agreement.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace lockstep {
namespace {

constexpr std::uint32_t kMostFacts = 100'000;
constexpr std::uint32_t kLongestText = 16 << 20;
constexpr std::size_t kLongestShown = 80;

void put(std::vector<std::byte>& bytes, std::uint32_t number) {
  const auto* from = reinterpret_cast<const std::byte*>(&number);
  bytes.insert(bytes.end(), from, from + sizeof number);
}
void put(std::vector<std::byte>& bytes, const std::string& text) {
  put(bytes, static_cast<std::uint32_t>(text.size()));
  const auto* from = reinterpret_cast<const std::byte*>(text.data());
  bytes.insert(bytes.end(), from, from + text.size());
}

bool take(std::span<const std::byte>& bytes, std::uint32_t& number) {
  if (bytes.size() < sizeof number) return false;
  std::memcpy(&number, bytes.data(), sizeof number);
  bytes = bytes.subspan(sizeof number);
  return true;
}
bool take(std::span<const std::byte>& bytes, std::string& text) {
  std::uint32_t length = 0;
  if (!take(bytes, length) || length > kLongestText || length > bytes.size()) return false;
  text.assign(reinterpret_cast<const char*>(bytes.data()), length);
  bytes = bytes.subspan(length);
  return true;
}

std::string shown(const std::string& value) {
  std::string text = value.substr(0, kLongestShown);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text.size() < value.size() ? text + "..." : text;
}

const Fact* find(const std::vector<Fact>& facts, const std::string& key) {
  const auto found =
      std::find_if(facts.begin(), facts.end(), [&](const Fact& f) { return f.key == key; });
  return found == facts.end() ? nullptr : &*found;
}

/// How `other` differs from what process 0 says; empty if it does not.
std::string difference(const std::vector<Fact>& first, const std::vector<Fact>& other) {
  for (const Fact& fact : first) {
    const Fact* const same = find(other, fact.key);
    if (same == nullptr) return fact.key + ", which it does not have";
    if (same->value == fact.value) continue;
    return fact.key + ": it has " + shown(same->value) + ", process 0 has " + shown(fact.value);
  }
  for (const Fact& fact : other) {
    if (find(first, fact.key) == nullptr) return fact.key + ", which process 0 does not have";
  }
  return "";
}

}  // namespace

std::vector<std::byte> encode(const std::vector<Fact>& facts) {
  std::vector<std::byte> bytes;
  put(bytes, static_cast<std::uint32_t>(facts.size()));
  for (const Fact& fact : facts) {
    put(bytes, fact.key);
    put(bytes, fact.value);
  }
  return bytes;
}

std::optional<std::vector<Fact>> decode_facts(std::span<const std::byte> bytes) {
  std::uint32_t count = 0;
  if (!take(bytes, count) || count > kMostFacts) return std::nullopt;
  std::vector<Fact> facts;
  for (std::uint32_t i = 0; i < count; ++i) {
    Fact fact;
    if (!take(bytes, fact.key) || !take(bytes, fact.value)) return std::nullopt;
    facts.push_back(std::move(fact));
  }
  if (!bytes.empty()) return std::nullopt;
  return facts;
}

Result<void> agree(Process& process, const std::vector<Fact>& facts) {
  if (process.size() == 1) return {};
  const auto all = all_gather(process, encode(facts));
  if (!all) return all.error();
  std::vector<std::vector<Fact>> decoded;
  for (std::size_t i = 0; i < all->size(); ++i) {
    auto one = decode_facts((*all)[i]);
    if (!one) {
      return Error{ErrorKind::Device,
                   "process " + std::to_string(i) + " sent something else than what it will do",
                   std::nullopt};
    }
    decoded.push_back(std::move(*one));
  }
  std::string text;
  for (std::size_t i = 1; i < decoded.size(); ++i) {
    const std::string differs = difference(decoded[0], decoded[i]);
    if (differs.empty()) continue;
    text +=
        (text.empty() ? "" : "; ") + ("process " + std::to_string(i)) + " differs in " + differs;
  }
  if (text.empty()) return {};
  return invalid("the processes do not agree: " + text);
}

std::int64_t most_sent(const Program& program, int steps) {
  constexpr double kPerSpan = 128, kPerTransfer = 4096, kWidest = 4;  // float64 for 16 bits
  double all = static_cast<double>(kMostBeforeProgram);
  for (const Role& role : program.roles) {
    double bytes = 0;
    for (const Tier tier : {Tier::Device, Tier::Host, Tier::Drive}) {
      bytes += kWidest * static_cast<double>(role.arena_of(tier).v);
    }
    for (const Op& op : role.ops) {
      bytes += kPerSpan * std::max(steps, 1);
      if (!is_p2p(op.kind) && !is_collective(op.kind)) continue;
      bytes += 2 * kPerTransfer;
      for (const BufferId id : role.args_of(op)) {
        bytes += 2 * static_cast<double>(role.buffer(id).bytes.v);
      }
    }
    all += bytes * static_cast<double>(role.ranks.size());
  }
  return static_cast<std::int64_t>(std::min(all, 0x1p50));
}

}  // namespace lockstep
