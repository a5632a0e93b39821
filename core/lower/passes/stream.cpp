// stream: finds what each op must wait for on other streams, from what it reads and writes.
#include <algorithm>

#include "core/base/index_vector.hpp"
#include "core/lower/draft/dependencies.hpp"
#include "core/lower/passes/passes.hpp"

namespace lockstep {
namespace {

/// The op that touched a byte range of a root buffer last.
struct Touch {
  std::int64_t begin = 0, end = 0;
  OpId op;
  bool write = false;
};

void order(const Program& program, Role& role) {
  Dependencies dependencies(role);
  IndexVector<BufferId, std::vector<Touch>> touched(role.buffers.size());
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    const OpId id{static_cast<std::int32_t>(i)};
    const Op& op = role.ops[i];
    dependencies.begin(id);
    const auto args = role.args_of(op);
    for (std::size_t a = 0; a < args.size(); ++a) {
      const Access how = access(program, op, a);
      const bool writes = how != Access::Read;
      BufferId root = args[a];
      std::int64_t begin = 0;
      for (; role.buffer(root).parent.valid(); root = role.buffer(root).parent) {
        begin += role.buffer(root).offset;
      }
      const std::int64_t end = begin + span_of(program, role.buffer(args[a])).v;
      std::vector<Touch>& history = touched[root];
      // A range without bytes still orders its users, because synthetic programs move no data.
      const auto overlaps = [&](const Touch& t) {
        return begin == end ? t.begin == t.end : t.begin < end && begin < t.end;
      };
      for (const Touch& t : history) {
        if (overlaps(t) && (writes || t.write)) dependencies.add(t.op);
      }
      if (writes) {
        std::erase_if(history, [&](const Touch& t) { return t.begin >= begin && t.end <= end; });
      } else {
        // Reads of one stream are in order, so the newest stands for those whose ranges it covers.
        std::erase_if(history, [&](const Touch& t) {
          return !t.write && t.begin >= begin && t.end <= end && t.op != id &&
                 role.op(t.op).stream == op.stream;
        });
      }
      history.push_back({begin, end, id, writes});
    }
    dependencies.end();
  }
  dependencies.store();
}

}  // namespace

void stream(const Program& program, IndexVector<int, DraftRole>& roles) {
  for (DraftRole& out : roles) order(program, out.role);
}

}  // namespace lockstep
