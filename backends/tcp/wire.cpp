#include "backends/tcp/wire.hpp"

#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

namespace lockstep::tcp {

std::string check(const Header& header) {
  const auto number = static_cast<std::int32_t>(header.kind);
  if (number < 0 || number > static_cast<std::int32_t>(Kind::Beat)) {
    return "a message of the unknown kind " + std::to_string(number);
  }
  std::int64_t least = 0, most = 0;
  switch (header.kind) {
    case Kind::Data:
      most = kMostPayload;
      break;
    case Kind::Failure:
      least = 1;
      most = kLongestFailure;
      break;
    case Kind::Beat:
      least = most = sizeof(Pulse);
      break;
    case Kind::Bye:
    case Kind::End:
      break;
  }
  if (header.bytes < least || header.bytes > most) {
    return "a message of " + std::to_string(header.bytes) + " bytes, which cannot be";
  }
  const bool ends = header.kind == Kind::End;  // a run that has not failed is ended by nobody
  if (header.tag < 0 || (ends && (header.tag == 0 || header.tag > 255))) {
    return "a message with the number " + std::to_string(header.tag) + ", which cannot be";
  }
  return "";
}

Nonce random_nonce() {
  std::random_device device;
  Nonce nonce;
  for (std::uint8_t& byte : nonce) byte = static_cast<std::uint8_t>(device());
  return nonce;
}

Digest proof_of(const std::string& secret, const char* side, const Hello& hello,
                const Nonce& nonce) {
  static_assert(std::has_unique_object_representations_v<Hello>);  // no padding is hashed
  std::vector<std::byte> text;
  const auto add = [&](const void* from, std::size_t bytes) {
    const auto* first = static_cast<const std::byte*>(from);
    text.insert(text.end(), first, first + bytes);
  };
  add(side, std::strlen(side));
  add(&hello, sizeof hello);
  add(nonce.data(), nonce.size());
  return hmac(secret, text);
}

std::string refusal_of(const Hello& hello, std::uint64_t run, int world_size, int lowest) {
  if (hello.version != kVersion) return "it is another version of this program";
  if (hello.run != run) return "it belongs to another launch";
  if (hello.world_size != world_size) {
    return "it was told WORLD_SIZE=" + std::to_string(hello.world_size) + ", process " +
           std::to_string(lowest - 1) + " " + std::to_string(world_size);
  }
  if (hello.rank < lowest || hello.rank >= world_size) {
    return "there is a process with RANK=" + std::to_string(hello.rank) + " already";
  }
  return "";
}

}  // namespace lockstep::tcp
