"""Settings as Python writes them, as the overrides that the library reads."""
from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any


def toml(value: Any) -> str:
    """A value as TOML: what a scenario's file would say."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml(v) for v in value) + "]"
    if hasattr(value, "item"):  # a scalar of numpy's
        return toml(value.item())
    if isinstance(value, (int, float)):
        return repr(value)
    raise TypeError(f"{value!r} is a {type(value).__name__}: a setting is a number, a string, "
                    "a bool, or a list or dict of these")


def overrides(settings: Mapping[str, Any] | None, sections: Mapping[str, Any]) -> list[str]:
    """{"training.seq_len": 8192} and training={"seq_len": 8192} as ["training.seq_len=8192"]."""
    found: list[str] = []

    def add(path: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for key, inner in value.items():
                add(f"{path}.{key}", inner)
        else:
            found.append(f"{path}={toml(value)}")

    for key, value in {**(settings or {}), **sections}.items():
        add(key, value)
    return found


def as_list(only: Iterable[str] | Mapping[str, int]) -> list[str]:
    """{"tp": 8} or ["tp=8"] as ["tp=8"]."""
    if isinstance(only, Mapping):
        return [f"{key}={value}" for key, value in only.items()]
    return list(only)
