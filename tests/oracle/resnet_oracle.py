#!/usr/bin/env python3
"""An independent residual network for the loss curves, in plain PyTorch (1.13 or newer).

Usage: resnet_oracle.py FOLDER, which holds
  job.json           sizes, optimizer
  model.safetensors  initial weights and running statistics; convolutions [out, kernel, kernel, in]
  images.bin         int32 [steps, passes, batch, size, size, 3], intensities 0 ... 255
  labels.bin         int32 [steps, passes, batch]
Prints "<loss> <gradient norm>" for every step, then "<name> <sum of squares>" of every running
statistic. It shares nothing with the C++ code but these files.
"""
import json
import pathlib
import struct
import sys

import numpy
import torch
import torch.nn.functional as F

NUMPY_TYPES = {"F32": numpy.float32, "F64": numpy.float64}
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


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
        logits = F.linear(x.mean((2, 3)), self.weight("head.fc.weight"), self.weight("head.fc.bias"))
        return logits.to(next(iter(self.p.values())).dtype)


def make_optimizer(parameters, job):
    if job["optimizer"] == "SGD":
        return torch.optim.SGD(parameters, lr=job["lr"], momentum=job["momentum"],
                               weight_decay=job["weight_decay"])
    return torch.optim.AdamW(parameters, lr=job["lr"], eps=job["eps"],
                             betas=(job["beta1"], job["beta2"]), weight_decay=job["weight_decay"])


def main(folder):
    torch.set_num_threads(1)
    job = json.loads((folder / "job.json").read_text())
    net = Network(read_safetensors(folder / "model.safetensors"), job)
    dtype = next(iter(net.p.values())).dtype
    steps, passes, batch, size = job["steps"], job["passes"], job["batch"], job["image_size"]
    pixels = numpy.fromfile(folder / "images.bin", dtype=numpy.int32)
    images = torch.tensor(pixels.reshape(steps, passes, batch, size, size, 3).astype(numpy.float64))
    images = ((images / 255 - torch.tensor(MEAN)) / torch.tensor(DEVIATION)).to(dtype)
    images = images.permute(0, 1, 2, 5, 3, 4)
    labels = torch.tensor(numpy.fromfile(folder / "labels.bin", dtype=numpy.int32)
                          .reshape(steps, passes, batch), dtype=torch.long)
    optimizer = make_optimizer(net.p.values(), job)
    for step in range(steps):
        optimizer.zero_grad()
        total = 0.0
        for i in range(passes):
            loss = F.cross_entropy(net.logits(images[step, i]), labels[step, i]) / passes
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(net.p.values(), job["max_norm"])
        optimizer.step()
        print(f"{total:.17g} {norm.item():.17g}")
    for name in sorted(net.kept):
        print(f"{name} {net.kept[name].double().pow(2).sum().item():.17g}")


torch.set_default_dtype(torch.float64)  # of the means and deviations
main(pathlib.Path(sys.argv[1]))
