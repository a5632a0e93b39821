#include <algorithm>
#include <numeric>

#include "core/handover/megatron_reader.hpp"

namespace lockstep {

Result<void> MegatronReader::read_degrees(const std::string& file) {
  const std::int64_t tp = take("parallelism.tensor_parallel_degree", 1);
  std::int64_t pp = take("parallelism.pipeline_parallel_degree", 1);
  if (pp > 1 && flag("no-pipeline-parallel")) {
    pp = 1;
    plan_.set("parallelism.pipeline_parallel_degree", pp, from("no-pipeline-parallel"));
  }
  const std::int64_t cp = take("parallelism.context_parallel_degree", 1);
  if (cp > 1) {
    const std::string how = word("cp-comm-type");
    plan_.text("parallelism.context_parallel_method",
               how == "a2a"          ? "ulysses"
               : how == "all_gather" ? "allgather"
                                     : "ring",
               how.empty() ? "" : from("cp-comm-type"));
    const std::int64_t heads = integer("hierarchical-context-parallel-sizes", 1);
    if (heads > 1) {
      plan_.set("parallelism.context_parallel_ulysses_degree", heads,
                from("hierarchical-context-parallel-sizes"));
    }
  }
  const bool sequence = flag("sequence-parallel") && tp > 1;
  plan_.flag("parallelism.enable_sequence_parallel", sequence,
             sequence ? from("sequence-parallel") : "");
  if (given("sequence-parallel") && tp == 1) plan_.ignore("sequence-parallel");
  divides_rows_ = sequence;
  read_pipeline(pp);
  const std::int64_t ep = integer("expert-model-parallel-size", 1);
  const std::int64_t etp = integer("expert-tensor-parallel-size", tp);
  // Experts lie on the same ranks in a grid of their own, which has to fit, too.
  const std::int64_t divided =
      std::lcm(product_of({tp, pp, cp}), ep > 1 ? product_of({etp, ep, pp}) : 1);
  const Result<std::int64_t> found = read_ranks(divided, product_of({tp, pp, cp}), file);
  if (!found) return found.error();
  const std::int64_t ranks = *found, per_node = PlanWriter::ranks_of_node(options_);
  const std::int64_t replicas = ranks / product_of({tp, pp, cp});
  read_data_parallel(replicas, ep > 1);
  if (given("num-experts")) read_grid_of_experts(tp, cp, replicas);
  plan_.take_cluster(options_, ranks, (ranks + per_node - 1) / per_node);
  return {};
}

Result<std::int64_t> MegatronReader::read_ranks(std::int64_t divided, std::int64_t model_parallel,
                                                const std::string& file) {
  const std::int64_t per_node = PlanWriter::ranks_of_node(options_);
  const bool knows = given("nnodes") || given("nproc-per-node");
  const std::int64_t listed = product_of({integer("nnodes", integer("num-nodes", 1)),
                                          integer("nproc-per-node", integer("nproc", per_node))});
  const bool asked = options_.gpus > 0 || options_.nodes > 0;
  std::int64_t ranks = options_.gpus > 0    ? options_.gpus
                       : options_.nodes > 0 ? options_.nodes * per_node
                       : knows              ? listed
                                            : launch_.ranks;
  if (ranks > 0) {
    if (ranks >= divided && ranks % divided == 0) return ranks;
    if (!asked && !launch_.launches) {
      plan_.assume(std::to_string(divided) + " GPUs, because the degrees do not divide " +
                   std::to_string(ranks));
      return divided;
    }
    Error error = invalid(std::to_string(ranks) + " GPUs" +
                          (asked || launch_.from.empty() ? "" : " (" + launch_.from + ")") +
                          " are no multiple of the " + std::to_string(divided) +
                          " that its degrees need: say how many there are with --gpus N");
    if (!asked) error.where = SourceSpan{file, std::max(1, launch_.program.line), 1};
    return error;
  }
  if (launch_.launches && (!launch_.from.empty() || !launch_.unknown_gpus.empty())) {
    Error error = invalid(
        "how many GPUs there are is not known" +
        (launch_.unknown_gpus.empty() ? ", only " + launch_.from : ": " + launch_.unknown_gpus) +
        "; or give --gpus N");
    error.where = SourceSpan{file, std::max(1, launch_.program.line), 1};
    return error;
  }
  // As many as can share the batch: a list of arguments does not say so.
  ranks = (divided + per_node - 1) / per_node * per_node;
  if (ranks % divided != 0) ranks = divided;
  const std::int64_t rows =
      integer("global-batch-size", 0) / product_of({integer("micro-batch-size", 1)});
  while (rows > 0 && ranks > divided && rows % (ranks / model_parallel) != 0) ranks -= divided;
  plan_.assume(std::to_string(ranks) +
               " GPUs, because no --nnodes and --nproc-per-node is here (--gpus, --nodes)");
  return ranks;
}

void MegatronReader::read_grid_of_experts(std::int64_t tp, std::int64_t cp, std::int64_t replicas) {
  const std::int64_t ep = integer("expert-model-parallel-size", 1);
  std::int64_t etp = integer("expert-tensor-parallel-size", tp);
  const std::string said = from_if_given("expert-tensor-parallel-size");
  if (etp > 1 && !llama_) {
    plan_.lose("experts with biases that " + std::to_string(etp) +
               " ranks of tensor parallelism divide: here each of these ranks holds them whole");
    etp = 1;
    const std::int64_t both = tp * cp;
    if (replicas % ep != 0 && ep != tp && ep % both != 0) {
      return plan_.lose(from("expert-model-parallel-size") + ": whole experts are divided over " +
                        std::to_string(tp) + " or " + std::to_string(both) +
                        " ranks first: here every rank holds all");
    }
    if (replicas % ep == 0) tp = cp = 1;  // over these alone, as many on each
  }
  if (etp > 1) plan_.set("parallelism.expert_tensor_parallel_degree", etp, said);
  if (ep == 1) return;
  plan_.set("parallelism.expert_parallel_degree", ep, from("expert-model-parallel-size"));
  plan_.flag("parallelism.expert_parallel_folding", tp / std::max<std::int64_t>(1, etp) * cp > 1,
             said);
}

void MegatronReader::read_pipeline(std::int64_t pp) {
  if (pp == 1) return;
  std::int64_t chunks = 1;
  std::string said;
  if (const auto stages = number("num-virtual-stages-per-pipeline-rank")) {
    chunks = whole_number(*stages);
    said = from("num-virtual-stages-per-pipeline-rank");
  } else if (const auto layers = number("num-layers-per-virtual-pipeline-stage")) {
    chunks = std::max<std::int64_t>(1, integer("num-layers", 0) / std::max<std::int64_t>(1, pp) /
                                           std::max<std::int64_t>(1, whole_number(*layers)));
    said = from("num-layers-per-virtual-pipeline-stage");
  }
  const std::string layout =
      given("pipeline-model-parallel-layout") ? words("pipeline-model-parallel-layout") : "";
  const std::vector<std::int64_t> laid_out = blocks_of_layout(layout);
  if (!layout.empty() && laid_out.empty()) {
    know("pipeline-model-parallel-layout");
    plan_.lose(from("pipeline-model-parallel-layout") +
               ": stages have blocks, the embedding and the output layer here");
  }
  if (!laid_out.empty() && static_cast<std::int64_t>(laid_out.size()) % pp == 0) {
    chunks = static_cast<std::int64_t>(laid_out.size()) / pp;
    said = from("pipeline-model-parallel-layout");
  }
  stages_ = pp * chunks;
  pipeline_ranks_ = pp;
  plan_.text("parallelism.pipeline_parallel_schedule", chunks > 1 ? "Interleaved1F1B" : "1F1B");
  plan_.set("parallelism.pipeline_parallel_virtual_stages", chunks, said);
  if (chunks > 1 && given("microbatch-group-size-per-virtual-pipeline-stage")) {
    take("parallelism.pipeline_parallel_microbatch_group_size", 0);
  }
  const std::int64_t layers = integer("num-layers", 0);
  const std::int64_t first = integer("decoder-first-pipeline-num-layers", 0);
  const std::int64_t last = integer("decoder-last-pipeline-num-layers", 0);
  const bool beside_first = flag("account-for-embedding-in-pipeline-split");
  const bool beside_last = flag("account-for-loss-in-pipeline-split");
  if (!laid_out.empty() && chunks * pp == static_cast<std::int64_t>(laid_out.size())) {
    set_blocks(laid_out, said);
    know("pipeline-model-parallel-layout");
  } else if (beside_first || beside_last) {
    set_blocks(blocks_beside(layers, stages_, beside_first, beside_last),
               from(beside_first ? "account-for-embedding-in-pipeline-split"
                                 : "account-for-loss-in-pipeline-split"));
  } else if (chunks == 1 && (first > 0 || last > 0)) {
    const std::int64_t others = pp - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0);
    const std::int64_t each = others > 0 ? (layers - first - last) / others : 0;
    std::string list;
    for (std::int64_t stage = 0; stage < std::min(pp, layers); ++stage) {
      const std::int64_t blocks = stage == 0 && first > 0       ? first
                                  : stage == pp - 1 && last > 0 ? last
                                                                : each;
      list += (stage == 0 ? "[" : ", ") + std::to_string(blocks);
    }
    plan_.set(
        "parallelism.pipeline_parallel_layers_per_stage", list + "]",
        from(first > 0 ? "decoder-first-pipeline-num-layers" : "decoder-last-pipeline-num-layers"));
  } else if (first == 0 && last == 0 && layout.empty()) {
    check_equal_stages(pp, chunks);
  }
}

