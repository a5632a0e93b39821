// program_hash: the text of all but the long lists by FNV-1a, and then these lists by their fields.
#include "core/base/hash.hpp"

#include <initializer_list>

#include "core/base/mix.hpp"
#include "core/ir/text/names.hpp"
#include "core/ir/text/text.hpp"

namespace lockstep {
namespace {

/// A hash of numbers in their order. Each step is a bijection of the state and of the number.
class NumberHash {
 public:
  explicit NumberHash(std::uint64_t seed) : state_(seed) {}
  void add(std::uint64_t number) {
    state_ = (state_ ^ number) * kGoldenGamma;
    state_ ^= state_ >> 32;
  }
  void add(std::int64_t number) { add(static_cast<std::uint64_t>(number)); }
  /// Two numbers of at most 32 bits, as one.
  void add(std::int32_t a, std::int32_t b) { add(word(a) << 32 | word(b)); }
  std::uint64_t value() const { return mix64(state_); }

 private:
  static std::uint64_t word(std::int32_t number) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(number));
  }
  std::uint64_t state_;
};

/// Fields of at most 16 bits, the first of them highest.
std::uint64_t packed(std::initializer_list<int> fields) {
  std::uint64_t bits = 0;
  for (const int field : fields) bits = bits << 16 | static_cast<std::uint16_t>(field);
  return bits;
}

void add_buffer(NumberHash& hash, const Buffer& buffer) {
  hash.add(packed({static_cast<int>(buffer.kind), static_cast<int>(buffer.dtype),
                   static_cast<int>(buffer.tier), buffer.layer}));
  hash.add(buffer.bytes.v);
  hash.add(buffer.offset);
  hash.add(buffer.first().v, buffer.last().v);
  hash.add(buffer.parent().v, buffer.piece_of().v);
  hash.add(buffer.microbatch, buffer.name);
}

void add_op(NumberHash& hash, const Role& role, const Op& op) {
  hash.add(packed({static_cast<int>(op.kind), static_cast<int>(op.stream),
                   static_cast<int>(op.phase), op.layer}));
  hash.add(packed({op.stage, op.root, op.after_count, op.args_count}));
  hash.add(op.target, op.microbatch);
  if (is_counted(op.kind)) hash.add(role.rows_of(op).count, role.rows_of(op).bytes);
  if (op.largest) hash.add(std::int64_t{1});
  // The counts above tell where the first list ends.
  for (const OpId earlier : role.after_of(op)) hash.add(std::int64_t{earlier.v});
  for (const BufferId argument : role.args_of(op)) hash.add(std::int64_t{argument.v});
}

}  // namespace

std::string program_hash(const Program& program) {
  NumberHash hash(fnv1a(text::print_without_lists(program)));
  for (const Role& role : program.roles) {
    hash.add(static_cast<std::int64_t>(role.buffers.size()));
    for (const Buffer& buffer : role.buffers) add_buffer(hash, buffer);
    hash.add(static_cast<std::int64_t>(role.ops.size()));
    for (const Op& op : role.ops) add_op(hash, role, op);
  }
  return text::hexadecimal(hash.value());
}

}  // namespace lockstep
