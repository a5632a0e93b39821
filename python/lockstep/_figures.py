"""Figures: an object of JSON with its names as attributes."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def wrapped(value: Any) -> Any:
    """Objects in JSON as Figures, lists of them as lists of these."""
    if isinstance(value, dict):
        return Figures(value)
    if isinstance(value, list):
        return [wrapped(v) for v in value]
    return value


class Figures(Mapping[str, Any]):
    """Named figures: ``figures.step_time_s`` is ``figures["step_time_s"]``. docs/report.md says
    what each is; ``to_dict()`` and ``dir()`` list them."""

    def __init__(self, values: dict[str, Any]):
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return wrapped(self._values[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._values:
            raise AttributeError(f"there is no figure '{name}'; there are "
                                 + ", ".join(self.__dict__.get("_values", {})))
        return wrapped(self._values[name])

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._values]

    def to_dict(self) -> dict[str, Any]:
        """The same as plain dicts and lists: what ``--json`` prints."""
        return self._values

    def flat(self) -> dict[str, Any]:
        """A row of a table: an object's figures as "bubbles_s.peer", and of a list of numbers, one
        for each rank, its largest."""
        row: dict[str, Any] = {}

        def add(name: str, value: Any) -> None:
            if isinstance(value, dict):
                for key, inner in value.items():
                    add(f"{name}.{key}", inner)
            elif isinstance(value, list):
                numbers = [v for v in value if isinstance(v, (int, float))]
                if numbers and len(numbers) == len(value):
                    row[name] = max(numbers)
            else:
                row[name] = value

        for key, value in self._values.items():
            add(key, value)
        return row

    def __repr__(self) -> str:
        def shown(value: Any) -> str:
            if isinstance(value, float):
                return f"{value:.6g}"
            if isinstance(value, (dict, list)) and len(repr(value)) > 60:
                return f"{type(value).__name__} of {len(value)}"
            return repr(value)

        width = max((len(name) for name in self._values), default=0)
        return "\n".join(f"{name:<{width}}  {shown(v)}" for name, v in self._values.items())
