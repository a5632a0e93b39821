"""What scripts that run `lockstep validate` share: its figures, and rows with other settings."""
import csv
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

HEADING = "rows | median | 90th %ile | bias | within 10 % |"


def lockstep(program, *arguments):
    """The output of a command of lockstep; ends with its error where it fails."""
    run = subprocess.run([program, *arguments], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr.strip())
    return run.stdout


def family(name):
    """Of a row's id: what is before its number."""
    return name.rsplit("-", 1)[0]


def figures(errors):
    """Cells of a table under HEADING: figures of relative errors as `lockstep validate` counts them."""
    errors = list(errors)
    sizes = sorted(abs(error) for error in errors)
    ninth = statistics.quantiles(sizes, n=10, method="inclusive")[-1] if len(sizes) > 1 else sizes[0]
    within = sum(size <= 0.1 for size in sizes) / len(sizes)
    return (f"{len(sizes)} | {100 * statistics.median(sizes):.1f} % | {100 * ninth:.1f} % "
            f"| {100 * statistics.median(errors):+.1f} % | {100 * within:.0f} %")


def options(settings):
    return [word for setting in settings for word in ("--set", setting)]


def errors(program, rows, settings=()):
    """simulated / measured - 1 of every timed row of the file, by id."""
    output = lockstep(program, "validate", rows, "--json", "--rows", "--quiet", *options(settings))
    return {row["id"]: row["time_error"] for row in json.loads(output)["rows"]
            if row.get("time_error") is not None}


def scenarios(program, rows, settings=()):
    """The scenario of every row of the file as text, by id."""
    output = lockstep(program, "validate", rows, "--scenario", *options(settings))
    parts = re.split(r"^# (\S+): .*\n(?=name = |# not expressed)", output, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def errors_with(program, rows, settings, before, plain):
    """Errors with settings. Only rows whose scenarios they change are simulated again: `before` has the
    errors and `plain` the scenarios of all rows without them."""
    others = scenarios(program, rows, settings)
    changed = {name for name in before if others[name] != plain[name]}
    if not changed:
        return before
    with tempfile.TemporaryDirectory() as folder, pathlib.Path(rows).open(newline="") as file:
        reader = csv.DictReader(file)
        path = pathlib.Path(folder) / "rows.csv"
        with path.open("w", newline="") as out:
            writer = csv.DictWriter(out, reader.fieldnames, lineterminator="\n")
            writer.writeheader()
            writer.writerows(row for row in reader if row["id"] in changed)
        return before | errors(program, path, settings)
