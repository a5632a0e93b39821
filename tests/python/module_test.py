"""The Python module, against closed forms."""
import json
import os
import subprocess
import sys
import unittest

import lockstep
import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PIPELINE = """
[model]
preset = "synthetic"
[parallelism]
pipeline_parallel_degree = 4
pipeline_parallel_schedule = "1F1B"
pipeline_parallel_microbatches = 8
[costs]
forward = 1.0
backward_input = 1.0
backward_weight = 1.0
p2p = 0.0
"""
TINY = """
[model]
preset = "gpt2-tiny"
[training]
local_batch_size = 8
[parallelism]
data_parallel_shard_degree = 8
zero_stage = 3
[cluster]
preset = "h100"
"""


class ModuleTest(unittest.TestCase):
    def test_1f1b_takes_m_plus_p_minus_1_times_forward_and_backward(self):
        run = lockstep.simulate(lockstep.Scenario.parse(PIPELINE))
        self.assertAlmostEqual(run.figures.step_time_s, (8 + 4 - 1) * 3.0)
        self.assertAlmostEqual(run.figures.bubble_fraction, 3 / 11)

    def test_columns_hold_every_microbatch_of_every_stage(self):
        timeline = lockstep.simulate(lockstep.Scenario.parse(PIPELINE)).timeline()
        compute = timeline.stream == timeline.streams.index("compute")
        forward = np.array([name.endswith(".F") for name in timeline.names])[timeline.name]
        pairs = {(s, m) for s, m in zip(timeline.stage[compute & forward],
                                        timeline.microbatch[compute & forward])}
        self.assertEqual(pairs, {(s, m) for s in range(4) for m in range(8)})
        busy = (timeline.end_ps - timeline.begin_ps)[compute].sum()
        self.assertEqual(busy, 4 * 8 * 3 * 10**12)
        with self.assertRaises(ValueError):
            timeline.begin_ps[0] = 1

    def test_columns_outlive_their_timeline(self):
        ends = lockstep.simulate(lockstep.Scenario.parse(PIPELINE)).timeline().end_ps
        self.assertEqual(ends.max(), 33 * 10**12)

    def test_memory_is_rows_of_kinds_whose_sum_the_arena_holds(self):
        run = lockstep.simulate(lockstep.Scenario.parse(TINY))
        memory = run.memory()
        self.assertEqual(memory.bytes.shape, (len(memory), len(memory.kinds)))
        most = memory.bytes.sum(axis=1).max()
        self.assertGreater(most, 0)
        self.assertLessEqual(most, max(run.figures.peak_memory_bytes))

    def test_a_program_is_verified_and_read_back(self):
        scenario = lockstep.Scenario.parse(TINY)
        program = lockstep.lower(scenario)
        self.assertEqual((program.ranks, scenario.ranks), (8, 8))
        self.assertEqual(program.verify(), [])
        again = lockstep.Program.parse(program.text)
        self.assertEqual(again.hash, program.hash)
        self.assertEqual(json.loads(lockstep.simulate(scenario).report_json())["program_hash"],
                         program.hash)
        self.assertLess(program.memory(scenario).arena, program.memory(scenario).available)

    def test_faults_say_line_and_nearest_name(self):
        with self.assertRaises(lockstep.Error) as caught:
            lockstep.Scenario.parse(TINY.replace("zero_stage", "zero_stagee"))
        fault = caught.exception.faults[0]
        self.assertEqual((fault.kind, fault.line), ("parse", 8))
        self.assertIn("zero_stage", fault.message)

    def test_what_does_not_fit_says_so(self):
        with self.assertRaises(lockstep.Error) as caught:
            lockstep.simulate(lockstep.Scenario.parse(
                '[model]\npreset = "llama3-70b"\n[cluster]\npreset = "h100"\nnodes = 1\n'))
        self.assertEqual(caught.exception.faults[0].kind, "out_of_memory")

    def test_search_finds_layouts_in_order(self):
        layouts = lockstep.search(lockstep.Scenario.parse(TINY), only=["tp=1", "pp=1"], finalists=3)
        times = [layout.step_time_s for layout in layouts]
        self.assertEqual(len(times), 3)
        self.assertEqual(times, sorted(times))
        best = lockstep.simulate(layouts[0].scenario)
        self.assertAlmostEqual(best.figures.step_time_s, times[0])

    def test_the_example_says_what_half_the_network_costs(self):
        said = subprocess.run(
            [sys.executable, f"{ROOT}/examples/python/half_network.py",
             f"{ROOT}/scenarios/quickstart.toml"],
            check=True, capture_output=True, text=True).stdout.splitlines()
        self.assertEqual(len(said), 2)
        steps = [float(line.split("step ")[1].split(" s")[0]) for line in said]
        self.assertLess(steps[0], steps[1])


if __name__ == "__main__":
    unittest.main()
