#!/usr/bin/env python3
"""An independent model for the loss curves: transformers of any parts, dense or with mixtures of
experts, in plain PyTorch (1.13 or newer).

Usage: gpt2_oracle.py FOLDER, which holds
  job.json           sizes, optimizer, schedule
  model.safetensors  initial weights
  tokens.bin, targets.bin  int32 [steps, batch, seq]
Prints "<loss> <gradient norm>" for every step. It shares nothing with the C++ code but these files:
autograd does the backward pass, torch.optim the update (but Muon, which is written out), and the file format is read by hand.
"""
import json
import math
import pathlib
import struct
import sys

import numpy
import torch
import torch.nn.functional as F

NUMPY_TYPES = {"F32": numpy.float32, "F64": numpy.float64}


def read_safetensors(path):
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = numpy.frombuffer(raw[8 + length + begin : 8 + length + end],
                                  dtype=NUMPY_TYPES[entry["dtype"]])
        tensors[name] = torch.tensor(values.reshape(entry["shape"]))
    return tensors


def capped(x, cap):
    return cap * torch.tanh(x / cap) if cap else x


def attention(q, k, v, kept, causal, window, job):
    """q, k, v: [batch, heads, seq, head_dim]; the plain definition, with its score matrix, whose
    probabilities are multiplied by `kept`."""
    seq = q.shape[2]
    scores = q @ k.transpose(-2, -1) * (job["attention_multiplier"] or 1 / math.sqrt(q.shape[-1]))
    scores = capped(scores, job["attention_softcap"])
    hidden = torch.ones(seq, seq, dtype=torch.bool).triu(1) & causal
    if window:
        hidden |= torch.ones(seq, seq, dtype=torch.bool).tril(-window)
    return (scores.masked_fill(hidden, -math.inf).softmax(-1) * kept) @ v


def rotate(x, theta):
    """Rotary positions with halves paired, as in Hugging Face's Llama."""
    seq, dim = x.shape[2], x.shape[3]
    frequency = theta ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angle = torch.arange(seq, dtype=torch.float64)[:, None] * frequency
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., : dim // 2], x[..., dim // 2 :]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def rotate_part(x, theta, job):
    """The first elements of every head."""
    rotated = int(job["rotary_fraction"] * x.shape[-1]) // 2 * 2
    return torch.cat([rotate(x[..., :rotated], theta), x[..., rotated:]], -1)


def split_heads(qkv, job, norms, theta):
    """[batch, seq, (heads + 2 kv_heads) head_dim] -> q, k, v with one k and v per query head."""
    heads, kv_heads = job["heads"], job["kv_heads"]
    parts = qkv.unflatten(-1, (heads + 2 * kv_heads, job["head_dim"])).transpose(1, 2)
    q, k, v = parts.split([heads, kv_heads, kv_heads], dim=1)
    if norms:
        q, k = (rms_norm(x, weight, job["norm_eps"]) for x, weight in zip((q, k), norms))
    if job["positions"] == "rotary":
        q, k = rotate_part(q, theta, job), rotate_part(k, theta, job)
    repeat = heads // kv_heads
    return q, k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)


def latent_heads(p, b, h, job):
    """q, k, v of multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, equations 9 to 18)."""
    nope, rope, value = job["qk_nope_head_dim"], job["qk_rope_head_dim"], job["v_head_dim"]
    eps = job["norm_eps"]

    def heads_of(x, width):
        return x.unflatten(-1, (job["heads"], width)).transpose(1, 2)

    if b + "wq" in p:
        q = F.linear(h, p[b + "wq"])
    else:
        q = F.linear(rms_norm(F.linear(h, p[b + "wq_a"]), p[b + "q_a_norm.weight"], eps), p[b + "wq_b"])
    c, shared = F.linear(h, p[b + "wkv_a"]).split([job["kv_lora_rank"], rope], -1)
    kv = F.linear(rms_norm(c, p[b + "kv_a_norm.weight"], eps), p[b + "wkv_b"])
    q_nope, q_rope = heads_of(q, nope + rope).split([nope, rope], -1)
    k_nope, v = heads_of(kv, nope + value).split([nope, value], -1)
    k_rope = rotate(shared[:, None], job["rope_theta"]).expand(-1, job["heads"], -1, -1)
    q = torch.cat([q_nope, rotate(q_rope, job["rope_theta"])], -1)
    return q, torch.cat([k_nope, k_rope], -1), v


