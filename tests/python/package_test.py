"""The Python package: settings, many runs, tables, pickling, and that it says what the command line
says. LOCKSTEP_PROGRAM is the program that it is compared with."""
import ast
import inspect
import json
import os
import pickle
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import lockstep
import numpy as np
from lockstep import _lockstep

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "scenarios" / "quickstart.toml"
TINY = {"model": {"preset": "gpt2-tiny"}, "training": {"local_batch_size": 8},
        "parallelism": {"data_parallel_shard_degree": 8}, "cluster": {"preset": "h100"}}


def program(*arguments):
    """What the command line prints as JSON."""
    said = subprocess.run([os.environ["LOCKSTEP_PROGRAM"], *map(str, arguments), "--json"],
                          capture_output=True, text=True, check=True)
    return json.loads(said.stdout)


class SettingsTest(unittest.TestCase):
    def test_every_way_to_give_a_setting_means_the_same(self):
        by_section = lockstep.Scenario.load(QUICKSTART, training={"seq_len": 64})
        by_path = lockstep.Scenario.load(QUICKSTART, settings={"training.seq_len": 64})
        by_text = lockstep.Scenario.load(QUICKSTART, set=["training.seq_len=64"])
        later = lockstep.Scenario.load(QUICKSTART).changed(training={"seq_len": 64})
        numpy = lockstep.Scenario.load(QUICKSTART, training={"seq_len": np.int64(64)})
        for other in (by_path, by_text, later, numpy):
            self.assertEqual(by_section, other)
        self.assertNotEqual(by_section, lockstep.Scenario.load(QUICKSTART))
        self.assertEqual(by_section.to_dict()["training"]["seq_len"], 64)

    def test_a_setting_of_a_preset_replaces_what_the_preset_of_the_file_says(self):
        changed = lockstep.Scenario.of(TINY).changed(cluster={"preset": "a100-80"})
        self.assertEqual(changed, lockstep.Scenario.of(TINY, cluster={"preset": "a100-80"}))

    def test_strings_bools_and_lists_are_settings(self):
        scenario = lockstep.Scenario.of(TINY, training={"mixed_precision_param": "bfloat16"},
                                        name='a "name"')
        self.assertEqual(scenario.to_dict()["name"], 'a "name"')
        self.assertEqual(scenario.to_dict()["training"]["mixed_precision_param"], "bfloat16")
        with self.assertRaisesRegex(TypeError, "a setting is a number"):
            lockstep.Scenario.of(TINY, training={"seq_len": object()})

    def test_wrong_keys_are_refused_with_the_nearest_name_all_at_once(self):
        with self.assertRaises(lockstep.Error) as caught:
            lockstep.simulate(QUICKSTART, parallelism={"tensor_paralel_degree": 2},
                              trainin={"seq_len": 8})
        self.assertIn("did you mean 'tensor_parallel_degree'?", str(caught.exception))
        self.assertIn("did you mean 'training'?", str(caught.exception))
        self.assertEqual({fault.file for fault in caught.exception.faults}, {"settings"})
        self.assertIn("(settings trainin.seq_len=8)", str(caught.exception))
        self.assertEqual(len(caught.exception.faults), 2)

    def test_the_fault_of_a_setting_names_the_argument_and_not_an_option_of_the_program(self):
        wrong = {"trainin.steps": 3}
        for call in (lambda: lockstep.simulate(QUICKSTART, settings=wrong),
                     lambda: lockstep.simulate(QUICKSTART, set=["nonsense"]),
                     lambda: lockstep.Scenario.of(TINY).changed(trainin={"steps": 3})):
            with self.assertRaises(lockstep.Error) as caught:
                call()
            self.assertIn("settings", str(caught.exception))
            self.assertNotIn("--set", str(caught.exception))
        validated = lockstep.validate(ROOT / "validation/training.csv", source="zb-t4",
                                      settings=wrong, rows=True)
        self.assertIn("settings trainin.steps=3", json.dumps(validated.to_dict()))
        self.assertNotIn("--set", json.dumps(validated.to_dict()))


