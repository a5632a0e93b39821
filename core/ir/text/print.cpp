#include <array>
#include <charconv>

#include "core/base/index_vector.hpp"
#include "core/ir/text/names.hpp"
#include "core/ir/text/text.hpp"
#include "core/ir/text/unit_fields.hpp"

namespace lockstep {
namespace {

using text::NameTable;

std::string in_quotes(std::string_view name) {
  bool plain = !name.empty() && text::is_name_start(name[0]);
  for (const char c : name) plain = plain && text::is_name_char(c);
  if (plain) return std::string(name);
  std::string result = "\"";
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      result += "\\x";
      result += "0123456789abcdef"[byte >> 4];
      result += "0123456789abcdef"[byte & 15];
    } else {
      result += c;
    }
  }
  return result + '"';
}

/// The references to the rows of one table, as they are written.
std::vector<std::string> references(const std::vector<std::string>& names) {
  NameTable table;
  for (const std::string& name : names) table.add(name);
  std::vector<std::string> result;
  result.reserve(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool unique = table.find(names[i]) == static_cast<int>(i);
    result.push_back(unique ? in_quotes(names[i]) : "@" + std::to_string(i));
  }
  return result;
}

template <class Row>
std::vector<std::string> row_references(const std::vector<Row>& rows) {
  std::vector<std::string> names;
  names.reserve(rows.size());
  for (const Row& row : rows) names.push_back(row.name);
  return references(names);
}

class Printer {
 public:
  explicit Printer(const Program& program)
      : program_(program),
        functions_(row_references(program.functions)),
        groups_(row_references(program.groups)),
        parameters_(row_references(program.parameters)),
        names_(references(program.names)),
        dims_(row_references(program.mesh.dims)) {}

  std::string take() { return std::move(out_); }

  void all() {
    preamble();
    for (std::size_t i = 0; i < program_.roles.size(); ++i) put_role(i);
  }

  /// All but the lists of buffers and ops.
  void without_lists() {
    preamble();
    for (std::size_t i = 0; i < program_.roles.size(); ++i) put_role_head(i);
  }

  void put_role(std::size_t index) {
    put_role_head(index);
    const Role& role = program_.roles[index];
    for (std::size_t i = 0; i < role.buffers.size(); ++i) put_buffer(i, role.buffers[i]);
    for (std::size_t i = 0; i < role.ops.size(); ++i) put_op(role, i);
  }

 private:
  void preamble() {
    head();
    if (program_.input.samples.kind != SampleKind::None) put_samples(program_.input.samples);
    for (const IndexTable& table : program_.input.tables) put_table(table);
    for (const Group& group : program_.groups) put_group(group);
    if (!program_.names.empty()) put("names");
    for (const std::string& name : program_.names) put(" ", in_quotes(name));
    if (!program_.names.empty()) put("\n");
    for (const Parameter& parameter : program_.parameters) put_parameter(parameter);
    for (const Function& function : program_.functions) put_function(function);
  }

  void put_role_head(std::size_t index) {
    const Role& role = program_.roles[index];
    put("role ", index, " ranks=");
    put_ranks(role.ranks);
    put(" arena=", role.arena.v);
    if (role.host_arena.v != 0) put(" host_arena=", role.host_arena.v);
    if (role.drive_arena.v != 0) put(" drive_arena=", role.drive_arena.v);
    put("\n");
    for (const Unit& unit : role.units) put_unit(unit);
  }

  void one(std::string_view s) { out_ += s; }
  void one(const char* s) { out_ += s; }
  void one(const std::string& s) { out_ += s; }
  void one(OpId id) { put("%", id.v); }
  void one(BufferId id) { put("%b", id.v); }
  template <class T>
  requires std::is_arithmetic_v<T>
  void one(T number) {
    std::array<char, 32> digits;  // room for the shortest form that reads back as the same value
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    out_.append(digits.data(), end);
  }
  template <class... T>
  void put(const T&... parts) {
    (one(parts), ...);
  }
  template <class T>
  void put_if(std::string_view key, T value, T absent) {
    if (value != absent) put(" ", key, "=", value);
  }

  // An index outside its table is printed as such, because faulty programs are printed, too.
  void put_reference(const std::vector<std::string>& table, std::int32_t index) {
    if (index >= 0 && to_size(index) < table.size()) {
      put(table[index]);
    } else {
      put("@", index);
    }
  }

