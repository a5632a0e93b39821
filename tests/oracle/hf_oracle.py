#!/usr/bin/env python3
"""Writes a tiny model in the layout of Hugging Face's transformers, and what it computes.

Usage: hf_oracle.py KIND FOLDER, where KIND is gpt2, llama, linear, llama3, qwen2, qwen3, qwen3_moe,
phi3, mixtral, bert or roberta. FOLDER gets config.json, model.safetensors (of mixtral, two files and
their index) with random float32 weights, ids.bin (int32), and logits.bin (float64 [tokens,
vocabulary]). Of the last two, which see tokens.bin (int32) there, masked as job.json says, it prints
the loss instead. The models are written from the definitions in transformers' modeling_*.py, in float64
and without any code of this repository.
"""
import json
import math
import os
import struct
import sys

import torch

VOCAB, HIDDEN, HEADS, KV_HEADS, LAYERS, FFN, LENGTH = 61, 48, 6, 2, 3, 112, 90
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


def causal_attention(q, k, v):
    """q [heads, tokens, head_dim]; k and v may have fewer heads, each of which serves a group."""
    groups = q.shape[0] // k.shape[0]
    k, v = k.repeat_interleave(groups, 0), v.repeat_interleave(groups, 0)
    scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
    tokens = q.shape[1]
    mask = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    mixed = scores.masked_fill(mask, -math.inf).softmax(-1) @ v
    return mixed.transpose(0, 1).reshape(tokens, -1)


def split_heads(x):
    return x.view(x.shape[0], -1, HEAD_DIM).transpose(0, 1)


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


class Gpt2:
    @staticmethod
    def stored(weights):
        return weights

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
            return torch.nn.functional.layer_norm(x, (HIDDEN,), w[name + ".weight"], w[name + ".bias"], EPS)

        def gelu_new(x):
            return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

        x = w["transformer.wte.weight"][ids] + w["transformer.wpe.weight"][: len(ids)]
        for i in range(LAYERS):
            at = f"transformer.h.{i}."
            q, k, v = conv1d(norm(x, at + "ln_1"), at + "attn.c_attn").split(HIDDEN, 1)
            x = x + conv1d(causal_attention(split_heads(q), split_heads(k), split_heads(v)), at + "attn.c_proj")
            x = x + conv1d(gelu_new(conv1d(norm(x, at + "ln_2"), at + "mlp.c_fc")), at + "mlp.c_proj")
        return norm(x, "transformer.ln_f") @ w["transformer.wte.weight"].T


