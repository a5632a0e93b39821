#include "backends/cuda/emulated/emulation.hpp"

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

namespace lockstep::cuda::emulation {
namespace {

constexpr std::size_t kStackBytes = std::size_t{256} << 10;
constexpr std::size_t kWarp = 32;
constexpr std::size_t kSlotBytes = 64;

#if defined(__x86_64__)
// swapcontext() asks the kernel for the signal mask on every switch; a grid switches millions of
// times. Saves what the System V ABI has a function keep, swaps stacks and returns on the other.
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
    // As if `entry` had been called: after the pops and the return, the stack is 8 off 16.
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
  void open_if_full() {
    if (arrived < size || size == 0) return;
    arrived = 0;
    ++generation;
  }
};

struct Fiber {
  Context context;
  std::unique_ptr<std::byte[]> stack;
  Place place;
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

/// The multiprocessor: one block at a time.
struct Machine {
  std::mutex mutex;
  Context scheduler;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Warp> warps;
  Barrier block;
  std::vector<std::byte> shared;
  Fiber* running = nullptr;
  const std::function<void()>* body = nullptr;
  Order order = Order::Ascending;
};

Machine& machine() {
  static Machine one;
  return one;
}

void run_body() {
  Machine& m = machine();
  for (;;) {  // a finished fiber is begun anew for the next block
    (*m.body)();
    Fiber& own = *m.running;
    own.done = true;
    --m.block.size;
    m.block.open_if_full();
    Barrier& warp = m.warps[own.index / kWarp].barrier;
    --warp.size;
    warp.open_if_full();
    Context::change(own.context, m.scheduler);
  }
}

void wait_at(Barrier& barrier) {
  Machine& m = machine();
  Fiber& own = *m.running;
  own.generation = barrier.generation;
  ++barrier.arrived;
  barrier.open_if_full();
  if (barrier.generation != own.generation) return;
  own.waits_at = &barrier;
  Context::change(own.context, m.scheduler);
  own.waits_at = nullptr;
}

void run_block(Machine& m, std::size_t threads) {
  m.block = {threads, 0, 0};
  m.warps.assign((threads + kWarp - 1) / kWarp, {});
  for (std::size_t i = 0; i < threads; ++i) {
    Fiber& fiber = *m.fibers[i];
    fiber.done = false;
    fiber.waits_at = nullptr;
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
      if (fiber.done) --left;
    }
    if (moved) continue;
    std::fprintf(stderr, "emulation: the threads of a block wait at different barriers\n");
    std::abort();
  }
}

}  // namespace

const Place& place() { return machine().running->place; }
void sync_block() { wait_at(machine().block); }
void sync_warp() { wait_at(machine().warps[machine().running->index / kWarp].barrier); }
std::byte* dynamic_shared() { return machine().shared.data(); }
int lane() { return static_cast<int>(machine().running->index % kWarp); }
void set_order(Order order) { machine().order = order; }

const std::byte* begin_exchange(const void* own, std::size_t bytes) {
  Machine& m = machine();
  Warp& warp = m.warps[m.running->index / kWarp];
  std::memcpy(warp.slots.data() + m.running->index % kWarp * kSlotBytes, own, bytes);
  wait_at(warp.barrier);
  return warp.slots.data();
}
void end_exchange() { sync_warp(); }

void run_grid(Dim3 grid, Dim3 block, std::size_t shared_bytes, const std::function<void()>& body) {
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  m.body = &body;
  m.shared.resize(shared_bytes);
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
        run_block(m, threads);
      }
    }
  }
}

}  // namespace lockstep::cuda::emulation