  void put_ranks(const std::vector<Rank>& ranks) {
    for (std::size_t i = 0; i < ranks.size();) {
      std::size_t last = i;
      while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
      put(i == 0 ? "" : ",", ranks[i]);
      if (last > i) put("-", ranks[last]);
      i = last + 1;
    }
  }

  void head() {
    put(text::kMagic, " ", text::kFormatVersion, "\nmesh");
    for (const MeshDim& dim : program_.mesh.dims) put(" ", in_quotes(dim.name), "=", dim.size);
    put("\ndtype ", to_string(program_.dtype), "\n");
    const Training& training = program_.training;
    if (!training.model.empty()) put("model ", in_quotes(training.model), "\n");
    if (training.steps != 0) put("steps ", training.steps, "\n");
    if (training.tokens != 0) put("total_tokens ", training.tokens, "\n");
    if (training.seed != 0) put("seed ", training.seed, "\n");
    if (training.learning_rate != LearningRate{}) put_learning_rate(training.learning_rate);
    if (training.loss_scaling) put_loss_scale(*training.loss_scaling);
    put("tokens_per_step ", program_.tokens_per_step, "\n");
    if (program_.updates_per_step != 1) {
      put("updates_per_step ", program_.updates_per_step, "\n");
    }
    if (program_.sync_every != 0) put("sync_every ", program_.sync_every, "\n");
    put("model_flops_per_step ", program_.model_flops_per_step.v, "\n");
    if (program_.emitted != 0) put("emitted x", text::hexadecimal(program_.emitted), "\n");
    if (program_.p2p_latency.v != -1) put("p2p_latency ", program_.p2p_latency.v, "\n");
  }

  void put_learning_rate(const LearningRate& rate) {
    const LearningRate absent;
    put("learning_rate ", rate.base);
    put_if("factor", rate.factor, absent.factor);
    put_if("warmup", rate.warmup_steps, absent.warmup_steps);
    if (rate.decay != absent.decay) put(" decay=cosine");
    put_if("from", rate.decay_from, absent.decay_from);
    put_if("steps", rate.decay_steps, absent.decay_steps);
    put_if("minimum", rate.minimum, absent.minimum);
    put("\n");
  }

  void put_loss_scale(const LossScaling& scaling) {
    const LossScaling absent;
    put("loss_scale ", scaling.init_scale);
    put_if("growth", scaling.growth_factor, absent.growth_factor);
    put_if("backoff", scaling.backoff_factor, absent.backoff_factor);
    put_if("interval", scaling.growth_interval, absent.growth_interval);
    put_if("hysteresis", scaling.hysteresis, absent.hysteresis);
    put_if("minimum", scaling.min_scale, absent.min_scale);
    put("\n");
  }

  void put_dims(std::string_view key, const std::vector<int>& dims) {
    for (std::size_t i = 0; i < dims.size(); ++i) {
      put(i == 0 ? key : ",");
      put_reference(dims_, dims[i]);
    }
  }

  void put_samples(const Samples& samples) {
    const bool tokens = samples.kind == SampleKind::Tokens;
    put("samples ", to_string(samples.kind), tokens ? " length=" : " size=", samples.length,
        tokens ? " vocabulary=" : " classes=", samples.classes);
    for (const auto& [key, values] :
         {std::pair{" mean=", samples.mean}, std::pair{" deviation=", samples.deviation}}) {
      for (std::size_t c = 0; !tokens && c < values.size(); ++c) put(c == 0 ? key : ",", values[c]);
    }
    put(" per_step=", samples.per_step, " microbatch=", samples.microbatch);
    put_dims(" over=", samples.over);
    if (samples.document_end >= 0) {
      put(" document_end=", samples.document_end, " mean_document=", samples.mean_document);
    }
    if (samples.ignores_ends) put(" ignores_ends");
    if (samples.window > 0) put(" window=", samples.window);
    if (samples.masked > 0) {
      put(" masked=", samples.masked, " mask_token=", samples.mask_token);
    }
    if (!samples.shuffled) put(" unshuffled");
    put("\n");
  }

