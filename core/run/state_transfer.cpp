#include "core/run/state_transfer.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/bfloat16.hpp"
#include "core/base/convert.hpp"
#include "core/base/float16.hpp"
#include "core/base/index_vector.hpp"
#include "core/base/quantized_state.hpp"
#include "core/base/shape_text.hpp"
#include "core/base/thread_team.hpp"
#include "core/run/initial_values.hpp"
#include "core/run/snapshot.hpp"

namespace lockstep {
namespace {

const Parameter& parameter_of(const Program& program, const ShardPiece& piece) {
  return program.parameters[piece.parameter];
}

/// Writes a piece's initial values on as many threads as there is work for: one thread alone would
/// take half a minute for a billion values.
template <class T, class Round>
void write_values(const InitialValues& values, const ShardPiece& piece, std::byte* to,
                  Round round) {
  constexpr std::int64_t kPerThread = std::int64_t{1} << 18;
  const auto write = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T value = round(values[piece.begin + i]);
      std::memcpy(to + i * std::int64_t{sizeof(T)}, &value, sizeof(T));
    }
  };
  const std::int64_t threads = std::clamp<std::int64_t>(piece.count / kPerThread, 1, num_cores());
  ThreadTeam(static_cast<int>(threads)).parallel_for(piece.count, 1, write);
}

Result<void> write_initial(const Parameter& parameter, std::uint64_t seed, const ShardPiece& piece,
                           DType dtype, std::byte* to) {
  const InitialValues values(parameter, seed);
  switch (dtype) {
    case DType::F32:
      write_values<float>(values, piece, to, [](double v) { return static_cast<float>(v); });
      return {};
    case DType::F64:
      write_values<double>(values, piece, to, [](double v) { return v; });
      return {};
    case DType::BF16:
      write_values<bfloat16>(values, piece, to,
                             [](double v) { return bfloat16(static_cast<float>(v)); });
      return {};
    case DType::F16:
      write_values<float16>(values, piece, to,
                            [](double v) { return float16(static_cast<float>(v)); });
      return {};
    default:
      return Error{
          ErrorKind::Unsupported,
          "parameter '" + parameter.name + "' cannot be stored as " + std::string(to_string(dtype)),
          std::nullopt};
  }
}

/// Copies a piece from the tensor `key` of `state`, whose type must be `kept`, and converts it to
/// `dtype` where that is another type.
Result<void> copy_from_state(const StateReader& state, const std::string& key,
                             const Parameter& parameter, const ShardPiece& piece, DType kept,
                             DType dtype, std::byte* to) {
  const auto unfit = [&](const std::string& what) {
    return invalid("initial state: tensor '" + key + "' " + what);
  };
  const auto found = state.head().tensors.find(key);
  if (found == state.head().tensors.end()) return unfit("is missing");
  const TensorInfo& tensor = found->second;
  if (tensor.shape != parameter.shape) {
    return unfit("has shape " + shape_text(tensor.shape) + ", the model needs " +
                 shape_text(parameter.shape));
  }
  if (tensor.dtype != kept) {
    return unfit("is " + std::string(to_string(tensor.dtype)) + ", the run needs " +
                 std::string(to_string(kept)));
  }
  const std::size_t bytes = to_size(piece.count * size_of(kept));
  const std::int64_t begin = piece.begin * size_of(kept);
  if (dtype == kept) return state.read(key, begin, {to, bytes});
  const bool widens = size_of(kept) == 2 && dtype == DType::F32;
  if (!widens && (kept != DType::F32 || size_of(dtype) != 2)) {
    return unfit("cannot be rounded to " + std::string(to_string(dtype)));
  }
  std::vector<std::byte> values(bytes);
  if (auto read = state.read(key, begin, values); !read) return read;
  convert(values, kept, {to, to_size(piece.count * size_of(dtype))}, dtype);
  return {};
}

/// What is kept of a parameter in a buffer that holds a history of each element.
Parameter with_history(Parameter parameter, std::int64_t history) {
  if (history > 0) parameter.shape.push_back(history);
  return parameter;
}

