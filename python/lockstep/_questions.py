"""What the other commands answer: recommend, search, collective, validate, import, export,
presets."""
from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import _lockstep
from ._figures import Figures, wrapped
from ._progress import Progress, shown
from ._scenario import Scenario, ScenarioLike, scenario_of
from ._settings import as_list, overrides


class Layout:
    """A layout that fits, as it was simulated in full. ``figures`` has its figures, which are
    attributes, too."""

    def __init__(self, found: dict[str, Any]):
        self.name: str = found["layout"]  #: "tp 8 · pp 4 1F1B · dp 2 ZeRO-1 · 16 × 1"
        self.scenario = Scenario.parse(found["scenario"])
        self.figures = Figures({name: value for name, value in found.items()
                                if name not in ("layout", "scenario")})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "figures":
            raise AttributeError(name)
        return getattr(self.figures, name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.figures]

    def to_dict(self) -> dict[str, Any]:
        """Its name and figures."""
        return {"layout": self.name, **self.figures.to_dict()}

    def __repr__(self) -> str:
        return f"<Layout {self.name}: step {self.step_time_s:.4g} s>"


class Layouts(Sequence[Layout]):
    """Layouts, the fastest first. ``account`` has the best of each family and why it is slower,
    what lost, and how many layouts there were."""

    def __init__(self, layouts: Iterable[Layout], account: Figures):
        self._layouts = list(layouts)
        self.account = account

    def __getitem__(self, index: Any) -> Any:
        found = self._layouts[index]
        return Layouts(found, self.account) if isinstance(index, slice) else found

    def __len__(self) -> int:
        return len(self._layouts)

    def to_frame(self) -> Any:
        """A row for each, as a pandas.DataFrame."""
        import pandas
        return pandas.DataFrame([layout.to_dict() for layout in self._layouts])

    def __repr__(self) -> str:
        return "\n".join(map(repr, self._layouts))


def search(scenario: ScenarioLike | None = None, settings: Mapping[str, Any] | None = None, *,
           only: Iterable[str] | Mapping[str, int] = (), seconds: float = 60.0, threads: int = 0,
           finalists: int = 0, set: Iterable[str] = (), **sections: Any) -> Layouts:
    """The fastest layouts of the scenario's model on its cluster (docs/search.md).

    `only`: degrees that layouts must have, {"tp": 8} or ["tp=8"]; after `seconds` no further
    layouts are tried; `finalists` layouts are simulated in full (0: as many as are needed).
    """
    chosen = scenario_of(scenario, set, settings, **sections)
    account = json.loads(_lockstep.search_json(chosen._native, as_list(only), seconds, threads,
                                               finalists))
    return Layouts(map(Layout, account.pop("found")), Figures(account))


class Recommendation:
    """The fastest layout of a model on a cluster, and what the rules of thumb say."""

    def __init__(self, advice: dict[str, Any]):
        self.task: str = advice["task"]  #: "llama3-70b on h100, 64 sequences of 8192 tokens a step"
        self.answer = Layout(advice["answer"]) if advice["answer"] else None  #: None: nothing fits
        self.failure: str = advice.get("failure", "")  #: why not
        #: Where nothing fits, what would: the option of ``lockstep recommend``, and the layout.
        self.would_fit = {way["option"]: Layout(way) for way in advice.get("would_fit", [])}
        self.rules = wrapped(advice["rules"])  #: each with the best layout of its kind
        self.stopped: bool = advice["stopped"]  #: the time was over before all were looked at

    def __repr__(self) -> str:
        if self.answer:
            return f"<Recommendation for {self.task}: {self.answer!r}>"
        ways = ", ".join(self.would_fit) or "nothing that was tried would"
        return f"<Recommendation for {self.task}: nothing fits; {ways}>"


def recommend(model: str | os.PathLike[str], cluster: str | os.PathLike[str] = "h100", *,
              nodes: int = 1, batch: int = 0, seq_len: int = 0, offload: bool = False,
              lora: int = 0, seconds: float = 60.0, threads: int = 0) -> Recommendation:
    """How to train a model on a cluster, in 16 bits with masters in float32.

    `model`: a preset, or a Hugging Face folder or config.json; `cluster`: a preset or a profile;
    `batch`: sequences of a step (0: 16,384 tokens for every GPU); `seq_len` 0: the model's, at most
    8,192; `offload`: also layouts with states in host memory; `lora`: the rank of adapters that are
    trained alone; after `seconds` no further layouts are tried.
    """
    return Recommendation(json.loads(_lockstep.recommend_json(
        os.fspath(model), os.fspath(cluster), nodes, batch, seq_len, offload, lora, seconds,
        threads)))


