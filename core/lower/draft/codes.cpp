#include "core/lower/draft/codes.hpp"

#include <string>

#include "core/base/block_codes.hpp"
#include "core/lower/draft/one_kernel.hpp"

namespace lockstep {
namespace {

std::string name_of(const char* kernel, const CodedParts& what, std::int64_t shared, DType type) {
  return kernel + std::to_string(what.elements) + "." + std::to_string(what.parts) + "." +
         std::to_string(shared) + "." + std::to_string(what.bits) + "." +
         std::string(to_string(type));
}

}  // namespace

Bytes CodedParts::bytes() const { return Bytes{parts * bytes_of_codes(elements, block, bits)}; }

FunctionId to_codes(ProgramBuilder& build, const CodedParts& what, std::int64_t targets,
                    DType from) {
  const Kernel kernel = bare_kernel(KernelKind::ToCodes, from,
                                    {what.elements, what.parts, targets, what.block, what.bits,
                                     words_of_codes(what.elements, what.bits)});
  return build.function(one_kernel(name_of("to_codes.", what, targets, from), kernel, {{"x", from}},
                                   {{"y", DType::U8}}));
}

FunctionId from_codes(ProgramBuilder& build, const CodedParts& what, std::int64_t sources,
                      DType to) {
  const Kernel kernel = bare_kernel(KernelKind::FromCodes, to,
                                    {what.elements, what.parts, what.block, what.bits,
                                     words_of_codes(what.elements, what.bits), sources});
  return build.function(one_kernel(name_of("from_codes.", what, sources, to), kernel,
                                   {{"y", DType::U8}}, {{"x", to}}));
}

BufferId add_codes(ProgramBuilder& build, Role& role, Bytes bytes, int layer) {
  Buffer codes;
  codes.bytes = bytes;
  codes.kind = BufferKind::Comm;
  codes.dtype = DType::U8;
  codes.layer = static_cast<std::int16_t>(layer);
  codes.name = build.name("codes");
  return add_buffer(role, codes);
}

}  // namespace lockstep