/// What the state has under `key`; null if nothing, or if there is no state.
const TensorInfo* find_tensor(const StateReader* state, const std::string& key) {
  if (state == nullptr) return nullptr;
  const auto found = state->head().tensors.find(key);
  return found == state->head().tensors.end() ? nullptr : &found->second;
}

/// The type of a buffer's values in a TrainingState: quantized ones are kept as float32, which
/// holds them exactly, so that ranks whose blocks lie elsewhere can read them.
DType kept_type(const Buffer& buffer) {
  return buffer.dtype == DType::U8 ? DType::F32 : buffer.dtype;
}

bool holds(const StateReader* state, std::string_view prefix) {
  if (state == nullptr) return false;
  const auto first = state->head().tensors.lower_bound(std::string(prefix));
  return first != state->head().tensors.end() && first->first.starts_with(prefix);
}

int workers_of(const Program& program, const Unit& unit) {
  if (!unit.feedback_group.valid()) return 1;
  return group_size(program.mesh, program.group(unit.feedback_group));
}

/// Which of a state's holders a rank is, or belongs to.
int holder_of(const Program& program, Rank rank, const Unit& unit, Holder holder) {
  if (holder == Holder::Rank) {
    if (!unit.feedback_group.valid()) return 0;
    return position(program.mesh, program.group(unit.feedback_group), rank);
  }
  const int dim = program.replica_dim();
  const bool alone = dim < 0 || holder == Holder::All || unit.frozen;
  return alone ? 0 : program.mesh.coordinate(rank, dim);
}

std::string replica_prefix(int replica) {
  return replica == 0 ? "" : "replica" + std::to_string(replica) + ".";
}
/// What the names of a state's tensors begin with: "", "adam_m.", "replica1.adam_m.", "feedback1.".
std::string prefix_of(const StateRow& row, int holder) {
  if (row.is_parameters()) return replica_prefix(holder);
  const std::string name(row.name);
  if (row.holder == Holder::Rank) return name + std::to_string(holder) + ".";
  return replica_prefix(holder) + name + ".";
}

/// Whether a state has what its keeper begins with zeros, such as the moments of an optimizer. Of a
/// parameter that was frozen it has none.
bool has_moments(const StateReader* state, Keeper keeper, const std::string& parameter) {
  return std::any_of(kStates.begin(), kStates.end(), [&](const StateRow& row) {
    return row.keeper == keeper && row.start == Start::Zeros &&
           find_tensor(state, prefix_of(row, 0) + parameter) != nullptr;
  });
}

/// Checks that a program's replicas can go on with a state. One that is not of as many replicas
/// must hold one, or equal ones.
Result<void> check_replicas(const Program& program, const StateReader* state) {
  if (!holds(state, replica_prefix(1))) return {};
  const int wanted = program.replicas();
  const bool as_many = wanted > 1 && holds(state, replica_prefix(wanted - 1)) &&
                       !holds(state, replica_prefix(wanted));
  const auto& units = program.roles.front().units;
  const bool begins_outer = !holds(state, prefix_of(info(StateKind::Outer), 0)) &&
                            std::any_of(units.begin(), units.end(), [](const Unit& unit) {
                              return unit.has(StateKind::Outer);
                            });
  if (as_many && !begins_outer) return {};
  const auto apart = steps_apart_of(state->head());
  if (!apart) return apart.error();
  if (*apart == 0) return {};
  return invalid(
      "initial state: its replicas have trained apart for " + std::to_string(*apart) +
      " steps, so that a run " +
      (as_many ? "with an outer optimizer" : "of another number of replicas") +
      " cannot take the model of one of them: go on as the state was trained, up to a step "
      "that local_sgd.sync_steps divides");
}

/// Where bytes belong in the whole state; sent before them from one process to another.
struct PieceHeader {
  std::uint64_t tensor = 0;  // place in StateHead::tensors
  std::int64_t begin = 0, bytes = 0;
};

