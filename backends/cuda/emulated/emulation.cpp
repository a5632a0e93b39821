#include "backends/cuda/emulated/emulation.hpp"

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::cuda::emulation {
namespace {

constexpr std::size_t kStackBytes = std::size_t{256} << 10;
constexpr std::size_t kWarp = 32;
constexpr std::size_t kSlotBytes = 64;
constexpr std::size_t kGuardBytes = 256;  // behind dynamic shared memory

// CUDA Programming Guide, "Technical Specifications per Compute Capability".
constexpr unsigned kMaxBlocksX = 0x7fffffff, kMaxBlocksYZ = 65535;
constexpr unsigned kMaxThreads = 1024, kMaxThreadsZ = 64;
constexpr std::size_t kMaxSharedBytes = std::size_t{163} << 10;  // that of 8.0; 9.0 has 227 KiB

#if defined(__x86_64__)
// Switches fibers: saves the registers that a function has to keep by the System V ABI, swaps the
// stacks, and returns on the other. swapcontext() would ask the kernel for the signal mask on every
// switch, and a grid switches millions of times.
asm(R"(
.text
.type lockstep_switch_fiber, @function
lockstep_switch_fiber:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size lockstep_switch_fiber, .-lockstep_switch_fiber
)");
extern "C" void lockstep_switch_fiber(void** save, void* load);

struct Context {
  void* stack_pointer = nullptr;
  void prepare(std::byte* stack, void (*entry)()) {
    // The stack looks as if `entry` had been called: after the pops and the return, its address is
    // 8 modulo 16.
    auto* top = reinterpret_cast<std::uint64_t*>(stack + kStackBytes - 64);
    *--top = 0;
    *--top = reinterpret_cast<std::uint64_t>(entry);
    for (int i = 0; i < 6; ++i) *--top = 0;
    stack_pointer = top;
  }
  static void change(Context& from, Context& to) {
    lockstep_switch_fiber(&from.stack_pointer, to.stack_pointer);
  }
};
#else
struct Context {
  ucontext_t context{};
  void prepare(std::byte* stack, void (*entry)()) {
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = kStackBytes;
    makecontext(&context, entry, 0);
  }
  static void change(Context& from, Context& to) { swapcontext(&from.context, &to.context); }
};
#endif

struct Barrier {
  std::size_t size = 0, arrived = 0;
  long generation = 0;
  SourceLine at;             // where the first thread arrived
  bool is_exchange = false;  // an exchange needs all lanes of a warp
  void open_if_full() {
    if (arrived < size || size == 0) return;
    arrived = 0;
    ++generation;
  }
};

/// The copies for which a thread has not waited yet.
struct Copies {
  struct Copy {
    void* to;
    const void* from;
    std::size_t bytes;
  };
  std::vector<std::vector<Copy>> groups;  // those that are committed
  std::vector<Copy> open;
};

struct Fiber {
  Context context;
  std::unique_ptr<std::byte[]> stack;
  Place place;
  Copies copies;
  Barrier* waits_at = nullptr;
  long generation = 0;
  bool done = false;
  std::size_t index = 0;
  bool can_run() const {
    return !done && (waits_at == nullptr || waits_at->generation != generation);
  }
};

struct Warp {
  Barrier barrier;
  std::array<std::byte, kWarp * kSlotBytes> slots{};
};

/// The multiprocessor. It runs one block at a time.
struct Machine {
  std::mutex mutex;
  Context scheduler;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Warp> warps;
  Barrier block;
  std::vector<std::byte> shared;
  Fiber* running = nullptr;
  const std::function<void()>* body = nullptr;
  std::string fault;  // what a thread has done wrong; empty if nothing
  Order order = Order::Ascending;
  bool running_blocks = true;
};

Machine& machine() {
  static Machine one;
  return one;
}

std::string text(SourceLine at) {
  return std::string(at.file.substr(at.file.rfind('/') + 1)) + ":" + std::to_string(at.line);
}

/// Notes a fault of the running thread. The thread does not go on, and its block is abandoned.
void fault(const std::string& what) {
  Machine& m = machine();
  const Place& own = m.running->place;
  m.fault = what + ": thread (" + std::to_string(own.thread.x) + ", " +
            std::to_string(own.thread.y) + ", " + std::to_string(own.thread.z) + ") of block (" +
            std::to_string(own.block.x) + ", " + std::to_string(own.block.y) + ", " +
            std::to_string(own.block.z) + ")";
  Context::change(m.running->context, m.scheduler);
}

void run_body() {
  Machine& m = machine();
  for (;;) {  // a fiber that has finished begins anew for the next block
    (*m.body)();
    Fiber& own = *m.running;
    own.done = true;
    --m.block.size;
    m.block.open_if_full();
    Barrier& warp = m.warps[own.index / kWarp].barrier;
    if (warp.arrived > 0 && warp.is_exchange) fault("ends while its warp exchanges values");
    --warp.size;
    warp.open_if_full();
    Context::change(own.context, m.scheduler);
  }
}

void wait_at(Barrier& barrier, SourceLine at, bool is_exchange = false) {
  Machine& m = machine();
  Fiber& own = *m.running;
  if (is_exchange && barrier.size < kWarp) {
    fault(text(at) + ", exchanges values in a warp of " + std::to_string(barrier.size));
  }
  if (barrier.arrived == 0) {
    barrier.at = at;
    barrier.is_exchange = is_exchange;
  } else if (barrier.at != at) {
    fault(text(at) + ", waits where others wait at " + text(barrier.at));
  }
  own.generation = barrier.generation;
  ++barrier.arrived;
  barrier.open_if_full();
  if (barrier.generation != own.generation) return;
  own.waits_at = &barrier;
  Context::change(own.context, m.scheduler);
  own.waits_at = nullptr;
}

/// Runs a block until all its threads have ended, or one has a fault.
void run_block(Machine& m, std::size_t threads, std::size_t shared_bytes) {
  m.block = {threads, 0, 0, {}, false};
  m.warps.assign((threads + kWarp - 1) / kWarp, {});
  for (std::size_t i = 0; i < threads; ++i) {
    Fiber& fiber = *m.fibers[i];
    fiber.done = false;
    fiber.waits_at = nullptr;
    fiber.copies = {};
    ++m.warps[i / kWarp].barrier.size;
  }
  std::fill(m.shared.begin(), m.shared.end(), std::byte{0xff});
  for (std::size_t left = threads; left > 0;) {
    bool moved = false;
    for (std::size_t i = 0; i < threads; ++i) {
      Fiber& fiber = *m.fibers[m.order == Order::Ascending ? i : threads - 1 - i];
      if (!fiber.can_run()) continue;
      moved = true;
      m.running = &fiber;
      Context::change(m.scheduler, fiber.context);
      if (!m.fault.empty()) return;
      if (fiber.done) --left;
    }
    if (moved) continue;
    m.fault = "the threads of a block wait at different barriers";
    return;
  }
  for (std::size_t i = shared_bytes; i < m.shared.size(); ++i) {
    if (m.shared[i] != std::byte{0xff}) m.fault = "a block writes behind its shared memory";
  }
}

/// Why a GPU would refuse this launch; empty if it would not.
std::string refusal(Dim3 grid, Dim3 block, std::size_t shared_bytes) {
  const auto size = [](Dim3 d) {
    return std::to_string(d.x) + " x " + std::to_string(d.y) + " x " + std::to_string(d.z);
  };
  if (grid.x > kMaxBlocksX || grid.y > kMaxBlocksYZ || grid.z > kMaxBlocksYZ) {
    return "a grid of " + size(grid) + " blocks";
  }
  if (std::size_t{block.x} * block.y * block.z > kMaxThreads || block.z > kMaxThreadsZ) {
    return "a block of " + size(block) + " threads";
  }
  if (shared_bytes > kMaxSharedBytes) {
    return std::to_string(shared_bytes) + " B of shared memory in a block";
  }
  return {};
}

}  // namespace

const Place& place() { return machine().running->place; }
void sync_block(SourceLine at) { wait_at(machine().block, at); }
void sync_warp(SourceLine at) {
  wait_at(machine().warps[machine().running->index / kWarp].barrier, at);
}
std::byte* dynamic_shared() { return machine().shared.data(); }
int lane() { return static_cast<int>(machine().running->index % kWarp); }
void set_order(Order order) { machine().order = order; }
void set_running(bool running) { machine().running_blocks = running; }
void clear(void* memory, std::size_t bytes) {
  if (machine().running_blocks) std::memset(memory, 0, bytes);
}

const std::byte* begin_exchange(const void* own, std::size_t bytes, SourceLine at) {
  Machine& m = machine();
  Warp& warp = m.warps[m.running->index / kWarp];
  std::memcpy(warp.slots.data() + m.running->index % kWarp * kSlotBytes, own, bytes);
  wait_at(warp.barrier, at, true);
  return warp.slots.data();
}
void end_exchange() { sync_warp(); }

void misaligned(const void* address, std::size_t bytes) {
  fault("accesses " + std::to_string(bytes) + " B at an address that is " +
        std::to_string(reinterpret_cast<std::uintptr_t>(address) % bytes) + " beyond a multiple");
}

void copy_later(void* to, const void* from, std::size_t bytes) {
  Machine& m = machine();
  require_aligned(to, bytes);
  require_aligned(from, bytes);
  const auto* const first = static_cast<std::byte*>(to);
  if (first < m.shared.data() || first + bytes > m.shared.data() + m.shared.size()) {
    fault("copies asynchronously to what is not shared memory");
  }
  std::memset(to, 0xff, bytes);
  m.running->copies.open.push_back({to, from, bytes});
}
void commit_copies() {
  Copies& copies = machine().running->copies;
  copies.groups.push_back(std::move(copies.open));
  copies.open.clear();
}
void wait_for_copies(std::size_t pending) {
  auto& groups = machine().running->copies.groups;
  while (groups.size() > pending) {
    for (const auto& [to, from, bytes] : groups.front()) {
      from != nullptr ? std::memcpy(to, from, bytes) : std::memset(to, 0, bytes);
    }
    groups.erase(groups.begin());
  }
}

Result<void> run_grid(Dim3 grid, Dim3 block, std::size_t shared_bytes,
                      const std::function<void()>& body) {
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  const auto error = [](const std::string& what) {
    return Error{ErrorKind::Device, "kernel launch: " + what, std::nullopt};
  };
  if (const std::string why = refusal(grid, block, shared_bytes); !why.empty()) return error(why);
  if (!m.running_blocks) return {};
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  m.body = &body;
  m.shared.resize(shared_bytes + kGuardBytes);
  while (m.fibers.size() < threads) {
    auto& fiber = m.fibers.emplace_back(std::make_unique<Fiber>());
    fiber->index = m.fibers.size() - 1;
    fiber->stack.reset(new std::byte[kStackBytes]);
    fiber->context.prepare(fiber->stack.get(), run_body);
  }
  for (std::size_t i = 0; i < threads; ++i) {
    const auto at = static_cast<unsigned>(i);
    Place& place = m.fibers[i]->place;
    place.block_dim = block;
    place.grid_dim = grid;
    place.thread = {at % block.x, at / block.x % block.y, at / block.x / block.y};
  }
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        for (std::size_t i = 0; i < threads; ++i) m.fibers[i]->place.block = {x, y, z};
        run_block(m, threads, shared_bytes);
        if (m.fault.empty()) continue;
        for (auto& fiber : m.fibers) fiber->context.prepare(fiber->stack.get(), run_body);
        return error(std::exchange(m.fault, {}));
      }
    }
  }
  return {};
}

}  // namespace lockstep::cuda::emulation