class RunTest(unittest.TestCase):
    def test_to_dict_is_what_the_command_line_prints(self):
        run = lockstep.simulate(QUICKSTART, training={"seq_len": 64})
        self.assertEqual(run.to_dict(), program("run", QUICKSTART, "--set", "training.seq_len=64"))

    def test_every_figure_is_an_attribute(self):
        run = lockstep.simulate(QUICKSTART)
        for name, value in run.to_dict().items():
            self.assertIn(name, dir(run))
            shown = getattr(run, name)
            self.assertEqual(shown.to_dict() if isinstance(shown, lockstep.Figures) else
                             json.loads(json.dumps(shown, default=lambda f: f.to_dict())), value)
        self.assertEqual(run.bubbles_s.peer, run.to_dict()["bubbles_s"]["peer"])
        with self.assertRaisesRegex(AttributeError, "there are backend, "):
            run.figures.step_tme_s

    def test_a_repr_has_the_figures(self):
        run = lockstep.simulate(QUICKSTART)
        self.assertIn(f"step {run.step_time_s:.4g} s", repr(run))
        self.assertIn(f"{run.tokens_per_s:,.0f} tokens/s", repr(run))
        self.assertIn("mfu ", repr(run.figures))

    def test_a_run_folder_opens_with_the_figures_that_were_saved(self):
        run = lockstep.simulate(QUICKSTART)
        with tempfile.TemporaryDirectory() as folder:
            run.save(Path(folder) / "run")
            opened = lockstep.open(Path(folder) / "run")
            self.assertEqual(opened.to_dict(), run.to_dict())
            self.assertEqual(program("report", Path(folder) / "run"), run.to_dict())
        again = pickle.loads(pickle.dumps(opened))  # its folder is gone
        self.assertEqual(again.to_dict(), run.to_dict())
        self.assertTrue((again.timeline().end_ps == run.timeline().end_ps).all())

    def test_compare_is_what_the_command_line_prints(self):
        other = ROOT / "scenarios" / "lessons" / "ddp.toml"
        compared = lockstep.compare(QUICKSTART, other)
        self.assertEqual(compared.to_dict(), program("compare", QUICKSTART, other))
        runs = lockstep.compare(lockstep.simulate(QUICKSTART), lockstep.Scenario.load(other))
        self.assertEqual(runs.to_dict(), compared.to_dict())


class ManyTest(unittest.TestCase):
    OVER = {"parallelism.tensor_parallel_degree": [1, 2, 3], "training.seq_len": [32, 64]}

    def test_many_on_all_cores_are_the_same_as_one_by_one(self):
        scenarios = [lockstep.Scenario.load(QUICKSTART, training={"seq_len": s})
                     for s in (16, 32, 48, 64, 80, 96)]
        told = []
        runs = lockstep.simulate_many(scenarios, progress=lambda *news: told.append(news),
                                      threads=3)
        self.assertEqual([r.to_dict() for r in runs],
                         [lockstep.simulate(s).to_dict() for s in scenarios])
        self.assertEqual(told, [(i, 6) for i in range(1, 7)])

    def test_one_that_cannot_be_does_not_stop_the_others(self):
        runs = lockstep.sweep(QUICKSTART, self.OVER, progress=False)
        self.assertEqual([r.ok for r in runs], [True] * 4 + [False] * 2)
        self.assertIn("does not divide heads", str(runs[4].error))
        self.assertIn("failed", repr(runs[4]))
        with self.assertRaises(lockstep.Error):
            runs[4].mfu
        self.assertEqual(runs.best().settings,
                         min((r for r in runs if r.ok), key=lambda r: r.step_time_s).settings)
        grid = runs.grid("tokens_per_s")
        self.assertEqual(grid.shape, (3, 2))
        self.assertTrue(np.isnan(grid[2]).all())
        self.assertEqual(grid[1, 0], runs[2].tokens_per_s)

    def test_a_run_of_many_gives_its_timeline_when_it_is_asked_for(self):
        run = lockstep.simulate_many([QUICKSTART])[0]
        one = lockstep.simulate(QUICKSTART)
        self.assertTrue((run.timeline().end_ps == one.timeline().end_ps).all())

    def test_a_frame_has_a_row_for_each_run_with_its_settings_and_figures(self):
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("pandas is not installed")
        frame = lockstep.sweep(QUICKSTART, self.OVER, progress=False).to_frame()
        self.assertEqual(len(frame), 6)
        self.assertEqual(list(frame["training.seq_len"]), [32, 64] * 3)
        self.assertEqual(frame["error"].isna().sum(), 4)
        self.assertEqual(frame["peak_memory_bytes"][1], max(lockstep.simulate(
            QUICKSTART, training={"seq_len": 64}).peak_memory_bytes))

    def test_a_sweep_of_a_file_is_its_points(self):
        path = ROOT / "scenarios" / "lessons" / "tp-by-interconnect.toml"
        points = lockstep.Scenario.load_sweep(path)
        runs = lockstep.simulate_many(points, progress=False)
        said = program("run", path)
        self.assertEqual([r.scenario.label for r in runs], [p["label"] for p in said])
        self.assertEqual([r.step_time_s for r in runs], [p["step_time_s"] for p in said])