def join_heads(o):
    return o.transpose(1, 2).flatten(-2)


def rms_norm(x, weight, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def delayed_scale(history, largest, margin):
    """The inverse of Transformer Engine's new_scaling_factor (its documentation, DelayedScaling):
    FP8_MAX / amax / 2^margin, where amax is of the history; of powers of two the next one."""
    return 2.0 ** (math.ceil(math.log2(max(history) / largest)) + margin)


class DelayedScales:
    """Transformer Engine's recipe DelayedScaling for the factors x, w and dy of every linear layer:
    each tensor has an amax history of N steps and a scale, which a step uses as the step before has
    left it, and begins with the scale 1."""

    def __init__(self, job):
        self.job, self.scales, self.histories, self.now = job, {}, {}, {}

    def of(self, name, factor, x):
        key = name, factor
        self.now[key] = max(self.now.get(key, 0.0), x.abs().max().item())
        return self.scales.get(key, 1.0)

    def step(self):
        for key, amax in self.now.items():
            history = ([amax] + self.histories.get(key, []))[: self.job["fp8_amax_history_len"]]
            self.histories[key] = history
            kept = history[:1] if self.job["fp8_most_recent"] else history
            bits = self.job["fp8_gradient"] if key[1] == "dy" else 3
            if max(kept) > 0:
                self.scales[key] = delayed_scale(kept, 448.0 if bits == 3 else 57344.0, self.job["fp8_margin"])
        self.now = {}


def float8(x, mantissa, across, along, known=None):
    """x [rows, cols] rounded to a format of 8 bits (OCP 8-bit Floating Point Specification), where
    blocks of `across` x `along` share a scale, the least power of two that brings them in range."""
    largest, least = (448.0, -6) if mantissa == 3 else (57344.0, -14)
    rows, cols = x.shape
    if along == 0:  # one scale for all
        across, along = rows, cols
    blocks = x.reshape(rows // across, across, cols // along, along)
    amax = blocks.abs().amax((1, 3), keepdim=True)
    scale = torch.where(amax > 0, torch.exp2(torch.ceil(torch.log2(amax / largest))), torch.ones_like(amax))
    if known is not None:
        scale = torch.full_like(amax, known)
    scaled = blocks / scale
    exponent = torch.frexp(scaled)[1] - 1  # of 1.m
    step = torch.exp2((exponent.clamp(min=least) - mantissa).to(x.dtype))
    return ((scaled / step).round().clamp(-largest / step, largest / step) * step * scale).reshape(x.shape)


def block_rounded(x, block, levels):
    """x whose consecutive elements, in blocks, are multiples of the block's scale, its largest
    magnitude over `levels` (ZeRO++, Wang et al. 2023). Scales are float32."""
    blocks = x.detach().reshape(-1, block)
    scale = (blocks.abs().amax(1, keepdim=True) / levels).to(torch.float32).to(x.dtype)
    codes = torch.where(scale > 0, blocks / scale, blocks).round().clamp(-levels, levels)
    return (codes * scale).reshape(x.shape)


def low_bits(x, block, levels):
    """What is computed with, whose gradient is that of x."""
    return x + (block_rounded(x, block, levels) - x.detach())


class Float8Linear(torch.autograd.Function):
    """x wT whose three products have factors of 8 bits, with scales along what each sums over."""

    @staticmethod
    def forward(ctx, x, w, job, name):
        ctx.save_for_backward(x, w)
        ctx.job, ctx.name = job, name
        block, square = job["fp8_block"], job["fp8_block"] if job["fp8_square"] else 1
        known = [job["delayed"].of(name, *factor) for factor in (("x", x), ("w", w))] if job["delayed"] else [None, None]
        ctx.known = known
        return float8(x, 3, 1, block, known[0]) @ float8(w, 3, square, block, known[1]).T

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        bits, block = ctx.job["fp8_gradient"], ctx.job["fp8_block"]
        square = block if ctx.job["fp8_square"] else 1
        known = ctx.known + [ctx.job["delayed"].of(ctx.name, "dy", dy) if ctx.job["delayed"] else None]
        dx = float8(dy, bits, 1, block, known[2]) @ float8(w.T, 3, square, block, known[1]).T
        dw = float8(dy.T, bits, 1, block, known[2]) @ float8(x.T, 3, 1, block, known[0]).T
        return dx, dw, None, None


def linear(p, name, x, job, bias=None):
    """A linear layer, with its low-rank adapter if it has one (Hu et al. 2021, equation 3)."""
    if job["fp8"]:
        parts = [Float8Linear.apply(part.flatten(0, 1), p[name], job, name) for part in x.split(job["microbatch"])]
        y = torch.cat(parts).view(*x.shape[:2], -1)
        y = y + p[bias] if bias else y
    else:
        y = F.linear(x, p[name], p[bias] if bias else None)
    if name + ".lora_a" in p:
        places = {"wqkv": 3, "wo": 4, "wfc": 5, "w13": 5, "wproj": 6, "w2": 6}
        _, layer, _, weight = name.split(".")
        x = dropped(job, x, job["adapter_dropout"], int(layer) + 1, places[weight])
        y = y + job["adapter_scale"] * (x @ p[name + ".lora_a"].T @ p[name + ".lora_b"].T)
    return y


def linear_of_expert(p, name, e, x, job, bias=None):
    """A linear layer of expert e, with the expert's own adapter if it has one."""
    y = F.linear(x, p[name][e], p[bias][e] if bias else None)
    if name + ".lora_a" in p:
        y = y + job["adapter_scale"] * (x @ p[name + ".lora_a"][e].T @ p[name + ".lora_b"][e].T)
    return y


def expert(p, b, e, x, job):
    if job["activation"] == "gelu":
        h = F.gelu(linear_of_expert(p, b + "wfc", e, x, job, b + "bfc"), approximate="tanh")
        return linear_of_expert(p, b + "wproj", e, h, job, b + "bproj")
    gate, up = linear_of_expert(p, b + "w13", e, x, job).chunk(2, -1)
    return linear_of_expert(p, b + "w2", e, F.silu(gate) * up, job)


def mixture(p, b, h, job, auxiliary):
    """Routes the tokens of each microbatch; room goes to first choices in order, then to second."""
    experts, choices = job["experts"], job["experts_per_token"]
    parts = []
    for part in h.split(job["microbatch"]):
        x = part.flatten(0, 1)
        logits = F.linear(x, p[b + "router"])
        probs = logits.sigmoid() if job["sigmoid"] else logits.softmax(-1)
        scores = probs + p[b + "router_bias"] if b + "router_bias" in p else probs
        chosen = scores.topk(choices).indices
        gates = probs.gather(-1, chosen)
        if choices > 1:
            gates = gates / gates.sum(-1, keepdim=True)
        room = [job["capacity"]] * experts
        takes = [[] for _ in range(experts)]
        for c in range(choices):
            for t, e in enumerate(chosen[:, c].tolist()):
                if room[e] > 0:
                    room[e] -= 1
                    takes[e].append((t, c))
        y = torch.zeros_like(x)
        for e, pairs in enumerate(takes):
            if pairs:
                t, c = (torch.tensor(index) for index in zip(*pairs))
                y = y.index_add(0, t, gates[t, c, None] * expert(p, b + "experts.", e, x[t], job))
        load = torch.bincount(chosen.flatten(), minlength=experts).to(x.dtype)
        job["loads"][b] = job["loads"].get(b, 0) + load
        share = load / chosen.numel()
        parts_of_one = probs / probs.sum(-1, keepdim=True)  # DeepSeek-V3, equation 19
        auxiliary.append(experts * (share * parts_of_one.mean(0)).sum() * part.shape[0] / h.shape[0])
        parts.append(y.view_as(part))
    return torch.cat(parts)


def has_experts(job, layer):
    late = layer >= job["dense_layers"]
    return job["experts"] > 0 and late and (layer + 1) % job["expert_period"] == 0


M32, M64 = 2**32 - 1, 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix64(x):
    """SplitMix64's output function."""
    x = (x + GOLDEN) & M64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & M64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & M64
    return x ^ (x >> 31)


def token_rows(job, batch, tokens, layer, place):
    """The 64 random bits of every token at a place of a layer: [batch][tokens]."""
    rows = []
    for b in range(batch):
        of_sample = mix64((mix64(job["seed"] ^ 0x64726F706F757421) + job["first"] + b) & M64)
        keys = [mix64((of_sample + t) & M64) >> 33 for t in range(tokens)]
        rows.append([mix64(key | layer << 31 | place << 60) for key in keys])
    return rows


def kept_columns(row, columns, share):
    """Which columns of a row are kept."""
    bits = ((row & M32) + numpy.arange(columns, dtype=numpy.uint64) * 0x9E3779B9) & M32
    bits = ((bits ^ (bits >> 16)) * 0x7FEB352D & M32) ^ (row >> 32)
    bits = (bits ^ (bits >> 15)) * 0x846CA68B & M32
    bits ^= bits >> 16
    return torch.tensor((bits >= int(share * 2**32)).astype(float))


def dropped(job, x, share, layer, place):
    """Dropout by counters: the seed, sample and token of a row, then layer, place and column."""
    if share == 0:
        return x
    rows = token_rows(job, x.shape[0], x.shape[1], layer, place)
    kept = [torch.stack([kept_columns(row, x.shape[2], share) for row in of]) for of in rows]
    return x * torch.stack(kept).to(x.dtype) / (1 - share)


def kept_probabilities(job, layer, seq):
    """What the probabilities of a block are multiplied by: [batch, heads, query, key]. A token's
    bits are mixed with the number of the head."""
    share = job["attention_dropout"]
    if share == 0:
        return 1
    rows = token_rows(job, job["batch"], seq, layer + 1, 8)
    kept = [[[kept_columns(mix64((row + h) & M64), seq, share) for row in of]
             for h in range(job["heads"])] for of in rows]
    return torch.stack([torch.stack([torch.stack(r) for r in of]) for of in kept]) / (1 - share)


def branch(job, layer, place, x):
    """What a block adds to the residual; the embedding is layer 0."""
    return dropped(job, x, job["residual_dropout"], layer + 1, place)


def masked(job, tokens, first):
    """Masked language modelling (Devlin et al. 2018, section 3.1) of samples from `first` on: the
    tokens that are seen, and the targets, of which all but the chosen ones are -100. Of a sample
    are chosen the tokens with the smallest random numbers of (seed, sample, position)."""
    seen, targets = tokens.clone(), torch.full_like(tokens, -100)
    for b in range(tokens.shape[0]):
        key = mix64((mix64(job["seed"] ^ 0x6D61736B696E6721) + first + b) & M64)
        draws = sorted((mix64((key + i) & M64), i) for i in range(tokens.shape[1]))
        for draw, i in draws[: job["masked"]]:
            bits = mix64(draw)
            targets[b, i] = tokens[b, i]
            if bits % 10 < 9:
                seen[b, i] = job["mask_token"] if bits % 10 < 8 else mix64(bits) % job["vocab"]
    return seen, targets


def embedded(p, job, x, norm):
    """The embeddings' sum as the first block gets it: all tokens are of segment 0."""
    if job["token_types"] > 0:
        x = x + p["embed.wtt"][0]
    if job["embedding_norm"]:
        x = norm(x, "embed.norm")
    return dropped(job, x, job["embedding_dropout"], 0, 0)


def logits_of(p, job, x, norm):
    if job["head_transform"]:
        x = F.gelu(F.linear(x, p["head.transform.weight"], p["head.transform.bias"]), approximate="tanh")
    if job["head_transform"] or job["norm_place"] != "behind_sum":
        x = norm(x, "head.norm")
    x = x * job["logit_multiplier"]
    return F.linear(x, p.get("head.lm_head", p["embed.wte"]), p.get("head.bias"))


ACTIVATIONS = {
    "gelu": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "squared_relu": lambda x: F.relu(x) ** 2,
    "swiglu": F.silu,
    "geglu": lambda x: F.gelu(x, approximate="tanh"),
}


def model_logits(p, tokens, job, auxiliary):
    def norm(x, name):
        if job["norm"] == "rms_norm":
            return rms_norm(x, p[name + ".weight"], job["norm_eps"])
        return F.layer_norm(x, x.shape[-1:], p[name + ".weight"], p[name + ".bias"], job["norm_eps"])

    def bias(name):
        return name if name in p else None

    names = "norm" if job["norm"] == "rms_norm" else "ln"
    gated = job["activation"] in ("swiglu", "geglu")
    x = p["embed.wte"][tokens] * job["embedding_multiplier"]
    if job["positions"] == "learned":
        x = x + p["embed.wpe"][: tokens.shape[1]]
    x = embedded(p, job, x, norm)
    for layer in range(job["layers"]):
        b = f"blocks.{layer}."
        window = job["windows"][layer]

        def attend(h):
            kept = kept_probabilities(job, layer, tokens.shape[1])
            if job["kv_lora_rank"] > 0:
                heads = latent_heads(p, b + "attn.", h, job)
            else:
                norms = [p[b + f"attn.{name}_norm"] for name in "qk"] if job["qk_norm"] else None
                theta = job["local_rope_theta"] if window and job["local_rope_theta"] else job["rope_theta"]
                qkv = linear(p, b + "attn.wqkv", h, job, bias(b + "attn.bqkv"))
                heads = split_heads(qkv, job, norms, theta)
            o = attention(*heads, kept, job["causal"], window, job)
            return branch(job, layer, 1, linear(p, b + "attn.wo", join_heads(o), job, bias(b + "attn.bo")))

        def feed(h):
            if has_experts(job, layer):
                return branch(job, layer, 2, mixture(p, b + "moe.", h, job, auxiliary))
            first, second = ("w13", "w2") if gated else ("wfc", "wproj")
            h = linear(p, b + "mlp." + first, h, job, bias(b + "mlp.bfc"))
            act = ACTIVATIONS[job["activation"]]
            if gated:
                gate, up = h.chunk(2, -1)
                h = act(gate) * up
            else:
                h = act(h)
            return branch(job, layer, 2, linear(p, b + "mlp." + second, h, job, bias(b + "mlp.bproj")))

        def added(name, x, f):
            """What a branch adds to the residual, with its norms but for one behind the sum."""
            h = norm(x, b + name) if job["norm_place"] in ("before", "around") else x
            y = f(h)
            if job["norm_place"] == "around":
                y = norm(y, b + name + "_last")
            if job["norm_place"] == "behind_branch":
                y = norm(y, b + name)
            return job["residual_multiplier"] * y

        if job["parallel_branches"]:
            second = names + ("1" if job["shared_norm"] else "2")
            x = x + added(names + "1", x, attend) + added(second, x, feed)
            continue
        for name, f in ((names + "1", attend), (names + "2", feed)):
            if job["norm_place"] == "behind_sum":
                x = norm(x + f(x), b + name)
            else:
                x = x + added(name, x, f)
    return capped(logits_of(p, job, x, norm), job["logit_softcap"])


def learning_rate(job, step):
    """Linear warm-up over the first steps, linear decay to zero over the last."""
    if step < job["warmup_steps"]:
        return job["lr"] * (step + 1) / job["warmup_steps"]
    left = job["steps"] - step - 1
    return job["lr"] * min(1.0, left / job["decay_steps"]) if job["decay_steps"] else job["lr"]


def sections(name, weight, job):
    """The matrices that Muon makes orthogonal one by one, as views of a parameter of a block."""
    if ".experts." in name:
        return [part for expert in weight for part in sections("." + name.rpartition(".")[2], expert, job)]
    if name.endswith("wqkv"):
        kv = job["kv_heads"] * job["head_dim"]
        return weight.split([job["heads"] * job["head_dim"], kv, kv])
    return weight.chunk(2) if name.endswith("w13") else [weight]


def orthogonalized(g, steps):
    """Newton-Schulz iterations on the wide one of g and its transpose (Jordan et al. 2024)."""
    x = g.T if g.shape[0] > g.shape[1] else g
    x = x / (x.square().sum().sqrt() + 1e-7)
    for _ in range(steps):
        gram = x.mm(x.T)
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram.mm(gram)).mm(x)
    return x.T if g.shape[0] > g.shape[1] else x


class Muon:
    """Muon with decoupled weight decay, written out; its parameters have no other optimizer."""

    def __init__(self, named, job):
        self.job = job
        self.named = named
        self.momentum = {name: torch.zeros_like(value) for name, value in named.items()}

    def step(self, lr):
        job = self.job
        for name, weight in self.named.items():
            momentum = self.momentum[name]
            momentum.mul_(job["momentum"]).add_(weight.grad)
            direction = weight.grad + job["momentum"] * momentum if job["nesterov"] else momentum
            weight.data.mul_(1 - lr * job["weight_decay"])
            for w, d in zip(sections(name, weight.data, job), sections(name, direction, job)):
                rows, cols = d.shape
                factor = 0.2 * max(rows, cols) ** 0.5 if job["matches_adamw"] else max(1, rows / cols) ** 0.5
                w.sub_(lr * factor * orthogonalized(d, job["ns_steps"]))


class Adafactor:
    """Shazeer and Stern 2018, algorithms 4 to 6, with means for sums: of every parameter."""

    def __init__(self, named, job):
        self.job = job
        self.named = named
        self.step_number = 0
        self.moments = {name: [torch.zeros_like(value[..., 0]), torch.zeros_like(value[..., 0, :])]
                        if value.dim() > 1 else [torch.zeros_like(value)]
                        for name, value in named.items()}
        self.first = {name: torch.zeros_like(value) for name, value in named.items()}

    def matrices(self, name, value):
        """Every expert is a matrix of its own."""
        return value if value.dim() == 3 else value[None]

    def step(self, lr):
        job = self.job
        self.step_number += 1
        t = self.step_number
        rate = min(lr, t ** -0.5) if job["relative_step"] else lr
        beta2 = 1 - t ** job["decay_rate"]
        for name, weight in self.named.items():
            square = weight.grad.square() + job["eps_square"]
            moments = self.moments[name]
            if weight.dim() > 1:
                rows, columns = moments
                rows.mul_(beta2).add_((1 - beta2) * square.mean(-1))
                columns.mul_(beta2).add_((1 - beta2) * square.mean(-2))
                second = rows[..., :, None] * columns[..., None, :] / rows.mean(-1)[..., None, None]
            else:
                second = moments[0].mul_(beta2).add_((1 - beta2) * square)
            update = weight.grad / second.sqrt()
            decays = job["decays_all"] or weight.dim() > 1
            for w, u, m in zip(self.matrices(name, weight.data), self.matrices(name, update),
                               self.matrices(name, self.first[name])):
                scale = max(job["eps_scale"], w.square().mean().sqrt()) if job["scale_parameter"] else 1
                a = rate * scale
                moved = a * u / max(1.0, u.square().mean().sqrt() / job["clip_threshold"])
                if job["first_moment_decay"] > 0:
                    m.mul_(job["first_moment_decay"]).add_((1 - job["first_moment_decay"]) * moved)
                    moved = m
                w.sub_(moved + (job["weight_decay"] if decays else 0) * a * w)


class Replica:
    """A model with its optimizer, which trains on samples of its own. `number` counts those of a
    job; most jobs have one, which trains on all samples."""

    def __init__(self, weights, job, number):
        self.job = {**job, "batch": job["batch"] // job["replicas"]}
        self.number = number
        self.parameters = parameters = {
            name: torch.nn.Parameter(value.clone(), requires_grad=name not in job["frozen"]
                                     and not name.endswith((".router_bias", ".fp8_scale")))
            for name, value in weights.items()}
        kinds = {"AdamW": torch.optim.AdamW, "Adam": torch.optim.Adam, "Muon": torch.optim.AdamW,
                 "Adafactor": torch.optim.AdamW}
        self.trained = [value for value in parameters.values() if value.requires_grad]
        self.job["delayed"] = DelayedScales(job) if job["fp8_delayed"] else None
        self.muon = Muon({name: value for name, value in parameters.items()
                          if job["optimizer"] == "Muon" and value.requires_grad
                          and name.startswith("blocks.")
                          and value.dim() == (3 if ".experts." in name else 2)}, job)
        self.adafactor = Adafactor({name: value for name, value in parameters.items()
                                    if job["optimizer"] == "Adafactor" and value.requires_grad}, job)
        written_out = [*self.muon.named.values(), *self.adafactor.named.values()]
        updated = [value for value in self.trained
                   if all(value is not other for other in written_out)]
        matrices = [value for value in updated if value.dim() > 1]
        others = [value for value in updated if value.dim() <= 1]
        decay = job["weight_decay"] if job["decays_all"] else 0.0
        self.optimizer = kinds[job["optimizer"]](
            [{"params": matrices}, {"params": others, "weight_decay": decay}], lr=job["lr"],
            eps=job["eps"], betas=(job["beta1"], job["beta2"]), weight_decay=job["weight_decay"])

    def train(self, step, tokens, targets):
        """One step on the replica's part of the samples. Returns loss and norm."""
        job, batch = self.job, self.job["batch"]
        auxiliary = []
        job["loads"] = {}
        job["first"] = (step * job["replicas"] + self.number) * batch
        own = slice(self.number * batch, (self.number + 1) * batch)
        used = self.parameters
        if job["weight_block"] > 0:
            used = {name: low_bits(value, job["weight_block"], 127) for name, value in used.items()}
        losses = []
        totals = [torch.zeros_like(value) for value in self.trained]
        for part in range(job["gradient_ranks"]):  # each has its part of the samples
            size = batch // job["gradient_ranks"]
            mine = slice(own.start + part * size, own.start + (part + 1) * size)
            logits = model_logits(used, tokens[mine], job, auxiliary)
            loss = F.cross_entropy(logits.flatten(0, 1), targets[mine].flatten()) / job["gradient_ranks"]
            losses.append(loss.detach())
            gradients = torch.autograd.grad(loss + job["router_aux_loss_coef"] * sum(auxiliary), self.trained,
                                            retain_graph=True, allow_unused=True)
            for total, gradient in zip(totals, gradients):
                if gradient is not None and job["gradient_block"] > 0:
                    gradient = block_rounded(gradient, job["gradient_block"], job["gradient_levels"])
                total += 0 if gradient is None else gradient
        loss = sum(losses)
        for value, total in zip(self.trained, totals):
            value.grad = total
        norm = torch.nn.utils.clip_grad_norm_(self.trained, job["max_norm"])
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(job, step)
        self.optimizer.step()
        self.adafactor.step(learning_rate(job, step))
        self.muon.step(learning_rate(job, step) * job["muon_lr_factor"])
        if job["delayed"]:
            job["delayed"].step()
        if job["router_bias_update_rate"] > 0:  # Wang et al. 2024, algorithm 1
            for b, load in job["loads"].items():
                bias = self.parameters[b + "router_bias"]
                bias.data += job["router_bias_update_rate"] * (load.mean() - load).sign()
        return loss.item(), norm.item()


class Synchronization:
    """Brings replicas together: the mean of their parameters, or DiLoCo's outer step (Douillard et
    al. 2023, algorithm 1), whose optimizer is torch.optim.SGD."""

    def __init__(self, replicas, job):
        self.replicas = replicas
        self.diloco = job["semi_sync_method"] == "diloco"
        if self.diloco:
            self.outer = {name: torch.nn.Parameter(value.detach().clone())
                          for name, value in replicas[0].parameters.items()
                          if name not in job["frozen"]}
            self.optimizer = torch.optim.SGD(self.outer.values(), lr=job["outer_lr"],
                                             momentum=job["outer_momentum"],
                                             nesterov=job["outer_nesterov"])

    def mean(self, name):
        return sum(r.parameters[name].data for r in self.replicas) / len(self.replicas)

    def run(self):
        if not self.diloco:
            result = {name: self.mean(name) for name in self.replicas[0].parameters}
        else:
            for name, value in self.outer.items():
                value.grad = value.data - self.mean(name)
            self.optimizer.step()
            result = {name: value.data for name, value in self.outer.items()}
        for replica in self.replicas:
            for name, value in result.items():
                replica.parameters[name].data.copy_(value)


def main(folder):
    torch.set_num_threads(1)
    job = json.loads((folder / "job.json").read_text())
    weights = read_safetensors(folder / "model.safetensors")
    shape = (job["steps"], job["batch"], job["seq"])
    tokens, targets = (torch.tensor(numpy.fromfile(folder / name, dtype=numpy.int32).reshape(shape),
                                    dtype=torch.long) for name in ("tokens.bin", "targets.bin"))
    replicas = [Replica(weights, job, number) for number in range(job["replicas"])]
    synchronization = Synchronization(replicas, job) if job["sync_steps"] > 0 else None
    for step in range(job["steps"]):
        if job["masked"] > 0:
            tokens[step], targets[step] = masked(job, tokens[step], step * job["batch"])
        numbers = [replica.train(step, tokens[step], targets[step]) for replica in replicas]
        if synchronization and (step + 1) % job["sync_steps"] == 0:
            synchronization.run()
        loss, norm = (sum(column) / len(replicas) for column in zip(*numbers))
        print(f"{loss:.17g} {norm:.17g}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
