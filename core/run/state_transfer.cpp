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

// Of the tensors in kept_buffers(), in a TrainingState.
constexpr std::array<const char*, 7> kPrefixes = {
    "", "adam_m.", "adam_v.", "outer.", "outer_momentum.", "feedback", "sketch."};
constexpr std::size_t kOuter = 3;  // this slot and later ones are all replicas'
// What low-rank products leave out is each rank's own: "feedback0.", "feedback1.", ….
constexpr std::size_t kFeedback = 5, kSketch = 6;

bool holds(const StateReader* state, std::string_view prefix) {
  if (state == nullptr) return false;
  const auto first = state->head().tensors.lower_bound(std::string(prefix));
  return first != state->head().tensors.end() && first->first.starts_with(prefix);
}

/// Of a rank's replica, among those that train apart; the first one keeps what all of them share.
int replica_of(const Program& program, Rank rank, const Unit& unit, std::size_t slot) {
  const int dim = program.replica_dim();
  return dim < 0 || slot >= kOuter || unit.frozen ? 0 : program.mesh.coordinate(rank, dim);
}
/// Of a rank, among those whose gradients are summed as products.
int worker_of(const Program& program, Rank rank, const Unit& unit) {
  if (!unit.feedback_group.valid()) return 0;
  return position(program.mesh, program.group(unit.feedback_group), rank);
}
int workers_of(const Program& program, const Unit& unit) {
  if (!unit.feedback_group.valid()) return 1;
  return group_size(program.mesh, program.group(unit.feedback_group));
}
std::string feedback_prefix(int worker) {
  return kPrefixes[kFeedback] + std::to_string(worker) + ".";
}

std::string replica_prefix(int replica) {
  return replica == 0 ? "" : "replica" + std::to_string(replica) + ".";
}

/// Checks that a program's replicas can go on with a state. One that is not of as many replicas
/// must hold one, or equal ones.
Result<void> check_replicas(const Program& program, const StateReader* state) {
  if (!holds(state, replica_prefix(1))) return {};
  const int wanted = program.replicas();
  const bool as_many = wanted > 1 && holds(state, replica_prefix(wanted - 1)) &&
                       !holds(state, replica_prefix(wanted));
  const auto& units = program.roles.front().units;
  const bool begins_outer =
      !holds(state, kPrefixes[kOuter]) &&
      std::any_of(units.begin(), units.end(), [](const Unit& unit) { return unit.outer.valid(); });
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

}  // namespace

std::array<BufferId, 7> kept_buffers(const Unit& unit) {
  return {unit.updated(),      unit.adam_m,   unit.adam_v, unit.outer,
          unit.outer_momentum, unit.feedback, unit.sketch};
}

namespace {

/// The right factors of a unit's parameters, each whole.
std::vector<ShardPiece> factor_pieces(const Program& program, const Unit& unit) {
  std::vector<ShardPiece> pieces;
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    if (unit.parameters[i].low_rank == 0) continue;
    const std::int64_t begin = sketch_offset(program, unit, i);
    pieces.push_back(
        {unit.parameters[i].parameter, 0, sketch_offset(program, unit, i + 1) - begin, begin});
  }
  return pieces;
}

/// What a rank has left out of the gradients of parameters that are summed as products.
std::vector<ShardPiece> feedback_pieces(const Program& program, Rank rank, const Unit& unit) {
  std::vector<ShardPiece> pieces = shard_pieces(program, rank, unit, unit.feedback);
  std::erase_if(pieces, [&](const ShardPiece& piece) {
    return std::none_of(unit.parameters.begin(), unit.parameters.end(), [&](const auto& part) {
      return part.parameter == piece.parameter && part.low_rank > 0;
    });
  });
  return pieces;
}

std::vector<ShardPiece> pieces_of(const Program& program, Rank rank, const Unit& unit,
                                  std::size_t slot, BufferId buffer) {
  if (slot == kSketch) return factor_pieces(program, unit);
  if (slot == kFeedback) return feedback_pieces(program, rank, unit);
  return shard_pieces(program, rank, unit, buffer);
}

/// Reads what was left out of a gradient. Only the sum over ranks counts, so that as many ranks as
/// before take each their own, and others equal parts of the sum. A state without it begins anew.
template <class T>
Result<void> read_feedback(const StateReader& state, const Parameter& parameter,
                           const ShardPiece& piece, int worker, int workers, T* to) {
  int saved = 0;
  while (find_tensor(&state, feedback_prefix(saved) + parameter.name) != nullptr) ++saved;
  const DType type = sizeof(T) == 8 ? DType::F64 : DType::F32;
  auto* const bytes = reinterpret_cast<std::byte*>(to);
  if (saved == workers) {
    return copy_from_state(state, feedback_prefix(worker) + parameter.name, parameter, piece, type,
                           type, bytes);
  }
  std::vector<T> one(to_size(piece.count)), sum(to_size(piece.count), T(0));
  for (int from = 0; from < saved; ++from) {
    auto read = copy_from_state(state, feedback_prefix(from) + parameter.name, parameter, piece,
                                type, type, reinterpret_cast<std::byte*>(one.data()));
    if (!read) return read;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one[i] / static_cast<T>(workers);
  }
  std::copy(sum.begin(), sum.end(), to);
  return {};
}

/// Reads a right factor, which begins as zeros where the state has none.
Result<void> read_factor(const StateReader& state, const Parameter& parameter,
                         const ShardPiece& piece, DType type, std::byte* to) {
  const std::string key = kPrefixes[kSketch] + parameter.name;
  if (find_tensor(&state, key) == nullptr) return {};
  Parameter factor = parameter;
  const std::int64_t cols = matrix_shape(parameter).cols;
  factor.shape = {cols, piece.count / cols};
  return copy_from_state(state, key, factor, piece, type, type, to);
}

}  // namespace

