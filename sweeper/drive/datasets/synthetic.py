"""Random tokens: prompts of an exact length that nobody wrote, for load and memory, not for drafts.

Acceptance on them means nothing: real drafters are made for text.
"""

from __future__ import annotations

import random
from pathlib import Path

from sweeper.errors import DatasetError
from sweeper.plan.tokens import ordinary_ids
from sweeper.values import Prompt


def random_prompts(tokenizer: Path, *, count: int, input_len: int, seed: int) -> tuple[Prompt, ...]:
    """``count`` prompts of ``input_len`` ids each, drawn evenly from the ordinary vocabulary.

    They are sent as ids, so the server counts exactly ``input_len`` tokens.
    """
    known = ordinary_ids(tokenizer)
    if not known:
        raise DatasetError(
            f"{tokenizer}: no readable tokenizer.json; dataset=random draws from the target's "
            "vocabulary, so give the target as a checkpoint folder or have it in the hub's cache"
        )
    dice = random.Random(f"{seed}/{input_len}")
    return tuple(
        Prompt(
            id=f"random-{number:04d}",
            category="synthetic",
            token_ids=tuple(dice.choices(known, k=input_len)),
        )
        for number in range(count)
    )
