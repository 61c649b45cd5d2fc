"""From one composed configuration to its point, or to all the reasons why there is none."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from sweeper.config import Settings, this_python
from sweeper.errors import ConfigError
from sweeper.plan.arguments import merged, tokens
from sweeper.plan.legacy import flag_mistakes
from sweeper.plan.methods import Asked, speculation
from sweeper.values import BASELINE, Dataset, Point, ServerSpec

_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL)", re.IGNORECASE)


def point_of(settings: Settings, dataset: Dataset) -> Point:
    """The point a configuration asks for.

    :raises ConfigError: with every mistake of this configuration, one a line.
    """
    mistakes: list[str] = []
    asked = speculation(settings, mistakes)
    server = _server(settings, asked, mistakes)
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return Point(
        method=asked.method if asked else BASELINE,
        gamma=asked.gamma if asked else 0,
        target=settings.target.name,
        server=server,
        dataset=dataset,
        sampling=settings.sampling,
        load=settings.load,
        repeats=settings.repeats,
        warm=settings.method.warm,
        trained_draft=asked.trained if asked else False,
        max_error_rate=settings.max_error_rate,
        warnings=asked.warnings if asked else (),
        cache=settings.cache,
        control=settings.control,
    )


def unchecked_point(settings: Settings, dataset: Dataset) -> Point:
    """What a wrong configuration asks for, to be shown and never to be run."""
    speculative = settings.method.speculative
    server = ServerSpec(
        kind=settings.server.kind,
        command=this_python(settings.server.command),
        model=settings.target.model,
        speculative_config=json.dumps(speculative, sort_keys=True) if speculative else "",
        base_url=settings.server.base_url,
    )
    return Point(
        method=settings.method.name,
        gamma=settings.gamma if speculative else 0,
        target=settings.target.name,
        server=server,
        dataset=dataset,
        sampling=settings.sampling,
        load=settings.load,
        repeats=settings.repeats,
    )


def baseline_of(point: Point) -> Point:
    """The same conditions without speculation."""
    server = replace(point.server, speculative_config="", speculative_resolved="")
    return replace(
        point,
        method=BASELINE,
        gamma=0,
        server=server,
        warm=False,
        trained_draft=False,
        warnings=(),
    )


def _server(settings: Settings, asked: Asked | None, mistakes: list[str]) -> ServerSpec:
    ours, target = settings.server, settings.target
    _, wrong_target = tokens(target.args, "target.args")
    _, wrong_server = tokens(ours.args, "server.args")
    args, _ = tokens(merged(target.args, ours.args), "server.args")
    mistakes += wrong_target + wrong_server
    mistakes += flag_mistakes(target.args, "target.args") + flag_mistakes(ours.args, "server.args")
    env = target.env | ours.env
    mistakes += [
        f"server.env.{name}: looks like a secret and would be written to files; "
        f"set it in the environment sweeper is started from, servers inherit that"
        for name in env
        if _SECRET.search(name)
    ]
    external = ours.kind == "external"
    if external and ours.args:
        mistakes.append("server.args: a running server cannot be given flags; remove them")
    return ServerSpec(
        kind=ours.kind,
        command=this_python(ours.command),
        model=target.model,
        revision=target.revision,
        speculative_config=asked.passed if asked else "",
        speculative_resolved=asked.resolved if asked else "",
        args=() if external else args,
        env=tuple(sorted(env.items())) if not external else (),
        base_url=ours.base_url,
        port=ours.port,
        api_key_env=ours.api_key_env,
        start_timeout_s=ours.start_timeout_s,
        stop_timeout_s=ours.stop_timeout_s,
        workarounds=tuple(sorted(set(ours.workarounds))),
    )
