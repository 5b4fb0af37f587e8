"""The centers of probi assign and probi evaluate, and files or summaries in their coordinates."""

from dataclasses import replace
from typing import Any

from probi._files import AnyPath
from probi.cli.console import Console
from probi.cli.steps import is_summary, open_reader, space_of
from probi.errors import InputError
from probi.io.options import Options
from probi.io.reader import Reader
from probi.io.transform import Transform
from probi.io.write import Centers, read_centers
from probi.summary import Summary
from probi.tables.columns import degrees_in


def reader_in_space_of(
    centers: Centers, name: AnyPath, console: Console, files: list[str], reading: Options
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
    reader.resume_with(centers.space)
    return reader, centers.coordinates


def _check_degrees(centers: Centers, name: AnyPath, reading: Options) -> None:
    """Raise if a table of centers without a recorded space seems to contain degrees."""
    degrees = degrees_in(centers.features)
    if reading.lonlat is None and degrees is not None:
        lon, lat = degrees
        raise InputError(
            f"{name} has the columns {lon} and {lat}, but does not record how distances were measured. Pass the "
            f"folder of its run, or say that they are degrees: --lonlat {lon},{lat}."
        )


def _check_same_space(given: Transform, recorded: Transform, name: AnyPath, reading: Options) -> None:
    if given.lonlat != recorded.lonlat:
        has = "no longitude and latitude" if recorded.lonlat is None else f"{','.join(recorded.lonlat)}"
        raise InputError(
            f"--lonlat is {','.join(given.lonlat or ())}, but the run in {name} had {has}. Omit the option."
        )
    if reading.scale != "none" and given.scale != recorded.scale:
        raise InputError(f"--scale {reading.scale} has other scales than the run in {name}. Omit the option.")


def _open_for(centers: Centers, name: AnyPath, console: Console, files: list[str], reading: Options) -> Reader:
    """Open files as the run of the centers did, or at least with the same feature columns."""
    if centers.reading is not None or reading.features is not None:
        return open_reader(console, files, reading, centers.reading, name)
    try:
        return open_reader(console, files, replace(reading, features=centers.features))
    except InputError:
        # A column of point lists names no features; standard input cannot be opened again.
        if "-" in files or Reader(files, reading).columns.points is None:
            raise
        return open_reader(console, files, reading)


def _check_same_features(centers: Centers, features: tuple[str, ...], name: str) -> None:
    if features != centers.features:
        raise InputError(
            f"The centers have the features {', '.join(centers.features)}, but {name} has {', '.join(features)}."
        )


def coordinates_in(summary: Summary, centers: Centers, name: str) -> Any:
    """Centers in the coordinates of a summary, whose scales may differ from those of the centers."""
    if "space" not in summary.about:  # made in Python: the user knows its coordinates
        return centers.coordinates
    space = space_of(summary)
    _check_same_features(centers, space.features, name)
    if centers.space == space:
        return centers.coordinates
    inverse = centers.coordinates if centers.space is None else centers.space.inverse(centers.coordinates)
    return space.coordinates(inverse)


def load_centers(path: AnyPath, n_clusters: int | None) -> Centers:
    """Centers of a file; raises for a summary, which has none."""
    if is_summary(path):
        raise InputError(
            f"{path} is a summary, which has no centers yet. First run probi solve {path} -k K -o out, then use "
            "--centers out."
        )
    return read_centers(path, n_clusters)
