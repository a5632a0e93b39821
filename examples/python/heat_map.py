#!/usr/bin/env python3
"""Draws how many tokens a second a 7B model trains on eight A100s, by how it is divided.

Usage: heat_map.py OUT.svg     (needs the package lockstep and numpy)
"""
import sys
from pathlib import Path

import lockstep

SCENARIO = Path(__file__).resolve().parents[2] / "scenarios/lessons/choosing.toml"
TENSOR, BATCH = "parallelism.tensor_parallel_degree", "training.local_batch_size"


def runs():
    """Eight ranks, divided by tensor parallelism and the rest by FSDP; the batch stays 64."""
    points = [{TENSOR: tp, "parallelism.data_parallel_shard_degree": 8 // tp, BATCH: batch}
              for tp in (1, 2, 4, 8) for batch in (1, 2, 4, 8)]
    scenarios = [lockstep.Scenario.load(SCENARIO, settings=point) for point in points]
    return points, lockstep.simulate_many(scenarios, progress=False)


def heat_map(points, results):
    """An SVG: tensor parallelism downwards, sequences of a microbatch to the right."""
    speeds = [run.tokens_per_s for run in results if run.ok]
    least, most = min(speeds), max(speeds)
    rows, columns = (sorted({p[key] for p in points}) for key in (TENSOR, BATCH))
    svg = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 420 236" font-family="sans-serif"'
           ' font-size="12" text-anchor="middle">', '<rect width="420" height="236" fill="#fff"/>',
           '<text x="249" y="18">tokens/s of a 7B model on eight A100s</text>',
           '<text x="249" y="230">sequences of a microbatch</text>']
    for point, run in zip(points, results):
        x = 90 + 80 * columns.index(point[BATCH])
        y = 30 + 42 * rows.index(point[TENSOR])
        share = (run.tokens_per_s - least) / max(most - least, 1) if run.ok else 0
        shade = f"rgb({240 - int(150 * share)},{246 - int(76 * share)},250)" if run.ok else "#ddd"
        text = f"{run.tokens_per_s:,.0f}" if run.ok else "does not fit"
        svg.append(f'<rect x="{x}" y="{y}" width="78" height="40" fill="{shade}"/>'
                   f'<text x="{x + 39}" y="{y + 25}">{text}</text>')
    svg += [f'<text x="{129 + 80 * i}" y="214">{n}</text>' for i, n in enumerate(columns)]
    svg += [f'<text x="60" y="{55 + 42 * i}">tp {n}</text>' for i, n in enumerate(rows)]
    return "\n".join([*svg, "</svg>"]) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    Path(sys.argv[1]).write_text(heat_map(*runs()))
