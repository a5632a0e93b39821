#include "core/run/trace_builder.hpp"

#include <array>

#include "core/ir/text/text.hpp"
#include "tests/backends/sim/programs.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

using namespace sim_test;  // NOLINT: the builders are this file's vocabulary

std::string kind(const Trace& trace, const TraceOp& op) { return trace.names[op.kind]; }
std::string name(const Trace& trace, const TraceOp& op) { return trace.names[op.name]; }

TEST_CASE("a skeleton names ranks, streams, kinds and peak memory", "[core][run]") {
  Program program = make_pipeline({Order::GPipe, 2, 2, 2, 1, 2, 0, 64});
  program.roles[1].arena = {4096};
  const Trace trace = make_trace_skeleton(program, "sim");
  CHECK(trace.backend == "sim");
  CHECK(trace.program_hash == program_hash(program));
  CHECK(trace.rank_labels[0] == "rank 0 (pp0 dp_replicate0)");
  CHECK(trace.rank_labels[3] == "rank 3 (pp1 dp_replicate1)");
  CHECK(trace.role_of_rank == std::vector<std::int32_t>{0, 0, 1, 1});
  CHECK(trace.same_as == std::vector<Rank>{0, 1, 2, 3});
  CHECK(trace.peak_memory == std::vector<std::int64_t>{0, 0, 4096, 4096});
  CHECK(trace.streams.at(static_cast<std::size_t>(Stream::RecvForward)) == "recv_forward");
  CHECK(trace.memory_kinds.size() == static_cast<std::size_t>(kNumBufferKinds));
  CHECK(trace.spans.empty());
  const TraceOp& call = trace.roles[0].ops[0];
  CHECK(kind(trace, call) == "forward");
  CHECK(name(trace, call) == "stage.F");
  CHECK(call.microbatch == 0);
  CHECK(call.channel == -1);
  const TraceOp& send = trace.roles[0].ops[1];
  CHECK(kind(trace, send) == "send");
  CHECK(name(trace, send) == "send forward");
  CHECK(send.bytes == 64);
  CHECK(make_trace_skeleton(make_mesh_program(1, 1), "cpu").rank_labels[0] == "rank 0");
}

TEST_CASE("every send finds its receive by channel and seq", "[core][run]") {
  const Program program = make_pipeline({Order::OneFOneB, 4, 6, 1});
  const Trace trace = make_trace_skeleton(program, "sim");
  int messages = 0;
  for (const TraceRole& sender : trace.roles) {
    for (const TraceOp& send : sender.ops) {
      if (kind(trace, send) != "send") continue;
      ++messages;
      int found = 0;
      for (const TraceRole& receiver : trace.roles) {
        for (const TraceOp& recv : receiver.ops) {
          if (kind(trace, recv) != "recv" || recv.channel != send.channel) continue;
          if (recv.seq != send.seq) continue;
          ++found;
          CHECK(recv.microbatch == send.microbatch);
          CHECK(recv.stream == send.stream + 1);
        }
      }
      CHECK(found == 1);
    }
  }
  CHECK(messages == 2 * 3 * 6);
}

TEST_CASE("collectives of a group are counted in op order", "[core][run]") {
  Program program = make_mesh_program(1, 2);
  RoleBuilder role(program.roles[0]);
  const BufferId buffer = role.buffer(8);
  role.collective(OpKind::AllGather, {1}, Stream::Gather, buffer);
  role.collective(OpKind::AllReduce, {0}, Stream::Reduce, buffer);
  role.collective(OpKind::ReduceScatter, {1}, Stream::Reduce, buffer);
  const Trace trace = make_trace_skeleton(program, "sim");
  const auto& ops = trace.roles[0].ops;
  CHECK(name(trace, ops[0]) == "all_gather dp");
  CHECK(kind(trace, ops[2]) == "reduce_scatter");
  CHECK(ops[0].channel == 1);
  CHECK(ops[0].seq == 0);
  CHECK(ops[1].channel == 0);
  CHECK(ops[1].seq == 0);
  CHECK(ops[2].channel == 1);
  CHECK(ops[2].seq == 1);
}

TEST_CASE("memory samples add up the buffers that are alive", "[core][run]") {
  Program program = make_mesh_program(1, 1);
  program.functions = {delay("f", 1)};
  RoleBuilder role(program.roles[0]);
  for (int i = 0; i < 3; ++i) role.call({0});
  role.buffer(100, BufferKind::Param);                                             // persistent
  role.buffer(10, BufferKind::Activation, OpId{0}, OpId{1});                       // [0, 20]
  const BufferId late = role.buffer(7, BufferKind::Activation, OpId{2}, OpId{2});  // [20, 30]
  role.buffer(5, BufferKind::Grad, OpId{1}, OpId{2});                              // [10, 30]
  Buffer view;
  view.bytes = {3};
  view.set_view(late);
  program.roles[0].buffers.push_back(view);
  Trace trace = make_trace_skeleton(program, "sim");
  for (int step : {4, 5}) {
    for (int i = 0; i < 3; ++i) {
      trace.spans.push_back(
          {0, OpId{i}, step, SimTime{10 * i}, SimTime{10 * i}, SimTime{10 * i + 10}});
    }
  }
  trace.memory = memory_samples(trace, program);
  CHECK(memory_samples(trace, program, 0) == trace.memory);
  CHECK(memory_samples(trace, program, 1).empty());  // which has no spans
  const auto param = static_cast<std::size_t>(BufferKind::Param);
  const auto grad = static_cast<std::size_t>(BufferKind::Grad);
  const auto activation = static_cast<std::size_t>(BufferKind::Activation);
  const std::vector<std::array<std::int64_t, 4>> expected = {
      {0, 100, 0, 10}, {10, 100, 5, 10}, {20, 100, 5, 7}, {30, 100, 0, 0}};
  REQUIRE(trace.memory.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const MemorySample& sample = trace.memory[i];
    CHECK(std::array<std::int64_t, 4>{sample.time.count(), sample.bytes_by_kind[param],
                                      sample.bytes_by_kind[grad],
                                      sample.bytes_by_kind[activation]} == expected[i]);
  }
}

}  // namespace
}  // namespace lockstep
