#include "core/generate/decode_program.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "core/base/free_list.hpp"
#include "core/model/model.hpp"

namespace lockstep {
namespace {

LayerShape shape_of(DType dtype, std::int64_t capacity, std::int64_t tokens) {
  LayerShape shape;
  shape.seq = tokens;
  shape.dtype = shape.gradient_dtype = dtype;
  shape.context_parallel = static_cast<int>(capacity / tokens);
  shape.gathers_keys = true;
  shape.ends_with_logits = true;
  return shape;
}

class Assembly {
 public:
  Assembly(const ModelSpec& spec, DType dtype, std::int64_t capacity) : spec_(spec), dtype_(dtype) {
    made_.capacity = capacity;
    made_.vocab = spec.vocab;
    made_.window = spec.sliding_window;
    Program& program = made_.program;
    program.dtype = dtype;
    program.training.model = spec.name;
    program.role_of_rank = {RoleId{0}};
    role_.ranks = {0};
    for (std::int64_t i = 0; i < spec.layers; ++i) {
      made_.caches.push_back(
          add_buffer(capacity * keys_width() * size_of(dtype), BufferKind::Activation, dtype));
    }
  }

  void add_pass(std::int64_t tokens) {
    const Model model = build_transformer(spec_, shape_of(dtype_, made_.capacity, tokens));
    if (role_.units.empty()) add_units(model);
    DecodeProgram::Pass pass{tokens, next(), {}};
    prefix_ = std::to_string(tokens) + ".";
    copy_in("tokens", tokens, HostData::Tokens);
    copy_in("positions", tokens, HostData::Positions);
    copy_in("starts", 2 * (made_.capacity / tokens + 1), HostData::Starts);
    if (spec_.sliding_window > 0) copy_in("windows", tokens, HostData::Windows);
    functions_.clear();
    std::size_t block = 0;
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      const Layer& layer = model.layers[i];
      const bool is_block = layer.is_block();
      add_layer(model, layer, is_block ? block : 0, i);
      block += is_block ? 1 : 0;
    }
    const BufferId logits = shared("logits", tokens * spec_.vocab * size_of(dtype_), dtype_);
    add_op(OpKind::DeviceToHost, static_cast<int>(HostData::Loss), {logits});
    pass.last = {next().v - 1};
    made_.passes.push_back(pass);
  }

  DecodeProgram finish() {
    std::int64_t end = 0;
    for (Buffer& buffer : role_.buffers) {
      buffer.offset = end;
      end += round_up(buffer.bytes.v, FreeList::kAlignment);
    }
    role_.arena = Bytes{end};
    made_.program.roles.push_back(std::move(role_));
    return std::move(made_);
  }

 private:
  std::int64_t keys_width() const { return 2 * spec_.kv_heads * spec_.head_dim; }
  OpId next() const { return {static_cast<std::int32_t>(role_.ops.size())}; }

  BufferId add_buffer(std::int64_t bytes, BufferKind kind, DType dtype) {
    Buffer buffer;
    buffer.bytes = Bytes{bytes};
    buffer.kind = kind;
    buffer.dtype = dtype;
    role_.buffers.push_back(buffer);
    return {static_cast<std::int32_t>(role_.buffers.size() - 1)};
  }

  /// A buffer that all functions of a pass share by its name.
  BufferId shared(const std::string& name, std::int64_t bytes, DType dtype) {
    const auto [at, fresh] = shared_.try_emplace(prefix_ + name);
    if (fresh) at->second = add_buffer(0, BufferKind::Workspace, dtype);
    Bytes& held = role_.buffers[at->second].bytes;
    held.v = std::max(held.v, bytes);
    return at->second;
  }

  /// The units of all passes are the same.
  void add_units(const Model& model) {
    Program& program = made_.program;
    for (const UnitLayout& layout : model.units) {
      Unit unit;
      unit.name = layout.name;
      unit.elements = unit.shard_elements = layout.elements;
      unit.states[StateKind::Param] =
          add_buffer(layout.elements * size_of(dtype_), BufferKind::Param, dtype_);
      for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
        const ParameterId id{static_cast<std::int32_t>(program.parameters.size())};
        unit.parameters.push_back({id, layout.offsets[i], layout.sections[i]});
        program.parameters.push_back(layout.parameters[i]);
      }
      role_.units.push_back(std::move(unit));
    }
  }

  void add_op(OpKind kind, std::int32_t target, const std::vector<BufferId>& args) {
    Op op;
    op.kind = kind;
    op.target = target;
    op.args_begin = static_cast<std::uint32_t>(role_.args.size());
    op.args_count = static_cast<std::uint16_t>(args.size());
    role_.args.insert(role_.args.end(), args.begin(), args.end());
    role_.ops.push_back(op);
  }

