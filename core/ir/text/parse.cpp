#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "core/base/index_vector.hpp"
#include "core/ir/text/parse_internal.hpp"
#include "core/ir/text/text.hpp"

namespace lockstep {
namespace {

using text::kernel_names;
using text::NameTable;
using text::ParserState;
using text::Scanner;

// This is more ranks than any cluster has. It limits what a short text like "mesh dp=2000000000"
// can ask for.
constexpr std::int64_t kMaxWorld = 1 << 20;
constexpr std::size_t kMaxMeshDims = 8;

/// The sections of the text, in their order.
enum class Section { Start, Head, Tables, Functions, Roles };

class Parser {
 public:
  Parser(std::string_view text, std::string_view file) : s_(text, file) {}

  Result<Program> run() {
    while (s_.in.next_line()) {
      if (!line() || !s_.in.expect_line_end()) return s_.in.error();
    }
    if (!has_mesh_) {
      s_.in.fail(s_.in.mark(), "the text ends before its \"mesh\" line");
      return s_.in.error();
    }
    return std::move(s_.program);
  }

 private:
  bool line() {
    const char* start = s_.in.mark();
    if (s_.in.take('%')) return role_line(start, s_.in.take('b'));
    const std::string_view word = s_.in.word();
    if (section_ == Section::Start) {
      if (word != text::kMagic) {
        return s_.in.fail(start,
                          "expected \"" + std::string(text::kMagic) + "\" on the first line");
      }
      return version();
    }
    if (section_ == Section::Functions) {
      if (word == "formal") return formal();
      if (word == "exchange") return exchange();
      const auto kernel = std::find(kernels_.begin(), kernels_.end(), word);
      if (kernel != kernels_.end()) {
        return this->kernel(static_cast<KernelKind>(kernel - kernels_.begin()));
      }
    }
    if (section_ == Section::Roles && word == "unit") return text::parse_unit(s_);
    int keyword = 0;
    if (!s_.in.choose(start, word, known_lines(), "line", keyword)) return false;
    using Line = bool (Parser::*)();
    struct Row {
      Section section;
      Line parse;
    };
    constexpr std::array<Row, 21> rows = {{{Section::Head, &Parser::mesh},
                                           {Section::Head, &Parser::dtype},
                                           {Section::Head, &Parser::model},
                                           {Section::Head, &Parser::steps},
                                           {Section::Head, &Parser::total_tokens},
                                           {Section::Head, &Parser::seed},
                                           {Section::Head, &Parser::learning_rate},
                                           {Section::Head, &Parser::loss_scale},
                                           {Section::Head, &Parser::tokens},
                                           {Section::Head, &Parser::updates},
                                           {Section::Head, &Parser::synchronization},
                                           {Section::Head, &Parser::flops},
                                           {Section::Head, &Parser::latency},
                                           {Section::Head, &Parser::emitted},
                                           {Section::Tables, &Parser::samples},
                                           {Section::Tables, &Parser::table},
                                           {Section::Tables, &Parser::group},
                                           {Section::Tables, &Parser::names},
                                           {Section::Tables, &Parser::parameter},
                                           {Section::Functions, &Parser::function},
                                           {Section::Roles, &Parser::role}}};
    if (to_size(keyword) >= rows.size()) {
      return s_.in.fail(start, Scanner::shown(word) + " cannot stand here");
    }
    const Row& row = rows[to_size(keyword)];
    if (row.section < section_) {
      return s_.in.fail(start, Scanner::shown(word) + " must stand further up");
    }
    if (row.section > Section::Head && !has_mesh_) {
      return s_.in.fail(start, "\"mesh\" must come before " + Scanner::shown(word));
    }
    section_ = row.section;
    return (this->*row.parse)();
  }

