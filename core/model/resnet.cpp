// Residual networks on labelled images (He et al. 2015; v1.5, as in torchvision: the stride lies in
// the 3×3 convolution). Channels last; convolution weights are [out, kernel, kernel, in].
#include <algorithm>
#include <cmath>

#include "core/base/index_vector.hpp"
#include "core/model/layer_parameters.hpp"
#include "core/model/model.hpp"

namespace lockstep {
namespace {

/// The shape of a square image.
struct Plane {
  std::int64_t size = 0, channels = 0;
  std::int64_t elements() const { return size * size * channels; }
};

/// What tensor parallelism divides of a convolution. Like linear layers, convolutions come in
/// pairs: each rank computes its share of the output channels of the first, normalizes them, and
/// takes them as its share of the input channels of the second, whose results are partial sums.
enum class Divided { Nothing, Outputs, Inputs };

/// A convolution and the batch norm that follows it, before they have tensors.
struct ConvNormSpec {
  std::string conv, norm;  // names: "conv1", "bn1"
  Plane in;
  std::int64_t out_channels = 0;
  std::int64_t kernel = 1, stride = 1;
  Divided divided = Divided::Nothing;
  Plane out() const { return {ceil_div(in.size, stride), out_channels}; }
  /// The input, or output, of which one of `parts` ranks has its channels.
  Plane held_in(int parts) const {
    return {in.size, in.channels / (divided == Divided::Inputs ? parts : 1)};
  }
  Plane held_out(int parts) const {
    return {out().size, out_channels / (divided == Divided::Outputs ? parts : 1)};
  }
};

/// What all layers of a network under construction share.
struct Network {
  const ModelSpec& spec;
  const LayerShape& shape;
  Model& model;
};

/// The initial standard deviation of convolutions, by the number of outputs, as in torchvision (He
/// et al. 2015, Delving Deep into Rectifiers).
double he_deviation(const ConvNormSpec& c) {
  return std::sqrt(2.0 / static_cast<double>(c.out_channels * c.kernel * c.kernel));
}

/// Declares the parameters of the convolutions in the layer's unit. Returns their running
/// statistics, which are, for each batch norm, the means, then the variances.
UnitLayout declare(LayerDeclaration& layer, const LayerShape& shape, const std::string& name,
                   const std::vector<ConvNormSpec>& convs) {
  UnitLayout statistics;
  statistics.name = name + ".statistics";
  if (shape.tensor_parallel > 1) statistics.split_axis = "tp";
  for (const ConvNormSpec& c : convs) {
    const bool outputs = c.divided == Divided::Outputs, inputs = c.divided == Divided::Inputs;
    const Split channels = outputs ? Split{0, {c.out_channels}} : Split{};
    const auto keep = [&](const std::string& parameter, InitKind init) {
      statistics.offsets.push_back(statistics.elements);
      statistics.sections.emplace_back();
      statistics.elements += c.held_out(shape.tensor_parallel).channels;
      Parameter& kept = statistics.parameters.emplace_back();
      kept.name = name + "." + parameter;
      kept.shape = {c.out_channels};
      kept.init = init;
      kept.init_scale = 0;
      if (shape.tensor_parallel == 1) return;
      kept.split_dim = channels.dim;
      kept.sections = channels.sections;
    };
    layer.add(c.conv + ".weight", {c.out_channels, c.kernel, c.kernel, c.in.channels},
              InitKind::Normal, he_deviation(c), inputs ? Split{3, {c.in.channels}} : channels);
    layer.add(c.norm + ".weight", {c.out_channels}, InitKind::Ones, 0, channels);
    layer.add(c.norm + ".bias", {c.out_channels}, InitKind::Zeros, 0, channels);
    keep(c.norm + ".running_mean", InitKind::Zeros);
    keep(c.norm + ".running_var", InitKind::Ones);
  }
  return statistics;
}

/// A convolution with batch norm. The constructor emits forward; backward() is called when the
/// gradient of its output is known.
class ConvNorm {
 public:
  /// y = norm(conv(x)) + residual. `statistics_at` is the offset in the layer's statistics, in
  /// elements.
  ConvNorm(FunctionBuilder& f, const Network& net, const LayerTensors& p, const ConvNormSpec& c,
           const UnitLayout& statistics, std::int64_t statistics_at, TensorId x, TensorId residual,
           TensorId y)
      : f_(f),
        spec_(c),
        sums_type_(sum_type(net.shape.dtype)),
        eps_(net.spec.norm_eps),
        ranks_(net.shape.norm_ranks),
        channels_(c.held_out(net.shape.tensor_parallel).channels),
        rows_(net.shape.batch * c.out().size * c.out().size),
        dims_({net.shape.batch, c.in.size, c.in.size, c.held_in(net.shape.tensor_parallel).channels,
               channels_, c.kernel, c.stride}),
        x_(x),
        w_(p.w(c.conv + ".weight")),
        gw_(p.g(c.conv + ".weight")),
        scale_(p.w(c.norm + ".weight")),
        gscale_(p.g(c.norm + ".weight")),
        gshift_(p.g(c.norm + ".bias")) {
    const bool divided = net.shape.tensor_parallel > 1;
    const bool partial = divided && c.divided == Divided::Inputs;
    sums_input_ = divided && c.divided == Divided::Outputs;
    z_ = f.tensor(rows_ * channels_, partial ? c.conv + ".sum" : "");
    f.emit(Part::Forward, KernelKind::Conv2dForward, {dims_, {}, {x, w_}, {z_}});
    if (partial) f.communicate(Part::Forward, OpKind::AllReduce, "tp", z_, z_);
    take_statistics();
    const TensorId running = f.inside("statistics", statistics_at, 2 * channels_,
                                      statistics.elements, net.shape.buffer_dtype);
    const double count = this->count();
    f.emit(Part::Forward, KernelKind::BatchNormRunning,
           {{channels_}, {net.spec.norm_momentum, count / (count - 1)}, {stats_}, {running}});
    f.emit(Part::Forward, KernelKind::BatchNormForward,
           {norm_dims(), {eps_}, {z_, scale_, p.w(c.norm + ".bias"), stats_, residual}, {y}});
  }

