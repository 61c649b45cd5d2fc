"""The settings a sweep would have: checked without a server, then tried once on real ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sweeper import store
from sweeper.doctor.check import Check
from sweeper.judge.compare import Comparison, compare
from sweeper.measure.group import run_group
from sweeper.measure.point import Emit
from sweeper.plan.rules import RULES
from sweeper.prepare import Prepared
from sweeper.serve.command import shown
from sweeper.serve.identity import check_speculation, resolved_speculation
from sweeper.store import SweepFolder
from sweeper.values import Json, Plan, PlannedPoint, Sweep

TRIED_PROMPTS = 2
"""The fewest that a paired figure is made of."""


def settings_checks(prepared: Prepared) -> Iterator[Check]:
    """What the checks before a sweep say: settings, prompts, checkpoints, vLLM's own word."""
    for refusal in prepared.plan.refusals:
        yield Check(name="settings", state="failure", found="refused", fix=refusal.reason)
    for planned in prepared.plan.points:
        if planned.skip:
            yield Check(
                name="settings", state="failure", found="cannot be measured here", fix=planned.skip
            )
        yield from (
            Check(name="settings", state="warning", found=w) for w in planned.point.warnings
        )
    for note in prepared.notes:
        yield Check(name="settings", state="warning", found=note)
    for planned in prepared.plan.points:
        if not planned.skip and planned.jobs:
            yield _accepted(planned)


def _accepted(planned: PlannedPoint) -> Check:
    point = planned.point
    settings = point.server.resolved or {}
    rule = RULES.get(str(settings.get("method")))
    found = f"{point.label} on {point.server.model} with {point.dataset.prompts} prompts"
    if rule is not None and rule.loads_checkpoint and settings.get("model"):
        found += (
            f"\ndraft {settings['model']}: no mistake found against the target (architecture, "
            "vocabulary, tokenizer, context, n_predict) but what is said above"
        )
    return Check(name="settings", state="ok", found=found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The first prompts of a plan's points, measured like a sweep in a folder of its own.

    ``kept``: the folder outlives the trial.
    """

    plan: Plan
    folder: SweepFolder
    kept: bool = False

    def run(self, emit: Emit) -> None:
        """Start every server of the plan once: that of the settings and its baseline's."""
        sweep = Sweep(
            id="doctor",
            created_at="",
            command=(),
            plan=self.plan,
            settings={"seed": 0},
            versions={},
        )
        store.write_json(self.folder.sweep, store.to_json(sweep))
        for group in self.plan.groups:
            run_group(group, self.folder.path, sweep.id, emit)

    def checks(self) -> Iterator[Check]:
        """What the servers ran, whether they drafted, and which was faster."""
        for one in compare(self.folder):
            yield from self._of_point(one)

    def _of_point(self, one: Comparison) -> Iterator[Check]:
        name = one.point.label
        if one.result is None or not one.completed:
            yield Check(
                name=name,
                state="failure",
                found=f"{one.status}: {one.reason}",
                fix=f"the server's log is in {self.folder.path}/servers"
                if self.kept
                else "the end of the server's log is above; all of it is in DIR/servers with "
                "--logs DIR",
            )
            return
        yield Check(name=name, state="ok", found=self._server(one))
        yield from (Check(name=name, state="warning", found=text) for text in one.result.warnings)
        if not one.point.is_baseline:
            yield self._resolved(one)
            yield _drafts(one)
            yield _faster(one)

    def _server(self, one: Comparison) -> str:
        facts = self._facts(one)
        seconds = facts.get("start_s")
        how = f"ready after {seconds:.0f} s" if seconds else "attached"
        return f"{how}, vLLM {facts.get('version') or 'of unknown version'}: {_command(one)}"

    def _resolved(self, one: Comparison) -> Check:
        """The speculative config by the server's own account, beside what was asked for."""
        info = self._facts(one).get("server_info")
        ran = resolved_speculation(info)
        if ran is None:
            ours = one.point.server.kind == "vllm"
            return Check(
                name="resolved",
                state="warning",
                found="the server did not say what it runs (/server_info)",
                fix="try again when the machine is less busy"
                if ours
                else "start it with VLLM_SERVER_DEV_MODE=1",
            )
        check_speculation(one.point.server, info)  # was passed at the start, else it failed
        plain = {k: v for k, v in ran.items() if _worth_showing(v)}
        return Check(name="resolved", state="ok", found=json.dumps(plain, sort_keys=True))

    def _facts(self, one: Comparison) -> dict[str, Json]:
        assert one.result is not None
        path = self.folder.path / "servers" / one.result.server_folder / "server.json"
        return dict(store.read_json(path))


def smallest(plan: Plan) -> Plan:
    """The first prompts of each point, once."""

    def small(planned: PlannedPoint) -> PlannedPoint:
        point = planned.point
        few = min(TRIED_PROMPTS, point.dataset.prompts)
        dataset = replace(point.dataset, limit=few, prompts=few)
        return replace(planned, point=replace(point, dataset=dataset, repeats=1))

    groups = (
        replace(g, points=tuple(small(p) for p in g.points if not p.skip)) for g in plan.groups
    )
    return replace(plan, groups=tuple(g for g in groups if g.points))


def _worth_showing(value: Json) -> bool:
    return isinstance(value, bool | int | float | str | list) and value not in (False, [], "")


def _command(one: Comparison) -> str:
    spec = one.point.server
    return str(spec.base_url) if spec.kind == "external" else shown(spec)


def _drafts(one: Comparison) -> Check:
    """A warning where nothing was drafted: a lookup method may have found nothing to repeat."""
    found = one.acceptance
    drafted, accepted = found.drafted, found.accepted
    if not drafted:
        trained = one.point.trained_draft
        return Check(
            name="drafts",
            state="failure" if trained else "warning",
            found="none were made in what was tried",
            fix="look at the server's log"
            if trained
            else "a lookup method drafts where the text repeats itself; try prompts of your own",
        )
    return Check(name="drafts", state="ok", found=f"{drafted} tokens drafted, {accepted} accepted")


def _faster(one: Comparison) -> Check:
    """Two generations are no measurement: a sign that it works, no verdict."""
    ratio = one.speedup.value
    if ratio is None:
        return Check(name="speed", state="note", found=f"not known: {one.speedup.reason}")
    word, many = "faster" if ratio > 1 else "slower", one.point.dataset.prompts
    return Check(
        name="speed",
        state="ok" if ratio > 1 else "note",
        found=f"{ratio:.2f}x its baseline's output rate in {many} generations: {word} this "
        "once; a sweep says whether it is so",
    )
