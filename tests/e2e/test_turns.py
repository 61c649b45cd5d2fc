"""Several turns, tool calls, repeats and caches, against the stand-in for vLLM."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from tests.e2e.running import command, only_sweep, read, records, run
from tests.unit.test_chat import ASKS, PICKY, SAYS, TOOLS, USER

LINES = [
    {"question_id": 1, "category": "a", "turns": ["word " * 40, "and then?"]},
    {"question_id": 2, "category": "b", "turns": ["one turn " * 20]},
]


def test_turns_repeats_and_cold_caches(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    done = run(
        command(
            *("method=none,ngram", "gamma=2", "sampling.max_tokens=8", "repeats=2"),
            *("dataset=spec_bench", f"dataset.path={path}", "load=closed", "load.concurrency=2"),
            outputs=tmp_path,
        )
    )
    assert done.status == 0, done.err
    folder = only_sweep(tmp_path)
    found = records(folder)
    turns = Counter((r.prompt_id, r.repeat, r.turn) for r in found)
    assert set(turns.values()) == {2} and len(turns) == 2 * 3
    first = next(r for r in found if (r.prompt_id, r.turn) == ("1", 0))
    later = next(r for r in found if (r.prompt_id, r.turn) == ("1", 1))
    assert (later.prompt_tokens or 0) > (first.prompt_tokens or 0) + 8
    _, results = read(folder)
    for result in results.values():
        assert result.provenance["caches"]["prefix"] == "reset before every repeat"
        assert result.provenance["rendering"]["endpoint"] == "/v1/chat/completions"
    orders = {r.provenance["order"] for r in results.values()}
    canaries = [r.provenance["canary"] for r in results.values()]
    assert len(orders) == 1 and canaries[0] == canaries[1]
    assert canaries[0]["other_seeds"] == "give the same answer"
    assert "acceptance by category" in done.out and "over 2 repeats" in done.out


def test_conversations_with_tool_calls(tmp_path: Path) -> None:
    path = tmp_path / "agents.jsonl"
    turns = [[USER, ASKS, SAYS], [{"role": "developer", "content": "d"}, USER, ASKS, SAYS, USER]]
    lines = [{"messages": messages, "tools": TOOLS} for messages in turns]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    asked = command(
        *("method=none,ngram", "gamma=2", "sampling.max_tokens=8"),
        *("dataset=jsonl", f"dataset.path={path}"),
        outputs=tmp_path,
    )
    done = run(asked)
    assert done.status == 0, done.err
    folder = only_sweep(tmp_path)
    found = records(folder)
    assert len(found) == 4 and not any(record.error for record in found)
    page = (folder.report / "index.html").read_text()
    assert r"user: b\n\nassistant: f({\"a\": \"\u003cé>\"})\n\ntool: r" in page

    settings = {"chat_template": PICKY}
    (tmp_path / "model" / "tokenizer_config.json").write_text(json.dumps(settings))
    done = run(asked)
    assert done.status == 2 and only_sweep(tmp_path) == folder
    for number, role in ((1, "say it"), (2, "no system")):
        assert (
            f"agents.jsonl:{number}: the target's chat template refuses the messages: {role};"
            in (" ".join((done.out + done.err).split()))
        )