def collective(kind: str = "all_reduce", bytes: int | str = "256MiB", cluster: str = "h100", *,
               nodes: int = 1, ranks: int = 0) -> Figures:
    """How long a collective takes: ``time_s``, ``busbw_bytes_per_s``, ``algorithm``, …

    `kind`: all_reduce, all_gather, reduce_scatter, broadcast or all_to_all; `bytes`: the larger
    buffer of a rank, a number or "64MiB"; `cluster`: a preset or a profile's file; `ranks` 0: all
    of the nodes.
    """
    text = _lockstep.collective_json(kind, str(bytes), cluster, nodes, ranks, False)
    return wrapped(json.loads(text)[0])


def collective_sweep(kind: str = "all_reduce", cluster: str = "h100", *, nodes: int = 1,
                     ranks: int = 0) -> list[Figures]:
    """The same from 8 bytes to 8 GiB, doubling, as nccl-tests does."""
    return wrapped(json.loads(_lockstep.collective_json(kind, "", cluster, nodes, ranks, True)))


def validate(file: str | os.PathLike[str], *, source: str = "", row: str = "", rows: bool = False,
             settings: Mapping[str, Any] | None = None, threads: int = 0,
             progress: Progress = None, **sections: Any) -> Figures:
    """Measured runs or collectives of a CSV file beside what is simulated of them: what ``lockstep
    validate --json`` prints (docs/validation.md). `source`: a pattern of sources; `row`: an id;
    `rows`: list each row, too."""
    tell = shown(progress, "rows")

    def safe(done: int, of: int) -> None:  # called by threads that cannot pass an exception on
        try:
            tell(done, of)
        except Exception:
            sys.excepthook(*sys.exc_info())

    return wrapped(json.loads(_lockstep.validate_json(
        os.fspath(file), source, row, overrides(settings, sections), threads, rows, safe)))


class Imported:
    """A plan of another trainer as a scenario, and what became of each of its settings."""

    def __init__(self, account: dict[str, Any]):
        self.text: str = account["scenario"]  #: TOML
        self.scenario = Scenario.parse(self.text)
        self.taken: list[str] = account["taken"]
        self.assumed: list[str] = account["assumed"]  #: what the file does not say
        self.without_effect: list[str] = account["without_effect"]
        self.lost: list[str] = account["lost"]  #: what it says and a scenario cannot

    def __repr__(self) -> str:
        return (f"<Imported {self.scenario!r}: {len(self.taken)} settings taken, "
                f"{len(self.assumed)} assumed, {len(self.lost)} ignored>")


def import_(trainer: str, file: str | os.PathLike[str], *, model: str = "",
            cluster: str = "h100", nodes: int = 0, seq_len: int = 0) -> Imported:
    """Reads a plan of "torchtitan", "megatron" or "deepspeed". What the file leaves to others:
    `model`, a preset or a config.json; `cluster`; `nodes` and `seq_len`."""
    return Imported(json.loads(_lockstep.import_json(trainer, os.fspath(file), model, cluster,
                                                     nodes, seq_len)))


def export(trainer: str, scenario: ScenarioLike, settings: Mapping[str, Any] | None = None,
           **sections: Any) -> Figures:
    """A scenario for "torchtitan", "megatron" or "deepspeed": ``text``, the configuration;
    ``launch``, what starts it; ``unsaid``, what the configuration cannot say."""
    chosen = scenario_of(scenario, (), settings, **sections)
    return wrapped(json.loads(_lockstep.export_json(trainer, chosen._native)))


def models() -> list[dict[str, Any]]:
    """The presets of models, with their sizes: names for ``model={"preset": …}``."""
    return json.loads(_lockstep.models_json())


def clusters() -> list[dict[str, Any]]:
    """The presets of clusters, with their figures: names for ``cluster={"preset": …}``."""
    return json.loads(_lockstep.clusters_json())


def gpus() -> list[dict[str, Any]]:
    """The devices of the presets of clusters, each with the presets that have it."""
    found: dict[str, dict[str, Any]] = {}
    for row in clusters():
        gpu = found.setdefault(row["device"], {
            "device": row["device"], "memory GB": row["memory GB"],
            "bfloat16 TFLOP/s": row["bfloat16 TFLOP/s"], "clusters": []})
        gpu["clusters"].append(row["cluster"])
    return list(found.values())
