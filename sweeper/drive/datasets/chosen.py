"""The dataset that a configuration chose, read once for all points that share it."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

from sweeper.config import Settings
from sweeper.drive.datasets.jsonl import shipped
from sweeper.drive.datasets.sources import WHERE, describe, prompts_of
from sweeper.errors import UserError
from sweeper.plan.checkpoints import target_folder
from sweeper.values import Dataset, Prompt

OPTIONS = (
    *("max_turns", "endpoint", "subset", "split", "revision", "columns"),
    *("input_len", "output_len", "seed", "chat_template_kwargs"),
)


def dataset_of(settings: Settings) -> Dataset:
    """Read and checked.

    :raises UserError: with every mistake in its file.
    """
    wanted = settings.dataset
    path = wanted.path or wanted.file
    if wanted.format == "prompts" and path is None and wanted.name:
        path = str(shipped(wanted.name))
    options = {name: getattr(wanted, name) for name in OPTIONS}
    if wanted.format == "random":
        target, env = settings.target, settings.target.env | settings.server.env
        path = str(target_folder(target.model, target.revision, tuple(env.items())) or target.model)
    if path is None:
        raise UserError(f"dataset.path: give {WHERE[wanted.format]}")
    name = wanted.name or Path(path).stem
    text = json.dumps(options, sort_keys=True)
    return _described(name, path, wanted.limit, wanted.format, text)


def answers_of(settings: Settings) -> Settings:
    """Random prompts get answers of the length that was asked for with them."""
    length = settings.dataset.output_len
    if length is None:
        return settings
    return replace(
        settings, sampling=replace(settings.sampling, max_tokens=length, ignore_eos=True)
    )


@cache
def _described(name: str, path: str, limit: int | None, format: str, options: str) -> Dataset:
    return describe(name, path, limit, format, json.loads(options))


@cache
def prompts(dataset: Dataset) -> tuple[Prompt, ...]:
    """Those of a dataset as it was planned with."""
    return prompts_of(dataset)