void MegatronReader::refuse(const std::string& why) {
  // DeepSpeed has an engine of its own for pipelines.
  if (refused_.empty() && !is_deepspeed()) refused_ = why;
}

void MegatronReader::check_equal_stages(std::int64_t pp, std::int64_t chunks) {
  const std::int64_t layers = integer("num-layers", 0);
  if (pp < 1 || chunks < 1 || pp > layers) return;  // which the scenario refuses
  const std::string name = "num-layers-per-virtual-pipeline-stage";
  const std::int64_t of_chunk = integer(name, 0);
  if (layers % pp != 0) {
    refuse("--num-layers " + std::to_string(layers) + ": Megatron-LM refuses " +
           std::to_string(layers) + " blocks on " + std::to_string(pp) +
           " pipeline ranks, because they do not divide; say which ranks have fewer with "
           "--decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers or "
           "--pipeline-model-parallel-layout");
  } else if (of_chunk > 0 && layers / pp % of_chunk != 0) {
    refuse("--" + name + " " + std::to_string(of_chunk) + ": Megatron-LM refuses it, because " +
           std::to_string(layers / pp) +
           " blocks of a pipeline rank do not divide into chunks of " + std::to_string(of_chunk));
  } else if (layers / pp % chunks != 0) {
    refuse("--num-virtual-stages-per-pipeline-rank " + std::to_string(chunks) +
           ": Megatron-LM refuses it, because " + std::to_string(layers / pp) +
           " blocks of a pipeline rank do not divide into " + std::to_string(chunks) + " chunks");
  }
}

