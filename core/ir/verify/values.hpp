// Values: follows what every buffer means through all roles, op by op. One rank stands for each
// role. A role waits where it reads a message that has not been sent, or comes first to a
// collective with other roles.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "core/ir/verify/internal.hpp"
#include "core/ir/verify/meaning.hpp"
#include "core/ir/verify/repeats.hpp"
#include "core/ir/verify/role_run.hpp"
#include "core/ir/verify/traffic.hpp"

namespace lockstep::verification {

class Values {
 public:
  /// `ranges` are those of the roles. Microbatches that repeat others are left out, if `repeats` is
  /// not null. They are sound if those are, but the fault that is found first may be another one
  /// than that of all ops.
  Values(const Program& program, const std::deque<Ranges>& ranges, const Repeats* repeats,
         Unproven unproven, Faults& faults);
  void check();

 private:
  using Channel = std::tuple<RoleId, RoleId, Direction>;  // from role, to role

  // Functions that follow an op return false if it has to wait for another role. They return true
  // after a fault, which ends the walk.

  // values.cpp: the walk over the ops
  void place_units(RoleRun& run);
  /// Of the axes along which ranks divide a unit, those that divide its experts where others divide
  /// each of them (Parameter::first_parts).
  std::vector<int> expert_axes(const Unit& unit) const;
  void run_roles();
  bool step(RoleRun& run);
  RoleId id_of(const RoleRun& run) const { return program_.role_of_rank[run.rank]; }
  bool repeat(RoleRun& run, OpId id, OpId original);

  // function_roles.cpp: what functions and their formals stand for, by their names
  void read_names();
  FunctionRole role_of(const Function& function);
  std::int32_t name(std::string_view text);
  void read_layers(RoleRun& run);

  // finish.cpp: what a step leaves
  void finish();
  void finish(RoleRun& run);
  void check_weights_after(RoleRun& run, OpId last, bool synchronized);
  void finish_on_drive(RoleRun& run, const Unit& unit, OpId end, int updates);

  // values_text.cpp: faults, in words
  bool fault(const RoleRun& run, OpId id, const std::string& what);
  std::string text(const Meaning& meaning) const;
  std::string text(PatternId pattern) const;
  std::string parts(const RoleRun& run, const std::vector<Held>& held) const;
  const std::string& unit_name(UnitNumber unit) const { return unit_names_[unit]; }

  // contents.cpp: what arguments hold
  bool holds(RoleRun& run, OpId id, std::size_t arg, std::vector<Held>& out);
  bool holds(RoleRun& run, const Touch& touch, std::vector<Held>& out);
  bool content(RoleRun& run, const Touch& touch, Content& out);
  bool arguments(RoleRun& run, OpId id, IndexVector<int, std::optional<Content>>& held,
                 std::vector<PatternId>& found);
  bool receive(RoleRun& run, const Touch& touch);
  std::optional<Content> unite(const std::vector<Held>& held) const;
  void put(RoleRun& run, OpId id, std::size_t arg, const std::vector<Held>& held);
  void put(RoleRun& run, const Touch& touch, const std::vector<Held>& held);
  /// Puts one content into the whole range.
  void put(RoleRun& run, const Touch& touch, Content content);
  PatternId with_zeros_filled(PatternId pattern, std::int64_t bytes);
  /// The pattern of each rank's own piece of a buffer with the pattern `whole`, and the reverse; 0
  /// if there is none.
  PatternId piece_of_whole(PatternId whole, const Group& group);
  PatternId whole_of_piece(PatternId piece, const Group& group);
  void pieces_are_parts(const RoleRun& run, Content& direction);
  /// The pattern with another placement along one axis, which may be -1: none.
  PatternId placed_along(PatternId pattern, int axis, Along along);
  /// The pattern with `to` in the place of `from` along these axes.
  PatternId renamed(PatternId pattern, const std::vector<int>& axes, Along from, Along to);
  template <class Change>
  PatternId changed(PatternId pattern, const Group& group, Change&& change);

