"""The work of probi assign, evaluate, info, check and convert.

Separate from the commands, so that --help loads neither Numba nor pyarrow.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import typer

from probi.cli.console import Console, Interrupts
from probi.cli.steps import assign_reader, check_output, open_reader, say_what_was_left_out, space_of
from probi.errors import InputError
from probi.io.node_assembler import Batch, Counts, check_left_out
from probi.io.options import Options, as_before, check_as_before
from probi.io.reader import Reader
from probi.io.transform import Transform
from probi.io.write import Centers, assignment_format, nodes_format, read_centers, read_reading, write_nodes
from probi.nodes import Nodes
from probi.summary import Summary
from probi.summary.file import is_archive

# Lower-case names of columns that seem to be degrees.
LONGITUDES = ("lon", "long", "longitude", "lng")
LATITUDES = ("lat", "latitude")


def print_summary(path: Path, summary: Summary, as_json: bool) -> None:
    """Describe a summary."""
    values = {
        "file": str(path),
        "kind": "checkpoint" if "checkpoint" in summary.about else "summary",
        "bytes": path.stat().st_size,
        "n_nodes": summary.n_nodes,
        "kept": summary.n_retained,
        "n_clusters": summary.n_clusters,
        "size": summary.size,
        "preset": summary.preset,
        "max_realizations": summary.max_realizations,
        "thinning_bound": summary.thinning_bound if summary.max_realizations else None,
        "mass": summary.mass,
        "spread_cost": summary.spread_cost,
        "lower_bound": summary.lower_bound,
        "n_features": summary.n_features,
        "features": summary.about.get("space", {}).get("features"),
    }
    _print(values, as_json)


def _print(values: dict[str, Any], as_json: bool, rows: Counts | None = None) -> None:
    if as_json:
        print(json.dumps(values if rows is None else values | {"rows": asdict(rows)}, indent=2))
        return
    for name, value in values.items():
        if value is not None and value != ():
            print(f"{name.replace('_', ' ')}: {_shown(value)}")


def _shown(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_shown, value))
    return f"{value:,}" if isinstance(value, int) else f"{value:,.10g}" if isinstance(value, float) else str(value)


def _reader_in_space_of(
    centers: Centers, name: Path, console: Console, files: list[str], reading: Options
) -> tuple[Reader, Any]:
    """Reader whose coordinates are those of the centers, and the centers."""
    if reading.scale in ("standard", "robust"):
        raise InputError(
            f"--scale {reading.scale} would be estimated from these files, not from those of the centers. Pass the "
            "scales as a file, such as the result.json of the run that found the centers."
        )
    if centers.space is None:
        _check_degrees(centers, name, reading)
    elif centers.reading is None and reading.lonlat is None:
        reading = replace(reading, lonlat=centers.space.lonlat)
    reader = _open_for(centers, name, console, files, reading)
    _check_same_features(centers, reader.columns.features, str(reader.sources[0]))
    if centers.space is None:
        return reader, reader.space.coordinates(centers.coordinates)
    _check_same_space(reader.space, centers.space, name, reading)
    reader.go_on_in(centers.space)
    return reader, centers.coordinates


def _check_degrees(centers: Centers, name: Path, reading: Options) -> None:
    """Raise if a table of centers without a recorded space seems to contain degrees."""
    degrees = [next((f for f in centers.features if f.lower() in names), None) for names in (LONGITUDES, LATITUDES)]
    if reading.lonlat is None and None not in degrees:
        lon, lat = degrees
        raise InputError(
            f"{name} has the columns {lon} and {lat}, but does not record how distances were measured. Pass the "
            f"folder of its run, or say that they are degrees: --lonlat {lon},{lat}."
        )


def _check_same_space(given: Transform, theirs: Transform, name: Path, reading: Options) -> None:
    if given.lonlat != theirs.lonlat:
        has = "no longitude and latitude" if theirs.lonlat is None else f"{','.join(theirs.lonlat)}"
        raise InputError(
            f"--lonlat is {','.join(given.lonlat or ())}, but the run in {name} had {has}. Omit the option."
        )
    if reading.scale != "none" and given.scale != theirs.scale:
        raise InputError(f"--scale {reading.scale} has other scales than the run in {name}. Omit the option.")


def _open_for(centers: Centers, name: Path, console: Console, files: list[str], reading: Options) -> Reader:
    """Open files as the run of the centers did, or at least with the same feature columns."""
    if centers.reading is not None:
        reader = open_reader(console, files, as_before(reading, centers.reading, str(name)))
        check_as_before(reader, centers.reading, str(name))
        return reader
    if reading.features is not None:
        return open_reader(console, files, reading)
    try:
        return open_reader(console, files, replace(reading, features=centers.features))
    except InputError:
        # A column of point lists names no features; standard input cannot be opened again.
        if "-" in files or Reader(files, reading).columns.points is None:
            raise
        return open_reader(console, files, reading)


def _check_same_features(centers: Centers, features: tuple[str, ...], name: str) -> None:
    if features != centers.features:
        theirs, ours = ", ".join(centers.features), ", ".join(features)
        raise InputError(f"The centers have the features {theirs}, but {name} has {ours}.")


def _coordinates_in(summary: Summary, centers: Centers, name: str) -> Any:
    """Centers in the coordinates of a summary, whose scales may differ from those of the centers."""
    if "space" not in summary.about:  # made in Python: the user knows its coordinates
        return centers.coordinates
    space = space_of(summary)
    _check_same_features(centers, space.features, name)
    if centers.space == space:
        return centers.coordinates
    inverse = centers.coordinates if centers.space is None else centers.space.inverse(centers.coordinates)
    return space.coordinates(inverse)


def _centers_of(path: Path, n_clusters: int | None) -> Centers:
    """Centers of a file; raises for a summary, which has none."""
    if _is_summary(path):
        raise InputError(
            f"{path} is a summary, which has no centers yet. First run probi solve {path} -k K -o out, then use "
            "--centers out."
        )
    return read_centers(path, n_clusters)


def assign_to_file(
    console: Console,
    files: list[str],
    centers: Path,
    n_clusters: int | None,
    reading: Options,
    output: Path,
    as_json: bool,
) -> None:
    """Write the nearest center of each node; see :func:`probi.cli.inspect.assign`."""
    assignment_format(output)
    reader, coordinates = _reader_in_space_of(_centers_of(centers, n_clusters), centers, console, files, reading)
    check_output(output, reader)
    (tally,), counts = assign_reader(console, reader, [coordinates], output)
    say_what_was_left_out(console, counts)
    values = {"n_nodes": tally.n_nodes, "cost": tally.cost, "counts": tally.counts.tolist()}
    _print(values | {"file": str(output)}, as_json, counts)


def evaluate_centers(
    console: Console, files: list[str], centers: Path, n_clusters: int | None, reading: Options, as_json: bool
) -> None:
    """Print the cost of centers; see :func:`probi.cli.inspect.evaluate`."""
    given = _centers_of(centers, n_clusters)
    if len(files) == 1 and _is_summary(Path(files[0])):
        summary = Summary.load(files[0])
        evaluation = summary.evaluate(_coordinates_in(summary, given, files[0]))
        _print(asdict(evaluation), as_json)
        return
    reader, coordinates = _reader_in_space_of(given, centers, console, files, reading)
    (tally,), counts = assign_reader(console, reader, [coordinates], None)
    say_what_was_left_out(console, counts)
    _print({"n_nodes": tally.n_nodes, "cost": tally.cost, "standard_error": 0.0}, as_json, counts)


def _is_summary(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(1 << 20)
    # A window is not a summary, but loading it as one raises a clear error; read as a table it would not.
    return b"probi-sha256:" in start or path.suffix == ".probi" or is_archive(start)


def describe(files: list[str], reading: Options, as_json: bool) -> None:
    """Describe a file; see :func:`probi.cli.inspect.info`."""
    path = Path(files[0])
    if (path / "summary.probi").is_file() and (path / "centers.parquet").is_file():
        path /= "summary.probi"  # of a results folder, whose tables are not data
    if len(files) == 1 and _is_summary(path):
        print_summary(path, Summary.load(path), as_json)
        return
    reader = Reader(files, reading)
    values = {"files": [str(source) for source in reader.sources], "n_rows": _n_rows(reader)}
    _print(values | asdict(reader.columns), as_json)


def _n_rows(reader: Reader) -> int | None:
    """Rows of all files; None if they are known only after reading."""
    total = 0
    for file in range(len(reader.sources)):
        n_rows = reader.opened(file).n_rows
        if n_rows is None:
            return None
        total += n_rows
    return total


def _open_like(
    before: Mapping[str, Any] | None, results: Path | None, console: Console, files: list[str], reading: Options
) -> Reader:
    """Open files as the run of a results folder did, if one is given."""
    reader = open_reader(console, files, as_before(reading, before, str(results)))
    check_as_before(reader, before, str(results))
    return reader


def check_rows(console: Console, files: list[str], reading: Options, like: Path | None, as_json: bool) -> None:
    """List the first bad rows of each kind, and count all; see :func:`probi.cli.inspect.check`."""
    before = None if like is None else read_reading(like)
    reader = _open_like(before, like, console, files, replace(reading, on_bad="skip"))
    counts = Counts()
    bad_rows: list[Any] = []
    with console.progress("Checking") as bar, Interrupts(console) as interrupts:
        for batch in reader.batches(lists_scattered=True):
            counts = batch.counts
            bar.update(counts.nodes, batch.fraction)
            _list_rejected(batch, bad_rows if as_json else None)
            if interrupts.asked():
                raise KeyboardInterrupt
    if as_json:
        print(json.dumps({"counts": asdict(counts), "rows": bad_rows}, indent=2))
    else:
        console.say(
            f"{counts.rows:,} rows: {counts.used:,} good in {counts.nodes:,} nodes, {counts.rejected:,} bad or in a "
            f"bad node, {counts.missing:,} with a missing value, {counts.incomplete:,} in an incomplete group."
        )
        say_what_was_left_out(console, counts)
    if counts.rejected or counts.missing:
        raise typer.Exit(2)
    if counts.nodes == 0:
        raise InputError(f"{reader.sources[0]} has no rows: there is nothing to cluster.")


def _list_rejected(batch: Batch, bad_rows: list[Any] | None) -> None:
    for rejected in batch.rejected:
        if bad_rows is None:
            print(rejected)
        else:
            bad_rows.append(rejected._asdict())


def convert_nodes(
    console: Console, files: list[str], reading: Options, like: Path | None, output: Path, layout: str, as_json: bool
) -> None:
    """Write nodes in another layout or format; see :func:`probi.cli.inspect.convert`."""
    nodes_format(output)
    before = None if like is None else {**read_reading(like), "lonlat": None}  # features are written unchanged
    reader = _open_like(before, like, console, files, reading)
    if reader.space.scale is not None or reading.scale != "none" or reading.lonlat is not None:
        raise InputError("convert writes features unchanged: it accepts neither --scale nor --lonlat.")
    weighted = reader.columns.weight is not None
    counts = Counts()

    def nodes() -> Iterator[Nodes]:
        nonlocal counts
        for batch in reader.batches():
            counts = batch.counts
            if len(batch.nodes):
                yield batch.nodes
        check_left_out(counts, reader.options)

    check_output(output, reader)
    n_nodes = write_nodes(output, nodes(), layout, reader.columns.features, weighted, reader.id_name)
    say_what_was_left_out(console, counts)
    _print({"n_nodes": n_nodes, "file": str(output)}, as_json, counts)