  void copy_in(const char* name, std::int64_t count, HostData data) {
    const BufferId to = shared(name, count * size_of(DType::I32), DType::I32);
    add_op(OpKind::HostToDevice, static_cast<int>(data), {to});
  }

  void call(FunctionId id, const Layer& layer, std::size_t block, std::size_t place) {
    std::vector<BufferId> args;
    for (const Formal& formal : made_.program.functions[id].formals) {
      args.push_back(actual(formal, layer, block, place));
    }
    add_op(OpKind::Call, id.v, args);
  }

  BufferId actual(const Formal& formal, const Layer& layer, std::size_t block, std::size_t place) {
    for (const LayerUnit& used : layer.units) {
      if (formal.name == "w" + used.suffix) return role_.units[used.unit].param();
    }
    if (formal.name == "keys.all") return made_.caches[block];
    // A layer's result is the next one's input.
    std::string name = formal.name;
    if (name == "x") name = "hidden." + std::to_string(place % 2);
    if (name == "y") name = "hidden." + std::to_string((place + 1) % 2);
    return shared(name, formal.bytes.v, dtype_);
  }

  void add_layer(const Model& model, const Layer& layer, std::size_t block, std::size_t place) {
    auto [known, fresh] = functions_.try_emplace(layer.kind);
    if (fresh) known->second = functions_of(model.kinds[layer.kind].functions.forward());
    for (const FunctionId id : known->second) call(id, layer, block, place);
  }

  /// The functions of a layer's forward pass. Where the training gathers keys, these are added to
  /// the cache.
  std::vector<FunctionId> functions_of(const std::vector<LayerStep>& steps) {
    std::vector<FunctionId> ids;
    for (const LayerStep& step : steps) {
      if (const auto* function = std::get_if<Function>(&step)) {
        ids.push_back(add_function(*function));
      } else {
        ids.push_back(add_function(into_cache(std::get<Communication>(step))));
      }
    }
    return ids;
  }

  FunctionId add_function(Function function) {
    function.name = prefix_ + function.name.text();
    made_.program.functions.push_back(std::move(function));
    return {static_cast<std::int32_t>(made_.program.functions.size() - 1)};
  }

  /// cache[positions[t]] += keys[t]; a position is filled once, and -1 is none.
  Function into_cache(const Communication& gather) const {
    const std::int64_t tokens = gather.in.bytes.v / (keys_width() * size_of(dtype_));
    Function function;
    function.name = "cache";
    function.formals = {{"positions", Access::Read, Bytes{tokens * size_of(DType::I32)}},
                        {gather.in.name, Access::Read, gather.in.bytes},
                        {gather.out.name, Access::ReadWrite, gather.out.bytes}};
    Kernel add;
    add.kind = KernelKind::EmbeddingBackward;
    add.accumulate = true;
    add.dtype = dtype_;
    add.dims = {tokens, keys_width(), tokens, made_.capacity};
    add.in = {{0, DType::I32, 0}, {1, dtype_, 0}};
    add.out = {{2, dtype_, 0}, {}};
    function.kernels.push_back(std::move(add));
    return function;
  }

  const ModelSpec& spec_;
  const DType dtype_;
  DecodeProgram made_;
  Role role_;
  std::string prefix_;                                // of the pass that is made
  std::map<std::string, BufferId> shared_;            // by prefix and name
  std::map<int, std::vector<FunctionId>> functions_;  // of the pass, by the kind of layer
};

}  // namespace

Result<DecodeProgram> make_decode_program(const ModelSpec& spec, DType dtype, std::int64_t capacity,
                                          const std::vector<std::int64_t>& sizes) {
  if (!spec.is_text()) {
    return Error{ErrorKind::Unsupported,
                 "model '" + spec.name + "' does not continue text: only transformers do",
                 std::nullopt};
  }
  if (!spec.is_decoder()) {
    const std::string what = spec.causal ? "has norms or ends as encoders have, which the cache of "
                                           "keys and values is not built for"
                                         : "predicts masked tokens from all of a text: it is an "
                                           "encoder, whose loss can be validated";
    return Error{ErrorKind::Unsupported,
                 "model '" + spec.name + "' does not continue text: it " + what, std::nullopt};
  }
  // Every token of a pass finds room with the experts that it chooses, as where none is dropped.
  ModelSpec roomy = spec;
  roomy.capacity_factor = 0;
  Assembly assembly(roomy, dtype, capacity);
  for (const std::int64_t tokens : sizes) {
    if (tokens < 2 || tokens % 2 != 0 || capacity % tokens != 0 || capacity == tokens) {
      return Error{ErrorKind::Internal,
                   "passes of " + std::to_string(tokens) + " tokens do not divide a cache of " +
                       std::to_string(capacity),
                   std::nullopt};
    }
    assembly.add_pass(tokens);
  }
  return assembly.finish();
}

}  // namespace lockstep
