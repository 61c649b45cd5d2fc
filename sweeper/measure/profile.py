"""A server started once more with its profiler, after its points were measured without.

Not the server of the timed points: ranges that are recorded cost time in every step, also while no
profile is taken, and what is measured is to be what will run.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from sweeper import store
from sweeper.drive.load import rehearsal, run_load
from sweeper.drive.requests import requests_of
from sweeper.errors import RequestError, ServerError
from sweeper.measure.trace import read_trace
from sweeper.profiles import Profiler, StepSplit
from sweeper.serve.session import Session, serve
from sweeper.store import PointFolder, SweepFolder
from sweeper.values import Event, Group, PlannedPoint, Prompt, RequestRecord, ServerSpec

log = logging.getLogger(__name__)

Measured = Sequence[tuple[PlannedPoint, tuple[Prompt, ...]]]
Emit = Callable[[Event], None]

WRITING_S = 600.0
"""A trace is written while the request to stop is answered."""


def profile(
    group: Group, measured: Measured, folder: SweepFolder, asked: Profiler, emit: Emit
) -> None:
    """Write ``profile.json`` of every completed point; nothing that happens here fails a point."""
    left = [(p, prompts) for p, prompts in measured if _completed(folder.point(p))]
    if asked.name == "none" or not left:
        return
    problem = _impossible(group.server)
    if not problem:
        problem = _on_its_own_server(group, left, folder, asked, emit)
    for planned, _ in left:
        home = folder.point(planned)
        if problem and not home.profile.exists():
            _write(home, StepSplit(problem=f"not profiled: {problem}"), planned, emit)


def _completed(home: PointFolder) -> bool:
    result = home.read_result()
    return result is not None and result.status == "completed"


def _impossible(spec: ServerSpec) -> str:
    return "the server was not started by this sweep" if spec.kind == "external" else ""


def _on_its_own_server(
    group: Group, left: Measured, folder: SweepFolder, asked: Profiler, emit: Emit
) -> str:
    """Why it did not last until the end, empty when it did."""
    server = folder.new_server(group.key, "profile-")
    traces = server.path.resolve() / "traces"
    name = f"the profile of {group.name}"
    emit(Event(kind="server_starting", server=name, text=server.path.name))
    try:
        with serve(profiled(group.server, traces), server) as session:
            emit(Event(kind="server_ready", server=name, seconds=session.start_s))
            for planned, prompts in left:
                home = folder.point(planned)
                _write(home, _taken(session, planned, prompts, home, asked, traces), planned, emit)
    except ServerError as problem:
        log.warning("no profile: %s", problem)
        return str(problem).splitlines()[0]
    finally:
        emit(Event(kind="server_stopped", server=name))
    return ""


def profiled(spec: ServerSpec, traces: Path) -> ServerSpec:
    """The same server with its profiler ready, and with the parts of its steps named."""
    config = {
        "profiler": "torch",
        "torch_profiler_dir": str(traces),
        "torch_profiler_with_stack": False,  # stacks of Python multiply the cost and the file
        "ignore_frontend": True,
    }
    return replace(
        spec,
        args=(*spec.args, "--profiler-config", json.dumps(config)),
        env=(*spec.env, ("VLLM_CUSTOM_SCOPES_FOR_PROFILING", "1")),
    )


def _taken(
    session: Session,
    planned: PlannedPoint,
    prompts: Sequence[Prompt],
    home: PointFolder,
    asked: Profiler,
    traces: Path,
) -> StepSplit:
    before = set(traces.glob("*"))
    try:
        _answered(session, planned, prompts[:1], asked)  # the first request of a shape is slow
        session.endpoint.start_profile()
        try:
            failed = _answered(session, planned, prompts[: asked.requests], asked)
        except RequestError as problem:
            failed = str(problem)
        session.endpoint.stop_profile(WRITING_S)  # after Ctrl-C nobody waits for the trace
    except RequestError as problem:
        session.check_alive(patience_s=5.0)
        return StepSplit(problem=f"not profiled: {problem}")
    if failed:
        return StepSplit(problem=f"not profiled: {failed}")
    kept = _kept(set(traces.glob("*.json*")) - before, home)
    if not kept:
        return StepSplit(problem="not profiled: the server wrote no trace")
    first = next((path for path in kept if "rank0" in path.name), kept[0])
    return replace(read_trace(first), traces=tuple(path.name for path in kept))


def _answered(
    session: Session, planned: PlannedPoint, prompts: Sequence[Prompt], asked: Profiler
) -> str:
    """Send as the point does, each turn alone; the first error, empty when there is none."""
    point, found = planned.point, list[RequestRecord]()
    tokens = min(asked.tokens, point.sampling.max_tokens)
    sampling = replace(point.sampling, max_tokens=tokens, n=1)
    requests = (replace(r, follow_ups=()) for r in requests_of(prompts, sampling))
    endpoint, load = session.endpoint, rehearsal(point.load)
    run_load(endpoint.base_url, endpoint.api_key, endpoint.model, requests, load, found.append)
    return next((r.error for r in found if r.error), "")


def _kept(made: set[Path], home: PointFolder) -> list[Path]:
    """The traces in the point's own folder, where a later measurement sets them aside too."""
    home.traces.mkdir(exist_ok=True)
    return [path.rename(home.traces / path.name) for path in sorted(made)]


def _write(home: PointFolder, found: StepSplit, planned: PlannedPoint, emit: Emit) -> None:
    store.write_json(home.profile, store.to_json(found))
    done = found.problem or f"{found.steps} decode steps of a trace split"
    emit(Event(kind="profiled", point=planned.number, text=done))