/// Reads what each rank has of its own. Only the sum over ranks counts, so that as many ranks as
/// before take each their own, and others equal parts of the sum. A state without it begins anew.
template <class T>
Result<void> read_of_ranks(const StateReader& state, const StateRow& row,
                           const Parameter& parameter, const ShardPiece& piece, int worker,
                           int workers, T* to) {
  int saved = 0;
  while (find_tensor(&state, prefix_of(row, saved) + parameter.name) != nullptr) ++saved;
  const DType type = sizeof(T) == 8 ? DType::F64 : DType::F32;
  auto* const bytes = reinterpret_cast<std::byte*>(to);
  if (saved == workers) {
    return copy_from_state(state, prefix_of(row, worker) + parameter.name, parameter, piece, type,
                           type, bytes);
  }
  std::vector<T> one(to_size(piece.count)), sum(to_size(piece.count), T(0));
  for (int from = 0; from < saved; ++from) {
    auto read = copy_from_state(state, prefix_of(row, from) + parameter.name, parameter, piece,
                                type, type, reinterpret_cast<std::byte*>(one.data()));
    if (!read) return read;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one[i] / static_cast<T>(workers);
  }
  std::copy(sum.begin(), sum.end(), to);
  return {};
}

/// Reads a right factor, which begins as zeros where the state has none.
Result<void> read_factor(const StateReader& state, const std::string& key,
                         const Parameter& parameter, const ShardPiece& piece, DType type,
                         std::byte* to) {
  if (find_tensor(&state, key) == nullptr) return {};
  Parameter factor = parameter;
  const std::int64_t cols = matrix_shape(parameter).cols;
  factor.shape = {cols, piece.count / cols};
  return copy_from_state(state, key, factor, piece, type, type, to);
}

/// How a buffer holds a state in blocks; without elements if it holds plain numbers.
QuantizedState quantized_as(const Unit& unit, const StateRow& row, const Buffer& buffer) {
  if (buffer.dtype != DType::U8) return {};
  return {unit.shard_elements, unit.state_block, row.codes == StateCodes::Signed};
}

/// Writes a rank's states into its arenas (load_state).
class StateLoader {
 public:
  StateLoader(const Program& program, Rank rank, const RankMemory& memory, std::uint64_t seed,
              const StateReader* state)
      : program_(program),
        rank_(rank),
        role_(program.role_of(rank)),
        memory_(memory),
        seed_(seed),
        state_(state) {}

  Result<void> load(const Unit& unit, const StateRow& row) {
    const BufferId id = unit.states[row.kind];
    const Buffer& buffer = role_.buffer(id);
    const QuantizedState quantized = quantized_as(unit, row, buffer);
    const bool is_quantized = buffer.dtype == DType::U8;
    const DType type = kept_type(buffer);
    shard_.assign(to_size(is_quantized ? quantized.elements * size_of(type) : buffer.bytes.v),
                  std::byte{0});
    for (const ShardPiece& piece : shard_pieces(program_, rank_, unit, row.kind)) {
      std::byte* const to = shard_.data() + piece.at * size_of(type);
      const Result<void> written = row.keeper == Keeper::Reduction
                                       ? read_reduction(unit, row, piece, type, to)
                                       : read_or_begin(unit, row, piece, type, to);
      if (!written) return written.error();
    }
    if (is_quantized) {
      codes_.assign(to_size(buffer.bytes.v), std::byte{0});
      write_quantized(quantized, reinterpret_cast<const float*>(shard_.data()), 0,
                      quantized.blocks(), codes_.data());
      shard_.swap(codes_);
    }
    return memory_.write(buffer.tier, role_.arena_offset(id), shard_);
  }

