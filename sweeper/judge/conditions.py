"""Under which conditions points were measured, and what to call those conditions on paper.

Points are compared where all contents are equal; names of datasets, samplings and loads say less:
``cache``, a temperature or a limit can be swept under one name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter

from sweeper.values import Json, Point, content_key

AMOUNT = ("load.concurrency", "load.rate")
"""How much load is put on a server: what differs along a line over several loads."""
LOAD = ("load.",)

Fields = dict[str, Json]


def conditions(point: Point, leaving: tuple[str, ...] = ()) -> Fields:
    """All conditions by path, as they are set: ``sampling.temperature``; of the server its model,
    flags and variables, which are what can differ under one name.

    ``leaving`` are starts of paths that are left out.
    """
    fields = point.conditions
    fields["server"] = {
        name: fields["server"][name] for name in ("model", "revision", "args", "env")
    }
    return {path: v for path, v in _leaves("", fields) if not path.startswith(leaving or ("\0",))}


def conditions_key(point: Point, leaving: tuple[str, ...] = ()) -> str:
    """Equal for points of equal :func:`conditions`."""
    return content_key(conditions(point, leaving))


def told_apart(
    points: Iterable[Point], called: Callable[[Point], str], leaving: tuple[str, ...] = ()
) -> dict[str, str]:
    """What differs between conditions that are ``called`` alike, by :func:`conditions_key`:
    ``cache=warm · sampling.temperature=0.7``; empty where the name is enough."""
    alike: dict[str, dict[str, Point]] = {}
    for point in points:
        alike.setdefault(called(point), {}).setdefault(conditions_key(point, leaving), point)
    found = {}
    for of_one_name in alike.values():
        points = tuple(of_one_name.values())
        differing = _differing(points, leaving)
        for key, point in of_one_name.items():
            found[key] = " · ".join(f"{path}={_own(path, point, points)}" for path in differing)
    return found


def called(point: Point) -> str:
    """``code · greedy · sequential · smollm2-135m``."""
    return " · ".join((point.dataset.name, point.sampling.name, point.load.label, point.target))


def called_but_load(point: Point) -> str:
    """``code · greedy · smollm2-135m``."""
    return " · ".join((point.dataset.name, point.sampling.name, point.target))


def _differing(points: Sequence[Point], leaving: tuple[str, ...]) -> tuple[str, ...]:
    """Paths at which the points differ. A default may be left out of the contents, and the number
    of prompts follows from the file and the limit."""
    if len(points) < 2:
        return ()
    paths = dict.fromkeys(path for point in points for path in conditions(point, leaving))
    found = [path for path in paths if len({_said(path, point) for point in points}) > 1]
    derived = {"dataset.digest", "dataset.limit"} & set(found)
    return tuple(path for path in found if not derived or path != "dataset.prompts")


def _own(path: str, point: Point, points: Sequence[Point]) -> str:
    """What is said of a point; of flags and variables, those that not all the points have."""
    value = attrgetter(path)(point)
    if not isinstance(value, tuple):
        return _said(path, point)
    every = [_items(attrgetter(path)(each)) for each in points]
    return " ".join(i for i in _items(value) if any(i not in each for each in every)) or "none"


def _items(values: Sequence[str | tuple[str, str]]) -> list[str]:
    """Variables with their values, or flags with all that follows them."""
    found: list[str] = []
    for value in values:
        if isinstance(value, tuple):
            found.append("=".join(value))
        elif found and not value.startswith("--"):
            found[-1] += f" {value}"
        else:
            found.append(value)
    return found


def _said(path: str, point: Point) -> str:
    value = attrgetter(path)(point)
    if path == "dataset.digest":
        return str(value)[:8]
    if isinstance(value, tuple):
        return " ".join(_items(value))
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _leaves(path: str, value: Json) -> Iterator[tuple[str, Json]]:
    if not isinstance(value, dict):
        yield path, value
        return
    for name, item in value.items():
        yield from _leaves(f"{path}.{name}" if path else name, item)
