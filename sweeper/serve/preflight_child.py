"""Asks vLLM, in the server's own Python, what it makes of command lines; starts no engine.

A program of its own (``python preflight_child.py``): standard input is a JSON list of
``{"key": …, "argv": […]}``, standard output ``{"unasked": "", "found": {key: …}}``. vLLM's own
parser reads each argv and ``create_engine_config()`` runs every check that needs no weights.
Must run on any Python vLLM runs on; sweeper itself may not be installed there.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

sys.path[0] = ""  # as under `python -m`: our folder has modules that would shadow others

_PARSER = (
    ("vllm.utils.argparse_utils", "FlexibleArgumentParser"),
    ("vllm.utils", "FlexibleArgumentParser"),
)
_FLAGS = ("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args")


class Refused(Exception):
    """What argparse would have printed before its exit."""


def first(*places: tuple[str, str]) -> Any:
    """The first of these names that this vLLM has; they moved between releases."""
    problem: Exception | None = None
    for module, name in places:
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as missing:
            problem = problem or missing
    raise ImportError(f"this vLLM has no {places[0][1]}: {problem}")


def make_parser() -> Any:
    """vLLM's own parser of server flags; a mistake raises instead of ending the process."""

    class Parser(first(*_PARSER)):  # type: ignore[misc]
        def error(self, message: str) -> NoReturn:
            raise Refused(message)

    return first(*((place, "make_arg_parser") for place in _FLAGS))(Parser())


def resolver() -> Callable[[list[str]], Any]:
    """argv → ``VllmConfig``, along the way of ``vllm serve``."""
    parser = make_parser()
    validate = first(*((place, "validate_parsed_serve_args") for place in _FLAGS))
    engine_args = first(("vllm.engine.arg_utils", "AsyncEngineArgs"))
    usage = first(("vllm.usage.usage_lib", "UsageContext")).OPENAI_API_SERVER

    def resolve(argv: list[str]) -> Any:
        args = parser.parse_args(argv)
        validate(args)
        return engine_args.from_cli_args(args).create_engine_config(usage)

    return resolve


def no_device() -> str:
    """Why configurations mean nothing here: a CUDA build on a machine without a GPU."""
    device = first(("vllm.platforms", "current_platform")).device_type
    return "" if device else "vLLM finds no device to run on here"


def plain(value: Any) -> Any:
    """Fields that hold something JSON has; switches that are off and whole configurations inside
    are left out."""
    if value is None:
        return None
    named = {k: v for k, v in vars(value).items() if not k.startswith("_") and v is not False}
    return {k: v for k, v in named.items() if isinstance(v, bool | int | float | str | list)}


def reply(config: Any) -> dict[str, Any]:
    two: Any = getattr(config, "use_v2_model_runner", None)
    overlap: Any = getattr(config.scheduler_config, "async_scheduling", None)
    return {
        "resolved": plain(config.speculative_config),
        "runner": {True: "V2", False: "V1"}.get(two),
        "scheduler": {True: "async", False: "sync"}.get(overlap),
    }


def problem_of(problem: BaseException) -> list[dict[str, str]]:
    """Each mistake: the class that found it, the field, the message."""
    if hasattr(problem, "errors") and hasattr(problem, "title"):  # pydantic
        return [
            {"of": problem.title, "at": ".".join(map(str, e["loc"])), "message": e["msg"]}
            for e in problem.errors(include_url=False, include_context=False)
        ]
    kind = "flags" if isinstance(problem, Refused) else type(problem).__name__
    return [{"of": kind, "at": "", "message": str(problem)}]


@contextlib.contextmanager
def fresh() -> Iterator[list[str]]:
    """Each configuration starts alike: same environment, and warnings said once are said again.

    Gives the list that its warnings go to. Records are caught as they are made, because vLLM
    replaces its handlers on the way.
    """
    variables, make = dict(os.environ), logging.getLogRecordFactory()
    with contextlib.suppress(ImportError, AttributeError):
        first(("vllm.logger", "_print_warning_once")).cache_clear()
    heard: list[str] = []

    def making(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make(*args, **kwargs)
        if record.levelno >= logging.WARNING and record.name.startswith("vllm"):
            heard.append(record.getMessage())
        return record

    logging.setLogRecordFactory(making)
    try:
        yield heard
    finally:
        logging.setLogRecordFactory(make)
        os.environ.clear()
        os.environ.update(variables)


def answer(questions: list[dict[str, Any]]) -> dict[str, Any]:
    try:
        unasked = no_device()
        resolve = resolver()
    except Exception as problem:
        return {"unasked": f"vLLM cannot be imported: {problem}", "found": {}}
    if unasked:
        return {"unasked": unasked, "found": {}}
    found = {}
    for question in questions:
        with fresh() as heard:
            try:
                said = reply(resolve(question["argv"]))
            except (Exception, SystemExit) as problem:
                said = {"problems": problem_of(problem)}
        found[question["key"]] = said | {"warnings": heard}
    return {"unasked": "", "found": found}


def main() -> None:
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # vLLM logs to standard output, which is for the answer alone
    json.dump(answer(json.load(sys.stdin)), output, default=str)
    output.flush()


if __name__ == "__main__":
    main()