  // layer_calls.cpp: functions of layers
  bool layer_call(RoleRun& run, OpId id);
  bool in_order(RoleRun& run, OpId id, const FunctionRole& function);
  bool overlaps(const Function& function) const;
  bool check_read(RoleRun& run, OpId id, const FunctionRole& function, std::size_t formal,
                  const Content& found);
  void note_weights(const Op& op, const FormalRole& formal, UnitNumber unit);
  bool check_weights(RoleRun& run, OpId id, const FormalRole& formal, const Content& found);
  bool add_terms(RoleRun& run, OpId id, const FunctionRole& function, const Summary& summary);
  Meaning expected(const FormalRole& formal, int layer, Microbatch mb) const;
  static Terms loss_of(Microbatch mb) { return Terms::of(static_cast<std::uint32_t>(mb)); }
  struct Bound {  // a name by which a layer's functions read a unit
    std::int32_t suffix;
    int unit;            // -1: none so far
    Microbatch used_by;  // the last one whose forward pass has read it by this name; -1: none
  };
  Bound& bound_unit(int layer, std::int32_t suffix);

  // muon_calls.cpp: momentum, and functions that orthogonalize matrices
  static bool orthogonalizes(const Function& function);
  bool momentum(RoleRun& run, OpId id, const Kernel& kernel);
  bool orthogonalize(RoleRun& run, OpId id);
  const UnitParameter* parameter_at(const Unit& unit, std::int64_t element) const;

  // adafactor_calls.cpp: second moments by rows and columns
  static bool factors(const Function& function);
  bool factor_call(RoleRun& run, OpId id);
  bool whole_arguments(RoleRun& run, OpId id, IndexVector<int, std::optional<Content>>& held,
                       std::vector<PatternId>& found);
  bool of_parameters(RoleRun& run, OpId id, const Unit& unit);

  // update_calls.cpp: copies, sums, norms and optimizers, each a function of one kernel
  static bool is_update(const Function& function);
  bool update_call(RoleRun& run, OpId id);
  bool copy(RoleRun& run, OpId id, const Kernel& kernel);
  bool sum_loss(RoleRun& run, OpId id);
  bool square(RoleRun& run, OpId id, const Kernel& kernel);
  bool clip(RoleRun& run, OpId id, const Kernel& kernel);
  bool reads_loss_scale(RoleRun& run, OpId id, const Kernel& kernel, PatternId& pattern);
  bool update(RoleRun& run, OpId id, const Kernel& kernel);
  bool reads_coefficient(RoleRun& run, OpId id, const Kernel& kernel,
                         const IndexVector<int, std::optional<Content>>& held);
  bool whole_gradient(RoleRun& run, OpId id, const Content& gradient, std::int64_t elements,
                      std::int32_t version);

  // synchronization_calls.cpp: what brings replicas that train apart together
  static bool synchronizes(const Kernel& kernel);
  bool synchronization_call(RoleRun& run, OpId id);
  bool replica_term(RoleRun& run, OpId id, const Kernel& kernel);
  bool outer_step(RoleRun& run, OpId id, const Kernel& kernel);
  bool take_result(RoleRun& run, OpId id, Content& result);
  const Unit* unit_of(RoleRun& run, OpId id, const std::optional<Content>& found, Meaning wanted,
                      std::int64_t elements);

  // codes_calls.cpp: codes of weights and gradients
  bool to_codes(RoleRun& run, OpId id, const Kernel& kernel);
  bool from_codes(RoleRun& run, OpId id, const Kernel& kernel);
  bool weights_from_codes(RoleRun& run, OpId id, const Kernel& kernel, const Content& codes);
  bool sum_of_codes(RoleRun& run, OpId id, const Kernel& kernel, const Content& codes);
  PatternId whole_weights(UnitNumber unit, PlacedAs as);

  // low_rank_calls.cpp: gradients as products of low rank
  static bool is_low_rank(const Function& function);
  bool low_rank_call(RoleRun& run, OpId id);
  struct LowRankArgs;
  bool low_rank_args(RoleRun& run, OpId id, LowRankArgs& args);
  bool project(RoleRun& run, OpId id, LowRankArgs& args);
  bool factor(RoleRun& run, OpId id, LowRankArgs& args);
  bool restore(RoleRun& run, OpId id, LowRankArgs& args);
  void check_low_rank_after(RoleRun& run, const Unit& unit, OpId end);