 private:
  /// Reads what sums of gradients keep; it begins as zeros.
  Result<void> read_reduction(const Unit& unit, const StateRow& row, const ShardPiece& piece,
                              DType type, std::byte* to) const {
    if (state_ == nullptr) return {};
    const Parameter& parameter = parameter_of(program_, piece);
    const int holder = holder_of(program_, rank_, unit, row.holder);
    if (row.extent == Extent::Factors) {
      return read_factor(*state_, prefix_of(row, holder) + parameter.name, parameter, piece, type,
                         to);
    }
    const int all = workers_of(program_, unit);
    if (type == DType::F64) {
      return read_of_ranks(*state_, row, parameter, piece, holder, all,
                           reinterpret_cast<double*>(to));
    }
    return read_of_ranks(*state_, row, parameter, piece, holder, all, reinterpret_cast<float*>(to));
  }

  /// Reads a piece of a parameter or of a moment, or begins it anew.
  Result<void> read_or_begin(const Unit& unit, const StateRow& row, const ShardPiece& piece,
                             DType type, std::byte* to) const {
    const Parameter& parameter = parameter_of(program_, piece);
    std::string key = prefix_of(row, 0) + parameter.name;
    const int holder = holder_of(program_, rank_, unit, row.holder);
    const std::string own_key = prefix_of(row, holder) + parameter.name;
    if (find_tensor(state_, own_key) != nullptr) key = own_key;
    // The replicas begin to train apart from one model.
    const bool starts = row.start == Start::Parameter && find_tensor(state_, key) == nullptr;
    if (starts) key = parameter.name;
    const TensorInfo* const known = find_tensor(state_, key);
    const bool begins = may_begin_anew(parameter) && known == nullptr;
    const bool reads = row.start == Start::Zeros ? has_moments(state_, row.keeper, parameter.name)
                                                 : state_ != nullptr;
    if (begins || !reads) {
      if (row.start == Start::Zeros) return {};
      return write_initial(parameter, seed_, piece, type, to);
    }
    const BufferId kept = starts || row.is_parameters() ? unit.updated() : unit.states[row.kind];
    const DType wanted = kept_type(role_.buffer(kept));
    // What is frozen may be held in fewer digits than it is trained in, before or after.
    const bool rounds = unit.frozen && known != nullptr && known->dtype == DType::F32;
    const bool widens = row.is_parameters() && known != nullptr && size_of(known->dtype) == 2 &&
                        wanted == DType::F32;
    return copy_from_state(*state_, key, with_history(parameter, row.history ? unit.history : 0),
                           piece, rounds || widens ? known->dtype : wanted, type, to);
  }

  const Program& program_;
  const Rank rank_;
  const Role& role_;
  const RankMemory& memory_;
  const std::uint64_t seed_;
  const StateReader* const state_;
  std::vector<std::byte> shard_, codes_;
};

}  // namespace

std::vector<SavedBuffer> saved_buffers(const Program& program) {
  std::vector<SavedBuffer> saved;
  // State, holder, parameter and first element of each piece that a lower rank has.
  std::set<std::tuple<StateKind, int, ParameterId, std::int64_t>> done;
  for (Rank rank = 0; rank < program.mesh.world_size(); ++rank) {
    for (const Unit& unit : program.role_of(rank).units) {
      if (unit.tied_copy) continue;
      unit.each_state([&](const StateRow& row, BufferId id) {
        if (!is_saved(unit, row)) return;
        const StateKind kind = row.is_parameters() ? StateKind::Param : row.kind;
        const int holder = holder_of(program, rank, unit, row.holder);
        std::vector<ShardPiece> pieces = shard_pieces(program, rank, unit, row.kind);
        std::erase_if(pieces, [&](const ShardPiece& piece) {
          return !done.emplace(kind, holder, piece.parameter, piece.begin).second;
        });
        if (pieces.empty()) return;
        const Buffer& buffer = program.role_of(rank).buffer(id);
        saved.push_back({rank, prefix_of(row, holder), id, std::move(pieces), kept_type(buffer),
                         row.extent == Extent::Factors, quantized_as(unit, row, buffer),
                         row.history ? unit.history : 0});
      });
    }
  }
  return saved;
}