  // The words that begin lines: first those of the table in line(), in its order, then those that
  // may only follow certain lines.
  const std::vector<std::string>& known_lines() {
    if (lines_.empty()) {
      lines_ = {"mesh",
                "dtype",
                "model",
                "steps",
                "total_tokens",
                "seed",
                "learning_rate",
                "loss_scale",
                "tokens_per_step",
                "updates_per_step",
                "sync_every",
                "model_flops_per_step",
                "p2p_latency",
                "emitted",
                "samples",
                "table",
                "group",
                "names",
                "parameter",
                "function",
                "role",
                "unit",
                "formal",
                "exchange"};
      lines_.insert(lines_.end(), kernels_.begin(), kernels_.end());
    }
    return lines_;
  }

  bool once(std::string_view what) {
    if (std::find(seen_lines_.begin(), seen_lines_.end(), what) != seen_lines_.end()) {
      return s_.in.fail(s_.in.mark(), "\"" + std::string(what) + "\" stands twice");
    }
    seen_lines_.emplace_back(what);
    return true;
  }

  // ---------------------------------------------------------------- head and tables

  bool version() {
    const char* start = s_.in.mark();
    int number = 0;
    if (!s_.in.number(number)) return false;
    section_ = Section::Head;
    return number == text::kFormatVersion ||
           s_.in.fail(start, "format version " + std::to_string(number) +
                                 " is unknown; this reads " + std::to_string(text::kFormatVersion));
  }

  bool mesh() {
    if (!once("mesh")) return false;
    std::int64_t world = 1;
    while (!s_.in.line_ends()) {
      const char* start = s_.in.mark();
      MeshDim dim;
      if (!s_.in.name(dim.name) || !s_.in.expect('=')) return false;
      if (s_.dims.find(dim.name) != NameTable::kNone) {
        return s_.in.fail(start, "mesh dimension " + Scanner::shown(dim.name) + " stands twice");
      }
      const char* size = s_.in.mark();
      if (!s_.in.number(dim.size)) return false;
      if (dim.size < 1) return s_.in.fail(size, "a mesh dimension has at least one rank");
      world *= dim.size;
      if (world > kMaxWorld || s_.dims.size() == static_cast<int>(kMaxMeshDims)) {
        return s_.in.fail(size, "a mesh has at most " + std::to_string(kMaxWorld) + " ranks and " +
                                    std::to_string(kMaxMeshDims) + " dimensions");
      }
      s_.dims.add(dim.name);
      s_.program.mesh.dims.push_back(std::move(dim));
    }
    s_.program.role_of_rank.assign(world, RoleId{});
    has_mesh_ = true;
    return true;
  }

  bool dtype() { return once("dtype") && s_.choose(s_.dtypes, "dtype", s_.program.dtype); }
  bool model() { return once("model") && s_.in.name(s_.program.training.model); }
  bool steps() {
    const char* start = s_.in.mark();
    if (!once("steps") || !s_.in.number(s_.program.training.steps)) return false;
    return s_.program.training.steps >= 0 || s_.in.fail(start, "steps are not negative");
  }
  bool total_tokens() { return once("total_tokens") && s_.in.number(s_.program.training.tokens); }
  bool seed() { return once("seed") && s_.in.number(s_.program.training.seed); }
  bool learning_rate() { return once("learning_rate") && text::parse_learning_rate(s_); }
  bool loss_scale() { return once("loss_scale") && text::parse_loss_scale(s_); }
  bool samples() { return text::parse_samples(s_); }
  bool table() { return text::parse_table(s_); }
  bool tokens() { return once("tokens_per_step") && s_.in.number(s_.program.tokens_per_step); }
  bool updates() {
    const char* start = s_.in.mark();
    if (!once("updates_per_step") || !s_.in.number(s_.program.updates_per_step)) return false;
    return s_.program.updates_per_step >= 1 ||
           s_.in.fail(start, "a step updates the weights at least once");
  }
  bool synchronization() {
    const char* start = s_.in.mark();
    if (!once("sync_every") || !s_.in.number(s_.program.sync_every)) return false;
    return s_.program.sync_every >= 1 ||
           s_.in.fail(start, "replicas that train apart come together after at least one step");
  }
  bool flops() {
    return once("model_flops_per_step") && s_.in.number(s_.program.model_flops_per_step.v);
  }
  bool latency() { return once("p2p_latency") && s_.in.number(s_.program.p2p_latency.v); }

