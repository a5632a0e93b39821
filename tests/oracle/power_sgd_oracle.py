#!/usr/bin/env python3
"""The model of gpt2_oracle.py, trained by DistributedDataParallel in as many processes as there are
ranks, with PyTorch's own powerSGD_hook and gloo.

Usage: power_sgd_oracle.py FOLDER, as gpt2_oracle.py. The hook begins at once, with the first right
factors that Lockstep has: they are all that is not PyTorch's.
"""
import json
import pathlib
import sys

import numpy
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power_sgd

from gpt2_oracle import GOLDEN, M64, Replica, learning_rate, mix64, model_logits, read_safetensors


def first_factors(*shape, **kinds):
    rows, cols = shape[-2:]
    values = [[(mix64((r * GOLDEN + c) & M64) >> 41) / 2**22 - 1 for c in range(cols)] for r in range(rows)]
    return torch.tensor(values, dtype=kinds.get("dtype")).expand(shape).clone()


class Model(torch.nn.Module):
    """The loss, as DistributedDataParallel takes it. The parameters are the replica's."""

    def __init__(self, replica):
        super().__init__()
        self.replica = replica
        for name, value in replica.parameters.items():
            self.register_parameter(name.replace(".", "/"), value)

    def forward(self, tokens, targets):
        job = self.replica.job
        logits = model_logits(self.replica.parameters, tokens, job, [])
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def work(rank, folder):
    torch.set_num_threads(1)
    torch.randn = first_factors
    job = json.loads((folder / "job.json").read_text())
    ranks = job["ddp_ranks"]
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank,
                            world_size=ranks)
    replica = Replica(read_safetensors(folder / "model.safetensors"), job, 0)
    # Without unused parameters, the first step would be followed by another order of buckets.
    model = torch.nn.parallel.DistributedDataParallel(Model(replica), find_unused_parameters=True)
    # Nor may the hook's messages meet those by which processes tell which parameters were used.
    state = power_sgd.PowerSGDState(dist.new_group(), job["power_sgd_rank"], start_powerSGD_iter=2,
                                    min_compression_rate=job["power_sgd_rate"],
                                    use_error_feedback=job["power_sgd_feedback"])
    state.start_powerSGD_iter = 0
    model.register_comm_hook(state, power_sgd.powerSGD_hook)
    shape = (job["steps"], job["batch"], job["seq"])
    tokens, targets = (torch.tensor(numpy.fromfile(folder / name, dtype=numpy.int32).reshape(shape),
                                    dtype=torch.long) for name in ("tokens.bin", "targets.bin"))
    size = job["batch"] // ranks
    own = slice(rank * size, (rank + 1) * size)
    for step in range(job["steps"]):
        replica.optimizer.zero_grad()
        loss = model(tokens[step][own], targets[step][own])
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(replica.trained, job["max_norm"])
        for group in replica.optimizer.param_groups:
            group["lr"] = learning_rate(job, step)
        replica.optimizer.step()
        total = loss.detach() / ranks
        dist.all_reduce(total)
        if rank == 0:
            print(f"{total.item():.17g} {norm.item():.17g}", flush=True)


if __name__ == "__main__":
    where = pathlib.Path(sys.argv[1])
    torch.multiprocessing.spawn(work, args=(where,),
                                nprocs=json.loads((where / "job.json").read_text())["ddp_ranks"])