Result<void> load_state(const Program& program, Rank rank, const RankMemory& memory,
                        std::uint64_t seed, const StateReader* state) {
  if (auto fit = check_replicas(program, state); !fit) return fit;
  StateLoader loader(program, rank, memory, seed, state);
  for (const Unit& unit : program.role_of(rank).units) {
    for (const StateRow& row : kStates) {
      if (!unit.has(row.kind)) continue;
      if (auto loaded = loader.load(unit, row); !loaded) return loaded;
    }
  }
  return {};
}

StateHead state_head(const Program& program, int step, std::int64_t samples) {
  StateHead head;
  head.step = step;
  head.samples = samples;
  for (const SavedBuffer& saved : saved_buffers(program)) {
    for (const ShardPiece& piece : saved.pieces) {
      const Parameter& parameter = parameter_of(program, piece);
      TensorInfo& tensor = head.tensors[saved.prefix + parameter.name];
      tensor = {saved.dtype, with_history(parameter, saved.history).shape};
      if (!saved.factors) continue;
      const std::int64_t cols = matrix_shape(parameter).cols;
      tensor.shape = {cols, piece.count / cols};
    }
  }
  return head;
}

Result<TrainingState> gather_state(const Program& program, std::span<const RankPort> ports,
                                   Process& process, int step, std::int64_t samples) {
  const StateHead head = state_head(program, step, samples);
  StateSnapshot snapshot(program, ports);
  snapshot.begin();
  if (auto copied = snapshot.copy(); !copied) return copied.error();
  TrainingState state;
  state.step = step;
  state.samples = samples;
  const bool leads = process.index() == 0;
  std::vector<std::byte> sent;  // what goes to the leader: headers, each with its values
  if (leads) {
    for (const auto& [name, info] : head.tensors) {
      state.tensors[name] = {info.dtype, info.shape, std::vector<std::byte>(to_size(info.bytes()))};
    }
  }
  for (const StateSnapshot::Piece& piece : snapshot.pieces()) {
    const std::span<const std::byte> values = snapshot.values(piece);
    if (leads) {
      std::copy(values.begin(), values.end(),
                state.tensors[piece.tensor].data.begin() + piece.begin);
      continue;
    }
    const PieceHeader header{static_cast<std::uint64_t>(std::distance(
                                 head.tensors.begin(), head.tensors.find(piece.tensor))),
                             piece.begin, static_cast<std::int64_t>(values.size())};
    const auto* bytes = reinterpret_cast<const std::byte*>(&header);
    sent.insert(sent.end(), bytes, bytes + sizeof header);
    sent.insert(sent.end(), values.begin(), values.end());
  }
  const auto received = gather(process, sent);
  if (!received) return received.error();
  for (std::size_t from = 1; from < received->size(); ++from) {
    if (auto placed = place_pieces((*received)[from], state); !placed) {
      const Error error{ErrorKind::Device,
                        "process " + std::to_string(from) + " sent " + placed.error().message,
                        std::nullopt};
      process.fail(error);
      return error;
    }
  }
  return state;
}

Result<void> place_pieces(std::span<const std::byte> bytes, TrainingState& state) {
  const auto refuse = [] { return invalid("a piece of state that does not fit the model"); };
  while (!bytes.empty()) {
    PieceHeader header;
    if (bytes.size() < sizeof header) return refuse();
    std::memcpy(&header, bytes.data(), sizeof header);
    bytes = bytes.subspan(sizeof header);
    if (header.tensor >= state.tensors.size()) return refuse();
    std::vector<std::byte>& data =
        std::next(state.tensors.begin(), static_cast<std::ptrdiff_t>(header.tensor))->second.data;
    const auto size = static_cast<std::int64_t>(data.size());
    if (header.begin < 0 || header.bytes < 0 || header.begin > size ||
        header.bytes > size - header.begin ||
        header.bytes > static_cast<std::int64_t>(bytes.size())) {
      return refuse();
    }
    const auto count = to_size(header.bytes);
    std::copy_n(bytes.begin(), count, data.begin() + header.begin);
    bytes = bytes.subspan(count);
  }
  return {};
}

}  // namespace lockstep
