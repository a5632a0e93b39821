"""What the oracles of images share: the files that the C++ test writes, and the training loop.

FOLDER holds
  job.json           sizes, optimizer
  model.safetensors  initial weights; convolutions are [out, kernel, kernel, in]
  images.bin         int32 [steps, passes, batch, size, size, 3], intensities 0 ... 255
  labels.bin         int32 [steps, passes, batch]
"""
import json
import struct

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


def make_optimizer(parameters, job):
    if job["optimizer"] == "SGD":
        return torch.optim.SGD(parameters, lr=job["lr"], momentum=job["momentum"],
                               weight_decay=job["weight_decay"])
    return torch.optim.AdamW(parameters, lr=job["lr"], eps=job["eps"],
                             betas=(job["beta1"], job["beta2"]), weight_decay=job["weight_decay"])


def read_job(folder):
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)  # of the means and deviations
    return json.loads((folder / "job.json").read_text())


def train(folder, job, parameters, logits):
    """Trains `parameters`, of which `logits` [batch, classes] are a function of normalized images
    [batch, 3, size, size]. Prints "<loss> <gradient norm>" for every step."""
    dtype = parameters[0].dtype
    steps, passes, batch, size = job["steps"], job["passes"], job["batch"], job["image_size"]
    pixels = numpy.fromfile(folder / "images.bin", dtype=numpy.int32)
    images = torch.tensor(pixels.reshape(steps, passes, batch, size, size, 3).astype(numpy.float64))
    images = ((images / 255 - torch.tensor(MEAN)) / torch.tensor(DEVIATION)).to(dtype)
    images = images.permute(0, 1, 2, 5, 3, 4)
    labels = torch.tensor(numpy.fromfile(folder / "labels.bin", dtype=numpy.int32)
                          .reshape(steps, passes, batch), dtype=torch.long)
    optimizer = make_optimizer(parameters, job)
    for step in range(steps):
        optimizer.zero_grad()
        total = 0.0
        for i in range(passes):
            loss = F.cross_entropy(logits(images[step, i]).to(dtype), labels[step, i]) / passes
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(parameters, job["max_norm"])
        optimizer.step()
        print(f"{total:.17g} {norm.item():.17g}")
