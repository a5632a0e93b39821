#!/usr/bin/env python3
"""An independent residual network for the loss curves, in plain PyTorch (1.13 or newer).

Usage: resnet_oracle.py FOLDER, as image_files.py has it; model.safetensors also holds the running
statistics. Prints "<loss> <gradient norm>" for every step, then "<name> <sum of squares>" of every
running statistic. It shares nothing with the C++ code but these files.
"""
import pathlib
import sys

import torch
import torch.nn.functional as F

from image_files import read_job, read_safetensors, train


class Network:
    def __init__(self, tensors, job):
        self.job = job
        self.type = torch.bfloat16 if job["mixed"] else next(iter(tensors.values())).dtype
        self.kept = {n: t for n, t in tensors.items() if ".running_" in n}
        self.p = {n: torch.nn.Parameter(t) for n, t in tensors.items() if n not in self.kept}

    def weight(self, name):
        return self.p[name].to(self.type)

    def conv_norm(self, x, conv, norm, stride=1):
        w = self.weight(conv + ".weight").permute(0, 3, 1, 2)
        x = F.conv2d(x, w, stride=stride, padding=w.shape[-1] // 2)
        mean, variance = self.kept[norm + ".running_mean"], self.kept[norm + ".running_var"]
        # Beside bfloat16 values, PyTorch wants weights in the type of the statistics.
        return F.batch_norm(x, mean, variance, self.weight(norm + ".weight").to(mean.dtype),
                            self.weight(norm + ".bias").to(mean.dtype), training=True,
                            momentum=self.job["norm_momentum"], eps=self.job["norm_eps"])

    def block(self, x, name, stride):
        identity = x
        if name + "downsample.conv.weight" in self.p:
            identity = self.conv_norm(x, name + "downsample.conv", name + "downsample.bn", stride)
        if self.job["bottleneck"]:
            x = F.relu(self.conv_norm(x, name + "conv1", name + "bn1"))
            x = F.relu(self.conv_norm(x, name + "conv2", name + "bn2", stride))
            x = self.conv_norm(x, name + "conv3", name + "bn3")
        else:
            x = F.relu(self.conv_norm(x, name + "conv1", name + "bn1", stride))
            x = self.conv_norm(x, name + "conv2", name + "bn2")
        return F.relu(x + identity)

    def logits(self, images):
        small = self.job["small_stem"]
        x = images.to(self.type)
        x = F.relu(self.conv_norm(x, "stem.conv1", "stem.bn1", 1 if small else 2))
        if not small:
            x = F.max_pool2d(x, 3, stride=2, padding=1)
        index = 0
        for stage, blocks in enumerate(self.job["blocks"]):
            for i in range(blocks):
                x = self.block(x, f"blocks.{index}.", 2 if stage > 0 and i == 0 else 1)
                index += 1
        return F.linear(x.mean((2, 3)), self.weight("head.fc.weight"), self.weight("head.fc.bias"))


def main(folder):
    job = read_job(folder)
    net = Network(read_safetensors(folder / "model.safetensors"), job)
    train(folder, job, list(net.p.values()), net.logits)
    for name in sorted(net.kept):
        print(f"{name} {net.kept[name].double().pow(2).sum().item():.17g}")


main(pathlib.Path(sys.argv[1]))
