#!/usr/bin/env python3
"""Writes a tiny model in the layout of Hugging Face's transformers, and what it computes.

Usage: hf_oracle.py KIND FOLDER, where KIND is a key of MODELS below. FOLDER gets config.json,
model.safetensors (of mixtral, two files and their index) with random float32 weights, ids.bin (int32),
and logits.bin (float64 [tokens, vocabulary]). Of bert and roberta, which see tokens.bin (int32) there,
masked as job.json says, it prints the loss instead. The models are written from the definitions in
transformers' modeling_*.py, in float64 and without any code of this repository.
"""
import json
import math
import os
import struct
import sys

import torch

VOCAB, HIDDEN, HEADS, KV_HEADS, LAYERS, FFN, LENGTH, WINDOW = 61, 48, 6, 2, 3, 112, 90, 16
HEAD_DIM = HIDDEN // HEADS
EPS = 1e-5


def save(path, tensors):
    """A safetensors file: length of the header, header, values."""
    header, values, at = {}, [], 0
    for name, tensor in tensors.items():
        data = tensor.to(torch.float32).contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + len(data)]}
        values.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(values))


def soft_cap(x, cap):
    return cap * torch.tanh(x / cap) if cap else x


def causal_attention(q, k, v, scale=None, cap=None, window=None):
    """q [heads, tokens, head_dim]; k and v may have fewer heads, each of which serves a group. A window
    is of so many tokens, the last of which is the token that looks."""
    groups = q.shape[0] // k.shape[0]
    k, v = k.repeat_interleave(groups, 0), v.repeat_interleave(groups, 0)
    scores = soft_cap(q @ k.transpose(1, 2) * (scale or q.shape[-1] ** -0.5), cap)
    tokens = q.shape[1]
    ones = torch.ones(tokens, tokens, dtype=torch.bool)
    mask = ones.triu(1) | ones.tril(-(window or tokens))
    mixed = scores.masked_fill(mask, -math.inf).softmax(-1) @ v
    return mixed.transpose(0, 1).reshape(tokens, -1)


def split_heads(x, head_dim=HEAD_DIM):
    return x.view(x.shape[0], -1, head_dim).transpose(0, 1)


