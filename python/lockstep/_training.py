"""Training: a scenario trained on this machine."""
from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import _lockstep
from ._figures import Figures
from ._progress import Progress, shown
from ._run import Run, files_of, from_files
from ._scenario import ScenarioLike, scenario_of


class Training(Run):
    """A run that was trained. Its figures are those of the traced steps (docs/report.md), and
    ``training.losses`` are those of all its steps; ``training.steps`` say more of each: ``step``,
    ``loss``, ``grad_norm``, ``lr``, ``time_s`` and, where it was due, ``validation_loss``.

    Where nothing was left to train, there are no steps, and the figures are those that the run
    folder has. ``training.ending`` is "done", "stopped" (by `on_step`) or "diverged".
    """

    steps: list[Figures]  #: of this call
    notes: list[str]  #: what one should know of, such as a damaged checkpoint
    ending: str

    def __init__(self, scenario: Any, native: _lockstep.Training):
        run = native.run
        super().__init__(
            scenario, run.report_json() if run else None, run,
            None if run else _lockstep.Error("; ".join([*native.notes, "there is no report"])))
        self.steps = [Figures(step) for step in native.steps]
        self.notes = native.notes
        self.ending = native.ending

    def __reduce__(self) -> tuple[Any, ...]:
        files = None if self._native is None else files_of(self)
        kept = (self.scenario, self.error, self._report, self.steps, self.notes, self.ending)
        return _again, (files, kept)


def _again(files: Mapping[str, bytes] | None, kept: tuple[Any, ...]) -> Training:
    training = Training.__new__(Training)
    (scenario, error, report, training.steps, training.notes, training.ending) = kept
    Run.__init__(training, scenario, report, from_files(files, {})._native if files else None, error)
    return training


def train(scenario: ScenarioLike | None = None, settings: Mapping[str, Any] | None = None, *,
          steps: int = 0, folder: str | os.PathLike[str] = "",
          resume: str | os.PathLike[str] = "", backend: str = "cpu", threads: int = 1,
          accept: Iterable[str] = (), on_step: Callable[[Figures], object] | None = None,
          progress: Progress = None, set: Iterable[str] = (), **sections: Any) -> Training:
    """Trains a scenario on this machine, as ``lockstep run`` does: the same bits, the same files.

    >>> lockstep.train("tiny.toml", steps=20, folder="runs/a", resume="auto").losses

    `folder` gets metrics, report, trace and, where the scenario has ``checkpoint.interval``, the
    checkpoints. `resume` "auto" goes on from there, and ends at step `steps`; another run folder,
    or one of checkpoints, goes on from that for `steps` more; `accept` has the settings that may
    differ from the checkpoint's. `steps` 0: those of the scenario. `backend`: "cpu", "cuda" or
    "reference"; `threads` compute for each rank. `on_step` is called after every step, and stops
    the training by returning False. `progress` None: a line on stderr if it is a terminal.

    What it raises, or Ctrl-C, ends the training after the step, and its checkpoint is written.
    Raises Error if the scenario is wrong or cannot be trained here; and if the loss or the gradient
    is not finite: then the error's ``training`` is what came before.
    """
    chosen = scenario_of(scenario, set, settings, **sections)
    tell = shown(progress, "trained")

    def follow(step: dict[str, Any]) -> object:
        tell(step["step"], step["last"])
        return None if on_step is None else on_step(Figures(step))

    native = _lockstep.train(chosen._native, backend, os.fspath(folder), os.fspath(resume), steps,
                             threads, list(accept), follow)
    training = Training(chosen, native)
    if native.diverged:
        error = _lockstep.Error(native.diverged)
        error.training = training
        raise error
    return training
