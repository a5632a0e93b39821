// What makes communication smaller: values in a few bits, and bases of low-rank products.
#include "core/base/block_codes.hpp"
#include "core/ir/kernels/rows.hpp"

namespace lockstep {
namespace {

std::string_view bad_codes(std::int64_t n, std::int64_t block, std::int64_t bits,
                           std::int64_t words) {
  if (bits != 8 && bits != 4) return "has codes of neither 8 nor 4 bits";
  if (block < 1 || (bits == 4 && block % 2 != 0))
    return "has blocks that share bytes, or are empty";
  const bool fits = words == words_of_codes(n, static_cast<int>(bits));
  return fits ? "" : "has not as many words as codes need";
}
std::string_view bad_to_codes(const Kernel& k) {
  if (k.dims[1] < 1 || k.dims[2] < 1 || k.dims[1] % k.dims[2] != 0) {
    return "has parts that targets do not share evenly";
  }
  return bad_codes(k.dims[0], k.dims[3], k.dims[4], k.dims[5]);
}
std::string_view bad_from_codes(const Kernel& k) {
  if (k.dims[1] < 1 || k.dims[5] < 1 || k.dims[1] % k.dims[5] != 0) {
    return "has parts that sources do not share evenly";
  }
  return bad_codes(k.dims[0], k.dims[2], k.dims[3], k.dims[4]);
}
std::string_view bad_basis(const Kernel& k) {
  return k.dims[1] > k.dims[0] ? "has more columns than rows" : "";
}

}  // namespace

std::vector<KernelRow> rows::compression() {
  return {
      // y has the codes of x, which is so many parts of n values (core/base/block_codes.hpp). Parts
      // are for `targets` ranks: those for the first come first, one of each `targets` parts of x.
      // Per value: its magnitude compared, a quotient, and two sums that round.
      {.kind = K::ToCodes,
       .name = "to_codes",
       .dims = words("n parts targets block bits words"),
       .in = {{"x", "parts n"}},
       .out = {{"y", "4 parts (n/block + words)", Byte}},
       .flops = "4 parts n",
       .efficiency_as = "add",
       .fault = bad_to_codes},
      // x has the values of so many parts of codes, which came from `sources`, those of the first
      // one first: the sum of the first part of each, then that of the second ones, …, in the order
      // of the sources. With one source, parts stand one behind the other.
      {.kind = K::FromCodes,
       .name = "from_codes",
       .dims = words("n parts block bits words sources"),
       .in = {{"y", "4 parts (n/block + words)", Byte}},
       .out = {{"x", "n parts/sources"}},
       .flops = "2 parts n",
       .efficiency_as = "add",
       .fault = bad_from_codes},
      // The columns of a [rows, cols] become orthonormal, in their order (Gram and Schmidt,
      // modified:
      // each column, once it has length 1, is taken out of all that follow). A column that has less
      // than eps of its length left becomes zero; or, if `fill` is 1, what the columns before leave
      // of a fixed direction (core/base/basis.hpp).
      {.kind = K::Orthonormalize,
       .name = "orthonormalize",
       .dims = words("rows cols"),
       .scalars = words("eps fill"),
       .out = {{"a", "rows cols", Own, Update}},
       .flops = "3 rows cols + 2 rows cols cols",
       .efficiency_as = "add",
       .fault = bad_basis},
  };
}

}  // namespace lockstep