def frequencies(theta, rotated):
    return [theta ** (-2 * i / rotated) for i in range(rotated // 2)]


def rotate(x, frequencies):
    """Turns the first values of every head, the first half of which are paired with the second."""
    angles = torch.arange(x.shape[1], dtype=torch.float64)[:, None] * torch.tensor(frequencies, dtype=torch.float64)
    first, second, rest = x.split((len(frequencies), len(frequencies), x.shape[-1] - 2 * len(frequencies)), -1)
    return torch.cat((first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin(), rest), -1)


def linear(w, x, name):
    y = x @ w[name + ".weight"].T
    return y + w[name + ".bias"] if name + ".bias" in w else y


def layer_norm(w, x, name, plus=0):
    return torch.nn.functional.layer_norm(x, (HIDDEN,), w[name + ".weight"] + plus, w[name + ".bias"], EPS)


def rms_norm(w, x, name, plus=0):
    return x * (x.pow(2).mean(-1, keepdim=True) + EPS).rsqrt() * (w[name + ".weight"] + plus)


def gelu_new(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def weights_and_biases(places, biased=lambda name: True):
    """The shapes of tensors from those of the weights of modules."""
    shapes = {}
    for name, shape in places.items():
        shapes[name + ".weight"] = shape
        if biased(name):
            shapes[name + ".bias"] = shape[:1]
    return shapes


def saved_keys(kind, model_class, **keys):
    """config.json with what transformers writes for every kind."""
    return {"architectures": [model_class], "model_type": kind, "vocab_size": VOCAB, "bos_token_id": 1, "eos_token_id": 2,
            "initializer_range": 0.02, "use_cache": True, "torch_dtype": "float32", "transformers_version": "4.51.3", **keys}


def gpt2_shapes(layers, hidden, vocab, positions):
    """The shape of each tensor of a GPT-2, by its name in transformers."""
    shapes = {"wte.weight": (vocab, hidden), "wpe.weight": (positions, hidden)}
    for i in range(layers):
        for name, shape in {
            "ln_1": (hidden,), "attn.c_attn": (hidden, 3 * hidden), "attn.c_proj": (hidden, hidden),
            "ln_2": (hidden,), "mlp.c_fc": (hidden, 4 * hidden), "mlp.c_proj": (4 * hidden, hidden),
        }.items():
            shapes[f"h.{i}.{name}.weight"] = shape
            shapes[f"h.{i}.{name}.bias"] = (shape[-1],)
    shapes["ln_f.weight"] = shapes["ln_f.bias"] = (hidden,)
    return {"transformer." + name: shape for name, shape in shapes.items()}


class Model:
    plus = 0  # what is added to the weights of norms

    def __init__(self, kind):
        self.kind = kind

    def stored(self, weights):
        """The tensors as they are kept."""
        return weights


class Gpt2(Model):
    config = {
        "model_type": "gpt2", "n_layer": LAYERS, "n_embd": HIDDEN, "n_head": HEADS, "n_positions": 128,
        "vocab_size": VOCAB, "layer_norm_epsilon": EPS, "activation_function": "gelu_new",
        "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0,
    }

    @staticmethod
    def shapes():
        return gpt2_shapes(LAYERS, HIDDEN, VOCAB, positions=128)

    @staticmethod
    def logits(w, ids):
        def conv1d(x, name):  # a Conv1D keeps its weight as [in, out]
            return x @ w[name + ".weight"] + w[name + ".bias"]

        def norm(x, name):
            return layer_norm(w, x, name)

        x = w["transformer.wte.weight"][ids] + w["transformer.wpe.weight"][: len(ids)]
        for i in range(LAYERS):
            at = f"transformer.h.{i}."
            q, k, v = conv1d(norm(x, at + "ln_1"), at + "attn.c_attn").split(HIDDEN, 1)
            x = x + conv1d(causal_attention(split_heads(q), split_heads(k), split_heads(v)), at + "attn.c_proj")
            x = x + conv1d(gelu_new(conv1d(norm(x, at + "ln_2"), at + "mlp.c_fc")), at + "mlp.c_proj")
        return norm(x, "transformer.ln_f") @ w["transformer.wte.weight"].T


class Llama(Model):
    """And what differs from it by a few keys: scaled positions, Qwen2's biases, Mixtral's experts."""

    layers, heads, kv_heads, head_dim = LAYERS, HEADS, KV_HEADS, HEAD_DIM
    norm = staticmethod(rms_norm)
    qk_norm, tied, experts, biased = False, False, 0, ()
    mlp, activation = ("gate_proj", "up_proj", "down_proj"), staticmethod(torch.nn.functional.silu)
    theta, scaling, rotated = 10000.0, None, 1.0  # the last is a share of every head
    embedding_scale, attention_scale, residual_scale, logit_scale = 1.0, None, 1.0, 1.0
    score_cap = logit_cap = None

    def __init__(self, kind):
        super().__init__(kind)
        self.experts = 4 if kind in ("mixtral", "qwen3_moe") else 0
        self.qk_norm = kind.startswith("qwen3")
        self.biased = ("q_proj", "k_proj", "v_proj") if kind == "qwen2" else ()
        self.tied = kind == "qwen2"
        self.theta = 10000.0 if kind in ("llama", "linear") else 500000.0
        self.scaling = {
            "linear": {"type": "linear", "factor": 3.0},
            "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                       "original_max_position_embeddings": 32},
        }.get(kind)
        self.config = {
            **self.sizes(), "model_type": kind if kind in ("qwen2", "qwen3", "qwen3_moe", "phi3", "mixtral") else "llama",
            "vocab_size": VOCAB, "rms_norm_eps": EPS, "rope_theta": self.theta, "hidden_act": "silu",
            "tie_word_embeddings": self.tied,
        }
        if self.scaling:
            self.config["rope_scaling"] = self.scaling
        if kind == "mixtral":
            self.config.update(num_local_experts=self.experts, num_experts_per_tok=2)
        if kind == "qwen3_moe":
            self.config.update(num_experts=self.experts, num_experts_per_tok=2, norm_topk_prob=True,
                               moe_intermediate_size=FFN, intermediate_size=3 * FFN)
        if self.qk_norm:
            self.config["head_dim"] = HEAD_DIM

    def sizes(self):
        return {"num_hidden_layers": self.layers, "hidden_size": HIDDEN, "num_attention_heads": self.heads,
                "num_key_value_heads": self.kv_heads, "intermediate_size": FFN, "max_position_embeddings": 128}

    def norms(self):
        return "input_layernorm", "post_attention_layernorm"

    def shapes(self):
        inner, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        block = {name: (HIDDEN,) for name in self.norms()}
        for name, rows in {"q": inner, "k": keys, "v": keys}.items():
            block[f"self_attn.{name}_proj"] = (rows, HIDDEN)
            if self.qk_norm and name != "v":
                block[f"self_attn.{name}_norm"] = (self.head_dim,)
        block["self_attn.o_proj"] = (HIDDEN, inner)
        moe, names = self.expert_names()
        if self.experts:
            block[moe + "gate"] = (self.experts, HIDDEN)
        for path in [f"{moe}experts.{e}." for e in range(self.experts)] or ["mlp."]:
            for name in names:
                block[path + name] = (HIDDEN, FFN) if name == names[-1] else (FFN, HIDDEN)
        places = {"model.embed_tokens": (VOCAB, HIDDEN), "model.norm": (HIDDEN,)}
        if not self.tied:
            places["lm_head"] = (VOCAB, HIDDEN)
        for i in range(self.layers):
            places.update({f"model.layers.{i}.{name}": shape for name, shape in block.items()})
        return weights_and_biases(places, lambda name: name.split(".")[-1] in self.biased)

    def expert_names(self):
        if self.kind == "mixtral":
            return "block_sparse_moe.", ("w1", "w3", "w2")
        return "mlp.", self.mlp

    def stored(self, weights):
        """The tensors as they are kept: Phi-3 has fewer, of which these are the rows."""
        if self.kind != "phi3":
            return weights
        kept = {}
        for name, value in weights.items():
            for parts, whole in ((("q_proj", "k_proj", "v_proj"), "qkv_proj"), (("gate_proj", "up_proj"), "gate_up_proj")):
                if parts[0] in name:
                    value = torch.cat([weights[name.replace(parts[0], part)] for part in parts])
                    name = name.replace(parts[0], whole)
                elif any(part in name for part in parts):
                    name = None
                    break
            if name:
                kept[name] = value
        return kept

    def window(self, block):
        return None

    def frequencies(self, block):
        plain = frequencies(self.theta, int(self.head_dim * self.rotated))
        s = self.scaling
        if s is None:
            return plain
        if "linear" in s.values():
            return [f / s["factor"] for f in plain]
        scaled, length = [], s["original_max_position_embeddings"]
        for f in plain:  # modeling_rope_utils.py, _compute_llama3_parameters
            wavelength = 2 * math.pi / f
            if wavelength < length / s["high_freq_factor"]:
                scaled.append(f)
            elif wavelength > length / s["low_freq_factor"]:
                scaled.append(f / s["factor"])
            else:
                smooth = (length / wavelength - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"])
                scaled.append((1 - smooth) * f / s["factor"] + smooth * f)
        return scaled

    def attention(self, w, i, x):
        at = f"model.layers.{i}.self_attn."
        q, k, v = (split_heads(linear(w, x, f"{at}{name}_proj"), self.head_dim) for name in "qkv")
        if self.qk_norm:
            q, k = self.norm(w, q, at + "q_norm", self.plus), self.norm(w, k, at + "k_norm", self.plus)
        q, k = rotate(q, self.frequencies(i)), rotate(k, self.frequencies(i))
        return linear(w, causal_attention(q, k, v, self.attention_scale, self.score_cap, self.window(i)), at + "o_proj")

    def feed_forward(self, w, i, x):
        def perceptron(x, path, names):
            *gate, up, down = (path + name for name in names)
            inner = linear(w, x, up)
            inner = self.activation(linear(w, x, gate[0])) * inner if gate else self.activation(inner)
            return linear(w, inner, down)

        moe, names = self.expert_names()
        at = f"model.layers.{i}.{moe}"
        if not self.experts:
            return perceptron(x, at, names)
        chances = linear(w, x, at + "gate").softmax(-1)
        best, chosen = chances.topk(2, -1)
        best = best / best.sum(-1, keepdim=True)
        rows = []
        for token in range(len(x)):
            rows.append(sum(best[token, j] * perceptron(x[token], f"{at}experts.{chosen[token, j]}.", names) for j in range(2)))
        return torch.stack(rows)

    def block(self, w, i, x, norm):
        x = x + self.residual_scale * self.attention(w, i, norm(x, "input_layernorm"))
        return x + self.residual_scale * self.feed_forward(w, i, norm(x, "post_attention_layernorm"))

    def logits(self, w, ids):
        x = w["model.embed_tokens.weight"][ids] * self.embedding_scale
        for i in range(self.layers):
            x = self.block(w, i, x, lambda x, name: self.norm(w, x, f"model.layers.{i}.{name}", self.plus))
        x = self.norm(w, x, "model.norm", self.plus)
        return soft_cap(linear(w, x, "model.embed_tokens" if self.tied else "lm_head") * self.logit_scale, self.logit_cap)


class Mistral(Llama):
    def __init__(self, kind):
        Model.__init__(self, kind)
        self.config = saved_keys(
            kind, "MistralForCausalLM", **self.sizes(), head_dim=self.head_dim, rms_norm_eps=EPS, rope_theta=self.theta,
            hidden_act="silu", tie_word_embeddings=False, sliding_window=WINDOW, attention_dropout=0.0)

    def window(self, block):
        return WINDOW


class Granite(Llama):
    embedding_scale, attention_scale, residual_scale, logit_scale = 6.0, 0.25, 0.4, 1 / 1.5
    tied = True

    def __init__(self, kind):
        Model.__init__(self, kind)
        self.config = saved_keys(
            kind, "GraniteForCausalLM", **self.sizes(), rms_norm_eps=EPS, rope_theta=self.theta, rope_scaling=None,
            hidden_act="silu", tie_word_embeddings=True, attention_bias=False, mlp_bias=False, attention_dropout=0.0,
            pad_token_id=0, embedding_multiplier=6.0, attention_multiplier=0.25, residual_multiplier=0.4, logits_scaling=1.5)


class Gemma(Llama):
    """Gemma, Gemma 2, and the text model of Gemma 3."""

    head_dim, plus, tied, embedding_scale = 16, 1, True, math.sqrt(HIDDEN)  # which is not hidden / heads
    activation = staticmethod(gelu_new)

    def __init__(self, kind):
        Model.__init__(self, kind)
        keys = {"hidden_activation": "gelu_pytorch_tanh"}
        if kind == "gemma":
            keys = {"hidden_act": "gelu_pytorch_tanh", "hidden_activation": None, "rope_scaling": None}
        if kind == "gemma2":
            self.layers, self.attention_scale, self.score_cap, self.logit_cap = 4, 24**-0.5, 2.0, 3.0
            kinds = ["sliding_attention" if self.window(i) else "full_attention" for i in range(self.layers)]
            keys.update(query_pre_attn_scalar=24, attn_logit_softcapping=2.0, final_logit_softcapping=3.0,
                        hidden_act="gelu_pytorch_tanh", sliding_window=WINDOW, layer_types=kinds, cache_implementation="hybrid")
        if kind == "gemma3_text":
            self.layers, self.qk_norm, self.theta = 6, True, 1e6
            self.scaling = {"rope_type": "linear", "factor": 8.0}
            keys.update(query_pre_attn_scalar=16, attn_logit_softcapping=None, final_logit_softcapping=None,
                        rope_scaling=self.scaling, rope_local_base_freq=5000.0, sliding_window=WINDOW,
                        sliding_window_pattern=6, cache_implementation="hybrid")
        model_class = {"gemma": "Gemma", "gemma2": "Gemma2", "gemma3_text": "Gemma3"}[kind] + "ForCausalLM"
        self.config = saved_keys(
            kind, model_class, **self.sizes(), head_dim=self.head_dim, rms_norm_eps=EPS, rope_theta=self.theta,
            attention_bias=False, attention_dropout=0.0, pad_token_id=0, **keys)

    def norms(self):
        return super().norms() + (() if self.kind == "gemma" else ("pre_feedforward_layernorm", "post_feedforward_layernorm"))

    def window(self, block):
        period = {"gemma": 1, "gemma2": 2, "gemma3_text": 6}[self.kind]
        return WINDOW if (block + 1) % period else None

    def frequencies(self, block):
        local = self.kind == "gemma3_text" and self.window(block)
        return frequencies(5000.0, self.head_dim) if local else super().frequencies(block)

    def block(self, w, i, x, norm):
        if self.kind == "gemma":
            return super().block(w, i, x, norm)
        x = x + norm(self.attention(w, i, norm(x, "input_layernorm")), "post_attention_layernorm")
        return x + norm(self.feed_forward(w, i, norm(x, "pre_feedforward_layernorm")), "post_feedforward_layernorm")


class Starcoder2(Llama):
    norm, tied, mlp, activation = staticmethod(layer_norm), True, ("c_fc", "c_proj"), staticmethod(gelu_new)
    biased = ("norm", "input_layernorm", "post_attention_layernorm", "q_proj", "k_proj", "v_proj", "o_proj") + mlp

    def __init__(self, kind):
        Model.__init__(self, kind)
        self.config = saved_keys(
            kind, "Starcoder2ForCausalLM", **self.sizes(), norm_epsilon=EPS, rope_theta=self.theta, rope_scaling=None,
            hidden_act="gelu_pytorch_tanh", use_bias=True, sliding_window=None, attention_dropout=0.0, residual_dropout=0.0,
            embedding_dropout=0.0)


class StableLm(Llama):
    """In parallel, one norm serves both branches."""

    heads, kv_heads, head_dim, rotated = 3, 1, 16, 0.25
    norm = staticmethod(layer_norm)
    biased = ("norm", "input_layernorm", "post_attention_layernorm", "q_proj", "k_proj", "v_proj")

    def __init__(self, kind):
        Model.__init__(self, kind)
        self.parallel = kind == "stablelm_parallel"
        self.config = saved_keys(
            "stablelm", "StableLmForCausalLM", **self.sizes(), layer_norm_eps=EPS, rope_theta=self.theta, rope_scaling=None,
            partial_rotary_factor=0.25, hidden_act="silu", tie_word_embeddings=False, use_qkv_bias=True, qk_layernorm=False,
            use_parallel_residual=self.parallel, attention_dropout=0.0, hidden_dropout=0.0)

    def norms(self):
        return super().norms()[: 1 if self.parallel else 2]

    def block(self, w, i, x, norm):
        if not self.parallel:
            return super().block(w, i, x, norm)
        h = norm(x, "input_layernorm")
        return x + self.attention(w, i, h) + self.feed_forward(w, i, h)


class Nemotron(Llama):
    """LayerNorm with 1 + weight (LayerNorm1P), and no gates."""

    norm, plus, biased = staticmethod(layer_norm), 1, ("norm", "input_layernorm", "post_attention_layernorm")
    mlp, activation, rotated = ("up_proj", "down_proj"), staticmethod(lambda x: x.clamp(min=0) ** 2), 0.5

    def __init__(self, kind):
        Model.__init__(self, kind)
        self.config = saved_keys(
            kind, "NemotronForCausalLM", **self.sizes(), head_dim=self.head_dim, norm_eps=EPS, rope_theta=self.theta,
            partial_rotary_factor=0.5, hidden_act="relu2", tie_word_embeddings=False, attention_bias=False, mlp_bias=False,
            attention_dropout=0.0, pad_token_id=None)


class Arcee(Llama):
    """A Llama without gates."""

    mlp, activation = ("up_proj", "down_proj"), staticmethod(lambda x: x.clamp(min=0) ** 2)

    def __init__(self, kind):
        Model.__init__(self, kind)
        self.config = saved_keys(
            kind, "ArceeForCausalLM", **self.sizes(), head_dim=self.head_dim, rms_norm_eps=EPS, rope_theta=self.theta,
            hidden_act="relu2", tie_word_embeddings=False, attention_bias=False, mlp_bias=False, attention_dropout=0.0)


class GptNeox(Model):
    """With the branches of a block in parallel, each behind its norm, or one after the other."""

    heads, head_dim = 3, 16

    def __init__(self, kind):
        super().__init__(kind)
        self.parallel = kind == "gpt_neox"
        self.config = saved_keys(
            "gpt_neox", "GPTNeoXForCausalLM", num_hidden_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=self.heads,
            intermediate_size=FFN, max_position_embeddings=128, layer_norm_eps=EPS, hidden_act="gelu_new", rotary_pct=0.25,
            partial_rotary_factor=0.25, rotary_emb_base=5000, rope_theta=5000, rope_scaling=None, tie_word_embeddings=False,
            use_parallel_residual=self.parallel, attention_bias=True, attention_dropout=0.0, hidden_dropout=0.0,
            classifier_dropout=0.1)

    def shapes(self):
        places, square = {}, (HIDDEN, HIDDEN)
        for i in range(LAYERS):
            for name, shape in {
                "input_layernorm": (HIDDEN,), "attention.query_key_value": (3 * HIDDEN, HIDDEN), "attention.dense": square,
                "post_attention_layernorm": (HIDDEN,), "mlp.dense_h_to_4h": (FFN, HIDDEN), "mlp.dense_4h_to_h": (HIDDEN, FFN),
            }.items():
                places[f"gpt_neox.layers.{i}.{name}"] = shape
        shapes = weights_and_biases({**places, "gpt_neox.final_layer_norm": (HIDDEN,)})
        shapes["gpt_neox.embed_in.weight"] = shapes["embed_out.weight"] = (VOCAB, HIDDEN)
        return shapes

    def logits(self, w, ids):
        x = w["gpt_neox.embed_in.weight"][ids]
        turns = frequencies(5000.0, int(self.head_dim * 0.25))
        for i in range(LAYERS):
            at = f"gpt_neox.layers.{i}."
            fused = linear(w, layer_norm(w, x, at + "input_layernorm"), at + "attention.query_key_value")
            q, k, v = fused.view(len(ids), self.heads, 3, self.head_dim).permute(2, 1, 0, 3)
            mixed = x + linear(w, causal_attention(rotate(q, turns), rotate(k, turns), v), at + "attention.dense")
            h = layer_norm(w, x if self.parallel else mixed, at + "post_attention_layernorm")
            x = mixed + linear(w, gelu_new(linear(w, h, at + "mlp.dense_h_to_4h")), at + "mlp.dense_4h_to_h")
        return linear(w, layer_norm(w, x, "gpt_neox.final_layer_norm"), "embed_out")


class Opt(Model):
    first = 2  # row of the table of positions

    def __init__(self, kind):
        super().__init__(kind)
        self.config = saved_keys(
            kind, "OPTForCausalLM", num_hidden_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=HEADS, ffn_dim=FFN,
            max_position_embeddings=128, word_embed_proj_dim=HIDDEN, activation_function="relu", do_layer_norm_before=True,
            _remove_final_layer_norm=False, enable_bias=True, layer_norm_elementwise_affine=True, dropout=0.0,
            attention_dropout=0.0, activation_dropout=0.0, layerdrop=0.0, init_std=0.02, pad_token_id=1, prefix="</s>")
        del self.config["initializer_range"]

    def shapes(self):
        decoder, square, places = "model.decoder.", (HIDDEN, HIDDEN), {}
        for i in range(LAYERS):
            for name, shape in {
                "self_attn_layer_norm": (HIDDEN,), "self_attn.q_proj": square, "self_attn.k_proj": square,
                "self_attn.v_proj": square, "self_attn.out_proj": square, "final_layer_norm": (HIDDEN,),
                "fc1": (FFN, HIDDEN), "fc2": (HIDDEN, FFN),
            }.items():
                places[f"{decoder}layers.{i}.{name}"] = shape
        shapes = weights_and_biases({**places, decoder + "final_layer_norm": (HIDDEN,)})
        shapes[decoder + "embed_tokens.weight"] = (VOCAB, HIDDEN)
        shapes[decoder + "embed_positions.weight"] = (self.first + 128, HIDDEN)
        return shapes

    def stored(self, weights):
        """Zeros in the rows that no token has, as an export of the program has them."""
        name = "model.decoder.embed_positions.weight"
        return {**weights, name: torch.cat((torch.zeros(self.first, HIDDEN), weights[name][self.first :]))}

    def logits(self, w, ids):
        at = "model.decoder."
        x = w[at + "embed_tokens.weight"][ids] + w[at + "embed_positions.weight"][self.first : self.first + len(ids)]
        for i in range(LAYERS):
            at = f"model.decoder.layers.{i}."
            h = layer_norm(w, x, at + "self_attn_layer_norm")
            q, k, v = (split_heads(linear(w, h, f"{at}self_attn.{name}_proj")) for name in "qkv")
            x = x + linear(w, causal_attention(q, k, v), at + "self_attn.out_proj")
            x = x + linear(w, linear(w, layer_norm(w, x, at + "final_layer_norm"), at + "fc1").relu(), at + "fc2")
        return linear(w, layer_norm(w, x, "model.decoder.final_layer_norm"), "model.decoder.embed_tokens")


class Bert(Model):
    """BertForMaskedLM, or RobertaForMaskedLM: another head's names, and positions from 2 on."""

    def __init__(self, kind):
        super().__init__(kind)
        self.roberta = kind == "roberta"
        self.first = 2 if self.roberta else 0
        self.segments = 1 if self.roberta else 2
        self.head = "lm_head." if self.roberta else "cls.predictions."
        self.transform = "lm_head.dense" if self.roberta else "cls.predictions.transform.dense"
        self.head_norm = "lm_head.layer_norm" if self.roberta else "cls.predictions.transform.LayerNorm"
        self.config = {
            "model_type": kind, "num_hidden_layers": LAYERS, "hidden_size": HIDDEN, "num_attention_heads": HEADS,
            "intermediate_size": FFN, "max_position_embeddings": 128 + self.first, "type_vocab_size": self.segments,
            "vocab_size": VOCAB, "layer_norm_eps": EPS, "hidden_act": "gelu_new", "mask_token_id": VOCAB - 1,
            "pad_token_id": 1 if self.roberta else 0,
            "attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0,
        }
        self.prefix = kind + "."

    def shapes(self):
        embeddings, shapes = self.prefix + "embeddings.", {}
        shapes[embeddings + "word_embeddings.weight"] = (VOCAB, HIDDEN)
        shapes[embeddings + "position_embeddings.weight"] = (128 + self.first, HIDDEN)
        shapes[embeddings + "token_type_embeddings.weight"] = (self.segments, HIDDEN)
        square = (HIDDEN, HIDDEN)
        layers = {"attention.self.query": square, "attention.self.key": square, "attention.self.value": square,
                  "attention.output.dense": square, "attention.output.LayerNorm": (HIDDEN,),
                  "intermediate.dense": (FFN, HIDDEN), "output.dense": (HIDDEN, FFN), "output.LayerNorm": (HIDDEN,)}
        places = {embeddings + "LayerNorm": (HIDDEN,), self.transform: square, self.head_norm: (HIDDEN,)}
        for i in range(LAYERS):
            for name, shape in layers.items():
                places[f"{self.prefix}encoder.layer.{i}.{name}"] = shape
        for name, shape in places.items():
            shapes[name + ".weight"], shapes[name + ".bias"] = shape, shape[:1]
        shapes[self.head + "bias"] = (VOCAB,)
        return shapes

    def logits(self, w, ids):
        def linear(x, name):
            return x @ w[name + ".weight"].T + w[name + ".bias"]

        def norm(x, name):
            return layer_norm(w, x, name)

        at = self.prefix + "embeddings."
        table = w[at + "word_embeddings.weight"]
        positions = w[at + "position_embeddings.weight"][self.first : self.first + len(ids)]
        x = norm(table[ids] + positions + w[at + "token_type_embeddings.weight"][0], at + "LayerNorm")
        for i in range(LAYERS):
            at = f"{self.prefix}encoder.layer.{i}."
            q, k, v = (split_heads(linear(x, at + "attention.self." + name)) for name in ("query", "key", "value"))
            mixed = ((q @ k.transpose(1, 2) / math.sqrt(HEAD_DIM)).softmax(-1) @ v).transpose(0, 1).reshape(len(ids), -1)
            x = norm(x + linear(mixed, at + "attention.output.dense"), at + "attention.output.LayerNorm")
            x = norm(x + linear(gelu_new(linear(x, at + "intermediate.dense")), at + "output.dense"), at + "output.LayerNorm")
        return norm(gelu_new(linear(x, self.transform)), self.head_norm) @ table.T + w[self.head + "bias"]


def masked_loss(model, weights, folder):
    """The mean loss of the chosen tokens of the samples that tokens.bin holds, as job.json says."""
    import numpy
    from gpt2_oracle import masked

    with open(os.path.join(folder, "job.json")) as file:
        job = json.load(file)
    tokens = numpy.fromfile(os.path.join(folder, "tokens.bin"), dtype=numpy.int32).reshape(-1, job["seq"])
    seen, targets = masked(job, torch.tensor(tokens, dtype=torch.long), 0)
    logits = torch.cat([model.logits(weights, sample) for sample in seen])
    return torch.nn.functional.cross_entropy(logits, targets.reshape(-1)).item()


MODELS = {
    "gpt2": Gpt2, **dict.fromkeys(("llama", "linear", "llama3", "qwen2", "qwen3", "qwen3_moe", "phi3", "mixtral"), Llama),
    "mistral": Mistral, "granite": Granite, "gemma": Gemma, "gemma2": Gemma, "gemma3_text": Gemma, "starcoder2": Starcoder2,
    "stablelm": StableLm, "stablelm_parallel": StableLm, "nemotron": Nemotron, "arcee": Arcee, "gpt_neox": GptNeox,
    "gpt_neox_sequential": GptNeox, "opt": Opt, "bert": Bert, "roberta": Bert,
}


def main(kind, folder):
    torch.manual_seed(23)
    model = MODELS[kind](kind)
    weights = {}
    for name, shape in model.shapes().items():
        norm = name.endswith("weight") and len(shape) == 1
        weights[name] = torch.randn(shape) * 0.15 + (1.0 - model.plus if norm else 0.0)
        if norm and model.plus:  # 1 + weight is a float32, as it is of a file in bfloat16
            weights[name] = (weights[name] * 2**16).round() / 2**16
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(model.config, file)
    stored = model.stored(weights)
    if kind == "mixtral":
        names = list(stored)
        files = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
        for file, held in files.items():
            save(os.path.join(folder, file), {name: stored[name] for name in held})
        index = {"weight_map": {name: file for file, held in files.items() for name in held}}
        with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
            json.dump(index, file)
    else:
        save(os.path.join(folder, "model.safetensors"), stored)
    if isinstance(model, Bert):
        loss = masked_loss(model, {name: value.double() for name, value in weights.items()}, folder)
        return print(f"{loss:.17g}")
    ids = torch.randint(0, VOCAB, (LENGTH,))
    logits = model.logits({name: value.double() for name, value in weights.items()}, ids)
    ids.to(torch.int32).numpy().tofile(os.path.join(folder, "ids.bin"))
    logits.numpy().tofile(os.path.join(folder, "logits.bin"))


if __name__ == "__main__":
    main(*sys.argv[1:])
