// FakeGpu: a Driver without a GPU. Calls are recorded; streams are queues whose work runs when
// somebody synchronizes, in a random order that events allow and no other, on the host's memory.
// What the events of a program leave open therefore differs from run to run. Work may wait for
// other GPUs (enqueue()), whose streams go on meanwhile.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cuda/driver.hpp"
#include "core/base/bfloat16.hpp"
#include "core/base/float16.hpp"

namespace lockstep::cuda::test {

/// The same as Driver::exchange_rows().
inline void move_counted_rows(const RowExchange& e) {
  const auto rows = [&](int from, int to) {
    std::int64_t sum = 0;
    for (std::int64_t p = 0; p < e.parts; ++p) {
      sum += e.goes[static_cast<std::size_t>(from)][to * e.parts + p];
    }
    return sum * e.row_bytes;
  };
  for (int to = 0; to < e.members; ++to) {
    const auto t = static_cast<std::size_t>(to);
    std::int64_t coming = 0;
    for (int from = 0; from < e.members; ++from) coming += rows(from, to);
    if (coming > e.room[t] * e.row_bytes) continue;
    std::byte* target = e.target[t];
    for (int from = 0; from < e.members; ++from) {
      const std::byte* source = e.source[static_cast<std::size_t>(from)];
      for (int before = 0; before < to; ++before) source += rows(from, before);
      std::memcpy(target, source, static_cast<std::size_t>(rows(from, to)));
      target += rows(from, to);
    }
  }
}

/// What a fake GPU can compute. By default kernels do nothing.
struct FakeKernels {
  std::function<bool(const Kernel&)> supports = [](const Kernel&) { return true; };
  std::function<std::int64_t(const Kernel&)> scratch_bytes = [](const Kernel&) { return 0; };
  std::function<Result<void>(const KernelCall&)> run = [](const KernelCall&) {
    return Result<void>();
  };
  /// Whether it fuses every pair that it is given. The result of the product alone is then lost if
  /// the next kernel need not keep it.
  bool fuses = false;
  std::function<void(const RowExchange&)> exchange_rows = move_counted_rows;
};

/// Adds values in type `Sum` and rounds the sums once.
template <class T, class Sum>
void add_values(const std::vector<const std::byte*>& from, const std::vector<std::byte*>& to,
                std::int64_t elements, bool largest) {
  for (std::int64_t i = 0; i < elements; ++i) {
    auto sum = static_cast<Sum>(reinterpret_cast<const T*>(from[0])[i]);
    for (std::size_t s = 1; s < from.size(); ++s) {
      const auto more = static_cast<Sum>(reinterpret_cast<const T*>(from[s])[i]);
      sum = largest ? std::max(sum, more) : sum + more;
    }
    for (std::byte* target : to) reinterpret_cast<T*>(target)[i] = static_cast<T>(sum);
  }
}
/// The same as Driver::add_in_order().
inline void add_in_rank_order(DType dtype, const std::vector<const std::byte*>& from,
                              const std::vector<std::byte*>& to, std::int64_t elements,
                              bool largest = false) {
  switch (dtype) {
    case DType::F64:
      return add_values<double, double>(from, to, elements, largest);
    case DType::BF16:
      return add_values<bfloat16, float>(from, to, elements, largest);
    case DType::F16:
      return add_values<float16, float>(from, to, elements, largest);
    case DType::I32:
      return add_values<std::int32_t, std::int32_t>(from, to, elements, largest);
    default:
      return add_values<float, float>(from, to, elements, largest);
  }
}

class FakeGpu : public Driver {
 public:
  explicit FakeGpu(unsigned seed = 1, FakeKernels kernels = {})
      : random_(seed), kernels_(std::move(kernels)) {}

  std::int64_t capacity = std::numeric_limits<std::int64_t>::max();
  std::string failing;           // the call of this name returns an error …
  int failing_after = 0;         // … after so many that did not
  std::vector<std::string> log;  // "record", "wait", "launch gelu_forward", …
  std::set<const void*> alive;   // streams, events and memory not released

  const GpuInfo& info() const override { return info_; }