  void put_table(const IndexTable& table) {
    put("table ", to_string(table.kind));
    put_dims(" dims=", table.dims);
    for (std::size_t i = 0; i < table.lists.size(); ++i) {
      put(i == 0 ? " " : " | ");
      const std::vector<IndexRange>& ranges = table.lists[i].ranges;
      for (std::size_t r = 0; r < ranges.size(); ++r) {
        put(r == 0 ? "" : ",", ranges[r].first);
        if (ranges[r].last != ranges[r].first) put("-", ranges[r].last);
      }
    }
    put("\n");
  }

  void put_group(const Group& group) {
    put("group ", in_quotes(group.name));
    put_dims(" dims=", group.dims);
    for (std::size_t i = 0; i < group.only.size(); ++i) {
      put(i == 0 ? " only=" : ",", group.only[i]);
    }
    put("\n");
  }

  void put_parameter(const Parameter& parameter) {
    put("parameter ", in_quotes(parameter.name));
    for (std::size_t i = 0; i < parameter.shape.size(); ++i) {
      put(i == 0 ? " shape=" : "x", parameter.shape[i]);
    }
    constexpr IndexArray<InitKind, std::string_view, 3> inits = {"zeros", "ones", "normal"};
    put(" init=", inits[parameter.init]);
    put(" scale=", parameter.init_scale);
    if (parameter.split_dim >= 0) put(" split=", parameter.split_dim);
    for (std::size_t i = 0; i < parameter.sections.size(); ++i) {
      put(i == 0 ? " sections=" : ",", parameter.sections[i]);
    }
    if (parameter.first_parts != 1) put(" first_parts=", parameter.first_parts);
    put("\n");
  }

  void put_function(const Function& function) {
    const Work total = work(function);
    put("function ", in_quotes(function.name.text()),
        function.emitted == 0 ? " own" : " emitted=x");
    if (function.emitted != 0) put(text::hexadecimal(function.emitted));
    put("  # ", total.flops.v, " flop, ", total.bytes.v, " bytes\n");
    for (const Formal& formal : function.formals) {
      constexpr IndexArray<Access, std::string_view, 3> accesses = {"read", "write", "read_write"};
      put("  formal ", in_quotes(formal.name), " ", accesses[formal.access], " ", formal.bytes.v,
          "\n");
    }
    for (const Exchange& e : function.exchanges) {
      put("  exchange ", to_string(e.kind), " ", in_quotes(e.axis), " ", in_quotes(e.in), " -> ",
          in_quotes(e.out), "\n");
    }
    const std::vector<std::string> formals = row_references(function.formals);
    for (const Kernel& kernel : function.kernels) put_kernel(kernel, formals);
  }

  void put_kernel(const Kernel& kernel, const std::vector<std::string>& formals) {
    const KernelRow& row = info(kernel.kind);
    put("  ", row.name, " ", to_string(kernel.dtype));
    if (kernel.accumulate) put(" accumulate");
    if (kernel.stochastic) put(" stochastic");
    if (kernel.tf32) put(" tf32");
    const auto put_numbers = [&](const std::vector<std::string_view>& names, const auto& values) {
      for (std::size_t i = 0; i < names.size(); ++i) {
        const text::NumberName number(names[i]);
        if (!number.optional || values[i] != 0) put(" ", number.name, "=", values[i]);
      }
    };
    put_numbers(row.dims, kernel.dims);
    put_numbers(row.scalars, kernel.scalars);
    put_operands(kernel, kernel.in, row.in, formals);
    if (!kernel.out.empty()) put(" ->");
    put_operands(kernel, kernel.out, row.out, formals);
    put("\n");
  }