class Llama:
    """And what differs from it by a few keys: scaled positions, Qwen2's biases, Mixtral's experts."""

    def __init__(self, kind):
        self.experts = 4 if kind in ("mixtral", "qwen3_moe") else 0
        self.kind = kind
        self.qk_norm = kind.startswith("qwen3")
        self.biases = kind == "qwen2"
        self.tied = kind == "qwen2"
        self.theta = 10000.0 if kind in ("llama", "linear") else 500000.0
        self.scaling = {
            "linear": {"type": "linear", "factor": 3.0},
            "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                       "original_max_position_embeddings": 32},
        }.get(kind)
        self.config = {
            "model_type": kind if kind in ("qwen2", "qwen3", "qwen3_moe", "phi3", "mixtral") else "llama", "num_hidden_layers": LAYERS,
            "hidden_size": HIDDEN, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
            "intermediate_size": FFN, "vocab_size": VOCAB, "rms_norm_eps": EPS, "rope_theta": self.theta,
            "max_position_embeddings": 128, "hidden_act": "silu", "tie_word_embeddings": self.tied,
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

    def shapes(self):
        shapes = {"model.embed_tokens.weight": (VOCAB, HIDDEN), "model.norm.weight": (HIDDEN,)}
        if not self.tied:
            shapes["lm_head.weight"] = (VOCAB, HIDDEN)
        for i in range(LAYERS):
            at = f"model.layers.{i}."
            shapes[at + "input_layernorm.weight"] = shapes[at + "post_attention_layernorm.weight"] = (HIDDEN,)
            for name, rows in {"q": HIDDEN, "k": KV_HEADS * HEAD_DIM, "v": KV_HEADS * HEAD_DIM}.items():
                shapes[at + f"self_attn.{name}_proj.weight"] = (rows, HIDDEN)
                if self.biases:
                    shapes[at + f"self_attn.{name}_proj.bias"] = (rows,)
                if self.qk_norm and name != "v":
                    shapes[at + f"self_attn.{name}_norm.weight"] = (HEAD_DIM,)
            shapes[at + "self_attn.o_proj.weight"] = (HIDDEN, HIDDEN)
            gate, up, down = (FFN, HIDDEN), (FFN, HIDDEN), (HIDDEN, FFN)
            if self.experts:
                moe, names = self.expert_names()
                shapes[at + moe + "gate.weight"] = (self.experts, HIDDEN)
                for e in range(self.experts):
                    for name, shape in zip(names, (gate, up, down)):
                        shapes[at + f"{moe}experts.{e}.{name}.weight"] = shape
            else:
                for name, shape in {"gate": gate, "up": up, "down": down}.items():
                    shapes[at + f"mlp.{name}_proj.weight"] = shape
        return shapes

    def expert_names(self):
        if self.qk_norm:
            return "mlp.", ("gate_proj", "up_proj", "down_proj")
        return "block_sparse_moe.", ("w1", "w3", "w2")

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

    def frequencies(self):
        frequencies = [self.theta ** (-2 * i / HEAD_DIM) for i in range(HEAD_DIM // 2)]
        s = self.scaling
        if s is None:
            return frequencies
        if s.get("type") == "linear":
            return [f / s["factor"] for f in frequencies]
        scaled, length = [], s["original_max_position_embeddings"]
        for f in frequencies:  # modeling_rope_utils.py, _compute_llama3_parameters
            wavelength = 2 * math.pi / f
            if wavelength < length / s["high_freq_factor"]:
                scaled.append(f)
            elif wavelength > length / s["low_freq_factor"]:
                scaled.append(f / s["factor"])
            else:
                smooth = (length / wavelength - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"])
                scaled.append((1 - smooth) * f / s["factor"] + smooth * f)
        return scaled

    def rotate(self, x):
        angles = torch.arange(x.shape[1], dtype=torch.float64)[:, None] * torch.tensor(self.frequencies(), dtype=torch.float64)
        angles = torch.cat((angles, angles), 1)
        first, second = x.chunk(2, -1)
        return x * angles.cos() + torch.cat((-second, first), -1) * angles.sin()

    def feed_forward(self, w, at, x):
        def swiglu(x, gate, up, down):
            return (torch.nn.functional.silu(x @ w[gate].T) * (x @ w[up].T)) @ w[down].T

        if not self.experts:
            return swiglu(x, *(at + f"mlp.{name}_proj.weight" for name in ("gate", "up", "down")))
        moe, names = self.expert_names()
        at += moe
        chances = (x @ w[at + "gate.weight"].T).softmax(-1)
        best, chosen = chances.topk(2, -1)
        best = best / best.sum(-1, keepdim=True)
        rows = []
        for token in range(len(x)):
            rows.append(sum(best[token, j] * swiglu(x[token], *(
                at + f"experts.{chosen[token, j]}.{name}.weight" for name in names)) for j in range(2)))
        return torch.stack(rows)

    def logits(self, w, ids):
        def norm(x, name):
            return x * (x.pow(2).mean(-1, keepdim=True) + EPS).rsqrt() * w[name]

        def project(x, name):
            y = x @ w[name + ".weight"].T
            return y + w[name + ".bias"] if name + ".bias" in w else y

        x = w["model.embed_tokens.weight"][ids]
        for i in range(LAYERS):
            at = f"model.layers.{i}."
            h = norm(x, at + "input_layernorm.weight")
            q, k, v = (split_heads(project(h, at + f"self_attn.{name}_proj")) for name in "qkv")
            if self.qk_norm:
                q, k = norm(q, at + "self_attn.q_norm.weight"), norm(k, at + "self_attn.k_norm.weight")
            x = x + project(causal_attention(self.rotate(q), self.rotate(k), v), at + "self_attn.o_proj")
            x = x + self.feed_forward(w, at, norm(x, at + "post_attention_layernorm.weight"))
        head = "model.embed_tokens.weight" if self.tied else "lm_head.weight"
        return norm(x, "model.norm.weight") @ w[head].T


class Bert:
    """BertForMaskedLM, or RobertaForMaskedLM: another head's names, and positions from 2 on."""

    def __init__(self, kind):
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

    @staticmethod
    def stored(weights):
        return weights

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
            return torch.nn.functional.layer_norm(x, (HIDDEN,), w[name + ".weight"], w[name + ".bias"], EPS)

        def gelu_new(x):
            return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

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


def main(kind, folder):
    torch.manual_seed(23)
    model = Gpt2() if kind == "gpt2" else Bert(kind) if kind in ("bert", "roberta") else Llama(kind)
    weights = {}
    for name, shape in model.shapes().items():
        norm = name.endswith("weight") and len(shape) == 1
        weights[name] = torch.randn(shape) * 0.15 + (1.0 if norm else 0.0)
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