  Result<std::byte*> allocate(Memory where, std::int64_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (auto fails = call("allocate"); !fails) return fails.error();
    if (capture_ != nullptr) return error("an allocation in a capture");
    if (where == Memory::Device && bytes > capacity) {
      return Error{ErrorKind::OutOfMemory, "no " + std::to_string(bytes) + " B", std::nullopt};
    }
    auto* memory = static_cast<std::byte*>(
        ::operator new (static_cast<std::size_t>(bytes), std::align_val_t{256}));
    std::memset(memory, 0xff, static_cast<std::size_t>(bytes));
    alive.insert(memory);
    return memory;
  }
  void release(Memory, std::byte* memory) override {
    const std::lock_guard lock(mutex_);
    alive.erase(memory);
    ::operator delete (memory, std::align_val_t{256});
  }
  Result<StreamHandle> create_stream(Priority) override {
    const std::lock_guard lock(mutex_);
    if (auto fails = call("create_stream"); !fails) return fails.error();
    auto& stream = streams_.emplace_back(std::make_unique<FakeStream>());
    alive.insert(stream.get());
    return reinterpret_cast<StreamHandle>(stream.get());
  }
  void release(StreamHandle stream) override {
    const std::lock_guard lock(mutex_);
    alive.erase(of(stream));
  }
  Result<EventHandle> create_event(Timing) override {
    const std::lock_guard lock(mutex_);
    if (auto fails = call("create_event"); !fails) return fails.error();
    auto& event = events_.emplace_back(std::make_unique<Event>());
    alive.insert(event.get());
    return reinterpret_cast<EventHandle>(event.get());
  }
  void release(EventHandle event) override {
    const std::lock_guard lock(mutex_);
    alive.erase(of(event));
  }

  Result<void> copy(StreamHandle stream, std::byte* to, const std::byte* from,
                    std::int64_t bytes) override {
    return work(stream, "copy", [=] { std::memmove(to, from, static_cast<std::size_t>(bytes)); });
  }
  Result<void> fill(StreamHandle stream, std::byte* to, std::uint8_t value,
                    std::int64_t bytes) override {
    return work(stream, "fill", [=] { std::memset(to, value, static_cast<std::size_t>(bytes)); });
  }
  Result<void> run_on_host(StreamHandle stream, std::function<void()> host_work) override {
    return work(stream, "run_on_host", std::move(host_work));
  }
  Result<void> record(EventHandle event, StreamHandle stream) override {
    const std::lock_guard lock(mutex_);
    if (auto fails = call("record"); !fails) return fails;
    if (Graph* graph = of(stream)->captured) {
      std::vector<Node>& nodes = graph->nodes[of(stream)];
      nodes.push_back({});
      graph->recorded[of(event)] = {of(stream), nodes.size()};
      return {};
    }
    const std::int64_t version = ++of(event)->recorded;
    of(stream)->items.push_back({[this, e = of(event), version] {
                                   e->reached = version;
                                   e->time = clock_;
                                   return true;
                                 },
                                 nullptr, 0});
    return {};
  }
  /// Waits, as CUDA does, for what is recorded now, whatever is recorded later.
  Result<void> wait(StreamHandle stream, EventHandle event) override {
    const std::lock_guard lock(mutex_);
    if (auto fails = call("wait"); !fails) return fails;
    if (capture_ != nullptr && capture_->recorded.count(of(event)) > 0) {
      const auto [after, count] = capture_->recorded[of(event)];
      of(stream)->captured = capture_;
      capture_->nodes[of(stream)].push_back({[] { return true; }, after, count});
      return {};
    }
    if (of(stream)->captured != nullptr) {
      return error("a captured stream waits for what was not captured");
    }
    of(stream)->items.push_back({[] { return true; }, of(event), of(event)->recorded});
    return {};
  }
  Result<void> begin_capture(StreamHandle origin) override {
    const std::lock_guard lock(mutex_);
    if (auto fails = call("begin_capture"); !fails) return fails;
    if (capture_ != nullptr) return error("a capture in a capture");
    capture_ = graphs_.emplace_back(std::make_unique<Graph>()).get();
    of(origin)->captured = capture_;
    return {};
  }
  Result<GraphHandle> end_capture(StreamHandle origin) override {
    const std::lock_guard lock(mutex_);
    Graph* const graph = std::exchange(capture_, nullptr);
    if (graph == nullptr || of(origin)->captured != graph) return error("no such capture");
    for (const auto& stream : streams_) stream->captured = nullptr;
    if (auto fails = call("end_capture"); !fails) return fails.error();
    for (const auto& [stream, nodes] : graph->nodes) {
      bool joined = stream == of(origin);
      for (const Node& node : graph->nodes[of(origin)]) {
        joined = joined || (node.after == stream && node.count == nodes.size());
      }
      if (!joined) return error("a captured stream was not joined");
    }
    alive.insert(graph);
    return reinterpret_cast<GraphHandle>(graph);
  }
  Result<void> launch(StreamHandle stream, GraphHandle graph) override {
    const auto done = std::make_shared<Progress>();
    return enqueue(stream, "launch graph", [this, g = reinterpret_cast<const Graph*>(graph), done] {
      return run_graph(*g, *done);
    });
  }
  void release(GraphHandle graph) override {
    const std::lock_guard lock(mutex_);
    alive.erase(reinterpret_cast<Graph*>(graph));
  }
  Result<bool> idle(StreamHandle stream) override {
    const std::lock_guard lock(mutex_);
    if (auto fails = call("idle"); !fails) return fails.error();
    if (of(stream)->captured != nullptr) return error("a captured stream is asked");
    for (int i = 0; i < 50 && run_one(); ++i) {
    }
    return of(stream)->items.empty();
  }
  Result<void> synchronize(StreamHandle stream) override {
    std::unique_lock lock(mutex_);
    if (auto fails = call("synchronize"); !fails) return fails;
    if (of(stream)->captured != nullptr) return error("a captured stream is waited for");
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!of(stream)->items.empty()) {
      if (run_one()) continue;
      if (!waits_for_others_ || std::chrono::steady_clock::now() > deadline) {
        return error("the streams wait for each other");
      }
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      lock.lock();
    }
    if (failure_) return *failure_;
    return {};
  }
  Result<Seconds> elapsed(EventHandle from, EventHandle to) override {
    const std::lock_guard lock(mutex_);
    if (auto fails = call("elapsed"); !fails) return fails.error();
    if (of(from)->reached == 0 || of(to)->reached == 0) {
      return Error{ErrorKind::Device, "an event that was never reached", std::nullopt};
    }
    return Seconds{1e-6 * static_cast<double>(of(to)->time - of(from)->time)};
  }

