"""Every format of prompts by name: how it is read, what it needs, where to get it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from sweeper.drive.datasets.benchmarks import gsm8k, humaneval, spec_bench
from sweeper.drive.datasets.hub import read_hub
from sweeper.drive.datasets.jsonl import digest, read_prompts
from sweeper.drive.datasets.sharegpt import read_sharegpt
from sweeper.drive.datasets.synthetic import random_prompts
from sweeper.errors import DatasetError
from sweeper.values import Dataset, Json, Prompt

Options = Mapping[str, Json]
KWARGS = "chat_template_kwargs"

OPTIONS = {
    "prompts": (),
    "spec_bench": ("max_turns",),
    "humaneval": ("endpoint",),
    "gsm8k": (),
    "sharegpt": ("max_turns",),
    "hf": ("subset", "split", "revision", "columns", "endpoint"),
    "random": ("input_len", "output_len", "seed", "tokenizer"),
}
"""What each format reads besides path and limit; all take ``chat_template_kwargs``."""

WHERE = {
    "prompts": "the JSONL file of your prompts",
    "spec_bench": "Spec-Bench's question.jsonl; get it with: curl -LO "
    "https://raw.githubusercontent.com/hemingkx/Spec-Bench/main/data/spec_bench/question.jsonl",
    "humaneval": "HumanEval.jsonl; get it with: curl -LO "
    "https://github.com/openai/human-eval/raw/master/data/HumanEval.jsonl.gz "
    "&& gunzip HumanEval.jsonl.gz",
    "gsm8k": "GSM8K's test.jsonl; get it with: curl -LO "
    "https://raw.githubusercontent.com/openai/grade-school-math/master/"
    "grade_school_math/data/test.jsonl",
    "sharegpt": "a ShareGPT file; get one with: curl -LO "
    "https://huggingface.co/datasets/anon8231489123/ShareGPT_Vicuna_unfiltered/resolve/main/"
    "ShareGPT_V3_unfiltered_cleaned_split.json",
    "hf": "a name on the Hugging Face hub, or a local folder of the datasets library",
}


def describe(
    name: str,
    path: Path | str,
    limit: int | None,
    format: str = "prompts",
    options: Options | None = None,
) -> Dataset:
    """The dataset as a frozen value, after reading and checking all of it.

    ``prompts`` is the number of prompts used, ``limit`` applied; a file's path is made absolute,
    as points run in other folders.
    """
    given = {k: v for k, v in (options or {}).items() if v not in (None, {}, "")}
    _check_options(format, given)
    prompts, notes = _read(format, path, limit, given)
    turns = sum(prompt.turns for prompt in prompts)
    is_file = format not in ("hf", "random") or Path(path).exists()
    return Dataset(
        name=name,
        path=str(Path(path).absolute()) if is_file else str(path),
        digest=_digest(format, path, prompts, given),
        limit=limit,
        prompts=len(prompts),
        format=format,
        options=tuple(sorted((k, _frozen(v)) for k, v in given.items())),
        requests=turns if turns > len(prompts) else None,
        synthetic=format == "random",
        notes=notes,
    )


def prompts_of(dataset: Dataset) -> tuple[Prompt, ...]:
    """The prompts as planned.

    :raises DatasetError: what is there now is not what was planned with.
    """
    options = {k: json.loads(v) if k in _MAPPINGS else v for k, v in dataset.options}
    prompts, _ = _read(dataset.format, dataset.path, dataset.limit, options)
    if _digest(dataset.format, dataset.path, prompts, options) != dataset.digest:
        raise DatasetError(f"{dataset.path} has changed since the sweep was planned; plan it again")
    return prompts


_MAPPINGS = ("columns", KWARGS)


def _frozen(value: Json) -> Json:
    return json.dumps(value, sort_keys=True) if isinstance(value, dict) else value


def _check_options(format: str, given: Options) -> None:
    known = (*OPTIONS[format], KWARGS)
    for name in given:
        if name not in known:
            raise DatasetError(f"dataset.{name}: the format {format} does not read it; remove it")
    for name in ("input_len", "output_len", "max_turns"):
        if name in given and not given[name] >= 1:
            raise DatasetError(f"dataset.{name}: {given[name]}: at least 1, or null")


def _read(
    format: str, path: Path | str, limit: int | None, options: Options
) -> tuple[tuple[Prompt, ...], tuple[str, ...]]:
    prompts, notes = _read_format(format, path, limit, options)
    kwargs = options.get(KWARGS)
    if kwargs:
        text = json.dumps(kwargs, sort_keys=True)
        prompts = tuple(
            replace(p, template_kwargs=text) if p.messages is not None else p for p in prompts
        )
    return prompts, notes


def _read_format(
    format: str, path: Path | str, limit: int | None, options: Options
) -> tuple[tuple[Prompt, ...], tuple[str, ...]]:
    file, turns = Path(path), options.get("max_turns")
    if format == "hf":
        return _hub(str(path), limit, options)
    if format == "random":
        found = random_prompts(
            file,
            count=limit or 1,
            input_len=options["input_len"],
            seed=options.get("seed", 0),
        )
        return found, ("random tokens: acceptance on them says nothing about text",)
    if format == "sharegpt":
        return read_sharegpt(file, limit=limit, max_turns=turns)
    if format == "prompts":
        return read_prompts(file, limit=limit), ()
    shape = {
        "spec_bench": lambda: spec_bench(turns),
        "humaneval": lambda: humaneval(options.get("endpoint", "chat")),
        "gsm8k": gsm8k,
    }[format]()
    return read_prompts(file, limit=limit, shape=shape), ()


def _hub(
    path: str, limit: int | None, options: Options
) -> tuple[tuple[Prompt, ...], tuple[str, ...]]:
    return read_hub(
        path,
        subset=options.get("subset"),
        split=options.get("split", "train"),
        revision=options.get("revision"),
        columns=options.get("columns", {}),
        chat=options.get("endpoint", "chat") == "chat",
        limit=limit,
    )


def _digest(format: str, path: Path | str, prompts: tuple[Prompt, ...], options: Options) -> str:
    if format == "prompts" and not options:
        return digest(Path(path))
    parts = [_contents(prompt) for prompt in prompts]
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _contents(prompt: Prompt) -> dict[str, Json]:
    """A prompt is the one it was before prompts could have a schema and messages more than text."""
    found = asdict(prompt) | {"line": None}
    if prompt.messages is not None:
        found["messages"] = [message.sent for message in prompt.messages]
    return {k: v for k, v in found.items() if k != "schema" or v is not None}
