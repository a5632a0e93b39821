#!/usr/bin/env python3
"""Training speed of GPT-2, or a Llama kind, in PyTorch, to set ours beside it on the same machine.

Usage: OPENBLAS_CORETYPE=SkylakeX bench_gpt2_torch.py [--threads 1] [--batch 4] [--seq 64] ...
Debian's PyTorch multiplies with whatever libblas.so.3 is: the reference BLAS (far slower than
anything else) unless libopenblas0-pthread is installed, whose version 0.3.21 does not know newer
Xeons and falls back to its slowest kernels; the variable (before the start, for AVX-512 machines)
shows PyTorch at its best. The last line says what was used. The model is PyTorch's own layers in
the usual arrangement, float32, forward + backward + clip + AdamW per step.
With --device cuda PyTorch is at its best, too: compiled, flash attention, fused AdamW, and with
--dtype bfloat16 autocast to it.
"""
import argparse
import ctypes
import math
import time

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.fc, self.fc_proj = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x, mask):
        batch, seq, hidden = x.shape
        qkv = self.qkv(self.ln1(x)).view(batch, seq, 3, self.heads, hidden // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        if mask is None:
            o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(q.shape[-1])) + mask
            o = scores.softmax(-1) @ v
        o = o.transpose(1, 2).reshape(batch, seq, hidden)
        x = x + self.proj(o)
        return x + self.fc_proj(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class RmsNorm(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        wide = x.float()
        return (wide * (wide.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt()).type_as(x) * self.weight


class LlamaBlock(nn.Module):
    def __init__(self, hidden, heads, kv_heads, ffn_hidden):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, hidden // heads
        self.norm1, self.norm2 = RmsNorm(hidden), RmsNorm(hidden)
        self.qkv = nn.Linear(hidden, (heads + 2 * kv_heads) * self.head_dim, bias=False)
        self.proj = nn.Linear(hidden, hidden, bias=False)
        self.gate_up = nn.Linear(hidden, 2 * ffn_hidden, bias=False)
        self.down = nn.Linear(ffn_hidden, hidden, bias=False)

    def forward(self, x, mask, turn):
        batch, seq, hidden = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, seq, -1, self.head_dim).transpose(1, 2)
        turned, v = qkv.split([self.heads + self.kv_heads, self.kv_heads], 1)
        even, odd = turned.chunk(2, -1)
        cos, sin = turn
        turned = torch.cat([even * cos - odd * sin, odd * cos + even * sin], -1).type_as(v)
        q, k = turned.split([self.heads, self.kv_heads], 1)
        if mask is None:
            o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        else:
            k, v = (t.repeat_interleave(self.heads // self.kv_heads, 1) for t in (k, v))
            scores = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(self.head_dim)) + mask
            o = scores.softmax(-1) @ v
        x = x + self.proj(o.transpose(1, 2).reshape(batch, seq, hidden))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, vocab, layers, hidden, heads, kv_heads, ffn_hidden):
        super().__init__()
        self.embedding, self.head = nn.Embedding(vocab, hidden), nn.Linear(hidden, vocab, bias=False)
        self.blocks = nn.ModuleList(
            LlamaBlock(hidden, heads, kv_heads, ffn_hidden) for _ in range(layers))
        self.norm = RmsNorm(hidden)
        self.head_dim = hidden // heads
        for table in (self.embedding, self.head):
            nn.init.normal_(table.weight, std=0.02)

    def matrix_parameters(self):
        return sum(p.numel() for p in self.parameters()) - self.embedding.weight.numel()

    def forward(self, tokens, targets):
        seq = tokens.shape[1]
        mask = None if tokens.is_cuda else torch.full((seq, seq), -math.inf).triu(1)
        speeds = 10000.0 ** -(torch.arange(self.head_dim // 2, device=tokens.device) * 2 / self.head_dim)
        angles = torch.arange(seq, device=tokens.device)[:, None] * speeds
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, mask, (angles.cos(), angles.sin()))
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Gpt2(nn.Module):
    def __init__(self, vocab, positions, layers, hidden, heads):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, hidden), nn.Embedding(positions, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        nn.init.normal_(self.wte.weight, std=0.02)
        nn.init.normal_(self.wpe.weight, std=0.02)

    def matrix_parameters(self):
        return sum(p.numel() for p in self.parameters()) - self.wpe.weight.numel()

    def forward(self, tokens, targets):
        seq = tokens.shape[1]
        mask = None if tokens.is_cuda else torch.full((seq, seq), -math.inf).triu(1)
        x = self.wte(tokens) + self.wpe.weight[:seq]
        for block in self.blocks:
            x = block(x, mask)
        logits = F.linear(self.norm(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def blas_in_use():
    with open("/proc/self/maps") as maps:
        paths = sorted({line.split()[-1] for line in maps
                        if "blas" in line.rpartition("/")[2] and ".so" in line})
    for path in paths:
        try:
            core_name = ctypes.CDLL(path).openblas_get_corename
        except AttributeError:
            continue
        core_name.restype = ctypes.c_char_p
        return f"{path} (kernels: {core_name().decode()})"
    return ", ".join(paths) or "unknown"


def main():
    parser = argparse.ArgumentParser(description="GPT-2 training speed in PyTorch on a CPU")
    for name, default in [("threads", 1), ("batch", 4), ("seq", 64), ("steps", 5), ("warmup", 2),
                          ("layers", 12), ("hidden", 768), ("heads", 12), ("vocab", 50257),
                          ("positions", 1024), ("kv_heads", 4), ("ffn_hidden", 2048)]:
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--kind", choices=["gpt2", "llama"], default="gpt2")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--compile", type=int, help="1 or 0; without it, on a GPU")
    a = parser.parse_args()
    on_gpu = a.device == "cuda"
    torch.manual_seed(0)
    torch.set_num_threads(a.threads)
    model = (Gpt2(a.vocab, a.positions, a.layers, a.hidden, a.heads) if a.kind == "gpt2" else
             Llama(a.vocab, a.layers, a.hidden, a.heads, a.kv_heads, a.ffn_hidden)).to(a.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, **({"fused": True} if on_gpu else {}))
    tokens, targets = torch.randint(a.vocab, (2, a.batch, a.seq)).to(a.device)

    def gradients(compute):
        with torch.autocast(a.device, torch.bfloat16, enabled=a.dtype == "bfloat16"):
            loss = compute(tokens, targets)
        optimizer.zero_grad()
        loss.backward()
        return loss

    compute = model
    if a.compile if a.compile is not None else on_gpu:
        try:
            compute = torch.compile(model)
            gradients(compute)
        except Exception as error:  # Triton needs a C compiler
            print(f"not compiled: {str(error).strip().splitlines()[0]}", flush=True)
            compute = model
    seconds = []
    for step in range(a.warmup + a.steps):
        begin = time.perf_counter()
        loss = gradients(compute)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if on_gpu:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
        print(f"step {step}: {seconds[-1]:.3f} s, loss {loss.item():.4f}", flush=True)
    timed = sorted(seconds[a.warmup:])
    parameters = sum(p.numel() for p in model.parameters())
    median = timed[len(timed) // 2]
    tokens_per_step = a.batch * a.seq
    # Model flops: 6 per parameter that multiplies (positions and untied embeddings do not) and
    # token, and for causal attention 6·layers·hidden·seq, half of what a mask would compute.
    flops = tokens_per_step * (6 * model.matrix_parameters() + 6 * a.layers * a.hidden * a.seq)
    for name, time_ in [("best", timed[0]), ("median", median)]:
        print(f"{name}: {time_:.3f} s/step, {tokens_per_step / time_:.1f} tokens/s, "
              f"{flops / time_ / 1e9:.1f} GFLOP/s")
    print(f"parameters {parameters}, threads {torch.get_num_threads()}, "
          f"torch {torch.__version__}, "
          f"{torch.cuda.get_device_name() if on_gpu else 'BLAS ' + blas_in_use()}")


main()
