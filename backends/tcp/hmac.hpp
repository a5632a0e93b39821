// HMAC-SHA-256 (RFC 2104, FIPS 180-4), by OpenSSL's libcrypto: the keyed hash with which processes
// show each other that they know the secret of their job.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace lockstep::tcp {

using Digest = std::array<std::uint8_t, 32>;

/// Throws std::runtime_error if libcrypto refuses, because no digest may then be taken for one.
Digest hmac(std::string_view key, std::span<const std::byte> message);
/// Takes equally long wherever they differ.
bool same(const Digest& a, const Digest& b);

}  // namespace lockstep::tcp
