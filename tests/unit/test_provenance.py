"""Which files the model and its template are, for a folder and for a name on the hub."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from sweeper.measure.provenance import model
from tests.unit.sweeps import point

TEMPLATE = "{{ messages }}"


def snapshot(hub: Path) -> Path:
    """``org/model`` as the hub's library keeps it."""
    repository = hub / "models--org--model"
    folder = repository / "snapshots" / "c0ffee"
    folder.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("c0ffee")
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


def test_a_name_on_the_hub_has_the_digests_of_its_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    folder = snapshot(tmp_path)
    named, local = point("none", 0), point("none", 0)
    local = replace(local, server=replace(local.server, model=str(folder)))
    found = model(named)
    assert found["template_digest"] == hashlib.sha256(TEMPLATE.encode()).hexdigest()[:16]
    assert found["target_digest"]
    assert found["target_digest"] == model(local)["target_digest"]


def test_a_name_that_is_not_here_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "empty"))
    found = model(point("none", 0))
    assert (found["target_digest"], found["template_digest"]) == (None, None)


@pytest.mark.parametrize("words", [("--chat-template", "{}"), ("--chat-template={}",)])
def test_the_template_that_the_server_was_given_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    snapshot(tmp_path)
    own = tmp_path / "own.jinja"
    own.write_text("mine")
    asked = point("none", 0)
    args = tuple(word.format(own) for word in words)
    found = model(replace(asked, server=replace(asked.server, args=args)))
    assert found["template_digest"] == hashlib.sha256(b"mine").hexdigest()[:16]
