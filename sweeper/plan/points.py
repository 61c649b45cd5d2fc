"""From one composed configuration to its point, or to all the reasons why there is none."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from sweeper.config import Settings, this_python
from sweeper.errors import ConfigError
from sweeper.plan.arguments import merged, tokens
from sweeper.plan.methods import method_mistakes
from sweeper.values import BASELINE, Dataset, Point, ServerSpec

_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL)", re.IGNORECASE)


def point_of(settings: Settings, dataset: Dataset) -> Point:
    """The point a configuration asks for.

    :raises ConfigError: with every mistake of this configuration, one a line.
    """
    mistakes = method_mistakes(settings)
    server = _server(settings, mistakes)
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    off = settings.method.speculative is None
    return Point(
        method=BASELINE if off else settings.method.name,
        gamma=0 if off else settings.gamma,
        target=settings.target.name,
        server=server,
        dataset=dataset,
        sampling=settings.sampling,
        load=settings.load,
        repeats=settings.repeats,
        warm=settings.method.warm,
        trained_draft=settings.method.trained_draft,
        max_error_rate=settings.max_error_rate,
    )


def baseline_of(point: Point) -> Point:
    """The same conditions without speculation."""
    server = replace(point.server, speculative_config="")
    return replace(
        point, method=BASELINE, gamma=0, server=server, warm=False, trained_draft=False
    )


def _server(settings: Settings, mistakes: list[str]) -> ServerSpec:
    ours, target = settings.server, settings.target
    target_args, wrong_target = tokens(target.args, "target.args")
    _, wrong_server = tokens(ours.args, "server.args")
    args, _ = tokens(merged(target.args, ours.args), "server.args")
    mistakes += wrong_target + wrong_server
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
        speculative_config=_speculative_text(settings),
        args=() if external else args,
        env=tuple(sorted(env.items())) if not external else (),
        base_url=ours.base_url,
        port=ours.port,
        api_key_env=ours.api_key_env,
        start_timeout_s=ours.start_timeout_s,
        stop_timeout_s=ours.stop_timeout_s,
    )


def _speculative_text(settings: Settings) -> str:
    """The mapping as it goes to vLLM: every key of it, sorted, null values left to vLLM."""
    if settings.method.speculative is None:
        return ""
    given = {k: v for k, v in settings.method.speculative.items() if v is not None}
    return json.dumps(given, sort_keys=True)