  bool supports(const Kernel& kernel) const override { return kernels_.supports(kernel); }
  std::int64_t scratch_bytes(const Kernel& kernel) const override {
    return kernels_.scratch_bytes(kernel);
  }
  Result<void> launch(StreamHandle stream, const KernelCall& call) override {
    return work(stream, "launch " + std::string(lockstep::info(call.kernel->kind).name),
                [this, call] { compute(call); });
  }
  Result<bool> launch_fused(StreamHandle stream, const KernelCall& product,
                            const KernelCall& next) override {
    if (!kernels_.fuses) return false;
    const auto done =
        work(stream, "launch fused " + std::string(lockstep::info(next.kernel->kind).name),
             [this, product, next] {
               compute(product);
               compute(next);
               if (next.kernel->kind == KernelKind::GeluForward) return;
               if (product.out[0] == next.out[0]) return;
               const std::int64_t bytes =
                   output_elements(*product.kernel, 0) * size_of(product.kernel->out[0].dtype);
               std::memset(product.out[0], 0xff, static_cast<std::size_t>(bytes));
             });
    if (!done) return done.error();
    return true;
  }
  Result<void> add_in_order(StreamHandle stream, DType dtype, std::int64_t elements,
                            std::span<const std::byte* const> sources,
                            std::span<std::byte* const> targets, bool largest) override {
    std::vector<const std::byte*> from(sources.begin(), sources.end());
    std::vector<std::byte*> to(targets.begin(), targets.end());
    return work(stream, "add", [=] { add_in_rank_order(dtype, from, to, elements, largest); });
  }
  Result<void> exchange_rows(StreamHandle stream, const RowExchange& exchange) override {
    return work(stream, "exchange rows", [this, exchange] { kernels_.exchange_rows(exchange); });
  }

  /// Enqueues work that ends when `attempt` returns true; `attempt` is called again and again.
  Result<void> enqueue(StreamHandle stream, const std::string& name,
                       std::function<bool()> attempt) {
    const std::lock_guard lock(mutex_);
    if (auto fails = call(name); !fails) return fails;
    if (Graph* graph = of(stream)->captured) {
      graph->nodes[of(stream)].push_back({std::move(attempt)});
      return {};
    }
    of(stream)->items.push_back({std::move(attempt), nullptr, 0});
    return {};
  }
  bool captures(StreamHandle stream) {
    const std::lock_guard lock(mutex_);
    return of(stream)->captured != nullptr;
  }

