"""Settings that hold for a whole sweep: all that are swept are said at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sweeper.errors import UserError
from sweeper.prepare import Composed, prepare
from tests.unit.asked import LLAMA, _composed, checkpoint

WIDE = "holds for a whole sweep and cannot be swept"


def said(folder: Path, *changes: dict[str, Any]) -> list[str]:
    """How a sweep of these configurations is refused."""
    composed, model = [], checkpoint(folder / "t", LLAMA)
    for change in changes:
        data = json.loads(_composed("ngram"))
        data["target"]["model"] = model
        for path, value in change.items():
            *parents, last = path.split("__")
            node = data
            for part in parents:
                node = node[part]
            node[last] = value
        overrides = tuple(f"{path}={value}" for path, value in change.items())
        composed.append(Composed(overrides=overrides, data=data))
    with pytest.raises(UserError) as caught:
        prepare(composed)
    return str(caught.value).splitlines()


def test_all_of_them_at_once_by_their_paths(tmp_path: Path) -> None:
    found = said(
        tmp_path,
        {"baseline": "off", "slo__ttft_ms": 200.0, "quality__name": "none"},
        {"baseline": "shared", "slo__ttft_ms": 300.0, "quality__name": "exact_match"},
        {"baseline": "off", "slo__tpot_ms": 20.0, "seed": 7},
    )
    assert found == [
        f"baseline: {WIDE}: off, shared",
        f"seed: {WIDE}: 0, 7",
        f"slo.ttft_ms: {WIDE}: 200.0, 300.0, null",
        f"slo.tpot_ms: {WIDE}: null, 20.0",
        f"quality: {WIDE}: none, exact_match, by_dataset",
    ]


def test_with_them_all_else_that_is_wrong(tmp_path: Path) -> None:
    found = said(
        tmp_path, {"seed": 1}, {"seed": 2, "server__args__port": 1}, {"seed": 2, "gama": 3}
    )
    assert found == [
        f"seed: {WIDE}: 1, 2",
        "seed=2 server__args__port=1: server.args.port: not yours to set here: set server.port",
        "seed=2 gama=3: gama: unknown key. Did you mean 'gamma'?",
    ]