  bool emitted() { return once("emitted") && fingerprint(s_.program.emitted); }

  /// Reads a fingerprint, which is x and 16 hexadecimal digits that are not all 0.
  bool fingerprint(std::uint64_t& print) {
    const char* start = s_.in.mark();
    const std::string_view word = s_.in.word();
    const char* const end = word.data() + word.size();
    const bool known = word.size() == 17 && word[0] == 'x' &&
                       std::from_chars(word.data() + 1, end, print, 16).ptr == end;
    return (known && print != 0) ||
           s_.in.fail(start, "expected a fingerprint: x and 16 hexadecimal digits");
  }

  bool group() {
    Group group;
    if (!s_.in.name(group.name)) return false;
    std::uint32_t seen = 0;
    while (!s_.in.line_ends()) {
      int found = 0;
      if (!s_.key(group_keys_, seen, found) || !s_.in.expect('=')) return false;
      const bool read = s_.list([&] {
        int value = 0;
        if (found == 0 ? !s_.in.reference(s_.dims, "mesh dimension", value)
                       : !s_.in.number(value)) {
          return false;
        }
        (found == 0 ? group.dims : group.only).push_back(value);
        return true;
      });
      if (!read) return false;
    }
    s_.groups.add(group.name);
    s_.program.groups.push_back(std::move(group));
    return true;
  }

  bool names() {
    while (!s_.in.line_ends()) {
      const char* start = s_.in.mark();
      std::string name;
      if (!s_.in.name(name)) return false;
      if (s_.program.names.size() == kMostNames) {
        return s_.in.fail(start, "a program has at most " + std::to_string(kMostNames) + " names");
      }
      s_.names.add(name);
      s_.program.names.push_back(std::move(name));
    }
    return true;
  }

  bool parameter() {
    Parameter parameter;
    if (!s_.in.name(parameter.name)) return false;
    std::uint32_t seen = 0;
    while (!s_.in.line_ends()) {
      int found = 0;
      if (!s_.key(parameter_keys_, seen, found) || !s_.in.expect('=')) return false;
      if (found == 1 && !s_.choose(inits_, "initial value", parameter.init)) return false;
      if (found == 2 && !s_.in.number(parameter.init_scale)) return false;
      if (found == 3 && !s_.in.number(parameter.split_dim)) return false;
      if (found == 5 && !s_.in.number(parameter.first_parts)) return false;
      if (found == 4 && !s_.list([&] { return s_.in.number(parameter.sections.emplace_back()); })) {
        return false;
      }
      if (found != 0) continue;
      do {
        const char* start = s_.in.mark();
        if (!s_.in.number(parameter.shape.emplace_back())) return false;
        if (parameter.shape.back() < 0) return s_.in.fail(start, "a shape is not negative");
      } while (s_.in.take('x'));
    }
    s_.parameters.add(parameter.name);
    s_.program.parameters.push_back(std::move(parameter));
    return true;
  }

  // ---------------------------------------------------------------- functions

  bool function() {
    Function function;
    std::string name;
    if (!s_.in.name(name)) return false;
    function.name = std::move(name);
    const char* start = s_.in.mark();
    const std::string_view word = s_.in.word();
    if (word == "emitted") {
      if (!s_.in.expect('=') || !fingerprint(function.emitted)) return false;
    } else if (word != "own") {
      return s_.in.fail(start, "function " + function.name +
                                   " says neither own (arithmetic of yours) nor emitted= (the "
                                   "model library's, with its fingerprint)");
    }
    s_.functions.add(function.name.text());
    s_.program.functions.push_back(std::move(function));
    formals_ = {};
    return true;
  }

  bool formal() {
    Formal formal;
    if (!s_.in.name(formal.name) || !s_.choose(accesses_, "access", formal.access) ||
        !s_.in.number(formal.bytes.v)) {
      return false;
    }
    if (formals_.size() == std::numeric_limits<std::int16_t>::max()) {
      return s_.in.fail(s_.in.mark(), "a function has at most 32767 formals");
    }
    formals_.add(formal.name);
    s_.program.functions.back().formals.push_back(std::move(formal));
    return true;
  }

