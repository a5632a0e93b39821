"""Lockstep: distributed training, lowered to a program, verified, simulated and run.

>>> import lockstep
>>> run = lockstep.simulate("70b.toml", parallelism={"tensor_parallel_degree": 8})
>>> run.step_time_s, run.mfu
>>> lockstep.sweep("70b.toml", {"training.local_batch_size": [1, 2, 4]}).to_frame()
>>> lockstep.train("tiny.toml", steps=20, folder="runs/a", resume="auto").losses

Functions take a Scenario, the path of a file or a dict of sections, and settings that replace its
own: ``training={"seq_len": 8192}`` or ``settings={"training.seq_len": 8192}``. What is wrong is
raised as an Error with all its ``faults``. docs/python.md is the guide.
"""
from ._figures import Figures
from ._lockstep import Error, Fault, MemoryNeed, MemoryTimeline, Timeline, __version__
from ._program import Program, lower
from ._questions import (Imported, Layout, Layouts, Recommendation, clusters, collective,
                         collective_sweep, export, gpus, import_, models, recommend, search,
                         validate)
from ._run import Run, Runs, compare, open, simulate, simulate_many, sweep
from ._scenario import Scenario
from ._training import Training, train

__all__ = [
    "Error", "Fault", "Figures", "Imported", "Layout", "Layouts", "MemoryNeed", "MemoryTimeline",
    "Program", "Recommendation", "Run", "Runs", "Scenario", "Timeline", "Training", "__version__", "clusters",
    "collective", "collective_sweep", "compare", "export", "gpus", "import_", "lower", "models",
    "open", "recommend", "search", "simulate", "simulate_many", "sweep", "train", "validate",
]
