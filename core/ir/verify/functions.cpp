#include <algorithm>
#include <optional>
#include <vector>

#include "core/base/interval_map.hpp"
#include "core/ir/verify/internal.hpp"

namespace lockstep::verification {
namespace {

class FunctionCheck {
 public:
  FunctionCheck(const Function& function, Faults& faults)
      : function_(function), faults_(faults), written_(function.formals.size()) {}

  void check() {
    for (const Formal& formal : function_.formals) {
      if (formal.bytes.v >= 0) continue;
      faults_.add(function_.name + ": formal " + formal.name + " < 0 bytes");
    }
    for (const Kernel& kernel : function_.kernels) check(kernel);
  }

 private:
  void check(const Kernel& kernel) {
    const KernelRow& row = info(kernel.kind);
    const std::string name = function_.name + ": " + std::string(row.name);
    check_shape(name, kernel, row);
    if (!check_operands(name, kernel, kernel.in, row.in) ||
        !check_operands(name, kernel, kernel.out, row.out)) {
      return;
    }
    const auto operand = [&](const OperandRow& which) {
      return name + ": operand " + std::string(which.name);
    };
    for (std::size_t i = 0; i < kernel.in.size(); ++i) {
      check_read(operand(row.in[i]), kernel.in[i], input_elements(kernel, i));
    }
    for (std::size_t i = 0; i < kernel.out.size(); ++i) {
      if (output_is_read(kernel, i)) {
        check_read(operand(row.out[i]), kernel.out[i], output_elements(kernel, i));
      }
    }
    for (std::size_t i = 0; i < kernel.out.size(); ++i) {
      check_write(operand(row.out[i]), kernel.out[i], output_elements(kernel, i));
    }
  }

  void check_shape(const std::string& name, const Kernel& kernel, const KernelRow& row) {
    for (std::size_t i = 0; i < kernel.dims.size(); ++i) {
      if (kernel.dims[i] < 0) faults_.add(name + ": negative dimension");
      if (i >= row.dims.size() && kernel.dims[i] != 0) faults_.add(name + ": unused dimension set");
    }
    for (std::size_t i = row.scalars.size(); i < kernel.scalars.size(); ++i) {
      if (kernel.scalars[i] != 0) faults_.add(name + ": unused scalar set");
    }
    if (kernel.tf32 && (row.tf32 == Tf32::Never || kernel.dtype != DType::F32)) {
      faults_.add(name + ": only a product in float32 is rounded to TF32");
    }
    const std::string_view fault = row.fault == nullptr ? "" : row.fault(kernel);
    if (!fault.empty()) faults_.add(name + ": " + std::string(fault));
    const bool accumulates = std::any_of(row.out.begin(), row.out.end(), [](const OperandRow& out) {
      return out.effect == Effect::Accumulate;
    });
    if (kernel.accumulate && !accumulates) faults_.add(name + ": cannot accumulate");
  }

  /// Checks the operands of one side. Returns whether they are there, so that what they touch can
  /// be checked.
  bool check_operands(const std::string& name, const Kernel& kernel,
                      const std::vector<Operand>& operands, const std::vector<OperandRow>& rows) {
    if (operands.size() > rows.size()) {
      faults_.add(name + ": has " + number(static_cast<std::int64_t>(operands.size())) +
                  " operands on one side, at most " +
                  number(static_cast<std::int64_t>(rows.size())));
      return false;
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const OperandRow& row = rows[i];
      const std::string what = name + ": operand " + std::string(row.name);
      const bool given = i < operands.size() && operands[i].present();
      if (!given && !row.optional) {
        faults_.add(what + " is missing");
        return false;
      }
      if (given && !in_table(operands[i].formal, function_.formals)) {
        faults_.add(what + " names formal " + number(operands[i].formal) +
                    ", which does not exist");
        return false;
      }
      if (row.given_if) check_condition(what, row.given_if, kernel, given);
      if (given && !fits(row.type, kernel.dtype, operands[i].dtype)) {
        faults_.add(what + " is " + std::string(to_string(operands[i].dtype)) + ", not " +
                    std::string(to_string(usual_dtype(row.type, kernel.dtype))));
      }
    }
    return true;
  }

  /// Checks that an operand that some dimensions ask for, such as gathered keys, is given with
  /// these and not without them.
  void check_condition(const std::string& what, const Formula& condition, const Kernel& kernel,
                       bool given) {
    if (given == (condition.elements(kernel) != 0)) return;
    faults_.add(what + (given ? " is given, but " : " is missing, but ") +
                std::string(condition.text()) + (given ? " is 0" : " is not 0"));
  }

  const Formal& formal_of(const Operand& operand) const {
    return function_.formals[operand.formal];
  }

  /// The end of the operand in its formal, in bytes. If it lies outside, adds a fault and returns
  /// nullopt.
  std::optional<std::int64_t> operand_end(const std::string& what, const Operand& operand,
                                          std::int64_t elements) {
    const Formal& formal = formal_of(operand);
    std::int64_t end = 0;
    const bool overflow = __builtin_mul_overflow(elements, size_of(operand.dtype), &end) ||
                          __builtin_add_overflow(end, operand.offset, &end);
    if (!overflow && operand.offset >= 0 && end <= formal.bytes.v) return end;
    faults_.add(what + " lies outside formal " + formal.name);
    return std::nullopt;
  }

  void check_read(const std::string& what, const Operand& operand, std::int64_t elements) {
    if (!operand.present()) return;
    const auto end = operand_end(what, operand, elements);
    if (!end) return;
    const Formal& formal = formal_of(operand);
    if (formal.access == Access::Write && !written_[operand.formal].covers(operand.offset, *end)) {
      faults_.add(what + " reads formal " + formal.name + ", which is declared as written only, " +
                  "before the function writes it");
    }
  }

  void check_write(const std::string& what, const Operand& operand, std::int64_t elements) {
    if (!operand.present()) return;
    const auto end = operand_end(what, operand, elements);
    if (!end) return;
    const Formal& formal = formal_of(operand);
    if (formal.access == Access::Read) {
      faults_.add(what + " writes formal " + formal.name + ", which is declared as read only");
    }
    written_[operand.formal].assign(operand.offset, *end, 1);
  }

  const Function& function_;
  Faults& faults_;
  IndexVector<int, IntervalMap<char>> written_;  // by formal: what kernels have written so far
};

}  // namespace

void check_functions(const Program& program, Faults& faults) {
  for (const Function& function : program.functions) FunctionCheck(function, faults).check();
}

}  // namespace lockstep::verification