  void put_operands(const Kernel& kernel, const std::vector<Operand>& operands,
                    const std::vector<OperandRow>& rows, const std::vector<std::string>& formals) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Operand& operand = operands[i];
      put(" ", i < rows.size() ? rows[i].name : "?", "=");
      if (operand.present()) {
        put_reference(formals, operand.formal);
      } else {
        put("-");
      }
      if (operand.offset != 0) put("+", operand.offset);
      const DType usual = operand.present() ? kernel.dtype : DType::F32;
      if (operand.dtype != usual) put(":", to_string(operand.dtype));
    }
  }

  template <std::size_t count>
  void put_fields(const Unit& unit, const std::array<text::UnitField, count>& fields) {
    for (const text::UnitField& field : fields) {
      if (const auto* number = std::get_if<std::int64_t Unit::*>(&field.member)) {
        if (field.always || unit.**number != 0) put(" ", field.name, "=", unit.**number);
      } else if (const auto* group = std::get_if<GroupId Unit::*>(&field.member)) {
        if (!(unit.**group).valid()) continue;
        put(" ", field.name, "=");
        put_reference(groups_, (unit.**group).v);
      } else if (unit.*std::get<bool Unit::*>(field.member)) {
        put(" ", field.name);
      }
    }
  }

  void put_unit(const Unit& unit) {
    put("  unit ", in_quotes(unit.name));
    put_fields(unit, text::kUnitFieldsBeforeStates);
    unit.each_state([&](const StateRow& row, BufferId buffer) { put(" ", row.name, "=", buffer); });
    put_fields(unit, text::kUnitFieldsAfterStates);
    for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
      put(i == 0 ? " parameters=" : ",");
      put_reference(parameters_, unit.parameters[i].parameter.v);
      put(":", unit.parameters[i].offset);
      const SectionRange& sections = unit.parameters[i].sections;
      if (!sections.all()) put(":", sections.first, "-", sections.end);
      if (unit.parameters[i].low_rank != 0) put("~", unit.parameters[i].low_rank);
    }
    put("\n");
  }

  void put_live_end(OpId id) {
    if (id.valid()) {
      put(id);
    } else {
      put("-");
    }
  }

  void put_buffer(std::size_t id, const Buffer& buffer) {
    put("  %b", id, " ", to_string(buffer.kind), " ", to_string(buffer.dtype), " ", buffer.bytes.v);
    if (buffer.tier != Tier::Device) put(" ", to_string(buffer.tier));
    if (buffer.is_view()) put(" view=", buffer.parent());
    put(" @", buffer.offset);
    if (buffer.piece_of().valid()) {
      put(" piece_of=");
      put_reference(groups_, buffer.piece_of().v);
    }
    put_if<int>("layer", buffer.layer, -1);
    put_if<int>("mb", buffer.microbatch, -1);
    if (buffer.name != -1) {
      put(" name=");
      put_reference(names_, buffer.name);
    }
    if (buffer.first().valid() || buffer.last().valid()) {
      put(" live=");
      put_live_end(buffer.first());
      put("..");
      put_live_end(buffer.last());
    }
    put("\n");
  }

  void put_op(const Role& role, std::size_t id) {
    const Op& op = role.ops[id];
    put("  %", id, " ", to_string(op.kind), " ");
    if (op.kind == OpKind::Call) {
      put_reference(functions_, op.target);
    } else if (is_collective(op.kind)) {
      put_reference(groups_, op.target);
    } else if (is_p2p(op.kind)) {
      put("pp=", op.target);
    } else {
      put(to_string(op.host()));
    }
    if (op.phase != Phase::None) put(" phase=", to_string(op.phase));
    put_if<int>("stage", op.stage, -1);
    put_if<int>("mb", op.microbatch, -1);
    put_if<int>("layer", op.layer, -1);
    put_if<int>("root", op.root, 0);
    put_if<int>("largest", op.largest ? 1 : 0, 0);
    put_if<int>("rows", role.rows_of(op).count, 0);
    put_if<int>("row_bytes", role.rows_of(op).bytes, 0);
    put(" stream=", to_string(op.stream));
    put_ids(" after=", role.after, op.after_begin, op.after_count);
    put_ids(" args=", role.args, op.args_begin, op.args_count);
    put("\n");
  }

  template <class Id>
  void put_ids(std::string_view key, const std::vector<Id>& pool, std::size_t begin,
               std::size_t count) {
    for (std::size_t i = 0; i < count && begin + i < pool.size(); ++i) {
      put(i == 0 ? key : ",", pool[begin + i]);
    }
  }

  const Program& program_;
  std::vector<std::string> functions_, groups_, parameters_, names_, dims_;
  std::string out_;
};

}  // namespace

std::vector<std::string> text::kernel_names() {
  std::vector<std::string> names;
  for (int i = 0; i < kNumKernelKinds; ++i) {
    names.emplace_back(info(static_cast<KernelKind>(i)).name);
  }
  return names;
}

std::string print(const Program& program) {
  Printer printer(program);
  printer.all();
  return printer.take();
}

std::string text::print_without_lists(const Program& program) {
  Printer printer(program);
  printer.without_lists();
  return printer.take();
}

std::string print_role(const Program& program, RoleId role) {
  Printer printer(program);
  printer.put_role(to_size(role));
  return printer.take();
}

}  // namespace lockstep
