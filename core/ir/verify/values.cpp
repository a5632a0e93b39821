#include "core/ir/verify/values.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "core/ir/lifetimes.hpp"
#include "core/ir/parts.hpp"

namespace lockstep::verification {

RoleRun::RoleRun(const Program& program, const Role& r, const Ranges& its_ranges)
    : role(r),
      rank(r.ranks.front()),
      ranges(its_ranges),
      noted(r.ops.size(), 0),
      content_of_(r.buffers.size(), nullptr),
      finishes_(temporaries_by(&Buffer::last, r)) {
  for (const Op& op : r.ops) {
    layers = std::max(layers, op.layer + 1);
    microbatches = std::max(microbatches, op.microbatch + 1);
    stages = std::max(stages, op.stage + 1);
  }
  segments.resize(cell(layers, 0));
  versions.assign(cell(stages, 0), -1);
  kind_of_layer.assign(layers, -1);
  exchanges.resize(layers);
  own_layers.assign(layers, false);
  meets_others.assign(program.groups.size(), -1);
}

IntervalMap<Content>& RoleRun::held(BufferId root) {
  IntervalMap<Content>*& content = content_of_[root];
  if (content == nullptr && unused_.empty()) {
    content = &contents_.emplace_back();
  } else if (content == nullptr) {
    content = unused_.back();
    unused_.pop_back();
  }
  return *content;
}

void RoleRun::end_lives(OpId op) {
  for (; next_finish_ < finishes_.size(); ++next_finish_) {
    const BufferId root = finishes_[next_finish_];
    if (role.buffer(root).last != op) return;
    if (content_of_[root] == nullptr) continue;
    content_of_[root]->clear();
    unused_.push_back(std::exchange(content_of_[root], nullptr));
  }
}

/// Finds out from the functions of a role's layers whether they are the user's, and how the layers
/// communicate.
void Values::read_layers(RoleRun& run) {
  using Functions = IndexVector<FunctionId, bool>;
  IndexVector<int, Functions> seen(run.layers, Functions(program_.functions.size()));
  for (const Op& op : run.role.ops) {
    if (op.kind != OpKind::Call || op.layer < 0) continue;
    const Function& function = program_.function(op.function());
    if (function.emitted == 0) run.own_layers[op.layer] = true;
    if (function.exchanges.empty()) continue;
    if (seen[op.layer][op.function()]) continue;
    seen[op.layer][op.function()] = true;
    for (const Exchange& e : function.exchanges) {
      NamedExchange named{e.kind,
                          {FormalRole::Tensor, name(e.in), -1, {}, 0},
                          {FormalRole::Tensor, name(e.out), -1, {}, 0}};
      if (e.in == "x") named.in.what = FormalRole::X;
      if (e.in == "dy") named.in.what = FormalRole::Dy;
      run.exchanges[op.layer].push_back(named);
    }
  }
}

namespace {

/// The buffers that router_bias and delayed_scale update. Their gradients are loads and largest
/// magnitudes, which no norm counts.
std::set<BufferId> balanced_in(const Program& program, const Role& role) {
  const auto balances = [](const Function& function) {
    return function.kernels.size() == 1 && (function.kernels[0].kind == KernelKind::RouterBias ||
                                            function.kernels[0].kind == KernelKind::DelayedScale);
  };
  std::set<BufferId> balanced;
  const auto& functions = program.functions;
  if (std::none_of(functions.begin(), functions.end(), balances)) return balanced;
  for (const Op& op : role.ops) {
    if (op.kind != OpKind::Call || !balances(program.function(op.function()))) continue;
    const Operand& bias = program.function(op.function()).kernels[0].out[0];
    balanced.insert(role.root(role.args_of(op)[to_size(bias.formal)]));
  }
  for (const Op& op : role.ops) {  // what lies on a drive is updated in a copy
    const auto args = role.args_of(op);
    if (op.kind == OpKind::HostToDrive && balanced.contains(args[0])) balanced.insert(args[1]);
  }
  return balanced;
}

}  // namespace

Values::Values(const Program& program, const std::deque<Ranges>& ranges, const Repeats* repeats,
               Faults& faults)
    : program_(program),
      ranges_(ranges),
      faults_(faults),
      axes_(spread_axes(program)),
      apart_(program.replica_dim()),
      summaries_(program, patterns_),
      repeats_(repeats) {
  read_names();
  for (const Role& role : program.roles) {
    const std::set<BufferId> balanced = balanced_in(program, role);
    for (const Unit& unit : role.units) {
      const auto [at, fresh] = unit_ids_.try_emplace(unit.name, unit_names_.next());
      if (!fresh) continue;
      unit_names_.push_back(unit.name);
      if (unit.trained() && !balanced.contains(role.root(unit.updated()))) {
        all_units_ = all_units_ + Terms::of(static_cast<std::uint64_t>(at->second));
      }
    }
  }
  whole_units_.assign(unit_names_.size(), 0);
  moved_.resize(program.groups.size());
}

std::int32_t Values::name(std::string_view text) {
  const auto found = name_ids_.find(text);
  if (found != name_ids_.end()) return found->second;
  const std::int32_t id = names_.next();
  names_.emplace_back(text);
  name_ids_.emplace(text, id);
  return id;
}

void Values::read_names() {
  name("y");
  name("dx");
  for (const Function& function : program_.functions) functions_.push_back(role_of(function));
  for (const std::string& label : program_.names) labels_.push_back(name(label));
  segment_counts_.assign(names_.size(), ByPhase{});
  for (const FunctionRole& f : functions_) {
    if (f.kind < 0) continue;
    int& count = segment_counts_[f.kind][f.phase];
    count = std::max(count, f.segment + 1);
  }
}

namespace {

/// The host's data that a formal of this name is for.
std::optional<HostData> data_of(std::string_view formal) {
  for (int d = 0; d <= static_cast<int>(HostData::LossScale); ++d) {
    if (formal == to_string(static_cast<HostData>(d))) return static_cast<HostData>(d);
  }
  return std::nullopt;
}

}  // namespace

IndexVector<int, FormalRole::What> what_formals_are(const Function& function) {
  IndexVector<int, FormalRole::What> all;
  for (std::size_t f = 0; f < function.formals.size(); ++f) {
    const std::string_view formal = part_of(function.formals[f].name).tensor;
    const auto is_unit = [&](std::string_view prefix) {
      return formal.starts_with(prefix) &&
             (formal.size() == prefix.size() || formal[prefix.size()] == '_');
    };
    bool only_output = function.formals[f].access != Access::Read, loss = false;
    for (const Kernel& k : function.kernels) {
      for (const Operand& in : k.in) only_output = only_output && in.formal != static_cast<int>(f);
      const bool entropy =
          k.kind == KernelKind::CrossEntropy || k.kind == KernelKind::CrossEntropyParallel;
      loss = loss || (entropy && k.out.size() > 1 && k.out[1].formal == static_cast<int>(f));
    }
    all.push_back(is_unit("gw") && only_output            ? FormalRole::Gradient
                  : is_unit("w")                          ? FormalRole::Weights
                  : loss && only_output                   ? FormalRole::Loss
                  : formal == "statistics" && only_output ? FormalRole::Statistics
                  : formal == "x"                         ? FormalRole::X
                  : formal == "dy"                        ? FormalRole::Dy
                  : data_of(formal)                       ? FormalRole::Data
                                                          : FormalRole::Tensor);
  }
  return all;
}

/// Finds out from its name what a function stands for. The model library names functions
/// "<layer>.<letter>", then ".<segment>" and "+<what it adds to>" where there are such.
FunctionRole Values::role_of(const Function& function) {
  FunctionRole role;
  role.own = function.emitted == 0;
  std::string_view text = function.name;
  text = text.substr(0, text.find('+'));
  auto dot = text.rfind('.');
  if (dot != std::string_view::npos) {
    const std::string_view last = text.substr(dot + 1);
    const auto read = std::from_chars(last.data(), last.data() + last.size(), role.segment);
    if (read.ec == std::errc{} && read.ptr == last.data() + last.size()) {
      text = text.substr(0, dot);
      dot = text.rfind('.');
    }
  }
  if (dot != std::string_view::npos && text.size() == dot + 2) {
    for (const Phase phase : {Phase::F, Phase::B, Phase::I, Phase::W, Phase::R}) {
      if (text.substr(dot + 1) != to_string(phase)) continue;
      role.phase = phase;
      role.kind = name(text.substr(0, dot));
    }
  }
  const IndexVector<int, FormalRole::What> what = what_formals_are(function);
  for (const int f : what.ids()) {
    const TensorPart part = part_of(function.formals[f].name);
    const std::string_view formal = part.tensor;
    FormalRole& r = role.formals.emplace_back();
    r.what = what[f];
    r.name = name(formal);
    r.begin = part.begin(function.formals[f].bytes.v);
    if (r.what == FormalRole::Gradient) r.suffix = name(formal.substr(2));
    if (r.what == FormalRole::Weights) r.suffix = name(formal.substr(1));
    if (r.what == FormalRole::Data) r.data = *data_of(formal);
  }
  return role;
}

bool Values::fault(const RoleRun& run, OpId id, const std::string& what) {
  if (!failed_) faults_.add(op_at(program_, run.rank, id) + ": " + what);
  failed_ = true;
  return true;
}

std::string Values::text(const Meaning& m) const {
  std::string of;
  if (m.layer >= 0) of += " of layer " + number(m.layer);
  if (m.microbatch >= 0) of += (of.empty() ? " of" : ",") + (" microbatch " + number(m.microbatch));
  const auto unit = [&] { return m.id < 0 ? std::string("a unit") : unit_name(m.id); };
  switch (m.what) {
    case Means::Unknown:
      return "what has no one meaning";
    case Means::Zeros:
      return "zeros";
    case Means::Data:
      return std::string(to_string(static_cast<HostData>(m.id))) + of;
    case Means::Weights:
      return "the weights of " + unit();
    case Means::Moment1:
      return "the first moment of " + unit();
    case Means::Moment2:
      return "the second moment of " + unit();
    case Means::Outer:
      return "what the replicas of " + unit() + " started from";
    case Means::OuterMomentum:
      return "the outer momentum of " + unit();
    case Means::Way:
      return "the way of the replicas of " + unit();
    case Means::Tensor:
      return names_[m.id] + of;
    case Means::Gradient:
      return "the gradient of " + unit();
    case Means::CodedWeights:
      return "codes of the weights of " + unit();
    case Means::CodedGradient:
      return "codes of the gradient of " + unit();
    case Means::Slices:
      return "sums of shards of the gradient of " + unit();
    case Means::Compensated:
      return "the gradient of " + unit() + " with what was left out before";
    case Means::Feedback:
      return "what was left out of gradients of " + unit();
    case Means::Sketch:
      return "the last right factors of " + unit();
    case Means::LeftFactor:
      return "a left factor of the gradient of " + unit();
    case Means::Basis:
      return "a basis of the gradient of " + unit();
    case Means::RightFactor:
      return "a right factor of the gradient of " + unit();
    case Means::Direction:
      return "the direction of " + unit();
    case Means::Orthogonal:
      return "the orthogonal direction of " + unit();
    case Means::FactorSums:
      return "sums of squares of the gradient of " + unit();
    case Means::UpdateSquares:
      return "squares of the update of " + unit();
    case Means::Statistics:
      return "running statistics of " + unit();
    case Means::Loss:
      return "the loss";
    case Means::Squares:
      return "squares of gradients";
    case Means::Coefficient:
      return "the coefficient of clipping";
    case Means::Norm:
      return "the gradient's norm";
    case Means::Message:
      return "a message";
  }
  return "?";
}

std::string Values::text(PatternId pattern) const {
  std::string result;
  const auto& pieces = patterns_.at(pattern).pieces;
  if (pieces.empty()) return "not written";
  for (const int axis : axes_) {
    result += (result.empty() ? "" : ", ") +
              std::string(to_string(pieces[0].as.placement.along(axis))) + " along " +
              program_.mesh.dims[axis].name;
  }
  return result;
}

/// Says part by part what an argument holds. Parts of a gradient that is not sharded come with the
/// parameters that begin there.
std::string Values::parts(const RoleRun& run, const std::vector<Held>& held) const {
  std::string all;
  for (const Held& part : held) {
    const Content& c = part.content;
    const auto& pieces = patterns_.at(c.pattern).pieces;
    const bool gradient = c.meaning.what == Means::Gradient && c.meaning.id >= 0;
    const int u = gradient ? run.units[c.meaning.id] : -1;
    std::string names;
    if (u >= 0 && !pieces.empty()) {
      const Unit& unit = run.role.units[u];
      for (const UnitParameter& p : unit.parameters) {
        const std::int64_t at = p.offset * size_of(pieces[0].as.dtype);
        if (unit.shard_group.valid() || at < part.begin || at >= part.end) continue;
        names += (names.empty() ? " (" : ", ") + program_.parameters[p.parameter].name;
      }
      if (!names.empty()) names += ")";
    }
    all += (all.empty() ? "bytes [" : "; bytes [") + number(part.begin) + ", " + number(part.end) +
           ") of " + text(c.meaning) + names + ", " + text(c.pattern);
  }
  return all;
}

/// Puts into the units' persistent buffers what they hold when a step begins.
void Values::place_units(RoleRun& run) {
  run.units.assign(unit_names_.size(), -1);
  for (const int u : run.role.units.ids()) {
    const Unit& unit = run.role.units[u];
    const UnitNumber id = unit_ids_.at(unit.name);
    run.units[id] = u;
    if (unit.shard_group.valid()) {
      for (const int axis : program_.group(unit.shard_group).dims) {
        const bool spread = std::find(axes_.begin(), axes_.end(), axis) != axes_.end();
        if (spread || program_.mesh.dims[axis].size == 1) continue;
        faults_.add("rank " + number(run.rank) + ": unit " + unit.name +
                    " is divided along an axis whose ranks hold other layers");
        failed_ = true;
        return;
      }
    }
    const auto in = [&](GroupId group, int axis) {
      if (!group.valid()) return false;
      const auto& dims = program_.group(group).dims;
      return std::find(dims.begin(), dims.end(), axis) != dims.end();
    };
    const Along of_replicas = unit.frozen ? Along::Same : Along::Replica;
    const auto placed = [&](bool split, Along shard) {
      Placement p;
      for (const int axis : axes_) {
        p.set(axis, axis == apart_                        ? of_replicas
                    : in(unit.shard_group, axis)          ? shard
                    : split && in(unit.split_group, axis) ? Along::Split
                                                          : Along::Same);
      }
      return p;
    };
    const auto divided = [&](const UnitParameter& part) {
      return program_.parameters[part.parameter].split_dim >= 0;
    };
    const bool all_split = std::all_of(unit.parameters.begin(), unit.parameters.end(), divided);
    // This is the unit as functions read it: placed by parameter, with offsets in elements.
    Pattern whole;
    if (all_split || !unit.split_group.valid()) {
      whole.pieces = {{0, Patterns::kEndless, {placed(true, Along::Same), DType::F32}}};
    } else {
      for (const UnitParameter& part : unit.parameters) {
        whole.pieces.push_back({part.offset,
                                part.offset + held_elements(program_, unit, part),
                                {placed(divided(part), Along::Same), DType::F32}});
      }
    }
    whole_units_[id] = patterns_.intern(whole);
    const auto put_state = [&](BufferId buffer, Means what, Along shard) {
      if (!buffer.valid()) return;
      const DType type = run.role.buffer(buffer).dtype;
      Content c;
      c.meaning.what = what;
      c.meaning.id = id;
      if (shard == Along::Same || !unit.shard_group.valid()) {
        Pattern pattern = whole;
        // Scales and codes of quantized states are not placed by parameter.
        if (type == DType::U8) {
          pattern.pieces = {{0, Patterns::kEndless, whole.pieces[0].as}};
        }
        for (Pattern::Piece& piece : pattern.pieces) {
          piece.as.dtype = type;
          if (piece.end == Patterns::kEndless) continue;
          piece.begin *= size_of(type);
          piece.end *= size_of(type);
        }
        c.pattern = patterns_.intern(std::move(pattern));
      } else {
        c.pattern = patterns_.uniform({placed(true, shard), type});
      }
      if (what == Means::Outer || what == Means::OuterMomentum) {
        c.pattern = placed_along(c.pattern, apart_, Along::Same);
      }
      if (what == Means::Feedback) {
        for (const int axis : axes_) {
          if (in(unit.feedback_group, axis))
            c.pattern = placed_along(c.pattern, axis, Along::Partial);
        }
      }
      const Touch touch =
          run.ranges.part(buffer, 0, run.role.buffer(buffer).bytes.v, Access::Write);
      put(run, touch, c);
    };
    // Running statistics, which forward updates, have no optimizer state and are never in shards.
    const bool weights = unit.trained() || unit.shard_group.valid() || unit.frozen;
    const Along param = !unit.whole_param    ? Along::Flat
                        : unit.gathered_late ? Along::Piece
                                             : Along::Same;
    put_state(unit.param, weights ? Means::Weights : Means::Statistics, param);
    put_state(unit.master, Means::Weights, Along::Flat);
    put_state(unit.adam_m, Means::Moment1, Along::Flat);
    put_state(unit.adam_v, Means::Moment2, Along::Flat);
    put_state(unit.outer, Means::Outer, Along::Flat);
    put_state(unit.outer_momentum, Means::OuterMomentum, Along::Flat);
    put_state(unit.sketch, Means::Sketch, Along::Same);
    put_state(unit.feedback, Means::Feedback, Along::Flat);
  }
}

bool Values::step(RoleRun& run) {
  const OpId id = run.next;
  const Op& op = run.role.op(id);
  if (repeats_ != nullptr) {
    const OpId original = repeats_->original(id_of(run), id);
    if (original.valid()) return repeat(run, id, original);
  }
  if (op.phase == Phase::S && !run.synchronizing) {
    // Most steps end here, so what every step must leave is there.
    run.synchronizing = true;
    check_weights_after(run, {id.v - 1}, false);
    if (failed_) return true;
  }
  if (op.kind == OpKind::Call) {
    const Function& function = program_.function(op.function());
    if (op.phase == Phase::S) return synchronization_call(run, id);
    const bool between = op.phase == Phase::O || op.phase == Phase::None;
    if (between && orthogonalizes(function)) return orthogonalize(run, id);
    if (between && is_low_rank(function)) return low_rank_call(run, id);
    if (between && factors(function)) return factor_call(run, id);
    return between && is_update(function) ? update_call(run, id) : layer_call(run, id);
  }
  if (is_collective(op.kind)) return collective(run, id);
  return is_p2p(op.kind) ? send(run, id) : host_copy(run, id);
}

/// Does what others can tell of an op that repeats `original`, which has been followed: it waits
/// for the messages that it needs, sends and receives, and puts the loss in its own place.
bool Values::repeat(RoleRun& run, OpId id, OpId original) {
  const Op& op = run.role.op(id);
  if (run.noted[original] == 0 && !is_p2p(op.kind)) return true;
  const auto before = [](const auto& done, OpId other) { return done.op < other; };
  const auto& awaited = run.awaited;
  for (auto message = std::lower_bound(awaited.begin(), awaited.end(), original, before);
       message != awaited.end() && message->op == original; ++message) {
    const OpId own = repeats_->counterpart(id_of(run), message->receive, op.microbatch);
    const Receipt& receipt = receipts_[run.receipts.at(own)];
    if (messages_[receipt.channel].next() <= receipt.index) return false;
  }
  if (op.kind == OpKind::Recv) receive(run, id);
  // Nobody asks what is in the message, because a repetition receives it, too.
  if (op.kind == OpKind::Send) messages_[channel_of(run, op)].emplace_back();
  const auto& losses = run.losses;
  for (auto done = std::lower_bound(losses.begin(), losses.end(), original, before);
       done != losses.end() && done->op == original; ++done) {
    Touch touch = run.ranges.touch(op, to_size(done->argument));
    touch.end = touch.begin + done->end;
    touch.begin += done->begin;
    Content loss = done->loss;
    if (loss.meaning.what == Means::Loss) loss.meaning.terms = loss_of(op.microbatch);
    put(run, touch, loss);
  }
  return true;
}

void Values::run_roles() {
  for (bool moved = true; moved && !failed_;) {
    moved = false;
    for (RoleRun& run : runs_) {
      while (!failed_ && run.next < run.role.ops.next() && step(run)) {
        run.end_lives(run.next);
        ++run.next.v;
        moved = true;
      }
    }
  }
  for (const RoleRun& run : runs_) {
    if (failed_ || run.next == run.role.ops.next()) continue;
    fault(run, run.next,
          "waits in its list for a value that comes later in another rank's: what it means "
          "cannot be followed");
  }
}

/// Checks that sums have all their terms. A gradient has one for every use of its unit in the
/// update's forward passes, and the loss has one for every microbatch.
void Values::finish() {
  std::sort(uses_.begin(), uses_.end());
  uses_.erase(std::unique(uses_.begin(), uses_.end()), uses_.end());
  Microbatch count = 0;
  for (const Use& use : uses_) count = std::max(count, use.microbatch + 1);
  const int per_update = std::max(1, count / std::max(1, program_.updates_per_step));
  std::map<std::pair<std::int32_t, std::int32_t>, Terms> of_update;
  std::map<std::int32_t, Terms> of_step;
  IndexVector<Microbatch, bool> seen(count);
  Terms losses;
  for (const Use& use : uses_) {
    const auto mb = static_cast<std::uint64_t>(use.microbatch);
    const Terms term = Terms::of(static_cast<std::uint64_t>(use.layer) << 32 | mb);
    Terms& of = of_update[{use.unit, use.microbatch / per_update}];
    of = of + term;
    of_step[use.unit] = of_step[use.unit] + term;
    seen[use.microbatch] = true;
  }
  const Microbatch all = repeats_ != nullptr ? repeats_->microbatches() : count;
  for (Microbatch mb = 0; mb < all; ++mb) {
    const Microbatch followed = repeats_ != nullptr ? repeats_->original(mb) : mb;
    if (followed < count && seen[followed]) losses = losses + loss_of(mb);
  }
  for (const Claim& claim : claims_) {
    const Meaning& sum = claim.sum;
    if (sum.own) continue;
    const Terms wanted = sum.what == Means::Loss ? losses
                         : claim.version < 0     ? of_step[sum.id]
                                                 : of_update[{sum.id, claim.version}];
    if (sum.terms == wanted) continue;
    fault(*claim.run, claim.op,
          text(sum) + " is the sum of " + number(sum.terms.count) + " terms, but should be of " +
              number(wanted.count) +
              (sum.what == Means::Loss ? ", one per microbatch" : ", one per use of its weights") +
              ": some are missing, twice or of another update");
  }
  for (RoleRun& run : runs_) finish(run);
}

/// Checks what a role leaves: loss and norm have left the rank, all layers have been passed, and
/// all parameters are updated.
void Values::finish(RoleRun& run) {
  const OpId end{run.role.ops.next().v - 1};
  if (run.loss.valid() && !run.loss_copied) {
    fault(run, run.loss, "the loss does not leave the rank: device_to_host loss is missing");
  }
  if (run.norm.valid() && !run.norm_copied) {
    fault(run, run.norm, "the norm does not leave the rank: device_to_host grad_norm is missing");
  }
  for (int l = 0; l < run.layers; ++l) {
    const std::int32_t kind = run.kind_of_layer[l];
    if (kind < 0 || run.own_layers[l]) continue;
    const auto wanted = [&](Phase phase) { return segment_counts_[kind][phase]; };
    for (Microbatch mb = 0; mb < run.microbatches; ++mb) {
      const Microbatch followed = repeats_ != nullptr ? repeats_->original(mb) : mb;
      const auto& done = run.segments[run.cell(l, followed)];
      const auto ended = [&](Phase phase) {
        return wanted(phase) > 0 && done[phase] == wanted(phase);
      };
      const bool none = std::all_of(done.begin(), done.end(), [](int n) { return n == 0; });
      const bool backward = ended(Phase::B) || (wanted(Phase::B) == 0 && wanted(Phase::I) == 0) ||
                            (ended(Phase::W) && (ended(Phase::I) || wanted(Phase::I) == 0)) ||
                            (ended(Phase::I) && wanted(Phase::W) == 0);
      if (none || (ended(Phase::F) && backward)) continue;
      fault(run, end,
            "the step ends, but layer " + number(l) + " of microbatch " + number(mb) +
                " has not been passed forward and backward");
    }
  }
  check_weights_after(run, end, run.synchronizing);
  const auto& units = run.role.units;
  const bool trains = std::any_of(units.begin(), units.end(), [](const Unit& unit) {
    return !unit.frozen;  // what is only read is the same everywhere
  });
  if (program_.sync_every > 0 && trains && !run.synchronizing && !failed_) {
    fault(run, end,
          "the step ends, but nothing brings the replicas together, which train apart: no op is of "
          "phase S");
  }
}

/// Checks that the parameters which a role leaves are updated, and in a step that brings replicas
/// together, that all replicas have taken the same.
void Values::check_weights_after(RoleRun& run, OpId end, bool synchronized) {
  const int updates = program_.updates_per_step + (synchronized ? 1 : 0);
  for (const Unit& unit : run.role.units) {
    if (synchronized) {
      for (const BufferId state : {unit.outer, unit.outer_momentum}) {
        if (!state.valid()) continue;
        std::vector<Held> held;
        holds(run, run.ranges.part(state, 0, run.role.buffer(state).bytes.v, Access::Read), held);
        const std::optional<Content> found = unite(held);
        const Means wanted = state == unit.outer ? Means::Outer : Means::OuterMomentum;
        if (found && found->meaning.what == wanted && found->meaning.version == 1) continue;
        fault(run, end,
              "the step ends, but " +
                  text({wanted, false, -1, -1, unit_ids_.at(unit.name), 0, {}}) +
                  " is not brought up to date");
      }
    }
    const Touch touch =
        run.ranges.part(unit.param, 0, run.role.buffer(unit.param).bytes.v, Access::Read);
    run.held(touch.root)
        .visit(touch.begin, touch.end, [&](std::int64_t, std::int64_t, const Content& c) {
          if (!unit.trained()) return;
          const bool updated = c.meaning.what == Means::Weights &&
                               c.meaning.id == unit_ids_.at(unit.name) &&
                               c.meaning.version == updates;
          bool fresh = true;
          for (const int axis : axes_) {
            const auto& pieces = patterns_.at(c.pattern).pieces;
            const Along along = pieces[0].as.placement.along(axis);
            fresh = fresh && (unit.gathered_late || along != Along::Piece) &&
                    (!synchronized || axis != apart_ || along == Along::Same);
          }
          if (updated && fresh) return;
          fault(run, end,
                "the step ends, but the parameters of " + unit.name +
                    (updated ? " are up to date in each rank's own piece alone"
                             : " are " + text(c.meaning) + " after " + number(c.meaning.version) +
                                   " updates of " + number(updates)));
        });
    finish_on_drive(run, unit, end, updates);
    check_low_rank_after(run, unit, end);
  }
}

/// What of a unit lies on a drive was updated in host memory, and has to come back: weights after
/// `updates`, of which a synchronization is one that moments do not take part in.
void Values::finish_on_drive(RoleRun& run, const Unit& unit, OpId end, int updates) {
  if (!unit.adam_m.valid()) return;
  for (const BufferId state : {unit.master, unit.adam_m, unit.adam_v}) {
    if (!state.valid() || run.role.buffer(state).tier != Tier::Drive) continue;
    const int wanted = state == unit.master ? updates : program_.updates_per_step;
    const Touch touch = run.ranges.part(state, 0, run.role.buffer(state).bytes.v, Access::Read);
    run.held(touch.root)
        .visit(touch.begin, touch.end, [&](std::int64_t, std::int64_t, const Content& c) {
          if (c.meaning.version == wanted) return;
          fault(run, end,
                "the step ends, but " + buffer_name(program_, run.role, state) +
                    " on the drive is that after " + number(c.meaning.version) + " updates of " +
                    number(wanted));
        });
  }
}

void Values::check() {
  for (const Function& function : program_.functions) {
    if (function.emitted == 0 || function.emitted == fingerprint(function)) continue;
    return faults_.add("function " + function.name +
                       " is not what the model library emitted; declare it own if that is meant");
  }
  if (program_.emitted != 0 && program_.emitted != model_fingerprint(program_)) {
    return faults_.add(
        "the parameters, or how they lie in their units, are not what the model library emitted; "
        "leave out the line \"emitted\" if that is meant");
  }
  if (all_units_.count == 0) return;  // the program trains nothing
  runs_.reserve(program_.roles.size());
  for (const Role& role : program_.roles) {
    RoleRun& run = runs_.emplace_back(program_, role, ranges_[runs_.size()]);
    read_layers(run);
    place_units(run);
  }
  run_roles();
  if (!failed_) finish();
}

void check_meaning(const Program& program, const std::deque<Ranges>& ranges, const Repeats& repeats,
                   Faults& faults) {
  Faults found;
  Values(program, ranges, &repeats, found).check();
  if (!found.none()) Values(program, ranges, nullptr, faults).check();
}

}  // namespace lockstep::verification
