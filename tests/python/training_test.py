"""Training from Python: it resumes to the bit, and ends in order whatever is raised."""
import json
import os
import pickle
import signal
import tempfile
import unittest
from pathlib import Path

import lockstep

TINY = {"model": {"preset": "gpt2-tiny", "layers": 2, "hidden": 16, "heads": 2, "ffn_hidden": 32},
        "training": {"local_batch_size": 2, "seq_len": 8, "steps": 8},
        "parallelism": {"pipeline_parallel_degree": 2, "pipeline_parallel_microbatches": 2,
                        "data_parallel_replicate_degree": 2},
        "checkpoint": {"interval": 4}}


class TrainingTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def metrics(self, run):
        lines = (self.folder / run / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def test_four_steps_and_four_more_are_the_bits_of_eight(self):
        whole = lockstep.train(TINY, folder=self.folder / "whole")
        first = lockstep.train(TINY, steps=4, folder=self.folder / "parts", resume="auto")
        second = lockstep.train(TINY, steps=8, folder=self.folder / "parts", resume="auto")
        self.assertEqual([s.step for s in whole.steps], list(range(1, 9)))
        self.assertEqual([s.step for s in second.steps], [5, 6, 7, 8])
        self.assertEqual(first.losses + second.losses, whole.losses)
        self.assertEqual([s.grad_norm for s in first.steps + second.steps],
                         [s.grad_norm for s in whole.steps])
        for name in ("model.safetensors", "optimizer.safetensors"):
            checkpoint = Path("checkpoints") / "step-8" / name
            self.assertEqual((self.folder / "parts" / checkpoint).read_bytes(),
                             (self.folder / "whole" / checkpoint).read_bytes(), name)
        self.assertEqual([m["step"] for m in self.metrics("parts")], list(range(1, 9)))
        self.assertEqual((whole.ending, whole.world_size, whole.backend), ("done", 4, "cpu"))
        self.assertGreater(whole.step_time_s, 0)
        self.assertGreater(len(whole.timeline()), 0)
        opened = lockstep.open(self.folder / "whole")
        self.assertEqual(opened.to_dict(), whole.to_dict())

    def test_where_nothing_is_left_the_figures_are_those_of_the_folder(self):
        run = self.folder / "run"
        trained = lockstep.train(TINY, steps=4, folder=run, resume="auto")
        again = lockstep.train(TINY, steps=4, folder=run, resume="auto")
        self.assertEqual(again.steps, [])
        self.assertEqual(again.notes, [f"all 4 steps of {run} are done"])
        self.assertEqual(again.to_dict(), trained.to_dict())

    def test_settings_that_differ_from_the_checkpoints_are_refused_unless_they_are_accepted(self):
        run = self.folder / "run"
        lockstep.train(TINY, steps=4, folder=run)
        with self.assertRaisesRegex(lockstep.Error, "optimizer.lr: .* in the checkpoint, .* now"):
            lockstep.train(TINY, folder=run, resume="auto", optimizer={"lr": 0.5})
        more = lockstep.train(TINY, folder=run, resume="auto", accept=["optimizer.lr"],
                              optimizer={"lr": 0.5})
        self.assertEqual(more.steps[0].step, 5)

    def test_what_cannot_be_trained_says_why(self):
        for wrong, message in (({"backend": "sim"}, "computes nothing"),
                               ({"backend": "gpu"}, "unknown backend 'gpu'"),
                               ({"steps": -1}, "steps=-1"), ({"threads": 0}, "threads=0"),
                               ({"resume": "auto"}, "--resume auto needs --out"),
                               ({"resume": self.folder / "none"}, "none")):
            with self.subTest(wrong), self.assertRaisesRegex(lockstep.Error, message):
                lockstep.train(TINY, **wrong)

    def test_on_step_sees_every_step_and_stops_with_false(self):
        seen = []
        run = lockstep.train(TINY, folder=self.folder / "run",
                             on_step=lambda s: seen.append(s.loss) or len(seen) < 3)
        self.assertEqual(seen, run.losses)
        self.assertEqual((len(seen), run.ending), (3, "stopped"))
        self.assertIn("step-3 is the newest checkpoint", run.notes[-1])

    def test_what_on_step_raises_comes_out_after_a_checkpoint(self):
        def fail(step):
            if step.step == 2:
                raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine"):
            lockstep.train(TINY, folder=self.folder / "run", on_step=fail)
        self.assertTrue((self.folder / "run/checkpoints/step-2/manifest.json").exists())
        self.assertEqual(len(self.metrics("run")), 2)

    def test_ctrl_c_ends_training_after_its_step_and_it_goes_on_from_there(self):
        run = self.folder / "run"
        with self.assertRaises(KeyboardInterrupt):
            lockstep.train(TINY, folder=run, on_step=lambda s: os.kill(os.getpid(), signal.SIGINT))
        more = lockstep.train(TINY, folder=run, resume="auto")
        self.assertLessEqual(more.steps[0].step, 3)
        self.assertEqual(more.steps[-1].step, 8)

    def test_progress_counts_to_the_last_step(self):
        told = []
        lockstep.train(TINY, steps=2, progress=lambda done, of: told.append((done, of)))
        self.assertEqual(told, [(1, 2), (2, 2)])

    def test_a_loss_that_is_not_finite_raises_with_what_came_before(self):
        with self.assertRaisesRegex(lockstep.Error, "is not finite, so the run ends") as caught:
            lockstep.train(TINY, optimizer={"lr": 1e30})
        training = caught.exception.training
        self.assertEqual(training.ending, "diverged")
        self.assertLess(len(training.steps), 8)

    def test_validation_losses_stand_with_their_steps(self):
        held = self.folder / "held.txt"
        held.write_text("a" * 1000 + "b" * 1000)
        run = lockstep.train(TINY, steps=4,
                             validation={"freq": 2, "steps": 1, "dataset": str(held)})
        self.assertEqual([s.step for s in run.steps if "validation_loss" in s], [2, 4])
        self.assertEqual([v.loss for v in run.validation],
                         [s.validation_loss for s in run.steps if "validation_loss" in s])

    def test_a_training_is_the_same_after_pickling(self):
        run = lockstep.train(TINY, steps=2)
        again = pickle.loads(pickle.dumps(run))
        self.assertEqual(again.to_dict(), run.to_dict())
        self.assertEqual((again.steps, again.ending), (run.steps, "done"))
        self.assertEqual(len(again.timeline()), len(run.timeline()))


if __name__ == "__main__":
    unittest.main()
