#include <algorithm>

#include "core/ir/verify/values.hpp"

namespace lockstep::verification {
namespace {

/// Whether what a pass of that phase reads of weights is a use, for which their gradient has a
/// term. An output layer that computes its loss in chunks reads them in its backward pass alone.
constexpr bool counts_as_use(Phase phase) {
  return phase == Phase::F || phase == Phase::B || phase == Phase::I;
}

std::string at(int layer, Microbatch mb) {
  return "layer " + number(layer) + ", microbatch " + number(mb);
}

}  // namespace

Values::Bound& Values::bound_unit(int layer, std::int32_t suffix) {
  const int place = std::max(layer, -1) + 1;  // a function of the user's may name no layer
  if (place >= bound_units_.next()) bound_units_.resize(to_size(place) + 1);
  auto& of_layer = bound_units_[place];
  const auto known = std::find_if(of_layer.begin(), of_layer.end(),
                                  [&](const Bound& bound) { return bound.suffix == suffix; });
  if (known != of_layer.end()) return *known;
  of_layer.push_back({suffix, -1, -1});
  return of_layer.back();
}

/// What a function of layer `layer` must find where it reads the formal. Another layer may have
/// written it.
Meaning Values::expected(const FormalRole& formal, int layer, Microbatch mb) const {
  Meaning meaning;
  meaning.what = Means::Tensor;
  meaning.microbatch = mb;
  meaning.layer = static_cast<std::int16_t>(layer);
  meaning.id = formal.name;
  if (formal.what == FormalRole::X) {
    --meaning.layer;
    meaning.id = kOutput;
  } else if (formal.what == FormalRole::Dy) {
    ++meaning.layer;
    meaning.id = kInputGradient;
  } else if (formal.what == FormalRole::Data) {
    meaning.what = Means::Data;
    meaning.id = static_cast<std::int32_t>(formal.data);
    meaning.layer = -1;
    if (!is_batch(formal.data)) meaning.microbatch = -1;
  }
  return meaning;
}

/// Checks that the functions of a layer's pass run once for each microbatch, in their order, and
/// after the passes that they need.
bool Values::in_order(RoleRun& run, OpId id, const FunctionRole& function) {
  const Op& op = run.role.op(id);
  if (function.kind < 0 || function.phase != op.phase || op.layer < 0 || op.microbatch < 0) {
    return fault(run, id, "its function is of another phase, or it names no layer or microbatch");
  }
  if (run.own_layers[op.layer]) return true;  // the user knows
  std::int32_t& kind = run.kind_of_layer[op.layer];
  if (kind < 0) kind = function.kind;
  if (kind != function.kind) {
    return fault(run, id,
                 "layer " + number(op.layer) + " is of kind " + names_[kind] +
                     ", but the function is one of another kind");
  }
  auto& done = run.segments[run.cell(op.layer, op.microbatch)];
  const auto ended = [&](Phase phase) { return done[phase] == segment_counts_[kind][phase]; };
  std::uint16_t& next = done[op.phase];
  if (next != function.segment) {
    return fault(run, id,
                 "of this part of " + at(op.layer, op.microbatch) + " segment " + number(next) +
                     " is next: each runs once, in order");
  }
  if (function.segment == 0) {
    bool ready = true;
    if (op.phase != Phase::F) ready = ended(Phase::F);
    if (op.phase == Phase::B || op.phase == Phase::I) ready = ready && ended(Phase::R);
    if (op.phase == Phase::W) ready = ready && ended(Phase::I);
    if (!ready) {
      return fault(
          run, id,
          "the passes of " + at(op.layer, op.microbatch) + " that it follows have not ended");
    }
  }
  ++next;
  return true;
}

bool Values::check_weights(RoleRun& run, OpId id, const FormalRole& formal, const Content& found) {
  const Op& op = run.role.op(id);
  const Meaning& meaning = found.meaning;
  if (meaning.what != Means::Weights || found.origin != 0) {
    return fault(run, id, "reads " + text(meaning) + " as its parameters " + names_[formal.name]);
  }
  Bound& bound = bound_unit(op.layer, formal.suffix);
  int& unit = bound.unit;
  if (unit < 0) unit = meaning.id;
  if (unit != meaning.id) {
    return fault(run, id,
                 "reads the parameters of " + unit_name(meaning.id) + ", but layer " +
                     number(op.layer) + " has those of " + unit_name(unit));
  }
  const int known = run.units[unit];
  const bool frozen = known >= 0 && run.role.units[known].frozen;  // it has one version
  if (op.stage >= 0 && !frozen) {
    std::int32_t& version = run.versions[run.cell(op.stage, op.microbatch)];
    if (version < 0) version = meaning.version;
    if (version != meaning.version) {
      return fault(run, id,
                   "reads version " + number(meaning.version) + " of the weights of " +
                       unit_name(unit) + ", but the stage has begun this microbatch with " +
                       number(version));
    }
  }
  if (counts_as_use(op.phase) && bound.used_by != op.microbatch) {
    bound.used_by = op.microbatch;
    uses_.push_back({unit, op.layer, op.microbatch});
  }
  return true;
}

/// Notes the unit whose weights a function of the user's reads, so that the layer's other functions
/// must read the same.
void Values::note_weights(const Op& op, const FormalRole& formal, UnitNumber unit) {
  if (op.layer < 0) return;
  if (formal.what == FormalRole::Weights) {
    int& bound = bound_unit(op.layer, formal.suffix).unit;
    if (bound < 0) bound = unit;
  }
  if (counts_as_use(op.phase) && op.microbatch >= 0) {
    uses_.push_back({unit, op.layer, op.microbatch});
  }
}

bool Values::check_read(RoleRun& run, OpId id, const FunctionRole& function, std::size_t f,
                        const Content& found) {
  const Op& op = run.role.op(id);
  const FormalRole& formal = function.formals[f];
  const std::string& name = names_[formal.name];
  if (found.pattern == 0) return fault(run, id, "reads as " + name + " what nothing has written");
  if (function.own || found.meaning.own) {
    if (found.meaning.what == Means::Weights) note_weights(op, formal, found.meaning.id);
    const Microbatch mb = found.meaning.microbatch;
    if (mb < 0 || op.microbatch < 0 || mb == op.microbatch) return true;
    return fault(run, id, "reads as " + name + " " + text(found.meaning));
  }
  if (formal.what == FormalRole::Weights) return check_weights(run, id, formal, found);
  const Meaning wanted = expected(formal, op.layer, op.microbatch);
  if (found.meaning == wanted && found.origin == -formal.begin) return true;
  return fault(run, id,
               "reads as " + name + " " + text(found.meaning) + ", not " + text(wanted) +
                   (found.origin == -formal.begin ? ""
                    : formal.begin == 0           ? " from its beginning"
                                                  : " from byte " + number(formal.begin) + " on"));
}

/// Whether a formal that the call at hand writes shares bytes with another one.
bool Values::overlaps(const Function& function) const {
  for (std::size_t a = 0; a < touches_.size(); ++a) {
    if (function.formals[a].access == Access::Read) continue;
    for (std::size_t b = 0; b < touches_.size(); ++b) {
      if (a != b && touches_[a].root == touches_[b].root && touches_[a].begin < touches_[b].end &&
          touches_[b].begin < touches_[a].end) {
        return true;
      }
    }
  }
  return false;
}

bool Values::layer_call(RoleRun& run, OpId id) {
  const Op& op = run.role.op(id);
  const FunctionRole& function = functions_[op.function()];
  const Function& body = program_.function(op.function());
  const std::size_t count = body.formals.size();
  contents_.resize(count);
  found_.assign(count, 0);
  run.ranges.touch_all(op, touches_);
  for (const BufferId arg : run.role.args_of(op)) {
    if (!run.ranges.is_piece(arg)) continue;
    return fault(run, id,
                 "is given each rank's own piece of a buffer, which no layer computes with");
  }
  for (std::size_t f = 0; f < count; ++f) {  // nothing is noted before, as it may have to wait
    if (function.formals[f].adds()) continue;
    if (!content(run, touches_[f], contents_[f])) return false;
  }
  if (!function.own && !in_order(run, id, function)) return true;
  for (std::size_t f = 0; f < count; ++f) {
    const FormalRole& formal = function.formals[f];
    if (formal.adds()) {
      found_[f] = -1;
      continue;
    }
    if (body.formals[f].access != Access::Write) {
      if (!check_read(run, id, function, f, contents_[f])) return true;
      found_[f] = contents_[f].pattern;
    } else {
      Meaning before = contents_[f].meaning;
      before.own = false;
      if (before == expected(formal, op.layer, op.microbatch) &&
          contents_[f].origin == -formal.begin) {
        found_[f] = contents_[f].pattern;  // the rest of it stays
      }
    }
  }
  const Summary& summary = summaries_.of(op.function(), found_);
  if (!summary.fault.empty()) return fault(run, id, summary.fault);
  if (!function.own && overlaps(body)) {
    return fault(run, id, "is given one buffer for two tensors, one of which it writes");
  }
  for (std::size_t f = 0; f < count; ++f) {
    if (function.formals[f].adds() || body.formals[f].access == Access::Read) continue;
    Content made;
    made.meaning = expected({FormalRole::Tensor, function.formals[f].name, -1, {}, 0}, op.layer,
                            op.microbatch);
    made.meaning.own = function.own || (found_[f] > 0 && contents_[f].meaning.own);
    made.pattern = summary.after[f];
    made.origin = -function.formals[f].begin;
    if (made.origin != 0 && !patterns_.is_uniform(made.pattern)) {
      return fault(run, id,
                   "makes a part of " + names_[function.formals[f].name] +
                       " that is not written whole, or of unlike placements");
    }
    put(run, touches_[f], made);
  }
  if (!summary.terms.empty()) add_terms(run, id, function, summary);
  return true;
}

/// Adds what the call computes to sums over microbatches and layers, which are gradients, losses
/// and running statistics.
bool Values::add_terms(RoleRun& run, OpId id, const FunctionRole& function,
                       const Summary& summary) {
  const Op& op = run.role.op(id);
  std::vector<Held>&before = before_, &after = after_;
  for (const Summary::Term& term : summary.terms) {
    const FormalRole& formal = function.formals[term.formal];
    const auto bits = static_cast<std::uint64_t>(static_cast<std::uint32_t>(op.microbatch));
    const auto layer = static_cast<std::uint64_t>(static_cast<std::uint16_t>(op.layer));
    Meaning made;
    made.own = function.own;
    made.terms =
        formal.what == FormalRole::Loss ? loss_of(op.microbatch) : Terms::of(layer << 32 | bits);
    if (formal.what == FormalRole::Loss) {
      made.what = Means::Loss;
      run.loss = id;
    } else if (formal.what == FormalRole::Gradient) {
      made.what = Means::Gradient;
      made.id = bound_unit(op.layer, formal.suffix).unit;
      if (made.id < 0 && !function.own) {
        return fault(run, id, "adds to a gradient of parameters that its layer does not read");
      }
    } else {
      made.what = Means::Statistics;
      made.microbatch = op.microbatch;
    }
    Touch touch = touches_[term.formal];
    const std::int64_t start = touch.begin;
    touch.end = start + term.end;
    touch.begin = start + term.begin;
    after.clear();
    if (!term.accumulate) {
      if (term.zeros) made = Meaning::of(Means::Zeros);
      made.own = function.own;
      const Content content{made, term.pattern, -term.begin};
      after.push_back({0, touch.end - touch.begin, content});
      if (formal.what == FormalRole::Loss) {
        run.losses.push_back({id, term.formal, term.begin, term.end, content});
        run.noted[id] = 1;
      }
    } else {
      if (!holds(run, touch, before)) return false;
      for (Held part : before) {
        const Meaning& old = part.content.meaning;
        Content c{made, term.pattern, -term.begin};
        if (made.what == Means::Statistics) {
          c.meaning.id = old.id;
          const auto& kept = patterns_.at(part.content.pattern).pieces;
          if (old.what != Means::Statistics || old.microbatch >= op.microbatch ||
              kept[0].as.dtype != term.as.dtype) {
            return fault(run, id,
                         "updates running statistics with microbatch " + number(op.microbatch) +
                             ", but finds " + text(old));
          }
        } else if (old.what != Means::Zeros &&
                   (old.what != made.what || (old.id != made.id && !made.own))) {
          return fault(run, id, "adds to " + text(old) + " what belongs to " + text(made));
        } else if (old.what != Means::Zeros && part.content.pattern != c.pattern &&
                   !patterns_.at(part.content.pattern).pieces.empty()) {
          return fault(run, id,
                       "adds " + text(c.pattern) + " to " + text(old) + ", which is " +
                           text(part.content.pattern));
        }
        c.meaning.terms = c.meaning.terms + old.terms;
        c.meaning.own = c.meaning.own || old.own;
        after.push_back({part.begin, part.end, c});
      }
    }
    put(run, touch, after);
  }
  return true;
}

}  // namespace lockstep::verification
