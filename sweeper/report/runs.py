"""What MLflow is told of a sweep and of each point, as plain values."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from sweeper.judge.arms import NOT_YET
from sweeper.judge.compare import Comparison
from sweeper.judge.judgement import Judgement
from sweeper.judge.verdict import WorkloadVerdict
from sweeper.report.artefacts import point_files, sweep_files
from sweeper.report.columns import concurrency, figures, output, rollout_settings
from sweeper.report.limits import LONGEST_PARAM, LONGEST_TAG, cut, milliseconds, pairs
from sweeper.report.stepped import Steps, no_series, stepped_of
from sweeper.report.wording import escape, verdict_markdown, verdict_words
from sweeper.store import SweepFolder, to_json
from sweeper.values import Sweep, content_key

NOT_MEASURED = "not_measured."
"""Start of the tags that say why a metric is missing."""
NOTE = "mlflow.note.content"
"""What MLflow shows as Markdown at the top of a run."""
LONGEST_NOTE = 5000
FOLDER = "sweeper.folder"
PASSING_TAGS = (
    "reason",
    "notes",
    "output",
    "hardware",
    "versions",
    "verdict",
    "baseline_run",
    NOTE,
)
"""Tags that a point may have now and not have later."""
_ENDINGS = {"completed": "FINISHED", "preempted": "KILLED", "skipped": "KILLED", NOT_YET: "KILLED"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run. ``stepped`` metrics by name: survival by position, server and GPUs by second;
    ``content`` changes when anything does.

    Times are milliseconds since 1970 of the measurement, not of the publication.
    """

    identity: str
    name: str
    status: str
    start_ms: int
    end_ms: int
    params: dict[str, str]
    metrics: dict[str, float]
    stepped: dict[str, Steps]
    tags: dict[str, str]
    files: tuple[Path, ...]

    @property
    def content(self) -> str:
        """Hash of all that is written, files included."""
        files = [(path.name, sha256(path.read_bytes()).hexdigest()) for path in self.files]
        fields = to_json(self) | {"files": files}
        return content_key(fields)


def parent(folder: SweepFolder, sweep: Sweep, judgement: Judgement) -> Run:
    """The run of the whole sweep: the plan, the page, the verdict, how many points completed."""
    comparisons = judgement.comparisons
    start = milliseconds(sweep.created_at)
    done = sum(c.completed for c in comparisons)
    return Run(
        identity=content_key(["sweep", sweep.id]),
        name=f"sweep {sweep.id}",
        status=_whole([_ending(c) for c in comparisons]),
        start_ms=start,
        end_ms=max([start, *(_times(c, start)[1] for c in comparisons)]),
        params={"points": str(len(comparisons)), "jobs": str(len(sweep.plan.jobs))},
        metrics={"points_completed": float(done)},
        stepped={},
        tags={
            "sweep": cut(sweep.id, LONGEST_TAG),
            "status": f"{done} of {len(comparisons)} points completed",
            "command": cut(" ".join(sweep.command), LONGEST_TAG),
            "versions": cut(pairs(sweep.versions), LONGEST_TAG),
            "verdict": verdict_words(judgement.overall.verdict, None),
            **({"synthetic": "SYNTHETIC rows"} if judgement.synthetic else {}),
            NOTE: verdict_markdown(judgement)[:LONGEST_NOTE],
            FOLDER: str(folder.path.resolve())[:LONGEST_NOTE],
        },
        files=sweep_files(folder),
    )


def child(
    folder: SweepFolder, sweep: Sweep, one: Comparison, judgement: Judgement, baseline_run: str = ""
) -> Run:
    """The run of one point; ``baseline_run`` is the id of its baseline's."""
    found = figures(one)
    stepped = stepped_of(one, folder.point(one.planned))
    start, end = _times(one, milliseconds(sweep.created_at))
    defined = {name: f.value for name, f in found.items() if f.value is not None}
    return Run(
        identity=content_key(["point", sweep.id, one.planned.key]),
        name=cut(_name(one), LONGEST_PARAM),
        status=_ending(one),
        start_ms=start,
        end_ms=end,
        params=_params(one),
        metrics=defined | _intervals(one),
        stepped=stepped,
        tags=_tags(one, sweep)
        | _links(folder, baseline_run)
        | _verdict(one, judgement)
        | _not_measured(one, stepped),
        files=point_files(folder, one),
    )


