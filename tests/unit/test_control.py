"""Synthetic acceptance by the config a server resolved, whoever started it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sweeper.measure.control import refused
from sweeper.values import Control
from tests.unit.sweeps import point

STANDARD = {"method": "ngram", "rejection_sample_method": "standard"}
SYNTHETIC = STANDARD | {"rejection_sample_method": "synthetic"}
NOT_ASKED_FOR = (
    "the server resolved rejection_sample_method=synthetic: drafts are accepted by a fixed rate, "
    "which is no measurement of them; serve without it, or measure a control with control=synthetic"
)
NOT_ONE = (
    "control=synthetic: the server resolved rejection_sample_method=standard and verifies its "
    "drafts; measure it with control=none"
)


@pytest.mark.parametrize(
    ("control", "resolved", "reason"),
    [
        ("none", STANDARD, ""),
        ("none", SYNTHETIC, NOT_ASKED_FOR),
        ("synthetic", SYNTHETIC, ""),
        ("synthetic", STANDARD, NOT_ONE),
        ("none", None, ""),
        ("synthetic", None, ""),  # its baseline
    ],
)
def test_what_is_resolved_must_be_what_was_asked_for(
    control: Control, resolved: dict[str, Any] | None, reason: str
) -> None:
    asked = replace(point("ngram", 4), control=control)
    assert refused(asked, {"vllm_config": {"speculative_config": resolved}}) == reason


def test_a_server_that_says_nothing_is_not_refused() -> None:
    assert refused(point("ngram", 4), None) == ""
