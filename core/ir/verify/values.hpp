// Values: follows what every buffer means through all roles, op by op. One rank stands for each
// role. A role waits where it reads a message that has not been sent, or comes first to a
// collective with other roles.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "core/ir/verify/internal.hpp"
#include "core/ir/verify/interval_map.hpp"
#include "core/ir/verify/meaning.hpp"
#include "core/ir/verify/traffic.hpp"

namespace lockstep::verification {

/// What is known of one role while its ops are followed.
struct RoleRun {
  RoleRun(const Program& program, const Role& r);
  const Role& role;
  Rank rank;
  Ranges ranges;
  std::vector<IntervalMap<Content>> held;  // by root buffer
  std::size_t next = 0;                    // the op that comes next
  Stage stages = 0;
  Microbatch microbatches = 0;
  int layers = 0;
  std::vector<std::array<std::uint8_t, 5>> segments;  // functions done, by cell() and phase
  std::vector<std::int32_t> versions;                 // of weights, by stage, microbatch; -1: none
  std::vector<std::int32_t> kind_of_layer;            // as FunctionRole::kind
  std::vector<std::vector<NamedExchange>> exchanges;  // by layer
  std::vector<bool> own_layers;                       // by layer: whether a function is the user's
  std::map<std::int32_t, int> met;                    // by group: collectives with other roles done
  std::map<ChannelEnd, int> received;                 // messages
  std::vector<std::int8_t> meets_others;  // by group: whether members have other roles; -1: unknown
  std::vector<int> units;  // by unit: its index among the role's; -1: it has none such
  OpId loss, norm;         // the ops that make them; their results must leave the rank
  bool loss_copied = false, norm_copied = false;

  /// The place of a layer's microbatch in `segments`.
  std::size_t cell(int layer, Microbatch mb) const {
    return static_cast<std::size_t>(layer) * static_cast<std::size_t>(microbatches) +
           static_cast<std::size_t>(mb);
  }
};

class Values {
 public:
  Values(const Program& program, Faults& faults);
  void check();

 private:
  // Functions that follow an op return false if it has to wait for another role. They return true
  // after a fault, which ends the walk.

  // values.cpp
  void read_names();
  FunctionRole role_of(const Function& function);
  std::int32_t name(std::string_view text);
  void read_layers(RoleRun& run);
  void place_units(RoleRun& run);
  void run_roles();
  bool step(RoleRun& run);
  void finish();
  void finish(RoleRun& run);
  bool fault(const RoleRun& run, OpId id, const std::string& what);
  std::string text(const Meaning& meaning) const;
  std::string text(PatternId pattern) const;
  std::string parts(const RoleRun& run, const std::vector<Held>& held) const;
  const std::string& unit_name(std::int32_t unit) const {
    return unit_names_[static_cast<std::size_t>(unit)];
  }

  // contents.cpp: what arguments hold
  bool holds(RoleRun& run, OpId id, std::size_t arg, std::vector<Held>& out);
  bool holds(RoleRun& run, const Touch& touch, std::vector<Held>& out);
  bool content(RoleRun& run, const Touch& touch, Content& out);
  bool receive(RoleRun& run, const Touch& touch);
  std::optional<Content> unite(const std::vector<Held>& held) const;
  void put(RoleRun& run, OpId id, std::size_t arg, const std::vector<Held>& held);
  void put(RoleRun& run, const Touch& touch, const std::vector<Held>& held);
  PatternId with_zeros_filled(PatternId pattern, std::int64_t bytes);
  /// The pattern of each rank's own piece of a buffer with the pattern `whole`, and the reverse; 0
  /// if there is none.
  PatternId piece_of_whole(PatternId whole, const Group& group);
  PatternId whole_of_piece(PatternId piece, const Group& group);
  template <class Change>
  PatternId changed(PatternId pattern, const Group& group, Change&& change);

