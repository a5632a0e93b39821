#include "core/lower/draft/exchange.hpp"

#include "core/base/index_vector.hpp"

namespace lockstep {

IndexVector<OpId, OpId> last_receives(const Role& role, P2pPosting posting) {
  std::vector<OpId> ends(role.ops.size());
  if (posting != P2pPosting::Fused) return ends;
  OpId end;
  for (std::size_t i = role.ops.size(); i-- > 0;) {
    const Op& op = role.ops[i];
    if (op.kind == OpKind::Call && op.stage >= 0) end = {};  // a pass of a stage ends the exchange
    if (!is_p2p(op.kind)) continue;
    if (!end.valid() && op.kind == OpKind::Recv) end = {static_cast<std::int32_t>(i)};
    ends[i] = end;
  }
  return ends;
}

}  // namespace lockstep