class QuestionsTest(unittest.TestCase):
    def test_collective_and_its_sweep_are_what_the_command_line_prints(self):
        asked = ("--kind", "all_gather", "--cluster", "a100-80", "--nodes", "2")
        one = lockstep.collective("all_gather", 2**26, "a100-80", nodes=2)
        self.assertEqual([one.to_dict()], program("collective", *asked, "--bytes", "64MiB"))
        many = lockstep.collective_sweep("all_gather", "a100-80", nodes=2)
        self.assertEqual([f.to_dict() for f in many], program("collective", *asked, "--sweep"))
        with self.assertRaisesRegex(lockstep.Error, "did you mean 'all_reduce'"):
            lockstep.collective("allreduce")

    def test_validate_is_what_the_command_line_prints(self):
        file = ROOT / "validation" / "training.csv"
        said = program("validate", file, "--source", "zb-t4")
        told = []
        self.assertEqual(lockstep.validate(file, source="zb-t4",
                                           progress=lambda *n: told.append(n)).to_dict(), said)
        self.assertEqual(told[-1], (said["all"]["rows"], said["all"]["rows"]))
        collectives = ROOT / "validation" / "collectives.csv"
        self.assertEqual(lockstep.validate(collectives).to_dict(),
                         program("validate", collectives))
        with self.assertRaisesRegex(lockstep.Error, "no row of"):
            lockstep.validate(file, row="zb-t4-xxx")

    def test_a_plan_is_exported_and_imported_as_by_the_command_line(self):
        scenario = ROOT / "scenarios" / "clusters" / "llama2-7b-fsdp-8xh100.toml"
        plan = lockstep.export("torchtitan", scenario)
        self.assertEqual(plan.to_dict(), program("export", "torchtitan", scenario))
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "plan.toml"
            file.write_text(plan.text)
            took = lockstep.import_("torchtitan", file)
            self.assertEqual(took.text, program("import", "torchtitan", file)["scenario"])
        self.assertEqual(took.scenario.ranks, 8)
        with self.assertRaisesRegex(lockstep.Error, "torchtitan, megatron, deepspeed"):
            lockstep.import_("torchtitanic", file)

    def test_presets_are_those_of_the_command_line(self):
        self.assertEqual(lockstep.models(), program("list", "models"))
        self.assertEqual(lockstep.clusters(), program("list", "clusters"))
        named = {c for gpu in lockstep.gpus() for c in gpu["clusters"]}
        self.assertEqual(named, {c["cluster"] for c in lockstep.clusters()})

    def test_search_takes_degrees_as_a_dict(self):
        layouts = lockstep.search(TINY, only={"tp": 1, "pp": 1}, finalists=2)
        self.assertEqual(len(layouts), 2)
        self.assertAlmostEqual(lockstep.simulate(layouts[0].scenario).step_time_s,
                               layouts[0].step_time_s)
        self.assertIn(layouts[0].name, repr(layouts))
        self.assertEqual(layouts.account.families[0].because, "")
        self.assertIs(layouts[:1].account, layouts.account)

    def test_recommend_answers_as_the_command_does(self):
        found = lockstep.recommend("gpt2-124m", "a100-80", seq_len=1024, batch=64)
        told = program("recommend", "--model", "gpt2-124m", "--cluster", "a100-80", "--seq-len",
                       "1024", "--batch", "64")
        self.assertEqual(found.task, told["task"])
        self.assertEqual(found.answer.name, told["answer"]["layout"])
        self.assertEqual(found.answer.step_time_s, told["answer"]["step_time_s"])
        self.assertEqual([rule.to_dict() for rule in found.rules], told["rules"])
        self.assertEqual((found.would_fit, found.failure), ({}, ""))
        self.assertAlmostEqual(lockstep.simulate(found.answer.scenario).step_time_s,
                               found.answer.step_time_s)
        self.assertIn(found.answer.name, repr(found))

    def test_recommend_says_what_would_fit(self):
        found = lockstep.recommend("mixtral-8x7b", "v100", seq_len=512, batch=16)
        self.assertIsNone(found.answer)
        self.assertIn("none of", found.failure)
        self.assertIn("--nodes", " ".join(found.would_fit))
        self.assertIn("nothing fits; ", repr(found))
        with self.assertRaisesRegex(lockstep.Error, "llama3-70b"):
            lockstep.recommend("llama3-70", "h100")