  /// dx = residual + gradient of the input, unless dx is invalid. `dz`, the gradient of the
  /// convolution's output, may be the same tensor as `dy`.
  void backward(TensorId dy, TensorId dz, TensorId residual, TensorId dx) {
    const TensorId sums = f_.tensor(2 * channels_, sums_type_);
    f_.emit(Part::InputGrad, KernelKind::BatchNormBackwardSums,
            {norm_dims(), {eps_}, {dy, z_, stats_}, {sums}});
    TensorId all = sums;  // sums over all ranks, for the input; parameters get this rank's sums
    if (ranks_ > 1) {
      all = f_.tensor(2 * channels_, sums_type_, spec_.norm + ".sums");
      f_.emit(Part::InputGrad, KernelKind::ColumnSum, {{1, 2 * channels_}, {}, {sums}, {all}});
      f_.communicate(Part::InputGrad, OpKind::AllReduce, "dp", all, all);
    }
    f_.emit(Part::WeightGrad, KernelKind::BatchNormBackwardWeight,
            {{channels_}, {}, {sums}, {gscale_, gshift_}});
    f_.emit(Part::InputGrad, KernelKind::BatchNormBackwardInput,
            {norm_dims(), {eps_, count()}, {dy, z_, scale_, stats_, all}, {dz}});
    if (dx.valid() && sums_input_) {
      const std::int64_t side = spec_.in.size, batch = dims_[0];
      const TensorId sum = f_.tensor(batch * spec_.in.elements(), spec_.conv + ".dx");
      f_.emit(Part::InputGrad, KernelKind::Conv2dBackwardInput, {dims_, {}, {dz, w_, {}}, {sum}});
      f_.communicate(Part::InputGrad, OpKind::AllReduce, "tp", sum, sum);
      f_.emit(Part::InputGrad, KernelKind::Add,
              {{batch * side * side, spec_.in.channels}, {}, {sum, residual, {}}, {dx}});
    } else if (dx.valid()) {
      f_.emit(Part::InputGrad, KernelKind::Conv2dBackwardInput,
              {dims_, {}, {dz, w_, residual}, {dx}});
    }
    f_.emit(Part::WeightGrad, KernelKind::Conv2dBackwardWeight, {dims_, {}, {dz, x_}, {gw_}});
  }

 private:
  std::vector<std::int64_t> norm_dims() const { return {rows_, channels_}; }
  /// From how many values the statistics of a channel are.
  double count() const { return static_cast<double>(rows_ * ranks_); }

