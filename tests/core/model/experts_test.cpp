#include <array>
#include <set>

#include "core/model/model.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

ModelSpec mixture(Architecture architecture, std::int64_t experts) {
  ModelSpec spec;
  spec.architecture = architecture;
  spec.layers = 4;
  spec.hidden = 60;
  spec.heads = spec.kv_heads = 5;
  spec.head_dim = 12;
  spec.ffn_hidden = 100;
  spec.vocab = 61;
  spec.max_seq_len = 16;
  spec.experts = experts;
  return spec;
}

LayerShape shape(std::int64_t batch, std::int64_t seq) {
  LayerShape s;
  s.batch = batch;
  s.seq = seq;
  return s;
}

std::vector<Function> functions(const std::vector<LayerStep>& steps) {
  std::vector<Function> found;
  for (const LayerStep& step : steps) {
    if (const auto* function = std::get_if<Function>(&step)) found.push_back(*function);
  }
  return found;
}

std::vector<Communication> communications(const std::vector<LayerStep>& steps) {
  std::vector<Communication> found;
  for (const LayerStep& step : steps) {
    if (const auto* c = std::get_if<Communication>(&step)) found.push_back(*c);
  }
  return found;
}

}  // namespace

TEST_CASE("an expert has room for its even share of the choices, times the factor",
          "[core][model]") {
  ModelSpec spec = mixture(Architecture::Llama, 8);
  spec.capacity_factor = 1;
  CHECK(spec.expert_capacity(64, 1) == 16);
  CHECK(spec.expert_capacity(65, 1) == 17);  // 16.25
  spec.capacity_factor = 1.25;
  CHECK(spec.expert_capacity(64, 1) == 20);
  CHECK(spec.expert_capacity(4096, 1) == 1280);
  CHECK(spec.expert_capacity(1, 1) == 1);
  spec.capacity_factor = 100;  // a token chooses an expert once
  CHECK(spec.expert_capacity(64, 1) == 64);
}

TEST_CASE("a rank has places for all rows that can come, or for so many times the mean",
          "[core][model]") {
  ModelSpec spec = mixture(Architecture::Llama, 8);
  CHECK_FALSE(spec.is_dropless());
  spec.capacity_factor = 0;
  REQUIRE(spec.is_dropless());
  spec.experts_per_token = 3;
  const auto places = [&](int ranks) { return spec.expert_rows(64, ranks).places; };
  CHECK(places(1) == 64 * 3);  // whoever is chosen
  // A token's choices are different experts: no more of them than the rank has.
  CHECK(places(2) == 2 * 64 * 3);
  CHECK(places(4) == 4 * 64 * 2);
  CHECK(places(8) == 8 * 64 * 1);
  for (const int ranks : {1, 2, 4, 8}) CHECK(spec.expert_rows(64, ranks).expected == 64 * 3);
  spec.expert_rank_capacity_factor = 1.26;
  CHECK(places(1) == 64 * 3);
  CHECK(places(4) == 242);  // 241.92
  spec.expert_rank_capacity_factor = 1;
  CHECK(places(4) == 64 * 3);
  spec.expert_rank_capacity_factor = 100;
  CHECK(places(4) == 4 * 64 * 2);
}

TEST_CASE("the busiest rank of an uneven router has so many times the even share, or what fits",
          "[core][model]") {
  ModelSpec spec = mixture(Architecture::Llama, 8);
  spec.router_imbalance = 1.5;
  spec.capacity_factor = 0;  // no limit: 64 tokens × 2 choices × 1.5
  CHECK(spec.expert_rows(64, 4).expected == 192);
  CHECK(spec.expert_rows(64, 4).places == 192);    // frameworks allocate what comes
  CHECK(spec.expert_rows(64, 1).expected == 128);  // one rank has all choices, whoever is chosen
  spec.capacity_factor = 1.25;                     // the others drop
  CHECK(spec.expert_capacity(64, 4) == 20);
  CHECK(spec.expert_capacity(64, 1) == 16);
  spec.capacity_factor = 2;
  CHECK(spec.expert_capacity(64, 4) == 24);
  spec.router_imbalance = 100;  // never more than all tokens for every one of its experts
  spec.capacity_factor = 0;
  CHECK(spec.expert_rows(64, 4).expected == 2 * 4 * 64);
  CHECK_FALSE(spec.why_only_simulated().empty());
  spec.router_imbalance = 0;
  CHECK(spec.why_only_simulated().empty());
}

