"""Synthetic acceptance on a running server that was never asked for it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from tests.e2e.running import (
    ENGINE,
    command,
    environment,
    only_sweep,
    read,
    run,
    served,
)

LOOKUP = {"prompt_lookup_min": 2, "prompt_lookup_max": 4}
ASKED = {"method": "ngram", "num_speculative_tokens": 2} | LOOKUP


@contextmanager
def synthetic_server(tmp_path: Path) -> Iterator[list[str]]:
    """It resolves its acceptance to be synthetic; the command that attaches to it."""
    engine = [sys.executable, str(ENGINE), "--model", "m"]
    engine += ["--speculative-config", json.dumps(ASKED), "--served-model-name", "mine"]
    engine += ["--per-request-spec-decode-metrics", "detailed"]
    argv = command("server=external", "method=ngram", "gamma=2", "dataset.limit=2",
                   outputs=tmp_path)  # fmt: skip
    argv = [a for a in argv if not a.startswith("server.command")]
    env = environment({"synthetic": True}) | {"VLLM_SERVER_DEV_MODE": "1"}
    with served(engine, env) as (_, url):
        yield [*argv, f"server.base_url={url}"]


def test_a_synthetic_server_is_refused_or_its_rows_say_so_everywhere(tmp_path: Path) -> None:
    with synthetic_server(tmp_path) as argv:
        refused = run(argv)
        folder = only_sweep(tmp_path)
        _, results = read(folder)
        (tmp_path / "out").rename(tmp_path / "refused")
        control = run([*argv, "control=synthetic"])
    assert refused.status == 1
    assert results[0].status == "invalid" and results[0].requests == 0
    assert "the server resolved rejection_sample_method=synthetic" in results[0].reason
    assert "control=synthetic" in refused.out

    assert control.status == 0, control.out + control.err
    folder = only_sweep(tmp_path)
    table = pd.read_csv(folder.points_csv)
    assert table["synthetic"].tolist() == [True] and table["verdict"].isna().all()
    assert "ngram γ=2 SYNTHETIC" in control.out
    assert "over all: SYNTHETIC: a control, not evidence; no verdict is given" in control.out
    for path in (folder.page, folder.report / "report.md"):
        assert "SYNTHETIC rows" in path.read_text() and "ngram γ=2 SYNTHETIC" in path.read_text()
    told = json.loads((folder.report / "recommended.json").read_text())
    assert told["synthetic"] is True and told["overall"]["recommendation"] is None