def _name(one: Comparison) -> str:
    words = f"{one.number:03d} {one.point.label} {one.point.dataset.name}"
    return f"{words} SYNTHETIC" if one.synthetic else words


def _params(one: Comparison) -> dict[str, str]:
    point = one.point
    params = {
        "method": point.method,
        "gamma": point.gamma,
        "target": point.target,
        "revision": point.server.revision,
        "dataset": point.dataset.name,
        "prompts": point.dataset.prompts,
        "sampling": point.sampling.name,
        "temperature": point.sampling.temperature,
        "max_tokens": point.sampling.max_tokens,
        "load": point.load.name,
        "concurrency": concurrency(point.load),
        "rate": point.load.rate if point.load.name == "open" else None,
        "speedup_by": None if point.is_baseline else one.speedup_by,
        "repeats": point.repeats,
        "warm": point.warm,
        "conditions": one.conditions,
        "synthetic": one.synthetic,
        "speculative_config": point.server.speculative_config,
        "speculative_resolved": point.server.speculative_resolved,
        "workarounds": ",".join(point.server.workarounds),
        "server_args": " ".join(point.server.args),
        **rollout_settings(point),
    }
    return {k: cut(str(v), LONGEST_PARAM) for k, v in params.items() if v not in (None, "")}


def _intervals(one: Comparison) -> dict[str, float]:
    found = {name: f for name, f in figures(one).items() if not name[-1].isdigit()}
    low = {f"{name}_low": f.low for name, f in found.items() if f.low is not None}
    return low | {f"{name}_high": f.high for name, f in found.items() if f.high is not None}


def _tags(one: Comparison, sweep: Sweep) -> dict[str, str]:
    provenance = one.result.provenance if one.result else {}
    sections = provenance if isinstance(provenance, dict) else {}
    tags = {
        "sweep": sweep.id,
        "point_key": one.planned.key,
        "status": one.status,
        "reason": one.reason,
        "hardware": pairs(sections.get("host")),
        "versions": pairs(sections.get("versions")),
        "notes": "; ".join(one.notes),
        "synthetic": _synthetic(one),
        "output": output(one) or "",
    }
    return {name: cut(value, LONGEST_TAG) for name, value in tags.items() if value}


def _synthetic(one: Comparison) -> str:
    if not one.synthetic:
        return ""
    return "SYNTHETIC: random prompts" if one.point.dataset.synthetic else "SYNTHETIC: acceptance"


def _links(folder: SweepFolder, baseline_run: str) -> dict[str, str]:
    tags = {"baseline_run": baseline_run, FOLDER: str(folder.path.resolve())[:LONGEST_NOTE]}
    return {name: value for name, value in tags.items() if value}


def _verdict(one: Comparison, judgement: Judgement) -> dict[str, str]:
    """The verdict on the point's workload, as a word to filter by and as a note to read."""
    mine = (w for w in judgement.workloads if _is_in(one, w))
    found = next(mine, None)
    if found is None:
        return {}
    words = verdict_words(found.verdict, found.recommended)
    note = f"**{escape(one.point.label)} · {escape(found.name)}: {escape(words)}.** "
    text = note + escape(found.sentence)
    return {"verdict": cut(words, LONGEST_TAG), NOTE: text[:LONGEST_NOTE]}


def _is_in(one: Comparison, workload: WorkloadVerdict) -> bool:
    return any(c.number == one.number for c in (*workload.baselines, *workload.candidates))


def _not_measured(one: Comparison, stepped: Collection[str]) -> dict[str, str]:
    missing = {name: f.reason for name, f in figures(one).items() if f.value is None}
    missing |= no_series(one, stepped)
    return {f"{NOT_MEASURED}{k}": cut(v, LONGEST_TAG) or "unknown" for k, v in missing.items()}


def _ending(one: Comparison) -> str:
    return _ENDINGS.get(one.status, "FAILED")


def _whole(endings: Sequence[str]) -> str:
    """The sweep failed if a point did, else was killed if a point was."""
    for status in ("FAILED", "KILLED"):
        if status in endings:
            return status
    return "FINISHED"


def _times(one: Comparison, otherwise: int) -> tuple[int, int]:
    if one.result is None:
        return otherwise, otherwise
    start = milliseconds(one.result.started_at, otherwise)
    return start, start + round(one.result.wall_s * 1000)