void MegatronReader::check_groups(std::int64_t microbatches) {
  if (stages_ == pipeline_ranks_) return;
  const std::int64_t group =
      integer("microbatch-group-size-per-virtual-pipeline-stage", pipeline_ranks_);
  const std::int64_t last = group > 0 ? microbatches % group : 0;
  const std::string what = "--global-batch-size makes " + std::to_string(microbatches) +
                           " microbatches, and Megatron-LM refuses to interleave these on " +
                           std::to_string(pipeline_ranks_) + " pipeline ranks: ";
  if (group < pipeline_ranks_ || group > microbatches) {
    refuse(what + "groups of " + std::to_string(group) +
           " are smaller than the pipeline, or larger than the batch");
  } else if (last > 0 && last < pipeline_ranks_) {
    refuse(what + "groups of " + std::to_string(group) + " leave a last one of " +
           std::to_string(last));
  }
}

void MegatronReader::set_blocks(const std::vector<std::int64_t>& blocks, const std::string& said) {
  if (blocks.empty()) return plan_.lose(said + ": the blocks do not divide over the stages");
  std::string list;
  for (const std::int64_t n : blocks) list += (list.empty() ? "[" : ", ") + std::to_string(n);
  plan_.set("parallelism.pipeline_parallel_layers_per_stage", list + "]", said);
}

void MegatronReader::read_data_parallel(std::int64_t replicas, bool divide_experts) {
  const bool sharded = flag("use-distributed-optimizer");
  int stage = sharded ? 1 : 0;
  std::string said = sharded ? from("use-distributed-optimizer") : "";
  if (const auto zero = number("zero-stage")) {  // of Megatron-DeepSpeed
    stage = static_cast<int>(std::clamp<std::int64_t>(whole_number(*zero), 0, 3));
    said = from("zero-stage");
  }
  if (flag("use-megatron-fsdp") || flag("use-custom-fsdp") || flag("use-torch-fsdp2")) {
    const std::string what = word("data-parallel-sharding-strategy");
    stage = what == "optim_grads" ? 2 : what == "optim" ? 1 : what == "no_shard" ? 0 : 3;
  }
  word("data-parallel-sharding-strategy");
  const std::int64_t copies = stage > 0        ? integer("num-distributed-optimizer-instances", 1)
                              : divide_experts ? 1
                                               : replicas;
  plan_.set("parallelism.zero_stage", std::int64_t{stage}, said);
  plan_.set("parallelism.data_parallel_replicate_degree", copies,
            given("num-distributed-optimizer-instances")
                ? from("num-distributed-optimizer-instances")
                : "");
  const std::int64_t shards =
      std::max<std::int64_t>(1, replicas / std::max<std::int64_t>(1, copies));
  plan_.set("parallelism.data_parallel_shard_degree", shards);
  const bool reduces = flag("overlap-grad-reduce"), gathers = flag("overlap-param-gather");
  plan_.flag("parallelism.overlap_grad_reduce", reduces,
             reduces ? from("overlap-grad-reduce") : "");
  const bool overlaps = gathers && stage > 0 && stage < 3 && shards > 1;
  plan_.flag("parallelism.overlap_param_gather", overlaps,
             overlaps ? from("overlap-param-gather") : "");
  if (gathers && !overlaps) {
    plan_.ignore("overlap-param-gather" + std::string(shards == 1
                                                          ? ", with one data-parallel rank"
                                                          : ", which its stage does anyway"));
  }
  for (const char* name : {"optimizer-cpu-offload", "cpu-optimizer"}) {
    if (flag(name)) plan_.text("parallelism.offload", "optimizer", from(name));
  }
  know("deepspeed");
  replicas_ = replicas;
  pipelined_ = integer("pipeline-model-parallel-size", 1) > 1;
}

}  // namespace lockstep
