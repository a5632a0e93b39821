"""Scenario: what is trained, where and how."""
from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from . import _lockstep
from ._settings import overrides


class Scenario:
    """What is trained, where and how (docs/scenario.md). A value: it is never changed.

    ``Scenario.load("70b.toml")`` reads a file, ``Scenario.parse(text)`` a text, and
    ``Scenario.of(model={"preset": "llama3-8b"}, cluster={"preset": "h100"})`` takes dicts.
    Settings are ``section={"key": value}`` or ``settings={"section.key": value}``, or, as the
    command line takes them, ``set=["section.key=value"]``.
    """

    def __init__(self, native: _lockstep.Scenario, source: tuple[str, str, list[str], int | None]):
        self._native = native
        self._source = source  # text, file, overrides, and which point of a sweep

    @staticmethod
    def _points(text: str, file: str, given: list[str]) -> list[Scenario]:
        natives = _lockstep.Scenario.parse_sweep(text, given, file)
        return [Scenario(native, (text, file, given, i if native.label else None))
                for i, native in enumerate(natives)]

    @staticmethod
    def _only(points: list[Scenario]) -> Scenario:
        if len(points) > 1:
            raise _lockstep.Error(f"this is a sweep of {len(points)} scenarios: load_sweep() reads "
                                  "all of them")
        return points[0]

    @staticmethod
    def load(path: str | os.PathLike[str], set: Iterable[str] = (),
             settings: Mapping[str, Any] | None = None, **sections: Any) -> Scenario:
        """Reads a file."""
        return Scenario._only(Scenario.load_sweep(path, set, settings, **sections))

    @staticmethod
    def load_sweep(path: str | os.PathLike[str], set: Iterable[str] = (),
                   settings: Mapping[str, Any] | None = None, **sections: Any) -> list[Scenario]:
        """Every point of a file's [sweep], or its only scenario."""
        file = os.fspath(path)
        with open(file, encoding="utf-8") as stream:
            text = stream.read()
        return Scenario._points(text, file, [*set, *overrides(settings, sections)])

    @staticmethod
    def parse(text: str, set: Iterable[str] = (), settings: Mapping[str, Any] | None = None,
              **sections: Any) -> Scenario:
        """Reads a text of TOML; relative paths in it are relative to the working folder."""
        given = [*set, *overrides(settings, sections)]
        return Scenario._only(Scenario._points(text, "scenario.toml", given))

    @staticmethod
    def of(settings: Mapping[str, Any] | None = None, **sections: Any) -> Scenario:
        """A scenario of settings alone."""
        return Scenario.parse("", settings=settings, **sections)

    def changed(self, set: Iterable[str] = (), settings: Mapping[str, Any] | None = None,
                **sections: Any) -> Scenario:
        """The same scenario with other settings."""
        text, file, given, point = self._source
        more = [*set, *overrides(settings, sections)]
        if not more:
            return self
        points = Scenario._points(text, file, [*given, *more])
        if point is None:
            return Scenario._only(points)
        if point >= len(points):
            raise _lockstep.Error(f"with {', '.join(more)} the sweep has {len(points)} points, and "
                                  f"this is point {point + 1}: change the sweep itself")
        return points[point]

    @property
    def label(self) -> str:
        """Of a point of a sweep: "training.seq_len=2048 …"; else empty."""
        return self._native.label

    @property
    def text(self) -> str:
        """TOML with every key written out; parse() reads it back."""
        return self._native.text

    @property
    def ranks(self) -> int:
        """How many ranks train it."""
        return self._native.ranks

    @property
    def warnings(self) -> list[str]:
        """What is allowed but rarely meant."""
        return self._native.warnings

    def to_dict(self) -> dict[str, Any]:
        """Every key, by section."""
        return tomllib.loads(self.text)

    def __repr__(self) -> str:
        all_keys = self.to_dict()
        name = self.label or all_keys.get("name") or all_keys.get("model", {}).get("name", "")
        return f"<Scenario {name}, {self.ranks} ranks>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scenario) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, self._source


def _again(text: str, file: str, given: list[str], point: int | None) -> Scenario:
    return Scenario._points(text, file, given)[point or 0]


#: What functions take as a scenario: one, the path of its file, or its sections as a dict.
ScenarioLike = Scenario | str | os.PathLike[str] | Mapping[str, Any]


def scenario_of(given: ScenarioLike | None, set: Iterable[str] = (),
                settings: Mapping[str, Any] | None = None, **sections: Any) -> Scenario:
    """A scenario, with other settings."""
    if isinstance(given, Scenario):
        return given.changed(set, settings, **sections)
    if given is None or isinstance(given, Mapping):
        base = overrides(given, {})
        return Scenario.parse("", [*base, *set], settings, **sections)
    return Scenario.load(given, set, settings, **sections)
