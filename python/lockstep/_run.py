"""Runs: a scenario's simulated step, many of them, and recorded ones."""
from __future__ import annotations

import itertools
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from . import _lockstep
from ._figures import Figures, wrapped
from ._progress import Progress, shown
from ._scenario import Scenario, ScenarioLike, scenario_of


class Run:
    """A step that was simulated or recorded. Every figure of its report is an attribute:
    ``run.step_time_s``, ``run.mfu``, ``run.bubbles_s.peer`` (docs/report.md); ``run.figures`` has
    them all. ``run.timeline()`` and ``run.memory()`` are columns of numpy arrays.

    A run of simulate_many() may have failed: then ``run.error`` is why, and its figures raise it.
    """

    def __init__(self, scenario: Scenario | None, report: str | None,
                 native: _lockstep.Run | None = None, error: Exception | None = None,
                 settings: Mapping[str, Any] | None = None):
        self.scenario = scenario  #: None if it was recorded, or its settings are none
        self.error = error  #: why there are no figures; None if there are
        self.settings: dict[str, Any] = dict(settings or {})  #: those that a sweep gave it
        self._report = report
        self._native = native
        self._figures: Figures | None = None

    @property
    def ok(self) -> bool:
        """Whether it has figures."""
        return self.error is None

    @property
    def figures(self) -> Figures:
        """All figures of the report."""
        if self._figures is None:
            self._figures = Figures(json.loads(self.report_json()))
        return self._figures

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.figures, name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(self.figures if self.ok else ())]

    def to_dict(self) -> dict[str, Any]:
        """All figures: what ``lockstep run --json`` prints."""
        return self.figures.to_dict()

    def report_json(self) -> str:
        """The same as text: report.json of docs/report.md."""
        if self.error is not None:
            raise self.error
        assert self._report is not None
        return self._report

    def _with_trace(self) -> _lockstep.Run:
        """The run with its trace, which is simulated again where it was not kept."""
        if self.error is not None:
            raise self.error
        if self._native is None:
            assert self.scenario is not None
            self._native = _lockstep.simulate(self.scenario._native, False)
        return self._native

    def timeline(self) -> _lockstep.Timeline:
        """Its spans as columns; times are picoseconds."""
        return self._with_trace().timeline()

    def memory(self) -> _lockstep.MemoryTimeline:
        """Memory after each event: rows of bytes by kind."""
        return self._with_trace().memory()

    def write_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace for Perfetto; compressed if the name ends in .gz."""
        self._with_trace().write_trace(os.fspath(path))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes a run folder, which open() and the command line read."""
        self._with_trace().save(os.fspath(folder))

    def __repr__(self) -> str:
        name = ", ".join(f"{k}={v}" for k, v in self.settings.items())
        if not name and self.scenario is not None:
            name = self.scenario.label
        head = f"<Run {name}: " if name else "<Run "
        if self.error is not None:
            return head + "failed: " + str(self.error).splitlines()[0] + ">"
        f = self.figures.to_dict()
        parts = [f"{f['model']} on {f['world_size']} × {f['cluster']}",
                 f"step {f['step_time_s']:.4g} s"]
        for key, unit in (("tokens_per_s", "tokens/s"), ("images_per_s", "images/s")):
            if f[key]:
                parts.append(f"{f[key]:,.0f} {unit}")
        if f["mfu"]:
            parts.append(f"MFU {100 * f['mfu']:.1f} %")
        parts.append(f"idle {100 * f['bubble_fraction']:.1f} %")
        if f["peak_memory_bytes"]:
            parts.append(f"{max(f['peak_memory_bytes']) / 1e9:.4g} GB")
        return head + ", ".join(parts) + ">"

    def __reduce__(self) -> tuple[Any, ...]:
        if self.scenario is not None or self._native is None:
            return Run, (self.scenario, self._report, None, self.error, self.settings)
        return from_files, (files_of(self), self.settings)  # nothing can simulate it again


_open_file = open


def files_of(run: Run) -> dict[str, bytes]:
    """What its run folder holds."""
    with tempfile.TemporaryDirectory() as folder:
        run.save(folder)
        files = {}
        for name in ("report.json", "trace.json.gz"):
            with _open_file(os.path.join(folder, name), "rb") as stream:
                files[name] = stream.read()
    return files