std::vector<SavedBuffer> saved_buffers(const Program& program) {
  std::vector<SavedBuffer> saved;
  // Slot, replica, parameter and first element of each piece that a lower rank has.
  std::set<std::tuple<std::size_t, int, ParameterId, std::int64_t>> done;
  for (Rank rank = 0; rank < program.mesh.world_size(); ++rank) {
    for (const Unit& unit : program.role_of(rank).units) {
      if (unit.tied_copy) continue;
      for (std::size_t slot = 0; slot < kPrefixes.size(); ++slot) {
        const BufferId id = kept_buffers(unit)[slot];
        if (!id.valid()) continue;
        const int replica = slot == kFeedback ? worker_of(program, rank, unit)
                                              : replica_of(program, rank, unit, slot);
        std::vector<ShardPiece> pieces = pieces_of(program, rank, unit, slot, id);
        std::erase_if(pieces, [&](const ShardPiece& piece) {
          return !done.emplace(slot, replica, piece.parameter, piece.begin).second;
        });
        if (pieces.empty()) continue;
        const Buffer& buffer = program.role_of(rank).buffer(id);
        const bool quantized = buffer.dtype == DType::U8;
        saved.push_back({rank,
                         slot == kFeedback ? feedback_prefix(replica)
                                           : replica_prefix(replica) + kPrefixes[slot],
                         id, std::move(pieces), kept_type(buffer), slot == kSketch,
                         quantized
                             ? QuantizedState{unit.shard_elements, unit.state_block, slot == 1}
                             : QuantizedState{},
                         keeps_history(unit, id) ? unit.history : 0});
      }
    }
  }
  return saved;
}

Result<void> load_state(const Program& program, Rank rank, const RankMemory& memory,
                        std::uint64_t seed, const StateReader* state) {
  const Role& role = program.role_of(rank);
  if (auto fit = check_replicas(program, state); !fit) return fit;
  const bool moments = holds(state, "adam_m.") || holds(state, "adam_v.");
  const bool outer_moments = holds(state, "outer_momentum.");
  std::vector<std::byte> shard, codes;
  for (const Unit& unit : role.units) {
    const std::array<BufferId, 7> kept = kept_buffers(unit);
    const BufferId copy = unit.master.valid() ? unit.param : BufferId{};
    for (const auto& [id, slot] :
         {std::pair(kept[0], 0U), std::pair(copy, 0U), std::pair(kept[1], 1U),
          std::pair(kept[2], 2U), std::pair(kept[3], 3U), std::pair(kept[4], 4U),
          std::pair(kept[5], 5U), std::pair(kept[6], 6U)}) {
      if (!id.valid()) continue;
      const std::vector<ShardPiece> pieces = pieces_of(program, rank, unit, slot, id);
      const Buffer& buffer = role.buffer(id);
      const bool is_parameter = slot == 0 || slot == kOuter;
      const bool quantized = buffer.dtype == DType::U8;
      const DType type = kept_type(buffer);
      shard.assign(to_size(quantized ? unit.shard_elements * size_of(type) : buffer.bytes.v),
                   std::byte{0});
      for (const ShardPiece& piece : pieces) {
        const Parameter& parameter = parameter_of(program, piece);
        std::byte* to = shard.data() + piece.at * size_of(type);
        Result<void> written;
        if (slot >= kFeedback) {
          if (state == nullptr) continue;
          const int worker = worker_of(program, rank, unit), all = workers_of(program, unit);
          written = slot == kSketch      ? read_factor(*state, parameter, piece, type, to)
                    : type == DType::F64 ? read_feedback(*state, parameter, piece, worker, all,
                                                         reinterpret_cast<double*>(to))
                                         : read_feedback(*state, parameter, piece, worker, all,
                                                         reinterpret_cast<float*>(to));
          if (!written) return written.error();
          continue;
        }
        std::string key = kPrefixes[slot] + parameter.name;
        const int replica = replica_of(program, rank, unit, slot);
        const std::string of_replica = replica_prefix(replica) + key;
        if (find_tensor(state, of_replica) != nullptr) key = of_replica;
        // The replicas begin to train apart from one model.
        if (slot == kOuter && find_tensor(state, key) == nullptr) key = parameter.name;
        const TensorInfo* const known = find_tensor(state, key);
        const bool begins = may_begin_anew(parameter) && known == nullptr;
        const bool has_moments = slot < kOuter ? moments : outer_moments;
        if (!begins && (is_parameter ? state != nullptr : has_moments)) {
          // What is frozen may be held in fewer digits than it was trained in.
          const bool starts = slot == kOuter && key == parameter.name;
          const DType own = kept_type(role.buffer(kept[starts ? 0 : slot]));
          const bool rounds = unit.frozen && known != nullptr && known->dtype == DType::F32;
          written = copy_from_state(
              *state, key, with_history(parameter, keeps_history(unit, id) ? unit.history : 0),
              piece, rounds ? DType::F32 : own, type, to);
        } else if (is_parameter) {
          written = write_initial(parameter, seed, piece, type, to);
        }
        if (!written) return written.error();
      }
      if (quantized) {
        codes.assign(to_size(buffer.bytes.v), std::byte{0});
        const QuantizedState state_of{unit.shard_elements, unit.state_block, slot == 1};
        write_quantized(state_of, reinterpret_cast<const float*>(shard.data()), 0,
                        state_of.blocks(), codes.data());
        shard.swap(codes);
      }
      if (auto sent = memory.write(buffer.tier, role.arena_offset(id), shard); !sent) return sent;
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
