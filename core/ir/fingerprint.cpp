#include <array>
#include <bit>
#include <map>

#include "core/base/hash.hpp"
#include "core/ir/program.hpp"

namespace lockstep {
namespace {

/// Numbers and texts -> one FNV-1a hash; texts are closed by their length.
class Fingerprint {
 public:
  void add(std::uint64_t value) {
    // Most numbers are small. The zero bytes above them are multiplications alone, done at once.
    int byte = 0;
    for (; value != 0; ++byte, value >>= 8) hash_ = (hash_ ^ (value & 0xff)) * kPrime;
    hash_ *= kPowers[to_size(8 - byte)];
  }
  void add(std::int64_t value) { add(static_cast<std::uint64_t>(value)); }
  void add(double value) { add(std::bit_cast<std::uint64_t>(value)); }
  void add(std::string_view text) {
    add(fnv1a(text));
    add(static_cast<std::uint64_t>(text.size()));
  }
  void add(const std::vector<Operand>& operands) {
    add(static_cast<std::uint64_t>(operands.size()));
    for (const Operand& operand : operands) {
      add(std::int64_t{operand.formal});
      add(to_string(operand.dtype));
      add(operand.offset);
    }
  }
  std::uint64_t hash() const { return hash_ == 0 ? 1 : hash_; }

 private:
  static constexpr std::uint64_t kPrime = 0x100000001b3U;
  static constexpr std::array<std::uint64_t, 9> kPowers = [] {
    std::array<std::uint64_t, 9> powers{1};
    for (std::size_t i = 1; i < powers.size(); ++i) powers[i] = powers[i - 1] * kPrime;
    return powers;
  }();
  std::uint64_t hash_ = 0xcbf29ce484222325U;
};

/// A unit as the model has it, however its shards lie.
void add_unit(Fingerprint& print, const Program& program, const Unit& unit) {
  print.add(unit.name);
  print.add(unit.elements);
  if (unit.frozen) print.add("frozen");
  for (const UnitParameter& part : unit.parameters) {
    print.add(std::int64_t{part.parameter.v});
    print.add(part.offset);
    if (part.sections.all()) continue;
    print.add(std::int64_t{part.sections.first});
    print.add(std::int64_t{part.sections.end});
  }
  if (!unit.split_group.valid()) return;
  for (const int dim : program.group(unit.split_group).dims) {
    print.add(program.mesh.dims[dim].name);
  }
}

}  // namespace

std::uint64_t fingerprint(const Function& function) {
  Fingerprint print;
  print.add(function.name.text());
  for (const Formal& formal : function.formals) {
    print.add(formal.name);
    print.add(static_cast<std::int64_t>(formal.access));
    print.add(formal.bytes.v);
  }
  for (const Exchange& exchange : function.exchanges) {
    print.add(to_string(exchange.kind));
    for (const std::string* text : {&exchange.axis, &exchange.in, &exchange.out}) print.add(*text);
  }
  for (const Kernel& kernel : function.kernels) {
    print.add(info(kernel.kind).name);
    print.add(std::int64_t{kernel.accumulate} + 2 * std::int64_t{kernel.stochastic} +
              4 * std::int64_t{kernel.tf32});
    print.add(to_string(kernel.dtype));
    for (const std::int64_t dim : kernel.dims) print.add(dim);
    for (const double scalar : kernel.scalars) print.add(scalar);
    print.add(kernel.in);
    print.add(kernel.out);
  }
  return print.hash();
}

std::uint64_t model_fingerprint(const Program& program) {
  Fingerprint print;
  for (const Parameter& parameter : program.parameters) {
    print.add(parameter.name);
    for (const std::int64_t extent : parameter.shape) print.add(extent);
    print.add(static_cast<std::int64_t>(parameter.init));
    print.add(parameter.init_scale);
    print.add(std::int64_t{parameter.split_dim});
    if (parameter.first_parts != 1) print.add(std::int64_t{-parameter.first_parts});
    for (const std::int64_t section : parameter.sections) print.add(section);
  }
  const Samples& samples = program.input.samples;
  print.add(to_string(samples.kind));
  for (const std::int64_t number :
       {samples.length, samples.classes, samples.per_step, samples.microbatch}) {
    print.add(number);
  }
  if (samples.document_end >= 0) {
    print.add(samples.document_end);
    print.add(samples.mean_document);
    print.add(std::int64_t{samples.ignores_ends});
  }
  if (samples.window > 0) print.add(-samples.window);
  if (samples.masked > 0) {
    print.add(samples.masked);
    print.add(samples.mask_token);
  }
  for (const int dim : samples.over) print.add(std::int64_t{dim});
  for (const auto& colours : {samples.mean, samples.deviation}) {
    for (const double value : colours) print.add(value);
  }
  for (const IndexTable& table : program.input.tables) {
    print.add(to_string(table.kind));
    for (const int dim : table.dims) print.add(std::int64_t{dim});
    for (const IndexList& list : table.lists) {
      print.add(list.size());
      for (const IndexRange& range : list.ranges) {
        print.add(std::int64_t{range.first});
        print.add(std::int64_t{range.last});
      }
    }
  }
  std::map<std::string, std::uint64_t> units;  // several ranks hold the same ones
  for (const Role& role : program.roles) {
    for (const Unit& unit : role.units) {
      Fingerprint own;
      add_unit(own, program, unit);
      std::uint64_t& known = units[unit.name];
      if (known != own.hash()) known += own.hash();  // unequal ones change the whole
    }
  }
  for (const auto& [name, hash] : units) print.add(hash);
  return print.hash();
}

}  // namespace lockstep