TEST_CASE("an uneven router multiplies products and places of experts, and no model's flops",
          "[core][model]") {
  LayerShape s = shape(2, 8);
  s.expert_parallel = 4;
  ModelSpec spec = mixture(Architecture::Llama, 8);
  spec.capacity_factor = 0;
  const auto measure = [&](double imbalance) {
    spec.router_imbalance = imbalance;
    const Model model = build_transformer(spec, s);
    double products = 0, sent = 0;
    for (const Function& f : functions(model.kinds[1].functions.forward())) {
      for (const Kernel& k : f.kernels) {
        if (k.kind == KernelKind::RaggedGemm) products += work(k).flops.v;
      }
    }
    for (const Communication& c : communications(model.kinds[1].functions.forward())) {
      sent += double(c.rows.count) * c.rows.bytes;
    }
    return std::array{products, sent, model.forward_flops().v};
  };
  const auto even = measure(1), uneven = measure(1.75);
  // 16 tokens × 2 choices / 8 experts, each of three matrices of 60 × 100: 2 flops per weight.
  CHECK(even[0] == 8 * 4 * 2.0 * 3 * 60 * 100);
  CHECK(even[1] == 2 * 8 * 4 * 60.0 * 4);
  CHECK(uneven[0] == 1.75 * even[0]);
  CHECK(uneven[1] == 1.75 * even[1]);
  CHECK(uneven[2] == Approx(even[2]).epsilon(0.01));  // what tokens need
}

TEST_CASE("a router's bias is a unit of its own that every rank holds whole", "[core][model]") {
  LayerShape s = shape(2, 8);
  s.shard_count = 4;
  s.expert_shard_count = 2;
  s.expert_parallel = 2;
  s.tensor_parallel = 2;
  s.sequence_parallel = true;
  s.plain_apart = true;
  ModelSpec spec = mixture(Architecture::Llama, 4);
  const std::int64_t without = build_transformer(spec, s).parameter_count();
  spec.router_bias_update_rate = 0.001;
  const Model model = build_transformer(spec, s);
  CHECK(model.parameter_count() - without == spec.layers * 4);
  int count = 0;
  for (const UnitLayout& unit : model.units) {
    if (unit.moved_by != MovedBy::RouterBias) continue;
    ++count;
    REQUIRE(unit.parameters.size() == 1);
    CHECK(unit.parameters[0].name.ends_with(".moe.router_bias"));
    CHECK(unit.shard_count == 1);
    CHECK(unit.split_axis.empty());
    CHECK(unit.partial_axes == std::vector<std::string>{"tp"});  // ranks route their own rows
  }
  CHECK(count == spec.layers);
}