  // transfers.cpp: collectives, messages, host copies
  bool collective(RoleRun& run, OpId id);
  bool in_equal_parts(RoleRun& run, OpId id, const Group& group, const Content& content);
  bool counts_rows(RoleRun& run, OpId id, const Group& group, const std::vector<Held>& made);
  std::set<RoleId> roles_of(const RoleRun& run, const Group& group) const;
  bool broadcast(RoleRun& run, OpId id, const Group& group, const std::set<RoleId>& roles);
  bool meet(RoleRun& run, OpId id, const Group& group, std::vector<Held>& held, bool& joined);
  bool join(RoleRun& run, OpId id, const std::map<int, std::vector<Held>>& by_coordinate,
            std::vector<Held>& sum);
  static std::optional<Along> along_after(const Op& op, Along before, int ranks, bool flat);
  bool move(RoleRun& run, OpId id, const Group& group, Held& held, bool joined);
  bool parts_of_sum(const std::vector<Held>& held) const;
  bool agree(RoleRun& run, OpId id, const std::map<int, std::vector<Held>>& by_coordinate);
  bool exchange_name(RoleRun& run, OpId id, Meaning& meaning);
  bool send(RoleRun& run, OpId id);
  Channel channel_of(const RoleRun& run, const Op& message) const;
  void receive(RoleRun& run, OpId id);
  void receive_later(RoleRun& run, OpId id, const Channel& channel, Sequence index);
  bool host_copy(RoleRun& run, OpId id);
  PatternId placed_data(const Op& op, DType dtype);

  static constexpr std::int32_t kOutput = 0, kInputGradient = 1;  // of names "y" and "dx"

  const Program& program_;
  const std::deque<Ranges>& ranges_;
  Faults& faults_;
  const std::vector<int> axes_;
  const int apart_;  // the axis of replicas that train apart; -1: none
  Patterns patterns_;
  Summaries summaries_;
  const Repeats* const repeats_;  // those that are left out
  const Unproven unproven_;
  std::vector<RoleRun> runs_;
  IndexVector<std::int32_t, std::string> names_;
  IndexVector<UnitNumber, std::string> unit_names_;
  IndexVector<UnitNumber, char> takes_largest_;  // gradients are magnitudes, not terms of a sum
  std::map<std::string, std::int32_t, std::less<>> name_ids_;
  std::map<std::string, UnitNumber> unit_ids_;
  IndexVector<FunctionId, FunctionRole> functions_;
  IndexVector<FunctionId, std::vector<NamedExchange>> exchanges_;
  IndexVector<std::int32_t, std::int32_t> labels_;  // numbers of Program::names
  using ByPhase = IndexArray<Phase, int, kNumPhases>;
  IndexVector<std::int32_t, ByPhase> segment_counts_;  // by kind of layer
  IndexVector<int, std::vector<Bound>> bound_units_;   // by layer + 1
  IndexVector<UnitNumber, PatternId> whole_units_;  // of their parameters, as a function reads them
  std::vector<Held> before_, after_, parts_;        // of the op at hand
  // These three are of the call at hand, by formal.
  IndexVector<int, Touch> touches_;
  std::vector<Content> contents_;
  std::vector<PatternId> found_;
  bool failed_ = false;

  /// What a collective makes of a pattern.
  struct Moved {
    PatternId before;
    OpKind kind;
    bool largest;
    DType dtype;
    bool flat;   // the values are a unit's
    bool zeros;  // they are zeros
    PatternId after;
  };
  IndexVector<GroupId, std::vector<Moved>> moved_;  // those that are known
  std::map<int, std::int64_t> row_parts_;  // by axis: into how many parts shared rows are divided

  struct Use {  // a unit that a layer's forward pass reads
    UnitNumber unit;
    int layer;
    Microbatch microbatch;
    auto operator<=>(const Use&) const = default;
  };
  std::vector<Use> uses_;
  struct Claim {  // an op reads `sum`, which must have all its terms
    const RoleRun* run;
    OpId op;
    Meaning sum;
    std::int32_t version;
  };
  std::vector<Claim> claims_;
  Terms all_units_;  // one term for every unit that an optimizer updates

  struct Meeting {  // what the roles of a group have brought to a collective
    std::map<RoleId, std::vector<Held>> by_role;
    std::map<int, std::vector<Held>> by_coordinate;  // along "pp"
  };
  std::map<std::tuple<GroupId, Rank, int>, Meeting> meetings_;  // by group, first member, which
  std::map<Channel, IndexVector<Sequence, std::vector<Held>>> messages_;
  struct Receipt {  // a receive, and which message of the channel it gets
    Channel channel;
    Sequence index;
    Touch into;
    OpId op;
  };
  IndexVector<std::int32_t, Receipt> receipts_;
};

}  // namespace lockstep::verification
