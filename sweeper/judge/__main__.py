"""``python -m sweeper.judge DIR``: the verdict of a sweep, again, from its files."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from sweeper.config import config_dir
from sweeper.errors import UserError
from sweeper.judge.judgement import judge
from sweeper.judge.words import lines, recommended
from sweeper.program import COMPLETE, INCOMPLETE, parser_of, program
from sweeper.store import SweepFolder, from_json, write_json
from sweeper.values import Thresholds

EXAMPLES = """\
examples:
  python -m sweeper.judge outputs/2026-01-31/12-00-00-1a2b3c
  python -m sweeper.judge DIR --verdict strict
  python -m sweeper.judge DIR --json | jq -r '.overall.recommendation.command'

Writes report/recommended.json in DIR, with the sweep's own thresholds only; nothing is measured
again. A threshold file of your own: --verdict my.yaml (conf/verdict/default.yaml shows its keys).
exit status: 0 every workload has a verdict (deploy or don't), 1 one is inconclusive or synthetic,
2 DIR cannot be used, 130 interrupted
"""


@program("judge")
def main(argv: Sequence[str] | None = None) -> int:
    """Judge one sweep and say it; the return value is the exit status."""
    arguments = _parser().parse_args(argv)
    folder = SweepFolder(arguments.folder)
    asked = arguments.verdict and read_thresholds(arguments.verdict)
    judgement = judge(folder, asked)
    found = recommended(judgement)
    if asked is None:
        write_json(folder.report / "recommended.json", found)
    print(json.dumps(found, indent=2) if arguments.json else "\n".join(lines(judgement)))
    settled = all(w.verdict in ("deploy", "don't") for w in judgement.workloads)
    return COMPLETE if settled else INCOMPLETE


def read_thresholds(name: str) -> Thresholds:
    """Those of ``conf/verdict/<name>.yaml``, or of a file.

    :raises UserError: when there is no such file, or it holds something else.
    """
    folder = config_dir() / "verdict"
    path = Path(name) if name.endswith(".yaml") else folder / f"{name}.yaml"
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        return from_json(Thresholds, data)
    except FileNotFoundError:
        known = ", ".join(sorted(p.stem for p in folder.glob("*.yaml")))
        raise UserError(f"--verdict {name}: no such file; known: {known}") from None
    except (TypeError, yaml.YAMLError) as problem:
        raise UserError(f"--verdict {name}: not thresholds: {problem}") from None


def _parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "judge", "Say which setting of a sweep to deploy, if any, and why.", EXAMPLES
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="a sweep folder (sweep.json)")
    parser.add_argument(
        "--verdict", metavar="NAME", help="other thresholds: default, strict, speed, or a file"
    )
    parser.add_argument("--json", action="store_true", help="the content of recommended.json")
    return parser


if __name__ == "__main__":
    sys.exit(main())
