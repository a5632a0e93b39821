#include "backends/tcp/hmac.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <stdexcept>

namespace lockstep::tcp {

Digest hmac(std::string_view key, std::span<const std::byte> message) {
  Digest digest{};
  unsigned written = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(message.data());
  const void* const secret = key.empty() ? "" : key.data();  // null means "the key set before"
  if (HMAC(EVP_sha256(), secret, static_cast<int>(key.size()), bytes, message.size(), digest.data(),
           &written) == nullptr ||
      written != digest.size()) {
    throw std::runtime_error("libcrypto cannot compute HMAC-SHA-256");
  }
  return digest;
}

bool same(const Digest& a, const Digest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace lockstep::tcp
