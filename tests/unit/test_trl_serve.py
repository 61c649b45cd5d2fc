"""TRL's server in its three eras: which flag, which refusal; nothing here needs TRL."""

from __future__ import annotations

import argparse
import ast
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sweeper.config import this_python
from sweeper.serve import trl_serve
from sweeper.serve.installed import Installed, refusal
from tests.unit.sweeps import point

SPEC = '{"method": "ngram", "model": "a b"}'
OURS = argparse.Namespace(
    model="m",
    host="127.0.0.1",
    port=81,
    served_model_name="n",
    speculative_config=SPEC,
    per_request_spec_decode_metrics="detailed",
    enable_per_request_metrics=True,
)
OWN = ["--model", "m", "--host", "127.0.0.1", "--port", "81"]


@pytest.mark.parametrize("version", ["1.11.0", "1.16.0", "2.0.0.dev0"])
def test_from_1_11_on_it_is_vllms_own_server_and_gets_every_flag(version: str) -> None:
    assert trl_serve.trl_flags(OURS, version, ["--enforce-eager"]) == [
        *OWN,
        *("--speculative_config", SPEC),
        *("--per-request-spec-decode-metrics", "detailed", "--enable-per-request-metrics"),
        *("--served-model-name", "n", "--enforce-eager"),
    ]


@pytest.mark.parametrize("version", ["1.3.0", "1.10.2"])
def test_from_1_3_to_1_10_its_own_server_takes_the_json_as_one_item(version: str) -> None:
    flags = trl_serve.trl_flags(OURS, version, ["--enforce-eager"])
    assert flags == [*OWN, "--speculative_config", SPEC, "--enforce-eager"]
    assert trl_serve.refusal(version, SPEC, wrapper=False) == ""


@pytest.mark.parametrize("version", ["0.29.1", "1.2.0"])
def test_before_that_speculation_is_refused_or_added_by_the_wrapper(version: str) -> None:
    assert trl_serve.refusal(version, SPEC, wrapper=False) == (
        f"TRL {version}: its vllm-serve passes no speculative_config to vLLM, so nothing would be "
        f"drafted; use TRL 1.3 or newer, or server=rollout, or have it added: "
        f"server.command=[{sys.executable},trl_serve.py,--wrapper]"
    )
    assert trl_serve.refusal(version, SPEC, wrapper=True) == ""
    assert trl_serve.refusal(version, None, wrapper=False) == ""
    assert trl_serve.trl_flags(OURS, version, []) == OWN


def test_the_launcher_is_found_and_needs_no_sweeper() -> None:
    python, launcher, more = this_python(("python", "trl_serve.py", "--wrapper"))
    assert (python, more) == (sys.executable, "--wrapper")
    tree = ast.parse(Path(launcher).read_text())
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= set(sys.stdlib_module_names)


@pytest.mark.parametrize(("trl", "refused"), [("1.2.0", True), ("1.3.0", False), (None, False)])
def test_an_old_trl_is_refused_before_anything_starts(trl: str | None, refused: bool) -> None:
    here = Installed(python="/p/python", vllm="0.32.0", cpu=False, arctic_inference=None, trl=trl)
    asked = point("ngram", 4)
    launched = replace(asked.server, command=("/p/python", "/s/trl_serve.py"))
    why = refusal(replace(asked, server=launched), here)
    assert why.startswith(f"TRL {trl}: its vllm-serve passes no") is refused
    assert bool(why) is refused
    assert "server.command=[/p/python,trl_serve.py,--wrapper]" in why or not refused
    wrapped = replace(launched, command=(*launched.command, "--wrapper"))
    assert refusal(replace(asked, server=wrapped), here) == ""
    assert refusal(asked, here) == ""