  void take_statistics() {
    const std::int64_t size = 2 * channels_;
    if (ranks_ == 1) {
      stats_ = f_.tensor(size, sums_type_);
      f_.emit(Part::Forward, KernelKind::BatchNormStatistics, {norm_dims(), {}, {z_}, {stats_}});
      return;
    }
    const TensorId own = f_.tensor(size, sums_type_, spec_.norm + ".own");
    const TensorId each = f_.tensor(ranks_ * size, sums_type_, spec_.norm + ".each");
    stats_ = f_.tensor(size, sums_type_);
    f_.emit(Part::Forward, KernelKind::BatchNormStatistics, {norm_dims(), {}, {z_}, {own}});
    f_.communicate(Part::Forward, OpKind::AllGather, "dp", own, each);
    f_.emit(Part::Forward, KernelKind::BatchNormCombine,
            {{ranks_, channels_}, {}, {each}, {stats_}});
  }

  FunctionBuilder& f_;
  const ConvNormSpec spec_;
  const DType sums_type_;  // of statistics and sums over rows, also when ranks exchange them
  const double eps_;
  const std::int64_t ranks_, channels_, rows_;
  const std::vector<std::int64_t> dims_;
  bool sums_input_ = false;  // whether the gradient of the input is a partial sum
  TensorId x_, w_, gw_, scale_, gscale_, gshift_, z_, stats_;
};

/// Builds one kind of layer: makes its tensors and its convolutions.
class KindBuilder {
 public:
  KindBuilder(const Network& net, const std::string& kind, const std::string& layer,
              const std::vector<LayerUnit>& units, const UnitLayout& statistics)
      : net_(net),
        layer_(layer),
        f_(kind, net.shape.dtype, net.shape.gradient_dtype),
        p_(f_, net.model, layer, units),
        statistics_(statistics) {}

  FunctionBuilder& f() { return f_; }
  const LayerTensors& parameters() const { return p_; }
  std::int64_t batch() const { return net_.shape.batch; }
  Plane held_out(const ConvNormSpec& c) const { return c.held_out(net_.shape.tensor_parallel); }
  TensorId tensor(Plane plane) { return f_.tensor(batch() * plane.elements()); }
  TensorId formal(std::string_view name, Plane plane) {
    return f_.formal(name, batch() * plane.elements());
  }
  ConvNorm conv_norm(const ConvNormSpec& c, TensorId x, TensorId residual, TensorId y) {
    return ConvNorm(f_, net_, p_, c, statistics_, running_mean_at(c), x, residual, y);
  }
  void relu(TensorId t, Plane plane) {
    f_.emit(Part::Forward, KernelKind::ReluForward, {{batch() * plane.elements()}, {}, {t}, {t}});
  }
  void relu_backward(TensorId dy, TensorId y, TensorId dx, Plane plane) {
    f_.emit(Part::InputGrad, KernelKind::ReluBackward,
            {{batch() * plane.elements()}, {}, {dy, y}, {dx}});
  }
  LayerKind take(bool has_input, bool has_output) {
    p_.pad(f_);
    return {std::move(f_), has_input, has_output};
  }

 private:
  std::int64_t running_mean_at(const ConvNormSpec& c) const {
    const auto& kept = statistics_.parameters;
    const auto found = std::find_if(kept.begin(), kept.end(), [&](const Parameter& p) {
      return p.name == layer_ + "." + c.norm + ".running_mean";
    });
    return statistics_.offsets[to_size(found - kept.begin())];
  }

