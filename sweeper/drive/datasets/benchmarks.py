"""Well-known benchmark files, line by line, as they are published."""

from __future__ import annotations

from collections.abc import Iterator

from sweeper.drive.datasets.jsonl import Shape
from sweeper.drive.datasets.mistakes import kind_of, text_mistakes
from sweeper.values import Json, Message, Prompt

COMPLETE = "Complete this Python function. Answer with the whole function in one code block."
"""What an instruct model is told before a HumanEval prompt."""


def spec_bench(max_turns: int | None = None) -> Shape:
    """Spec-Bench ``question.jsonl``: ``question_id, category, turns[], reference?``."""

    def prompt(entry: dict[str, Json], default_id: str) -> Prompt:
        asked = entry["turns"][:max_turns]
        references = entry.get("reference") or []
        answered = references[len(asked) - 1 : len(asked)]
        return Prompt(
            id=str(entry.get("question_id", default_id)),
            category=entry["category"],
            messages=(Message(role="user", content=asked[0]),),
            follow_ups=tuple(asked[1:]),
            reference=str(answered[0]) if answered else None,
        )

    return Shape(
        mistakes_of=_spec_bench_mistakes, to_prompt=prompt, id_key="question_id", in_turn=True
    )


def _spec_bench_mistakes(entry: Json) -> Iterator[str]:
    yield from _fields(entry, ("category", "turns"), "a line of Spec-Bench")
    if not isinstance(entry, dict):
        return
    if "category" in entry:
        yield from text_mistakes('"category"', entry["category"])
    turns = entry.get("turns")
    if "turns" in entry and not (isinstance(turns, list) and turns):
        yield f'"turns" is {kind_of(turns)}; write a list of one or more texts'
    elif isinstance(turns, list):
        for number, turn in enumerate(turns):
            yield from text_mistakes(f"turns[{number}]", turn)


def humaneval(endpoint: str = "chat") -> Shape:
    """OpenAI's ``HumanEval.jsonl``: ``task_id, prompt, entry_point, test``.

    ``chat`` asks for the whole function, ``completions`` has the model go on with the code.
    """

    def prompt(entry: dict[str, Json], default_id: str) -> Prompt:
        code, name = entry["prompt"], entry["entry_point"]
        asked = f"{COMPLETE}\n\n```python\n{code.rstrip()}\n```"
        chat = endpoint == "chat"
        return Prompt(
            id=entry.get("task_id") or default_id,
            category="code",
            messages=(Message(role="user", content=asked),) if chat else None,
            text=None if chat else code,
            reference=entry.get("canonical_solution"),
            entry_point=name,
            tests=f"{entry['test']}\n\ncheck({name})\n",
        )

    return Shape(mistakes_of=_humaneval_mistakes, to_prompt=prompt, id_key="task_id")


def _humaneval_mistakes(entry: Json) -> Iterator[str]:
    needed = ("prompt", "entry_point", "test")
    yield from _fields(entry, needed, "a line of HumanEval")
    yield from _texts(entry, needed)


def gsm8k() -> Shape:
    """GSM8K ``test.jsonl``: ``question, answer``, whose last line is ``#### number``."""

    def prompt(entry: dict[str, Json], default_id: str) -> Prompt:
        return Prompt(
            id=default_id,
            category="math",
            messages=(Message(role="user", content=entry["question"]),),
            reference=entry["answer"].rpartition("####")[2].strip().replace(",", ""),
        )

    return Shape(mistakes_of=_gsm8k_mistakes, to_prompt=prompt)


def _gsm8k_mistakes(entry: Json) -> Iterator[str]:
    yield from _fields(entry, ("question", "answer"), "a line of GSM8K")
    yield from _texts(entry, ("question", "answer"))
    answer = entry.get("answer") if isinstance(entry, dict) else None
    if isinstance(answer, str) and answer.strip() and not answer.rpartition("####")[1]:
        yield '"answer" does not end in "#### number"; is this the file of GSM8K?'


def _fields(entry: Json, needed: tuple[str, ...], what: str) -> Iterator[str]:
    names = ", ".join(f'"{name}"' for name in needed)
    if not isinstance(entry, dict):
        yield f"the line holds {kind_of(entry)}, not an object; {what} has {names}"
        return
    for name in needed:
        if entry.get(name) is None:
            yield f'no "{name}"; {what} has {names}'


def _texts(entry: Json, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        if isinstance(entry, dict) and entry.get(name) is not None:
            yield from text_mistakes(f'"{name}"', entry[name])
