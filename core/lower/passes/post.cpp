// post: says when pipeline ranks post their messages, and what waits for them beside what buffers
// imply:
//   async      nothing waits; a message goes out when both ends have come to it
//   preposted  a receive is posted when the rank comes to the step before the one that needs it
//   fused      what a step sends and what the next one receives are posted together between the
//              two, and the next one waits for all of them (Megatron's send_forward_recv_backward)
//   blocking   the same, but one by one: sends, then receives
// In the last two a rank waits in a message until its peer comes to it. If ranks did so in a
// circle, the step would hang; that is an error before any run.
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "core/base/index_vector.hpp"
#include "core/lower/draft/dependencies.hpp"
#include "core/lower/passes/passes.hpp"

namespace lockstep {
namespace {

void add_waits(Role& role, P2pPosting posting) {
  Dependencies dependencies(role);
  OpId computed;              // the newest op of the compute stream so far
  std::vector<OpId> between;  // the messages since then
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    const OpId id{static_cast<std::int32_t>(i)};
    const Op& op = role.ops[i];
    dependencies.begin(id);
    if (is_p2p(op.kind)) {
      if (op.kind == OpKind::Recv && computed.valid()) dependencies.add(computed);
      if (posting == P2pPosting::Blocking && !between.empty()) dependencies.add(between.back());
      between.push_back(id);
    } else if (op.kind == OpKind::Call) {
      if (posting != P2pPosting::Preposted) {
        for (const OpId message : between) dependencies.add(message);
      }
      between.clear();
      computed = id;
    }
    dependencies.end();
  }
  dependencies.store();
}

/// Runs all ranks until they end or wait for each other. A message ends when both ranks are in it.
class Rendezvous {
 public:
  Rendezvous(const Program& program, const IndexVector<int, DraftRole>& roles, P2pPosting posting)
      : program_(program), roles_(roles) {
    for (const DraftRole& out : roles) {
      ranks_.emplace_back();
      const auto r = static_cast<int>(ranks_.size()) - 1;
      std::map<std::pair<int, Stream>, int> count;  // by peer and stream
      bool open = false;
      for (std::size_t i = 0; i < out.role.ops.size(); ++i) {
        const Op& op = out.role.ops[i];
        if (op.kind == OpKind::Call) open = false;
        if (!is_p2p(op.kind)) continue;
        if (!open || posting == P2pPosting::Blocking) ranks_.back().waits.emplace_back();
        open = true;
        const bool sends = op.kind == OpKind::Send;
        const bool forward = op.stream == Stream::SendForward || op.stream == Stream::RecvForward;
        const int nth = count[{op.peer(), Stream{op.stream}}]++;
        const Message message =
            sends ? Message(r, op.peer(), forward, nth) : Message(op.peer(), r, forward, nth);
        ranks_.back().waits.back().push_back({message, {static_cast<std::int32_t>(i)}});
      }
    }
  }

  /// Describes ranks that wait in a circle; nullopt if all ranks come to their end.
  std::optional<std::string> circle() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Rank& rank : ranks_) {
        while (rank.at < rank.waits.size()) {
          if (!rank.posted) {
            for (const End& end : rank.waits[rank.at]) ++ends_[end.message];
            rank.posted = moved = true;
          }
          if (missing(rank) != nullptr) break;
          ++rank.at;
          rank.posted = false;
          moved = true;
        }
      }
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].at < ranks_[r].waits.size()) return describe_from(static_cast<int>(r));
    }
    return std::nullopt;
  }

 private:
  using Message = std::tuple<int, int, bool, int>;  // from, to, forward, number among these
  struct End {
    Message message;
    OpId op;
  };
  struct Rank {
    std::vector<std::vector<End>> waits;  // the rank is in all messages of an entry together
    std::size_t at = 0;
    bool posted = false;  // whether those of waits[at] are
  };

  /// The first message in which the rank is and its peer is not.
  const End* missing(const Rank& rank) const {
    for (const End& end : rank.waits[rank.at]) {
      if (ends_.at(end.message) < 2) return &end;
    }
    return nullptr;
  }

  std::string describe_from(int r) const {
    std::vector<int> path;
    while (std::find(path.begin(), path.end(), r) == path.end()) {
      path.push_back(r);
      const Message& message = missing(ranks_[r])->message;
      r = std::get<0>(message) == r ? std::get<1>(message) : std::get<0>(message);
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), r));
    std::string text;
    for (const int in_circle : path) {
      text += (text.empty() ? "rank " : ", which waits for rank ") + std::to_string(in_circle) +
              " in '" + describe(program_, roles_[in_circle].role, missing(ranks_[in_circle])->op) +
              "'";
    }
    return text + ", which waits for the first";
  }

  const Program& program_;
  const IndexVector<int, DraftRole>& roles_;
  IndexVector<int, Rank> ranks_;  // by coordinate along "pp"
  std::map<Message, int> ends_;
};

}  // namespace

Result<void> post(const Program& program, IndexVector<int, DraftRole>& roles, P2pPosting posting) {
  if (posting == P2pPosting::Async) return {};
  for (DraftRole& out : roles) add_waits(out.role, posting);
  if (posting == P2pPosting::Preposted) return {};
  const std::optional<std::string> circle = Rendezvous(program, roles, posting).circle();
  if (!circle) return {};
  const bool blocking = posting == P2pPosting::Blocking;
  return Error{ErrorKind::InvalidSpec,
               std::string("pipeline_parallel_p2p = \"") + (blocking ? "blocking" : "fused") +
                   "\" deadlocks with this schedule: " + *circle +
                   (blocking ? "; \"fused\" posts what two neighbours send each other together"
                             : "; \"preposted\" and \"async\" do not wait where they send"),
               std::nullopt};
}

}  // namespace lockstep