  const Network& net_;
  const std::string layer_;
  FunctionBuilder f_;
  LayerTensors p_;
  const UnitLayout& statistics_;
};

// ---------------------------------------------------------------- stem

ConvNormSpec stem_conv(const ModelSpec& spec) {
  const Plane image{spec.image_size, 3};
  return {"conv1", "bn1", image, spec.width, spec.small_stem ? 3 : 7, spec.small_stem ? 1 : 2};
}

Plane stem_output(const ModelSpec& spec) {
  const Plane normed = stem_conv(spec).out();
  return spec.small_stem ? normed : Plane{ceil_div(normed.size, 2), normed.channels};
}

LayerKind stem_kind(KindBuilder b, const ModelSpec& spec) {
  const ConvNormSpec c = stem_conv(spec);
  const Plane inner = c.out(), outer = stem_output(spec);
  const TensorId images = b.formal("images", c.in);
  const TensorId y = b.formal("y", outer);
  const TensorId dy = b.formal("dy", outer);
  const TensorId a = spec.small_stem ? y : b.tensor(inner);
  ConvNorm conv = b.conv_norm(c, images, {}, a);
  b.relu(a, inner);
  const TensorId da = b.tensor(inner);
  const std::vector<std::int64_t> pool = {b.batch(), inner.size, inner.size, inner.channels, 3, 2};
  if (spec.small_stem) {
    b.relu_backward(dy, y, da, inner);
  } else {
    b.f().emit(Part::Forward, KernelKind::MaxPoolForward, {pool, {}, {a}, {y}});
    b.f().emit(Part::InputGrad, KernelKind::MaxPoolBackward, {pool, {}, {dy, a}, {da}});
    b.relu_backward(da, a, da, inner);
  }
  conv.backward(da, da, {}, {});
  return b.take(false, true);
}

// ---------------------------------------------------------------- residual blocks

struct BlockSpec {
  std::vector<ConvNormSpec> convs;  // one after the other, with a ReLU between two
  bool projects = false;            // the last of `convs` is that of the shortcut
  Plane in, out;
  const ConvNormSpec& shortcut() const { return convs.back(); }
  std::size_t main_convs() const { return convs.size() - (projects ? 1 : 0); }
};

BlockSpec block_spec(const ModelSpec& spec, Plane in, std::int64_t width, std::int64_t stride) {
  BlockSpec b;
  b.in = in;
  const auto add = [&](std::int64_t channels, std::int64_t kernel, std::int64_t step) {
    const std::string n = std::to_string(b.convs.size() + 1);
    const Plane from = b.convs.empty() ? in : b.convs.back().out();
    b.convs.push_back({"conv" + n, "bn" + n, from, channels, kernel, step});
  };
  if (spec.bottleneck) {
    add(width, 1, 1);
    add(width, 3, stride);
    add(4 * width, 1, 1);
  } else {
    add(width, 3, stride);
    add(width, 3, 1);
  }
  b.convs[0].divided = Divided::Outputs;
  b.convs[1].divided = Divided::Inputs;
  b.out = b.convs.back().out();
  b.projects = stride != 1 || in.channels != b.out.channels;
  if (b.projects) {
    b.convs.push_back({"downsample.conv", "downsample.bn", in, b.out.channels, 1, stride});
  }
  return b;
}

/// y = relu(main path of x + shortcut of x).
LayerKind block_kind(KindBuilder b, const BlockSpec& block) {
  const TensorId x = b.formal("x", block.in);
  const TensorId y = b.formal("y", block.out);
  std::vector<ConvNorm> path;
  std::vector<TensorId> activations;  // outputs of the ReLUs between convolutions
  TensorId input = x;
  for (std::size_t i = 0; i + 1 < block.main_convs(); ++i) {
    const Plane plane = b.held_out(block.convs[i]);
    const TensorId a = b.tensor(plane);
    path.push_back(b.conv_norm(block.convs[i], input, {}, a));
    b.relu(a, plane);
    activations.push_back(a);
    input = a;
  }
  TensorId shortcut = x;
  std::vector<ConvNorm> projection;
  if (block.projects) {
    shortcut = b.tensor(block.out);
    projection.push_back(b.conv_norm(block.shortcut(), x, {}, shortcut));
  }
  path.push_back(b.conv_norm(block.convs[block.main_convs() - 1], input, shortcut, y));
  b.relu(y, block.out);

  const TensorId dy = b.formal("dy", block.out);
  const TensorId dx = b.formal("dx", block.in);
  const TensorId dsum = b.tensor(block.out);  // the gradient of the last ReLU's input
  b.relu_backward(dy, y, dsum, block.out);
  TensorId residual = dsum;
  if (block.projects) {
    residual = b.tensor(block.in);
    projection[0].backward(dsum, b.tensor(block.out), {}, residual);
  }
  TensorId d = dsum;
  for (std::size_t i = path.size(); i-- > 0;) {
    // The gradient of the sum is still needed if it is also that of the shortcut.
    const bool shared = d.v == dsum.v && !block.projects;
    const TensorId dz = shared ? b.tensor(block.out) : d;
    if (i == 0) {
      path[i].backward(d, dz, residual, dx);
      break;
    }
    const Plane inner = b.held_out(block.convs[i - 1]);
    const TensorId da = b.tensor(inner);
    path[i].backward(d, dz, {}, da);
    b.relu_backward(da, activations[i - 1], da, inner);
    d = da;
  }
  return b.take(true, true);
}

// ---------------------------------------------------------------- head

LayerKind head_kind(KindBuilder b, const ModelSpec& spec, const LayerShape& shape, Plane in) {
  FunctionBuilder& f = b.f();
  const std::int64_t n = shape.batch, channels = in.channels;
  const std::vector<std::int64_t> pool = {n, in.size * in.size, channels};
  const TensorId w = b.parameters().w("fc.weight"), gw = b.parameters().g("fc.weight");
  const TensorId x = b.formal("x", in);
  const TensorId targets = f.formal("targets", n, DType::I32);
  const TensorId loss = f.formal("loss", 1, sum_type(shape.dtype));
  const TensorId pooled = f.tensor(n * channels);
  f.emit(Part::Forward, KernelKind::AveragePoolForward, {pool, {}, {x}, {pooled}});
  const TensorId logits = f.tensor(n * spec.classes);  // its gradient overwrites it
  f.linear_forward(n, channels, spec.classes, pooled, w, b.parameters().w("fc.bias"), {}, logits);
  f.emit(Part::Forward, KernelKind::CrossEntropy,
         {{n, spec.classes},
          {shape.loss_scale},
          with_loss_scale(f, shape, {logits, targets}),
          {logits, loss}});
  const TensorId dpooled = f.tensor(n * channels);
  f.linear_backward(n, channels, spec.classes, logits, pooled, w, dpooled, gw,
                    b.parameters().g("fc.bias"));
  f.emit(Part::InputGrad, KernelKind::AveragePoolBackward,
         {pool, {}, {dpooled}, {b.formal("dx", in)}});
  return b.take(true, false);
}

}  // namespace

Model build_resnet(const ModelSpec& spec, const LayerShape& shape) {
  Model model;
  const Network net{spec, shape, model};
  const std::int64_t element = size_of(shape.dtype);
  std::vector<std::string> kind_names;  // parallel to Model::kinds
  /// Adds a layer with these convolutions, and with what `declare_more` adds. `build` builds its
  /// kind, unless there is a layer of that kind already.
  const auto add_layer = [&](const std::string& name, const std::string& kind,
                             const std::vector<ConvNormSpec>& convs, Plane output,
                             const auto& declare_more, const auto& build) {
    LayerDeclaration declaration(model, spec, shape, name);
    UnitLayout statistics = declare(declaration, shape, name, convs);
    declare_more(declaration);
    Layer layer;
    layer.name = name;
    layer.units = declaration.units();
    layer.output_bytes = shape.batch * output.elements() * element;
    if (statistics.elements > 0) {
      layer.statistics = static_cast<int>(model.statistics.size());
      model.statistics.push_back(std::move(statistics));
    }
    const auto known = std::find(kind_names.begin(), kind_names.end(), kind);
    layer.kind = layer.keeping_kind = static_cast<int>(known - kind_names.begin());
    if (known == kind_names.end()) {
      kind_names.push_back(kind);
      const UnitLayout none;
      model.kinds.push_back(
          build(KindBuilder(net, kind, name, layer.units,
                            layer.statistics < 0 ? none : model.statistics[layer.statistics])));
    }
    layer.forward_flops = work(model.kinds[layer.kind].functions.forward()).flops;
    layer.balance = layer.forward_flops.v;
    model.layers.push_back(std::move(layer));
  };
  const auto nothing_more = [](LayerDeclaration&) {};

  add_layer("stem", "stem", {stem_conv(spec)}, stem_output(spec), nothing_more,
            [&](KindBuilder b) { return stem_kind(std::move(b), spec); });
  Plane at = stem_output(spec);
  int index = 0;
  std::int64_t width = spec.width;
  for (std::size_t stage = 0; stage < spec.blocks.size(); ++stage, width *= 2) {
    for (int i = 0; i < spec.blocks[stage]; ++i, ++index) {
      const BlockSpec block = block_spec(spec, at, width, stage > 0 && i == 0 ? 2 : 1);
      const std::string kind =
          "stage" + std::to_string(stage + 1) + (block.projects ? ".first" : "");
      add_layer("blocks." + std::to_string(index), kind, block.convs, block.out, nothing_more,
                [&](KindBuilder b) { return block_kind(std::move(b), block); });
      at = block.out;
    }
  }
  add_layer(
      "head", "head", {}, {},
      [&](LayerDeclaration& layer) {
        // The standard deviation of the uniform weights and biases of torch.nn.Linear.
        const double deviation = 1 / std::sqrt(3.0 * static_cast<double>(at.channels));
        layer.add("fc.weight", {spec.classes, at.channels}, InitKind::Normal, deviation);
        layer.add("fc.bias", {spec.classes}, InitKind::Normal, deviation);
      },
      [&](KindBuilder b) { return head_kind(std::move(b), spec, shape, at); });
  return model;
}

}  // namespace lockstep
