// The memory rules of verify against a slow oracle that knows nothing of vector clocks:
// reachability between all pairs of ops, and every byte of every pair of accesses.
#include <random>

#include "core/ir/verify/verify.hpp"
#include "tests/catch.hpp"
#include "tests/core/ir/sample.hpp"

using namespace lockstep;

namespace {

int below(std::mt19937& random, int n) {
  return static_cast<int>(random() % static_cast<unsigned>(n));
}

/// One rank, a few buffers with views, random streams and dependencies.
Program random_program(unsigned seed) {
  std::mt19937 random(seed);
  Program program;
  program.groups.push_back({"self", {}, {}});
  program.roles.resize(1);
  program.role_of_rank = {{0}};
  Role& role = program.roles[0];
  role.ranks = {0};
  role.arena = Bytes{16};
  const int ops = 2 + below(random, 7);
  const int roots = 1 + below(random, 3);
  for (int i = 0; i < roots; ++i) {
    Buffer b;
    b.dtype = DType::U8;
    b.bytes = Bytes{below(random, 5)};
    b.offset = 4 * below(random, 3) + below(random, 2);
    if (below(random, 5) != 0) {
      const OpId first{below(random, ops)};
      b.set_lifetime(first, {first.v + below(random, ops - first.v)});
    }
    role.buffers.push_back(b);
  }
  for (int i = 0; i < 3; ++i) {
    Buffer view;
    view.dtype = DType::U8;
    view.set_view({below(random, static_cast<int>(role.buffers.size()))});
    const auto limit = static_cast<int>(role.buffer(view.parent()).bytes.v);
    view.offset = below(random, limit + 1);
    view.bytes = Bytes{below(random, limit - static_cast<int>(view.offset) + 1)};
    role.buffers.push_back(view);
  }
  for (int i = 0; i < ops; ++i) {
    Op op;
    const IndexArray<int, OpKind, 3> kinds = {OpKind::HostToDevice, OpKind::DeviceToHost,
                                              OpKind::AllReduce};
    op.kind = kinds[below(random, 3)];
    op.target = 0;
    op.stream = static_cast<Stream>(below(random, 3));
    op.after_begin = static_cast<std::uint32_t>(role.after.size());
    for (int k = 0; k < i; ++k) {
      if (below(random, 3) != 0) continue;
      role.after.push_back({k});
      ++op.after_count;
    }
    op.args_begin = static_cast<std::uint32_t>(role.args.size());
    op.args_count = 1;
    // Mostly buffers that live now, else nearly every program would be at fault.
    BufferId arg;
    for (int attempt = 0; attempt < 8; ++attempt) {
      arg = {below(random, static_cast<int>(role.buffers.size()))};
      const Buffer& root = role.buffer(role.root(arg));
      if (root.persistent() || (root.first().v <= i && i <= root.last().v)) break;
    }
    role.args.push_back(arg);
    role.ops.push_back(op);
  }
  return program;
}

class Oracle {
 public:
  explicit Oracle(const Program& program) : role_(program.roles[0]) {
    const std::size_t n = role_.ops.size();
    before_.assign(n, std::vector<bool>(n, false));
    for (std::size_t j = 0; j < n; ++j) {
      const auto add = [&](std::size_t i) {
        before_[i][j] = true;
        for (std::size_t h = 0; h < i; ++h) before_[h][j] = before_[h][j] || before_[h][i];
      };
      for (const OpId id : role_.after_of(role_.ops[j])) add(to_size(id));
      for (std::size_t i = 0; i < j; ++i) {
        if (role_.ops[i].stream == role_.ops[j].stream) add(i);
      }
      const BufferId arg = role_.args_of(role_.ops[j])[0];
      const BufferId root = role_.root(arg);
      const std::int64_t begin = role_.arena_offset(arg) - role_.buffer(root).offset;
      accesses_.push_back({root, begin, begin + role_.buffer(arg).bytes.v,
                           role_.ops[j].kind != OpKind::HostToDevice,
                           role_.ops[j].kind != OpKind::DeviceToHost});
    }
  }

  bool accepts() const {
    for (std::size_t j = 0; j < accesses_.size(); ++j) {
      if (!alive(j) || !reads_written_bytes(j)) return false;
      for (std::size_t i = 0; i < j; ++i) {
        if (!before_[i][j] && conflict(accesses_[i], accesses_[j])) return false;
      }
    }
    for (std::size_t a = 0; a < role_.buffers.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (!may_share(a, b)) return false;
      }
    }
    return true;
  }

