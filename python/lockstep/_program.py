"""Programs: what every rank does in a step."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from . import _lockstep
from ._scenario import ScenarioLike, scenario_of


class Program:
    """What every rank does in a step (docs/program-text.md)."""

    def __init__(self, native: _lockstep.Program):
        self._native = native

    @staticmethod
    def parse(text: str) -> Program:
        """Reads a program's text without verifying it."""
        return Program(_lockstep.Program.parse(text))

    @property
    def text(self) -> str:
        """One op a line."""
        return self._native.text

    @property
    def hash(self) -> str:
        """16 hexadecimal digits; those of report.json."""
        return self._native.hash

    @property
    def ranks(self) -> int:
        """How many ranks run it."""
        return self._native.ranks

    @property
    def ops(self) -> int:
        """Of all ranks together."""
        return self._native.ops

    def verify(self) -> list[_lockstep.Fault]:
        """What is wrong with it: deadlocks, races, reads of what means nothing."""
        return self._native.verify()

    def memory(self, scenario: ScenarioLike) -> _lockstep.MemoryNeed:
        """Memory of the rank that needs most, on the cluster of a scenario."""
        return self._native.memory(scenario_of(scenario)._native)

    def __repr__(self) -> str:
        return f"<Program {self.hash}: {self.ops} ops of {self.ranks} ranks>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.hash)

    def __reduce__(self) -> tuple[Any, ...]:
        return Program.parse, (self.text,)


def lower(scenario: ScenarioLike | None = None, settings: Mapping[str, Any] | None = None, *,
          set: Iterable[str] = (), **sections: Any) -> Program:
    """A scenario as a program, verified, whether it fits its devices or not."""
    return Program(_lockstep.lower(scenario_of(scenario, set, settings, **sections)._native))