  // layer_calls.cpp: functions of layers
  bool layer_call(RoleRun& run, OpId id);
  bool in_order(RoleRun& run, OpId id, const FunctionRole& function);
  bool overlaps(const Function& function) const;
  bool check_read(RoleRun& run, OpId id, const FunctionRole& function, std::size_t formal,
                  const Content& found);
  void note_weights(const Op& op, const FormalRole& formal, std::int32_t unit);
  bool check_weights(RoleRun& run, OpId id, const FormalRole& formal, const Content& found);
  bool add_terms(RoleRun& run, OpId id, const FunctionRole& function, const Summary& summary);
  Meaning expected(const FormalRole& formal, int layer, Microbatch mb) const;
  int& bound_unit(int layer, std::int32_t suffix);

  // update_calls.cpp: copies, sums, norms and optimizers, each a function of one kernel
  static bool is_update(const Function& function);
  bool update_call(RoleRun& run, OpId id);
  bool copy(RoleRun& run, OpId id, const Kernel& kernel);
  bool sum_loss(RoleRun& run, OpId id);
  bool square(RoleRun& run, OpId id, const Kernel& kernel);
  bool clip(RoleRun& run, OpId id);
  bool update(RoleRun& run, OpId id, const Kernel& kernel);
  bool whole_gradient(RoleRun& run, OpId id, const Content& gradient, std::int64_t elements,
                      std::int32_t version);

  // transfers.cpp: collectives, messages, host copies
  bool collective(RoleRun& run, OpId id);
  bool meet(RoleRun& run, OpId id, const Group& group, std::vector<Held>& held);
  bool join(RoleRun& run, OpId id, const std::map<int, std::vector<Held>>& by_coordinate,
            std::vector<Held>& sum);
  static std::optional<Along> along_after(OpKind kind, Along before, bool flat);
  bool move(RoleRun& run, OpId id, const Group& group, Held& held);
  bool exchange_name(RoleRun& run, OpId id, Meaning& meaning);
  bool send(RoleRun& run, OpId id);
  bool host_copy(RoleRun& run, OpId id);
  PatternId placed_data(const Op& op, DType dtype);

  static constexpr std::int32_t kOutput = 0, kInputGradient = 1;  // of names "y" and "dx"

  const Program& program_;
  Faults& faults_;
  const std::vector<int> axes_;
  Patterns patterns_;
  Summaries summaries_;
  std::vector<RoleRun> runs_;
  std::vector<std::string> names_, unit_names_;
  std::map<std::string, std::int32_t, std::less<>> name_ids_;
  std::map<std::string, std::int32_t> unit_ids_;
  std::vector<FunctionRole> functions_;
  std::vector<std::int32_t> labels_;                              // numbers of Program::names
  std::map<std::pair<std::int32_t, Phase>, int> segment_counts_;  // by kind of layer, phase
  std::map<std::pair<int, std::int32_t>, int> bound_units_;       // unit by layer and suffix
  std::vector<PatternId> whole_units_;  // by unit: of its parameters, as a function reads them
  // These three are of the call at hand, by formal.
  std::vector<Touch> touches_;
  std::vector<Content> contents_;
  std::vector<PatternId> found_;
  bool failed_ = false;

  /// What a collective over a group makes of a pattern. The two flags say whether the values are a
  /// unit's, and whether they are zeros.
  std::map<std::tuple<PatternId, OpKind, std::int32_t, DType, bool, bool>, PatternId> moved_;

  struct Use {  // a unit that a layer's forward pass reads
    std::int32_t unit;
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
    std::map<std::int32_t, std::vector<Held>> by_role;
    std::map<int, std::vector<Held>> by_coordinate;  // along "pp"
  };
  std::map<std::tuple<std::int32_t, Rank, int>, Meeting> meetings_;   // group, first member, which
  using Channel = std::tuple<std::int32_t, std::int32_t, Direction>;  // from role, to role
  std::map<Channel, std::vector<std::vector<Held>>> messages_;
  struct Receipt {  // a receive, and which message of the channel it gets
    Channel channel;
    std::size_t index;
    Touch into;
  };
  std::vector<Receipt> receipts_;
};

}  // namespace lockstep::verification
