"""``python -m sweeper.servers DIR``: what each server of a sweep was asked for and what it ran."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from sweeper.errors import ServerError
from sweeper.program import COMPLETE, INCOMPLETE, parser_of, program
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


@program("servers")
def main(argv: Sequence[str] | None = None) -> int:
    """Print every server of a sweep; the return value is the exit status."""
    parser = parser_of("servers", "Was every server what was asked for?", EXAMPLES)
    parser.add_argument("folder", metavar="DIR", type=Path, help="the folder of a sweep")
    folder = SweepFolder(parser.parse_args(argv).folder)
    equal = True
    parts = {part.key: part for group in read_sweep(folder).plan.groups for part in group.starts}
    for part in parts.values():
        for lines, same in _starts(folder, part):
            print("\n".join(lines), end="\n\n")
            equal &= same
    return COMPLETE if equal else INCOMPLETE


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
