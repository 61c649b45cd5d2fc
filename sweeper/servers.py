"""``python -m sweeper.servers DIR``: what each server of a sweep was asked for and what it ran."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from sweeper.errors import ServerError, UserError
from sweeper.serve.identity import check_speculation, resolved_speculation
from sweeper.store import SweepFolder, read_json, read_sweep
from sweeper.values import Group

EXAMPLES = """\
examples:
  python -m sweeper.servers outputs/2026-01-31/12-00-00-1a2b3c

For every server start: the exact command, the speculative settings that were asked for, those that
the server resolved (its own /server_info), whether they are equal, and seconds to start and stop.
exit status: 0 all equal, 1 a difference or a server that did not say, 2 DIR cannot be used
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Print every server of a sweep; the return value is the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m sweeper.servers",
        description="Was every server what was asked for?",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="the folder of a sweep")
    folder = SweepFolder(parser.parse_args(argv).folder)
    try:
        groups = read_sweep(folder).plan.groups
    except UserError as problem:
        print(f"sweeper.servers: {problem}", file=sys.stderr)
        return 2
    equal = True
    parts = {part.key: part for group in groups for part in group.starts}
    for part in parts.values():
        for lines, same in _starts(folder, part):
            print("\n".join(lines), end="\n\n")
            equal &= same
    return 0 if equal else 1


def _starts(folder: SweepFolder, group: Group) -> Iterator[tuple[list[str], bool]]:
    """The lines of every start of one server, and whether it ran what was asked for."""
    spec = group.server
    found = sorted(folder.path.glob(f"servers/{group.key[:8]}-*/server.json"))
    if not found:
        yield [f"{group.points[0].point.label}: never started"], False
    for path in found:
        facts = read_json(path)
        info = facts.get("server_info")
        resolved = resolved_speculation(info) or {}
        asked = spec.speculative
        shown = {key: resolved.get(key) for key in asked} if asked and resolved else None
        try:
            check_speculation(spec, info)
            verdict = "equal" if info is not None else "not known: the server did not say"
        except ServerError as problem:
            verdict = str(problem)
        yield (
            [
                f"{group.points[0].point.label}  ({path.parent.name})",
                f"  command   {facts.get('command') or 'attached, not started'}",
                f"  asked     {json.dumps(asked, sort_keys=True)}",
                f"  resolved  {json.dumps(shown, sort_keys=True)}",
                f"  verdict   {verdict}",
                f"  seconds   start {facts.get('start_s')}, stop {facts.get('stop_s')}",
            ],
            verdict == "equal",
        )


if __name__ == "__main__":
    sys.exit(main())