 private:
  struct Access {
    BufferId root;
    std::int64_t begin, end;
    bool reads, writes;
  };

  bool alive(std::size_t j) const {
    const Buffer& root = role_.buffer(accesses_[j].root);
    const auto id = static_cast<std::int32_t>(j);
    return root.persistent() || (root.first().v <= id && id <= root.last().v);
  }
  bool reads_written_bytes(std::size_t j) const {
    const Access& access = accesses_[j];
    if (!access.reads || role_.buffer(access.root).persistent()) return true;
    for (std::int64_t byte = access.begin; byte < access.end; ++byte) {
      bool written = false;
      for (std::size_t i = 0; i < j; ++i) {
        const Access& other = accesses_[i];
        written = written || (other.writes && other.root == access.root && other.begin <= byte &&
                              byte < other.end);
      }
      if (!written) return false;
    }
    return true;
  }
  static bool conflict(const Access& a, const Access& b) {
    return a.root == b.root && (a.writes || b.writes) &&
           std::max(a.begin, b.begin) < std::min(a.end, b.end);
  }
  bool all_before(std::size_t a, std::size_t b) const {
    for (std::size_t i = 0; i < accesses_.size(); ++i) {
      for (std::size_t j = 0; j < accesses_.size(); ++j) {
        if (accesses_[i].root.v == static_cast<int>(a) &&
            accesses_[j].root.v == static_cast<int>(b) && !before_[i][j]) {
          return false;
        }
      }
    }
    return true;
  }
  bool may_share(std::size_t a, std::size_t b) const {
    const Buffer& x = role_.buffers[a];
    const Buffer& y = role_.buffers[b];
    if (x.is_view() || y.is_view()) return true;
    if (std::max(x.offset, y.offset) >= std::min(x.offset + x.bytes.v, y.offset + y.bytes.v)) {
      return true;
    }
    if (x.persistent() || y.persistent()) return false;
    if (x.last() < y.first()) return all_before(a, b);
    if (y.last() < x.first()) return all_before(b, a);
    return false;
  }

  const Role& role_;
  std::vector<std::vector<bool>> before_;
  std::vector<Access> accesses_;
};

}  // namespace

TEST_CASE("verify accepts exactly the memory orders that a pairwise check accepts", "[core][ir]") {
  int accepted = 0;
  constexpr unsigned kPrograms = 20000;
  for (unsigned seed = 0; seed < kPrograms; ++seed) {
    const Program program = random_program(seed);
    const bool expected = Oracle(program).accepts();
    const std::string found = sample::faults(program);
    if (found.empty() != expected) {
      INFO("seed " << seed << "\n" << print(program) << found);
      REQUIRE(found.empty() == expected);
    }
    accepted += expected ? 1 : 0;
  }
  // The sample is worth something only if both answers are common.
  CHECK(accepted > static_cast<int>(kPrograms) / 20);
  CHECK(accepted < static_cast<int>(kPrograms) * 19 / 20);
}

TEST_CASE("every dependency and every lifetime of the hand-written step is needed", "[core][ir]") {
  const Program good = sample::parse(sample::Sample{}.text());
  for (std::size_t r = 0; r < good.roles.size(); ++r) {
    const Role& role = good.roles[r];
    for (std::size_t i = 0; i < role.ops.size(); ++i) {
      for (std::uint8_t k = 0; k < role.ops[i].after_count; ++k) {
        Program broken = good;
        Op& op = broken.roles[r].ops[i];
        std::swap(broken.roles[r].after[op.after_begin + k],
                  broken.roles[r].after[op.after_begin + op.after_count - 1u]);
        --op.after_count;
        INFO("rank " << r << " op " << i << " dependency " << int{k});
        CHECK(sample::faults(broken) != "");
      }
    }
    for (std::size_t b = 0; b < role.buffers.size(); ++b) {
      const Buffer& buffer = role.buffers[b];
      if (buffer.is_view() || buffer.persistent() || buffer.first() == buffer.last()) continue;
      INFO("rank " << r << " buffer " << b);
      Program late = good;
      late.roles[r].buffers[b].set_lifetime({buffer.first().v + 1}, buffer.last());
      CHECK(sample::faults(late) != "");
      Program early = good;
      early.roles[r].buffers[b].set_lifetime(buffer.first(), {buffer.last().v - 1});
      CHECK(sample::faults(early) != "");
    }
  }
}
