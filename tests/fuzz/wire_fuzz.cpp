// libFuzzer target: everything that is read from another process or from a checkpoint, on any
// bytes. The first byte chooses the reader. What is taken must be sound, and what is refused must
// be said.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

#include "backends/tcp/wire.hpp"
#include "core/checkpoint/checkpoint_store.hpp"
#include "core/checkpoint/manifest.hpp"
#include "core/run/agreement.hpp"
#include "core/run/state_transfer.hpp"

namespace {

using namespace lockstep;

void require(bool good, const std::string& rule) {
  if (good) return;
  std::cerr << rule << "\n";
  std::abort();
}

void read_header(std::span<const std::byte> bytes) {
  tcp::Header header;
  if (bytes.size() < sizeof header) return;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (!tcp::check(header).empty()) return;
  require(header.bytes >= 0 && header.bytes <= tcp::kMostPayload && header.tag >= 0,
          "a header that cannot be was taken");
}

void read_hello(std::span<const std::byte> bytes) {
  tcp::Hello hello;
  if (bytes.size() < sizeof hello) return;
  std::memcpy(&hello, bytes.data(), sizeof hello);
  if (tcp::refusal_of(hello, 7, 4, 1).empty()) {
    require(hello.rank >= 1 && hello.rank < 4, "a rank outside the launch was taken");
  }
}

void read_facts(std::span<const std::byte> bytes) {
  const auto facts = decode_facts(bytes);
  if (!facts) return;
  const auto again = encode(*facts);
  require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()),
          "facts were read that were not written");
}

void read_pieces(std::span<const std::byte> bytes) {
  TrainingState state;
  state.tensors["a"] = {DType::F32, {4}, std::vector<std::byte>(16)};
  state.tensors["b"] = {DType::F32, {0}, {}};
  const auto placed = place_pieces(bytes, state);
  require(placed.ok() || !placed.error().message.empty(), "an error without a message");
}

void read_manifest(std::span<const std::byte> bytes) {
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto manifest = parse_manifest(text, "manifest.json");
  if (!manifest) return require(!manifest.error().message.empty(), "an error without a message");
  require(parse_manifest(print_manifest(*manifest), "").ok(), "a manifest that cannot be printed");
}

void read_receipt(std::span<const std::byte> bytes) {
  StateHead head;
  head.tensors["a"] = {DType::F32, {4}};
  CheckpointStore store("/dev/null/nowhere", {});
  const auto committed = store.commit(head, {{bytes.begin(), bytes.end()}});
  require(!committed.ok() && !committed.error().message.empty(), "nothing was written");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  constexpr void (*kReaders[])(std::span<const std::byte>) = {
      read_header, read_hello, read_facts, read_pieces, read_manifest, read_receipt};
  kReaders[data[0] % std::size(kReaders)](bytes);
  return 0;
}