def from_files(files: Mapping[str, bytes], settings: Mapping[str, Any]) -> Run:
    """The run of such a folder."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            with _open_file(os.path.join(folder, name), "wb") as stream:
                stream.write(content)
        run = open(folder)
    run.settings = dict(settings)
    return run


class Runs(Sequence[Run]):
    """Runs in order; ``to_frame()`` is a table of them."""

    def __init__(self, runs: Iterable[Run], axes: Mapping[str, list[Any]] | None = None):
        self._runs = list(runs)
        self.axes: dict[str, list[Any]] = dict(axes or {})  #: of a sweep: values of each setting

    def __getitem__(self, index: Any) -> Any:
        return Runs(self._runs[index]) if isinstance(index, slice) else self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def best(self, figure: str = "step_time_s", largest: bool = False) -> Run:
        """The run with the least (or the largest) figure, of those that have one."""
        runs = [r for r in self._runs if r.ok and r.figures.flat().get(figure) is not None]
        if not runs:
            raise ValueError(f"no run has a figure '{figure}'")
        choose = max if largest else min
        return choose(runs, key=lambda run: run.figures.flat()[figure])

    def rows(self) -> list[dict[str, Any]]:
        """A dict for each run: its settings or label, its figures, and "error" (None if there is
        none). Of a list, one figure for each rank, the largest."""
        return [{**({"label": r.scenario.label} if r.scenario and r.scenario.label else {}),
                 **r.settings, **(r.figures.flat() if r.ok else {}),
                 "error": None if r.error is None else str(r.error)} for r in self._runs]

    def to_frame(self) -> Any:
        """The rows as a pandas.DataFrame."""
        import pandas
        return pandas.DataFrame(self.rows())

    def to_dicts(self) -> list[dict[str, Any]]:
        """to_dict() of each; {"error": …} of one that failed."""
        return [r.to_dict() if r.ok else {"error": str(r.error)} for r in self._runs]

    def grid(self, figure: str) -> Any:
        """Of a sweep, a figure as a numpy array with an axis for each setting, in the order of
        ``axes``; not a number where a run failed."""
        import numpy
        flat = [r.figures.flat().get(figure) if r.ok else None for r in self._runs]
        values = numpy.array([numpy.nan if v is None else v for v in flat], dtype=float)
        return values.reshape([len(values) for values in self.axes.values()] or len(self._runs))

    def __repr__(self) -> str:
        shown_runs = [repr(r) for r in itertools.islice(self._runs, 10)]
        more = [f"… {len(self) - 10} more"] if len(self) > 10 else []
        return "\n".join([f"{len(self)} runs", *shown_runs, *more])


def open(path: str | os.PathLike[str]) -> Run:
    """A run folder, or a trace of Lockstep's or PyTorch's."""
    native = _lockstep.open(os.fspath(path))
    return Run(None, native.report_json(), native)


def simulate(scenario: ScenarioLike | None = None, settings: Mapping[str, Any] | None = None, *,
             set: Iterable[str] = (), **sections: Any) -> Run:
    """Simulates a step of a scenario.

    >>> lockstep.simulate("70b.toml", parallelism={"tensor_parallel_degree": 8})

    `scenario` is a Scenario, the path of a file or a dict of sections; settings replace its own.
    Raises Error if it is wrong, with all its faults, or does not fit its devices.
    """
    chosen = scenario_of(scenario, set, settings, **sections)
    native = _lockstep.simulate(chosen._native, True)
    return Run(chosen, native.report_json(), native)


def _outcome(scenario: ScenarioLike, settings: Mapping[str, Any],
             common: Mapping[str, Any]) -> Run:
    """A run without its trace, or its error."""
    chosen = None
    try:
        chosen = scenario_of(scenario, (), {**common, **settings})
        report = _lockstep.simulate(chosen._native, True).report_json()
        return Run(chosen, report, settings=settings)
    except (_lockstep.Error, OSError) as error:
        return Run(chosen, None, error=error, settings=settings)


def _all(points: Sequence[tuple[ScenarioLike, Mapping[str, Any]]], common: Mapping[str, Any],
         threads: int, progress: Progress) -> Iterator[Run]:
    tell = shown(progress, "simulated")
    workers = threads or os.cpu_count() or 1
    pool = ThreadPoolExecutor(workers)
    try:
        futures = [pool.submit(_outcome, scenario, settings, common)
                   for scenario, settings in points]
        for done, _ in enumerate(as_completed(futures), 1):
            tell(done, len(futures))
        return iter([future.result() for future in futures])
    finally:
        pool.shutdown(cancel_futures=True)


def simulate_many(scenarios: Iterable[ScenarioLike], settings: Mapping[str, Any] | None = None, *,
                  threads: int = 0, progress: Progress = None, **sections: Any) -> Runs:
    """Simulates scenarios on all cores, and gives their runs in the same order.

    One that is wrong or does not fit does not stop the others: its run has an ``error``. Traces are
    not kept; ``timeline()`` simulates again. `threads` 0: one for each core. `progress` None: a
    line on stderr if it is a terminal; True, False, or a function of (done, all).
    """
    points = [(scenario, {}) for scenario in scenarios]
    return Runs(_all(points, {**(settings or {}), **sections}, threads, progress))


def sweep(scenario: ScenarioLike | None, over: Mapping[str, Iterable[Any]],
          settings: Mapping[str, Any] | None = None, *, threads: int = 0,
          progress: Progress = None, **sections: Any) -> Runs:
    """Simulates every combination of settings on all cores; the last one varies fastest.

    >>> runs = lockstep.sweep("70b.toml", {"parallelism.tensor_parallel_degree": [1, 2, 4, 8],
    ...                                    "training.local_batch_size": [1, 2, 4]})
    >>> runs.to_frame(), runs.grid("tokens_per_s"), runs.best()
    """
    axes = {key: list(values) for key, values in over.items()}
    base: ScenarioLike = {} if scenario is None else scenario
    points = [(base, dict(zip(axes, values))) for values in itertools.product(*axes.values())]
    return Runs(_all(points, {**(settings or {}), **sections}, threads, progress), axes)


def compare(a: Run | ScenarioLike, b: Run | ScenarioLike) -> Figures:
    """In what two runs differ: what ``lockstep compare --json`` prints, with attributes.

    Each is a Run, a Scenario or the path of one (*.toml), which is simulated whether it fits or
    not, or the path of a run folder or trace.
    """
    def native(given: Any) -> _lockstep.Run:
        if isinstance(given, Run):
            return given._with_trace()
        if isinstance(given, (Scenario, Mapping)) or os.fspath(given).endswith(".toml"):
            return _lockstep.simulate(scenario_of(given)._native, False)
        return _lockstep.open(os.fspath(given))

    return wrapped(json.loads(_lockstep.compare_json(native(a), native(b))))