 private:
  struct Event {
    std::int64_t recorded = 0, reached = 0;
    std::int64_t time = 0;
  };
  struct Item {
    std::function<bool()> run;  // returns true when it has ended
    const Event* waits_for = nullptr;
    std::int64_t version = 0;
    bool ready() const { return waits_for == nullptr || waits_for->reached >= version; }
  };
  struct Graph;
  struct FakeStream {
    std::deque<Item> items;
    Graph* captured = nullptr;  // if not null, work is added to this graph
  };
  struct Node {
    std::function<bool()> run = [] { return true; };
    const FakeStream* after = nullptr;  // whose first `count` nodes have run
    std::size_t count = 0;
  };
  struct Graph {
    std::map<const FakeStream*, std::vector<Node>> nodes;
    std::map<const Event*, std::pair<const FakeStream*, std::size_t>> recorded;  // where
  };
  static Event* of(EventHandle event) { return reinterpret_cast<Event*>(event); }
  static FakeStream* of(StreamHandle stream) { return reinterpret_cast<FakeStream*>(stream); }

  /// Runs a kernel. As in CUDA, an error while it runs is returned by later calls that wait.
  void compute(const KernelCall& call) {
    if (auto done = kernels_.run(call); !done && !failure_) failure_ = done.error();
  }
  static Error error(const std::string& message) {
    return {ErrorKind::Device, message, std::nullopt};
  }
  using Progress = std::map<const FakeStream*, std::size_t>;
  /// Runs a graph in a random order that its edges allow, as far as possible; true if to the end.
  bool run_graph(const Graph& graph, Progress& done) {
    for (;;) {
      std::vector<const FakeStream*> ready;
      for (const auto& [stream, nodes] : graph.nodes) {
        if (done[stream] == nodes.size()) continue;
        const Node& next = nodes[done[stream]];
        if (next.after == nullptr || done[next.after] >= next.count) ready.push_back(stream);
      }
      if (ready.empty()) return true;
      std::shuffle(ready.begin(), ready.end(), random_);
      const auto ran = std::find_if(ready.begin(), ready.end(), [&](const FakeStream* stream) {
        return graph.nodes.at(stream)[done[stream]].run();
      });
      if (ran == ready.end()) return false;
      ++done[*ran];
    }
  }
  Result<void> call(const std::string& name) {
    log.push_back(name);
    if (name == failing && failing_after-- <= 0) {
      return Error{ErrorKind::Device, name + " failed", std::nullopt};
    }
    return {};
  }
  Result<void> work(StreamHandle stream, const std::string& name, std::function<void()> run) {
    return enqueue(stream, name, [run = std::move(run)] {
      run();
      return true;
    });
  }
  /// Runs one item of a random stream that can go on; false if none can.
  bool run_one() {
    ready_.clear();
    for (const auto& stream : streams_) {
      if (!stream->items.empty() && stream->items.front().ready()) ready_.push_back(stream.get());
    }
    waits_for_others_ = !ready_.empty();
    for (std::size_t tried = 0; tried < ready_.size(); ++tried) {
      std::uniform_int_distribution<std::size_t> any(tried, ready_.size() - 1);
      std::swap(ready_[tried], ready_[any(random_)]);
      ++clock_;
      FakeStream* const stream = ready_[tried];
      if (!stream->items.front().run()) continue;
      stream->items.pop_front();
      return true;
    }
    return false;
  }

  GpuInfo info_{"fake", Bytes{std::int64_t{1} << 34}, 4, 90};
  std::mutex mutex_;
  std::mt19937 random_;
  FakeKernels kernels_;
  std::optional<Error> failure_;
  std::vector<std::unique_ptr<FakeStream>> streams_;
  std::vector<FakeStream*> ready_;  // of run_one(), which is called for every item
  std::vector<std::unique_ptr<Event>> events_;
  std::vector<std::unique_ptr<Graph>> graphs_;
  Graph* capture_ = nullptr;
  bool waits_for_others_ = false;  // what could run when nothing did
  std::int64_t clock_ = 0;
};

}  // namespace lockstep::cuda::test
