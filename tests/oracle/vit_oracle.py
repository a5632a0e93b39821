#!/usr/bin/env python3
"""A vision transformer for the loss curves, of torch.nn.TransformerEncoderLayer (PyTorch 1.13 or newer).

Usage: vit_oracle.py FOLDER, as image_files.py has it. Prints "<loss> <gradient norm>" for every step.
It shares nothing with the C++ code but these files.
"""
import pathlib
import sys

import torch
import torch.nn.functional as F

from image_files import read_job, read_safetensors, train


def gelu(x):
    return F.gelu(x, approximate="tanh")


class Network(torch.nn.Module):
    def __init__(self, tensors, job):
        super().__init__()
        hidden, patch = job["hidden"], job["patch_size"]
        self.patches = torch.nn.Conv2d(3, hidden, patch, stride=patch)
        self.positions = torch.nn.Parameter(tensors["embed.wpe"].clone())
        self.blocks = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(hidden, job["heads"], job["ffn_hidden"], dropout=0.0,
                                             activation=gelu, layer_norm_eps=job["norm_eps"],
                                             batch_first=True, norm_first=True)
            for _ in range(job["layers"]))
        self.norm = torch.nn.LayerNorm(hidden, eps=job["norm_eps"])
        self.fc = torch.nn.Linear(hidden, job["classes"])
        names = {"patches.weight": tensors["embed.wpatch"].permute(0, 3, 1, 2),
                 "patches.bias": tensors["embed.bpatch"], "positions": tensors["embed.wpe"],
                 "norm.weight": tensors["head.norm.weight"], "norm.bias": tensors["head.norm.bias"],
                 "fc.weight": tensors["head.fc.weight"], "fc.bias": tensors["head.fc.bias"]}
        for i in range(job["layers"]):
            for theirs, ours in (("norm1.weight", "ln1.weight"), ("norm1.bias", "ln1.bias"),
                                 ("self_attn.in_proj_weight", "attn.wqkv"),
                                 ("self_attn.in_proj_bias", "attn.bqkv"),
                                 ("self_attn.out_proj.weight", "attn.wo"),
                                 ("self_attn.out_proj.bias", "attn.bo"),
                                 ("norm2.weight", "ln2.weight"), ("norm2.bias", "ln2.bias"),
                                 ("linear1.weight", "mlp.wfc"), ("linear1.bias", "mlp.bfc"),
                                 ("linear2.weight", "mlp.wproj"), ("linear2.bias", "mlp.bproj")):
                names[f"blocks.{i}.{theirs}"] = tensors[f"blocks.{i}.{ours}"]
        self.to(self.positions.dtype)
        self.load_state_dict(names)  # complains of names that are missing or too many

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.fc(self.norm(x).mean(1))


def main(folder):
    job = read_job(folder)
    net = Network(read_safetensors(folder / "model.safetensors"), job).train()
    train(folder, job, list(net.parameters()), net)


main(pathlib.Path(sys.argv[1]))