  bool exchange() {
    Exchange exchange{};
    if (!s_.choose(s_.op_kinds, "collective", exchange.kind) || !s_.in.name(exchange.axis) ||
        !s_.in.name(exchange.in) || !s_.in.expect('-') || !s_.in.expect('>') ||
        !s_.in.name(exchange.out)) {
      return false;
    }
    s_.program.functions.back().exchanges.push_back(std::move(exchange));
    return true;
  }

  bool kernel(KernelKind kind) {
    Kernel kernel;
    kernel.kind = kind;
    const KernelRow& row = info(kind);
    if (!s_.choose(s_.dtypes, "dtype", kernel.dtype)) return false;
    kernel.accumulate = s_.in.take("accumulate");
    kernel.stochastic =
        row.may_be_stochastic && kernel.dtype == DType::BF16 && s_.in.take("stochastic");
    kernel.tf32 = row.tf32 != Tf32::Never && kernel.dtype == DType::F32 && s_.in.take("tf32");
    const auto numbers = [&](const std::vector<std::string_view>& names, auto& values) {
      for (std::size_t i = 0; i < names.size(); ++i) {
        const text::NumberName number(names[i]);
        if (number.optional && !s_.in.take_word(number.name)) continue;
        if (!number.optional && !s_.in.expect_word(number.name)) return false;
        if (!s_.in.expect('=') || !s_.in.number(values[i])) return false;
      }
      return true;
    };
    if (!numbers(row.dims, kernel.dims) || !numbers(row.scalars, kernel.scalars)) return false;
    if (!operands(row.in, kernel.dtype, kernel.in)) return false;
    if (s_.in.take("->") && !operands(row.out, kernel.dtype, kernel.out)) return false;
    s_.program.functions.back().kernels.push_back(std::move(kernel));
    return true;
  }

  bool operands(const std::vector<OperandRow>& rows, DType usual, std::vector<Operand>& out) {
    for (const OperandRow& row : rows) {
      const char* start = s_.in.mark();
      if (s_.in.line_ends() || *start == '-') return true;  // the other operands are absent
      if (!s_.in.expect_word(row.name) || !s_.in.expect('=')) return false;
      Operand operand;
      if (!s_.in.take('-')) {
        int index = 0;
        if (!s_.in.reference(formals_, "formal", index)) return false;
        operand.formal = static_cast<std::int16_t>(index);
        operand.dtype = usual;
      }
      if (s_.in.take('+') && !s_.in.number(operand.offset)) return false;
      if (s_.in.take(':') && !s_.choose(s_.dtypes, "dtype", operand.dtype)) return false;
      out.push_back(operand);
    }
    return true;
  }

  // ---------------------------------------------------------------- roles

  bool role() { return text::parse_role(s_); }

  bool role_line(const char* start, bool is_buffer) {
    if (s_.program.roles.empty()) {
      return s_.in.fail(start, "buffers and ops must follow a \"role\" line");
    }
    return is_buffer ? text::parse_buffer(s_, start) : text::parse_op(s_, start);
  }

  ParserState s_;
  Section section_ = Section::Start;
  bool has_mesh_ = false;
  std::vector<std::string> seen_lines_, lines_;
  NameTable formals_;

  const std::vector<std::string> kernels_ = kernel_names();
  const std::vector<std::string> accesses_ = {"read", "write", "read_write"};
  const std::vector<std::string> inits_ = {"zeros", "ones", "normal"};
  const std::vector<std::string> group_keys_ = {"dims", "only"};
  const std::vector<std::string> parameter_keys_ = {"shape", "init",     "scale",
                                                    "split", "sections", "first_parts"};
};

}  // namespace

Result<Program> parse_program(std::string_view text, std::string_view file) {
  return Parser(text, file).run();
}

}  // namespace lockstep