class PickleTest(unittest.TestCase):
    def test_scenarios_runs_programs_and_errors_are_the_same_after_pickling(self):
        scenario = lockstep.Scenario.load(QUICKSTART, training={"seq_len": 64})
        run = lockstep.simulate(scenario)
        again_s, again_r, again_p = pickle.loads(pickle.dumps(
            (scenario, run, lockstep.lower(scenario))))
        self.assertEqual(again_s, scenario)
        self.assertEqual(again_r.to_dict(), run.to_dict())
        self.assertTrue((again_r.timeline().begin_ps == run.timeline().begin_ps).all())
        self.assertEqual(again_p.hash, run.program_hash)
        points = lockstep.Scenario.load_sweep(
            ROOT / "scenarios" / "lessons" / "tp-by-interconnect.toml")
        self.assertEqual([p.label for p in pickle.loads(pickle.dumps(points))],
                         [p.label for p in points])
        with self.assertRaises(lockstep.Error) as caught:
            lockstep.Scenario.load(QUICKSTART, training={"seq_len": 0})
        error = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual(str(error), str(caught.exception))
        self.assertEqual(error.faults[0].message, caught.exception.faults[0].message)


class PageTest(unittest.TestCase):
    def test_the_heat_map_of_the_page_is_what_its_example_draws(self):
        picture = ROOT / "docs/images/heat-map.svg"
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "heat-map.svg"
            subprocess.run([sys.executable, ROOT / "examples/python/heat_map.py", made], check=True)
            if os.environ.get("LOCKSTEP_UPDATE_DOCS"):
                picture.write_bytes(made.read_bytes())
            self.assertEqual(made.read_text(), picture.read_text())


class StubTest(unittest.TestCase):
    """_lockstep.pyi, which type checkers read, against the module."""

    def test_the_stub_and_the_module_have_the_same_names(self):
        stub = ast.parse((ROOT / "python" / "lockstep" / "_lockstep.pyi").read_text())
        names, members = set(), {}
        for node in stub.body:
            if isinstance(node, ast.ClassDef):
                members[node.name] = {
                    n.target.id if isinstance(n, ast.AnnAssign) else n.name for n in node.body
                    if isinstance(n, (ast.FunctionDef, ast.AnnAssign))}
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                names.add(node.name)
        public = {n for n in dir(_lockstep) if not n.startswith("_")}
        self.assertEqual(names, public)
        inherited = set(dir(ValueError))
        for name, listed in members.items():
            has = {n for n in dir(getattr(_lockstep, name)) if not n.startswith("_")}
            self.assertEqual({n for n in listed if not n.startswith("_")}, has - inherited, name)
        for node in stub.body:  # parameters are what the module's signature says
            if isinstance(node, ast.FunctionDef):
                signature = getattr(_lockstep, node.name).__doc__.splitlines()[0]
                for argument in node.args.args:
                    self.assertIn(argument.arg if len(node.args.args) > 1 else "", signature)

    def test_every_public_name_is_documented_and_annotated(self):
        for name in lockstep.__all__:
            value = getattr(lockstep, name)
            if name == "__version__":
                continue
            self.assertTrue(value.__doc__, name)
            if inspect.isfunction(value):
                signature = inspect.signature(value)
                self.assertIsNot(signature.return_annotation, inspect.Signature.empty, name)
                for parameter in signature.parameters.values():
                    self.assertIsNot(parameter.annotation, inspect.Parameter.empty, name)
        self.assertTrue((Path(lockstep.__file__).parent / "py.typed").exists())
        public = {n for n, v in vars(lockstep).items()
                  if not n.startswith("_") and not inspect.ismodule(v)}
        self.assertEqual(public, {n for n in lockstep.__all__ if not n.startswith("_")})


if __name__ == "__main__":
    unittest.main()
