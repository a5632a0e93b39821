"""Progress of many runs: a line on stderr, or a function of the caller's."""
from __future__ import annotations

import sys
from collections.abc import Callable

#: None: a line on stderr if it is a terminal; True or False: always or never; or a function of
#: how many are done and of how many.
Progress = bool | Callable[[int, int], object] | None


def shown(progress: Progress, what: str) -> Callable[[int, int], object]:
    """The function to call after each."""
    if callable(progress):
        return progress
    if progress is None:
        progress = sys.stderr.isatty()
    if not progress:
        return lambda done, of: None

    def line(done: int, of: int) -> None:
        filled = 30 * done // max(1, of)
        end = "\n" if done == of else ""
        sys.stderr.write(f"\r[{'#' * filled}{'.' * (30 - filled)}] {done} of {of} {what}{end}")
        sys.stderr.flush()

    return line
