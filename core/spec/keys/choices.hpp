// Choices: the names of enumerators in a scenario file. choices(E{}) lists them in the order in
// which messages offer them.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "core/spec/scenario.hpp"

namespace lockstep {

template <class E, std::size_t N>
using Choices = std::array<std::pair<std::string_view, E>, N>;

constexpr auto choices(Architecture) {
  return Choices<Architecture, 5>{{{"gpt2", Architecture::Gpt2},
                                   {"llama", Architecture::Llama},
                                   {"resnet", Architecture::Resnet},
                                   {"vit", Architecture::Vit},
                                   {"synthetic", Architecture::Synthetic}}};
}
constexpr auto choices(NormKind) {
  return Choices<NormKind, 2>{
      {{"layer_norm", NormKind::LayerNorm}, {"rms_norm", NormKind::RmsNorm}}};
}
constexpr auto choices(NormPlace) {
  return Choices<NormPlace, 4>{{{"before", NormPlace::Before},
                                {"behind_sum", NormPlace::BehindSum},
                                {"behind_branch", NormPlace::BehindBranch},
                                {"around", NormPlace::Around}}};
}
constexpr auto choices(Activation) {
  return Choices<Activation, 5>{{{"gelu", Activation::Gelu},
                                 {"relu", Activation::Relu},
                                 {"squared_relu", Activation::SquaredRelu},
                                 {"swiglu", Activation::Swiglu},
                                 {"geglu", Activation::Geglu}}};
}
constexpr auto choices(Positions) {
  return Choices<Positions, 3>{
      {{"learned", Positions::Learned}, {"rotary", Positions::Rotary}, {"none", Positions::None}}};
}
constexpr auto choices(RouterScore) {
  return Choices<RouterScore, 2>{
      {{"softmax", RouterScore::Softmax}, {"sigmoid", RouterScore::Sigmoid}}};
}
constexpr auto choices(PipelineSchedule) {
  Choices<PipelineSchedule, kSchedules.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i] = {kSchedules[i].name, kSchedules[i].schedule};
  }
  return names;
}
constexpr auto choices(ContextParallelMethod) {
  return Choices<ContextParallelMethod, 3>{{{"ulysses", ContextParallelMethod::Ulysses},
                                            {"allgather", ContextParallelMethod::AllGather},
                                            {"ring", ContextParallelMethod::Ring}}};
}
constexpr auto choices(AccumulateShards) {
  return Choices<AccumulateShards, 3>{{{"default", AccumulateShards::Default},
                                       {"always", AccumulateShards::Always},
                                       {"never", AccumulateShards::Never}}};
}
constexpr auto choices(ReshardAfterForward) {
  return Choices<ReshardAfterForward, 3>{{{"default", ReshardAfterForward::Default},
                                          {"always", ReshardAfterForward::Always},
                                          {"never", ReshardAfterForward::Never}}};
}
constexpr auto choices(P2pPosting) {
  return Choices<P2pPosting, 4>{{{"async", P2pPosting::Async},
                                 {"preposted", P2pPosting::Preposted},
                                 {"fused", P2pPosting::Fused},
                                 {"blocking", P2pPosting::Blocking}}};
}
constexpr auto choices(OptimizerKind) {
  Choices<OptimizerKind, kOptimizers.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i] = {kOptimizers[i].name, kOptimizers[i].kind};
  }
  return names;
}
constexpr auto choices(AdjustLr) {
  return Choices<AdjustLr, 2>{
      {{"original", AdjustLr::Original}, {"match_rms_adamw", AdjustLr::MatchRmsAdamW}}};
}
constexpr auto choices(StateDType) {
  return Choices<StateDType, 4>{{{"default", StateDType::Default},
                                 {to_string(DType::F32), StateDType::F32},
                                 {to_string(DType::BF16), StateDType::BF16},
                                 {to_string(DType::U8), StateDType::U8}}};
}
constexpr auto choices(DecayedParameters) {
  return Choices<DecayedParameters, 2>{
      {{"all", DecayedParameters::All}, {"matrices", DecayedParameters::Matrices}}};
}
constexpr auto choices(NonFinite) {
  return Choices<NonFinite, 4>{{{"stop", NonFinite::Stop},
                                {"skip", NonFinite::Skip},
                                {"rollback", NonFinite::Rollback},
                                {"go_on", NonFinite::GoOn}}};
}
constexpr auto choices(ActivationCheckpoint) {
  return Choices<ActivationCheckpoint, 3>{{{"none", ActivationCheckpoint::None},
                                           {"selective", ActivationCheckpoint::Selective},
                                           {"full", ActivationCheckpoint::Full}}};
}
constexpr auto choices(Offload) {
  return Choices<Offload, 3>{{{"none", Offload::None},
                              {"optimizer", Offload::Optimizer},
                              {"parameters", Offload::Parameters}}};
}
constexpr auto choices(SemiSyncMethod) {
  return Choices<SemiSyncMethod, 3>{{{"none", SemiSyncMethod::None},
                                     {"local_sgd", SemiSyncMethod::LocalSgd},
                                     {"diloco", SemiSyncMethod::DiLoCo}}};
}
constexpr auto choices(OffloadDevice) {
  return Choices<OffloadDevice, 2>{{{"cpu", OffloadDevice::Cpu}, {"nvme", OffloadDevice::Nvme}}};
}
constexpr auto choices(CollectiveLibrary) {
  return Choices<CollectiveLibrary, 2>{
      {{"ring", CollectiveLibrary::Ring}, {"nccl", CollectiveLibrary::Nccl}}};
}
constexpr auto choices(NodeLink) {
  return Choices<NodeLink, 2>{{{"nvlink", NodeLink::Nvlink}, {"pcie", NodeLink::Pcie}}};
}
constexpr auto choices(JitterDistribution) {
  return Choices<JitterDistribution, 3>{{{"normal", JitterDistribution::Normal},
                                         {"uniform", JitterDistribution::Uniform},
                                         {"exponential", JitterDistribution::Exponential}}};
}
constexpr auto choices(FailureSource) {
  return Choices<FailureSource, 7>{{{"none", FailureSource::None},
                                    {"llama3", FailureSource::Llama3},
                                    {"rsc1", FailureSource::Rsc1},
                                    {"rsc2", FailureSource::Rsc2},
                                    {"opt-175b", FailureSource::Opt175b},
                                    {"bloom", FailureSource::Bloom},
                                    {"b200", FailureSource::B200}}};
}
constexpr auto choices(SaveMode) {
  return Choices<SaveMode, 2>{
      {{"blocking", SaveMode::Blocking}, {"background", SaveMode::Background}}};
}
constexpr auto choices(SaveTo) {
  return Choices<SaveTo, 2>{{{"storage", SaveTo::Storage}, {"drives", SaveTo::Drives}}};
}
constexpr auto choices(AttentionKernel) {
  return Choices<AttentionKernel, 7>{{{"profile", AttentionKernel::Profile},
                                      {"unfused", AttentionKernel::Unfused},
                                      {"flash1", AttentionKernel::Flash1},
                                      {"triton", AttentionKernel::Triton},
                                      {"flash2", AttentionKernel::Flash2},
                                      {"flash3", AttentionKernel::Flash3},
                                      {"cudnn", AttentionKernel::Cudnn}}};
}
constexpr auto choices(Fp8Recipe) {
  return Choices<Fp8Recipe, 4>{{{"none", Fp8Recipe::None},
                                {"delayed", Fp8Recipe::Delayed},
                                {"current", Fp8Recipe::Current},
                                {"block", Fp8Recipe::Block}}};
}
constexpr auto choices(Fp8Format) {
  return Choices<Fp8Format, 3>{
      {{"none", Fp8Format::None}, {"e4m3", Fp8Format::E4M3}, {"hybrid", Fp8Format::Hybrid}}};
}
constexpr auto choices(Fp8Scaling) {
  return Choices<Fp8Scaling, 4>{{{"delayed", Fp8Scaling::Delayed},
                                 {"blockwise", Fp8Scaling::Blockwise},
                                 {"mxfp8", Fp8Scaling::Mxfp8},
                                 {"tensorwise", Fp8Scaling::Tensorwise}}};
}
constexpr auto choices(Fp8AmaxAlgo) {
  return Choices<Fp8AmaxAlgo, 2>{
      {{"max", Fp8AmaxAlgo::Max}, {"most_recent", Fp8AmaxAlgo::MostRecent}}};
}
constexpr auto choices(Fp4Recipe) {
  return Choices<Fp4Recipe, 3>{
      {{"none", Fp4Recipe::None}, {"nvfp4", Fp4Recipe::Nvfp4}, {"mxfp4", Fp4Recipe::Mxfp4}}};
}
constexpr auto choices(Float32Products) {
  return Choices<Float32Products, 2>{
      {{"highest", Float32Products::Highest}, {"tf32", Float32Products::Tf32}}};
}
constexpr auto choices(DecayType) {
  return Choices<DecayType, 2>{{{"linear", DecayType::Linear}, {"cosine", DecayType::Cosine}}};
}
constexpr auto choices(DType) {
  return Choices<DType, 4>{{{to_string(DType::F32), DType::F32},
                            {to_string(DType::F64), DType::F64},
                            {to_string(DType::BF16), DType::BF16},
                            {to_string(DType::F16), DType::F16}}};
}

constexpr auto choices(CurveType) {
  return Choices<CurveType, 5>{{{"all", CurveType::All},
                                {to_string(DType::F32), CurveType::F32},
                                {to_string(DType::F64), CurveType::F64},
                                {to_string(DType::BF16), CurveType::BF16},
                                {to_string(DType::F16), CurveType::F16}}};
}

constexpr auto choices(PartDType) {
  return Choices<PartDType, 4>{{{"default", PartDType::Default},
                                {to_string(DType::F32), PartDType::F32},
                                {to_string(DType::BF16), PartDType::BF16},
                                {to_string(DType::F16), PartDType::F16}}};
}

}  // namespace lockstep