TEST_CASE("the model of Mixtral 8x7B counts 46.7 B parameters and 12.9 B active ones",
          "[core][model]") {
  ModelSpec spec;
  spec.architecture = Architecture::Llama;
  spec.layers = 32;
  spec.hidden = 4096;
  spec.heads = 32;
  spec.kv_heads = 8;
  spec.head_dim = 128;
  spec.ffn_hidden = 14336;
  spec.vocab = 32000;
  spec.experts = 8;
  const Model model = build_transformer(spec, shape(1, 8));
  CHECK(model.parameter_count() == 46'702'792'704);
  CHECK(model.active_parameter_count(spec) == 12'879'925'248);
  // Forward flops follow from the active parameters: 2 per weight of a matrix and token, attention,
  // and less than a percent for the rest. Room that no token takes does not count, but it costs
  // time.
  const double weights = 12'879'925'248.0 - 32'000.0 * 4096;
  const double attention = 32.0 * 4 * 4096 * (8 + 1) / 2;
  const double expected = 8 * (2 * weights + attention);
  CHECK(model.forward_flops().v > expected);
  CHECK(model.forward_flops().v < 1.01 * expected);
  double cost = 0;
  for (const Layer& layer : model.layers) cost += layer.balance;
  // Room for 3 tokens in each of 8 experts, for 16 choices.
  const double networks = 32.0 * 2 * 3 * 4096 * 14336;
  CHECK(cost - model.forward_flops().v == Approx(networks * (24 - 16)));
}

TEST_CASE("the model of Qwen1.5-MoE-A2.7B counts 14.3 B parameters and 2.7 B active ones",
          "[core][model]") {
  ModelSpec spec;
  spec.architecture = Architecture::Llama;
  spec.layers = 24;
  spec.hidden = 2048;
  spec.heads = spec.kv_heads = 16;
  spec.head_dim = 128;
  spec.ffn_hidden = 1408;
  spec.vocab = 151936;
  spec.qkv_bias = true;
  spec.experts = 60;
  spec.experts_per_token = 4;
  const auto count = [&] { return build_transformer(spec, shape(1, 64)).parameter_count(); };
  const std::int64_t without = count();
  spec.shared_expert_hidden = 5632;
  const std::int64_t ungated = count();
  CHECK(ungated - without == std::int64_t{24} * 3 * 2048 * 5632);  // gate, up and down projection
  spec.shared_expert_gate = true;
  CHECK(count() - ungated == 24 * 2048);
  const Model model = build_transformer(spec, shape(1, 64));
  CHECK(model.parameter_count() == 14'315'784'192);  // as Hugging Face counts them
  CHECK(model.active_parameter_count(spec) == 2'689'173'504);
}

TEST_CASE("blocks with experts and without share functions with their like", "[core][model]") {
  ModelSpec spec = mixture(Architecture::Gpt2, 4);
  spec.expert_period = 2;
  const Model model = build_transformer(spec, shape(1, 8));
  REQUIRE(model.layers.size() == 6);
  CHECK(model.layers[1].kind == model.layers[3].kind);
  CHECK(model.layers[2].kind == model.layers[4].kind);
  CHECK(model.layers[1].kind != model.layers[2].kind);
  CHECK(model.layers[1].units.size() == 1);
  REQUIRE(model.layers[2].units.size() == 2);
  CHECK(model.layers[2].units[1].suffix == "_experts");
}

TEST_CASE("a split backward through experts runs the kernels of an unsplit one", "[core][model]") {
  for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const int ranks : {1, 2}) {
      LayerShape s = shape(2, 8);
      s.expert_parallel = ranks;
      const Model model = build_transformer(mixture(architecture, 4), s);
      const FunctionBuilder& block = model.kinds[1].functions;
      const Work both = work(block.backward({}));
      CHECK(both.flops.v == work(block.backward(Part::InputGrad, {})).flops.v +
                                work(block.backward(Part::WeightGrad, {})).flops.v);
    }
  }
}

TEST_CASE("tokens go to their experts and back by two all-to-alls each way", "[core][model]") {
  LayerShape s = shape(2, 8);
  s.expert_parallel = 2;
  const ModelSpec spec = mixture(Architecture::Llama, 4);
  const Model model = build_transformer(spec, s);
  const FunctionBuilder& block = model.kinds[1].functions;
  const std::int64_t bytes = 4 * spec.expert_capacity(16, 2) * spec.hidden * 4;
  for (const auto& steps :
       {block.forward(), block.backward({}), block.backward(Part::InputGrad, {})}) {
    const auto found = communications(steps);
    REQUIRE(found.size() == 2);
    for (const Communication& c : found) {
      CHECK(c.kind == OpKind::AllToAll);
      CHECK(c.axis == "ep");
      CHECK(c.in.bytes.v == bytes);
      CHECK(c.out.bytes.v == bytes);
    }
  }
  CHECK(communications(block.backward(Part::WeightGrad, {})).empty());
  // As much work as on one rank, with half of the experts and twice the rows.
  CHECK(work(block.forward()).flops.v ==
        work(build_transformer(spec, shape(2, 8)).kinds[1].functions.forward()).flops.v);
}

TEST_CASE("rows of which none is dropped are counted before they go", "[core][model]") {
  LayerShape s = shape(2, 8);
  s.expert_parallel = 2;
  ModelSpec spec = mixture(Architecture::Llama, 4);
  spec.capacity_factor = 0;
  const Model model = build_transformer(spec, s);
  const FunctionBuilder& block = model.kinds[1].functions;
  const std::int64_t row = spec.hidden * 4, own = 16 * 2 * row, most = 2 * own;
  const auto forward = communications(block.forward());
  REQUIRE(forward.size() == 3);
  CHECK(forward[0].kind == OpKind::AllToAll);
  CHECK(forward[0].in.bytes.v == 4 * 4);  // a number for each expert
  const auto check = [&](const Communication& c, std::int64_t from, std::int64_t to,
                         const std::string& goes, const std::string& comes) {
    CHECK(c.kind == OpKind::AllToAllRows);
    CHECK(c.in.bytes.v == from);
    CHECK(c.out.bytes.v == to);
    CHECK(c.rows.count == 16 * 2);
    CHECK(c.rows.bytes == row);
    REQUIRE(c.counts.size() == 2);
    CHECK(c.counts[0].name == goes);
    CHECK(c.counts[1].name == comes);
  };
  check(forward[1], own, most, "counts", "expert_counts");
  check(forward[2], most, own, "expert_counts", "counts");
  const auto backward = communications(block.backward({}));
  REQUIRE(backward.size() == 2);
  check(backward[0], own, most, "counts", "expert_counts");
  check(backward[1], most, own, "expert_counts", "counts");
  // One rank has exactly its own rows, and half of the places in an expert's room for all.
  const Model one = build_transformer(spec, shape(2, 8));
  CHECK(communications(one.kinds[1].functions.forward()).empty());
  for (const Function& f : functions(one.kinds[1].functions.forward())) {
    for (const Kernel& k : f.kernels) {
      if (k.kind != KernelKind::RaggedGemm) continue;
      CHECK(k.dims[2] == 16 * 2);
      CHECK(k.dims[3] == 16 * 2);
    }
  }
}

TEST_CASE("a fresh backward writes every element of the experts' gradients", "[core][model]") {
  for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    LayerShape s = shape(1, 8);
    s.shard_count = 7;  // divides nothing here
    s.expert_parallel = 2;
    s.expert_shard_count = 11;
    const Model model = build_transformer(mixture(architecture, 4), s);
    std::map<std::string, std::set<std::pair<std::int64_t, std::int64_t>>> written;
    std::map<std::string, std::int64_t> whole;
    for (const Function& f : functions(model.kinds[1].functions.backward({}))) {
      for (const Kernel& kernel : f.kernels) {
        for (std::size_t o = 0; o < kernel.out.size(); ++o) {
          if (!kernel.out[o].present()) continue;
          const Formal& formal = f.formals[kernel.out[o].formal];
          if (!formal.name.starts_with("gw")) continue;
          whole[formal.name] = formal.bytes.v;
          written[formal.name].emplace(kernel.out[o].offset,
                                       kernel.out[o].offset + 4 * output_elements(kernel, o));
        }
      }
    }
    CHECK(written.size() == 2);
    for (const auto& [name, ranges] : written) {
      INFO(name);
      std::int64_t covered = 0;
      for (const auto& [begin, end] : ranges) {
        CHECK(begin == covered);
        covered = end;
      }
      CHECK(covered == whole[name]);
      CHECK(covered % (name == "gw" ? 7 : 11) == 0);
    }
  }
}
