// A small training step written by hand: two pipeline stages, each sharded over two ranks, and one
// role per rank, so that a test can break one rank alone. Stage 0 reuses the bytes of y for gw.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/program.hpp"
#include "core/ir/text/text.hpp"
#include "core/ir/verify/verify.hpp"

namespace lockstep::sample {

inline constexpr std::string_view kHead = R"(lockstep_program 2
mesh pp=2 dp_shard=2
dtype float32
tokens_per_step 8
model_flops_per_step 192
group dp dims=dp_shard
group pp dims=pp
group first dims=pp only=0
names x y gw
parameter stage0.w shape=2x2 init=normal scale=0.02
parameter stage1.w shape=2x2 init=normal scale=0.02
function fwd own
  formal w read 16
  formal x read 16
  formal y write 16
  gemm float32 m=2 n=2 k=2 ta=0 tb=0 a=x b=w -> c=y
function bwd own
  formal dy read 16
  formal x read 16
  formal w read 16
  formal dx write 16
  formal gw write 16
  gemm float32 m=2 n=2 k=2 ta=1 tb=0 a=x b=dy -> c=gw
  gemm float32 m=2 n=2 k=2 ta=0 tb=1 a=dy b=w -> c=dx
function update own
  formal g read 8
  formal w read_write 8
  formal m read_write 8
  formal v read_write 8
  adamw float32 n=2 beta1=0.9 beta2=0.95 eps=1e-08 decay=0.1 grad=g -> w=w m=m v=v
function zero own
  formal y write 16
  fill float32 n=4 value=0 -> y=y
)";

inline constexpr std::string_view kStage0 =
    R"(  unit stage0 elements=4 shard_elements=2 shard_group=dp param=%b0 adam_m=%b1 adam_v=%b2 parameters=stage0.w:0
  %b0 param float32 8 @0
  %b1 optimizer float32 8 @8
  %b2 optimizer float32 8 @16
  %b3 param_full float32 16 @32 live=%1..%5
  %b4 input float32 16 @48 mb=0 name=x live=%0..%5
  %b5 activation float32 16 @64 mb=0 name=y live=%2..%3
  %b6 boundary float32 16 @80 mb=0 live=%4..%5
  %b7 boundary float32 16 @96 mb=0 live=%5..%5
  %b8 grad float32 16 @64 name=gw live=%5..%6
  %b9 grad float32 8 @112 live=%6..%7
  %0 host_to_device tokens mb=0 stream=copy args=%b4
  %1 all_gather dp stream=gather args=%b0,%b3
  %2 call fwd phase=F stage=0 mb=0 stream=compute after=%0,%1 args=%b3,%b4,%b5
  %3 send pp=1 phase=F stage=0 mb=0 stream=send_forward after=%2 args=%b5
  %4 recv pp=1 phase=B stage=0 mb=0 stream=recv_backward args=%b6
  %5 call bwd phase=B stage=0 mb=0 stream=compute after=%3,%4 args=%b6,%b4,%b3,%b7,%b8
  %6 reduce_scatter dp stream=reduce after=%5 args=%b8,%b9
  %7 call update phase=O stream=compute after=%6 args=%b9,%b0,%b1,%b2
)";

inline constexpr std::string_view kStage1 =
    R"(  unit stage1 elements=4 shard_elements=2 shard_group=dp param=%b0 adam_m=%b1 adam_v=%b2 parameters=stage1.w:0
  %b0 param float32 8 @0
  %b1 optimizer float32 8 @8
  %b2 optimizer float32 8 @16
  %b3 param_full float32 16 @32 live=%0..%3
  %b4 boundary float32 16 @48 mb=0 name=x live=%1..%3
  %b5 activation float32 16 @64 mb=0 name=y live=%2..%3
  %b6 boundary float32 16 @80 mb=0 live=%3..%4
  %b7 grad float32 16 @96 name=gw live=%3..%5
  %b8 grad float32 8 @112 live=%5..%6
  %0 all_gather dp stream=gather args=%b0,%b3
  %1 recv pp=0 phase=F stage=1 mb=0 stream=recv_forward args=%b4
  %2 call fwd phase=F stage=1 mb=0 stream=compute after=%0,%1 args=%b3,%b4,%b5
  %3 call bwd phase=B stage=1 mb=0 stream=compute args=%b5,%b4,%b3,%b6,%b7
  %4 send pp=0 phase=B stage=1 mb=0 stream=send_backward after=%3 args=%b6
  %5 reduce_scatter dp stream=reduce after=%3 args=%b7,%b8
  %6 call update phase=O stream=compute after=%5 args=%b8,%b0,%b1,%b2
)";

/// The text in parts, so that a test can change one place of it.
struct Sample {
  std::string head{kHead};
  std::vector<std::string> roles = {std::string(kStage0), std::string(kStage0),
                                    std::string(kStage1), std::string(kStage1)};

  /// Replaces the only occurrence of `from` in the role of `rank`.
  Sample& edit(std::size_t rank, std::string_view from, std::string_view to) {
    replace(roles[rank], from, to);
    return *this;
  }
  /// Does the same on both ranks of a stage.
  Sample& edit_stage(std::size_t stage, std::string_view from, std::string_view to) {
    return edit(2 * stage, from, to).edit(2 * stage + 1, from, to);
  }
  Sample& edit_head(std::string_view from, std::string_view to) {
    replace(head, from, to);
    return *this;
  }

  std::string text() const {
    std::string text = head;
    for (std::size_t i = 0; i < roles.size(); ++i) {
      const std::string index = std::to_string(i);
      text += "role " + index + " ranks=" + index + " arena=128\n" + roles[i];
    }
    return text;
  }
  /// The same step with one role per stage, as lowering writes it.
  std::string folded_text() const {
    return head + "role 0 ranks=0-1 arena=128\n" + roles[0] + "role 1 ranks=2-3 arena=128\n" +
           roles[2];
  }

  static void replace(std::string& text, std::string_view from, std::string_view to) {
    const std::size_t at = text.find(from);
    if (at == std::string::npos) throw std::logic_error("not in the sample: " + std::string(from));
    if (text.find(from, at + 1) != std::string::npos) {
      throw std::logic_error("more than once in the sample: " + std::string(from));
    }
    text.replace(at, from.size(), to);
  }
};

inline Program parse(const std::string& text) {
  Result<Program> program = parse_program(text);
  if (!program.ok()) throw std::logic_error(to_string(program.error()));
  return std::move(*program);
}

/// All messages of verify(), one per line.
inline std::string faults(const Program& program) {
  std::string text;
  for (const Error& error : verify(program)) text += error.message + "\n";
  return text;
}
inline std::string faults(const Sample& sample) { return faults(parse(sample.text())); }

}  // namespace lockstep::sample
