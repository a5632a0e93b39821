#!/usr/bin/env python3
"""What half the bandwidth of every link costs, and what each rank does meanwhile.

Usage: half_network.py SCENARIO     (needs the module lockstep and numpy)
"""
import sys

import lockstep
import numpy as np


def busy_seconds(timeline, stream):
    """Seconds that each rank with spans of its own spends on a stream."""
    chosen = timeline.stream == timeline.streams.index(stream)
    lengths = (timeline.end_ps - timeline.active_ps)[chosen]
    return np.bincount(timeline.rank[chosen], weights=lengths, minlength=len(timeline.ranks)) / 1e12


def main(path):
    for factor in (1.0, 0.5):
        scenario = lockstep.Scenario.load(path, set=[f"what_if.bandwidth_factor={factor}"])
        run = lockstep.simulate(scenario)
        figures = run.figures
        busy = busy_seconds(run.timeline(), "compute")
        memory = run.memory()
        peak = memory.bytes.sum(axis=1).max() if len(memory) else 0
        print(f"bandwidth x {factor}: step {figures.step_time_s:.6g} s, "
              f"the busiest rank computes for {busy.max():.6g} s, "
              f"buffers take {peak / 1e9:.3g} GB at most")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        main(sys.argv[1])
    except lockstep.Error as error:
        sys.exit(str(error))
