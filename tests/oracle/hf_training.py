#!/usr/bin/env python3
"""Trains GPT-2 124M, in Hugging Face's layout with random weights, by Lockstep and by PyTorch, and
compares the losses. Usage: hf_training.py LOCKSTEP [STEPS [BATCH [SEQUENCE]]]

The weights are made here and written as model.safetensors and config.json, which `lockstep import`
reads; the tokens, as many as a step takes, as a shard of llm.c's format: every step sees all of them,
in whatever order. The model is written from the definitions of modeling_gpt2.py, with nanoGPT's
AdamW: no decay of norms and biases. Needs a Python with PyTorch and numpy, 3 GB under the folder for
temporary files, and 5 GB of memory. Ends with 1 if any loss differs by more than 1e-4, or if the
losses do not fall.
"""
import json
import math
import subprocess
import sys
import tempfile

import numpy
import torch
import torch.nn.functional as F

from hf_oracle import gpt2_shapes, save

LAYERS, HIDDEN, HEADS, VOCAB, POSITIONS = 12, 768, 12, 50257, 1024
LR, BETAS, EPS, DECAY, MAX_NORM = 6e-4, (0.9, 0.95), 1e-8, 0.1, 1.0


def make_weights():
    torch.manual_seed(1)
    weights = {}
    for name, shape in gpt2_shapes(LAYERS, HIDDEN, VOCAB, POSITIONS).items():
        norm = ".ln_" in name and name.endswith("weight")
        weights[name] = torch.randn(shape) * 0.02 + (1.0 if norm else 0.0)
    return weights


def save_model(folder, weights):
    save(folder + "/model.safetensors", weights)
    with open(folder + "/config.json", "w") as file:
        json.dump({"model_type": "gpt2", "n_layer": LAYERS, "n_embd": HIDDEN, "n_head": HEADS,
                   "n_positions": POSITIONS, "vocab_size": VOCAB, "attn_pdrop": 0, "embd_pdrop": 0,
                   "resid_pdrop": 0}, file)


def logits(w, tokens):
    batch, seq = tokens.shape
    x = w["transformer.wte.weight"][tokens] + w["transformer.wpe.weight"][:seq]

    def norm(x, name):
        return F.layer_norm(x, (HIDDEN,), w[name + ".weight"], w[name + ".bias"])

    def conv1d(x, name):  # keeps its weight as [in, out]
        return x @ w[name + ".weight"] + w[name + ".bias"]

    hidden = torch.ones(seq, seq, dtype=torch.bool).triu(1)
    for i in range(LAYERS):
        at = f"transformer.h.{i}."
        q, k, v = (part.view(batch, seq, HEADS, -1).transpose(1, 2)
                   for part in conv1d(norm(x, at + "ln_1"), at + "attn.c_attn").split(HIDDEN, -1))
        scores = (q @ k.transpose(2, 3) / math.sqrt(HIDDEN // HEADS)).masked_fill(hidden, -math.inf)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, seq, HIDDEN)
        x = x + conv1d(mixed, at + "attn.c_proj")
        h = conv1d(norm(x, at + "ln_2"), at + "mlp.c_fc")
        x = x + conv1d(0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3))),
                       at + "mlp.c_proj")
    return norm(x, "transformer.ln_f") @ w["transformer.wte.weight"].T


def train(weights, tokens, steps, batch, seq):
    w = {name: torch.nn.Parameter(value.clone()) for name, value in weights.items()}
    groups = [{"params": [v for v in w.values() if v.dim() > 1], "weight_decay": DECAY},
              {"params": [v for v in w.values() if v.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS)
    rows = [tokens[b * seq:][:seq + 1] for b in range(batch)]
    both = torch.tensor(numpy.stack(rows).astype(numpy.int64))
    losses = []
    for _ in range(steps):
        loss = F.cross_entropy(logits(w, both[:, :-1]).flatten(0, 1), both[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(w.values(), MAX_NORM)
        optimizer.step()
        losses.append(loss.item())
    return losses


def main(lockstep, steps="20", batch="2", seq="64"):
    weights = make_weights()
    count = int(batch) * int(seq) + 1
    tokens = numpy.random.default_rng(3).integers(0, VOCAB, count).astype(numpy.uint16)
    with tempfile.TemporaryDirectory() as folder:
        save_model(folder, weights)
        header = numpy.zeros(256, numpy.int32)
        header[:3] = 20240520, 1, count
        with open(folder + "/tokens.bin", "wb") as file:
            file.write(header.tobytes() + tokens.tobytes())
        subprocess.run([lockstep, "import", "hf", folder, "--out", folder + "/run"], check=True)
        keys = {"training.dataset": folder + "/tokens.bin", "training.seq_len": seq, "training.local_batch_size": batch, "training.steps": steps,
                "training.max_norm": MAX_NORM, "optimizer.lr": LR, "optimizer.beta1": BETAS[0],
                "optimizer.beta2": BETAS[1], "optimizer.eps": EPS, "optimizer.weight_decay": DECAY,
                "optimizer.weight_decay_on": "matrices", "checkpoint.interval": 0}
        overrides = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
        subprocess.run([lockstep, "run", folder + "/run/scenario.toml", "--backend", "cpu", "--resume",
                        folder + "/run", "--out", folder + "/trained", "--steps", steps, "--quiet",
                        *overrides], check=True, stdout=subprocess.DEVNULL)
        with open(folder + "/trained/metrics.jsonl") as file:
            ours = [json.loads(line)["loss"] for line in file]
    theirs = train(weights, tokens, int(steps), int(batch), int(seq))
    furthest = 0.0
    for step, (a, b) in enumerate(zip(ours, theirs), 1):
        print(f"step {step}: lockstep {a:.6f}, PyTorch {b:.6f}, difference {a - b:+.1e}")
        furthest = max(furthest, abs(a - b))
    assert len(ours) == len(theirs) == int(steps)
    print(f"largest difference {furthest:.1e}")
    return 0 if furthest <= 1e-4 and theirs[-1] < theirs[0] - 1 else 1


sys.exit(main(*sys.argv[1:]))
