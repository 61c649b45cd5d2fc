"""What a server's log says about the way it runs: the only place some of it is said."""

from __future__ import annotations

import re

_READY = "Application startup complete"
_SYNC = re.compile(r"Async scheduling .*(?:will be disabled|is disabled)")
_KV_CACHE = re.compile(r"KV cache size: ([\d,]+) tokens")

_RULES: tuple[tuple[str, str], ...] = (
    (r"Async scheduling not supported with (\S+)-based", "async scheduling is off with {0}"),
    (
        r"Async scheduling ((?:is not compatible|will be disabled|is disabled)[^.\n]*)",
        "async scheduling {0}",
    ),
    (
        r"max_num_scheduled_tokens is set to (\d+) based on",
        "speculation limits a step to {0} tokens (max_num_scheduled_tokens)",
    ),
    (r"Model Runner V2 requires Triton", "V1 model runner: no Triton in this environment"),
    (
        r"Model Runner V2 does not yet support (.+?); using the V1",
        "V1 model runner: V2 does not support {0}",
    ),
    (r"Enforce eager set", "eager: neither compiled nor with CUDA graphs"),
    (
        r"Speculative decoding on CPU without Intel OpenMP",
        "Intel OpenMP is not preloaded: speculation on this CPU loses much speed",
    ),
    (r"libiomp\S* is not found in LD_PRELOAD", "Intel OpenMP is not preloaded"),
    (r"libtcmalloc\S* is not found in LD_PRELOAD", "tcmalloc is not preloaded"),
    (
        r"min_p and logit_bias parameters won't work",
        "min_p and logit_bias do not work with speculation",
    ),
    (r"method `(\w+)` is deprecated and replaced with (\w+)", "method {0} is now called {1}"),
    (r"Defaulted num_speculative_tokens to (\d+)", "gamma was left to vLLM, which took {0}"),
    (
        r"Dynamic speculative decoding is not supported with data",
        "the schedule by batch size is off: data parallel",
    ),
    (
        r"Enabling num_speculative_tokens > 1 will run\s*multiple times",
        "one MTP layer drafts all tokens, which lowers acceptance",
    ),
    (r"(\w+) cannot currently be run with tp>1", "the draft ({0}) runs on one GPU"),
    (r"custom class-based proposer", "a proposer of your own, which vLLM calls experimental"),
    (r"sweeper: work-around (\S+) (in force|not needed here)", "work-around {0} is {1}"),
)


_RAISED = re.compile(r"^\(.+?\) ERROR .+?\] ((?:\w+\.)*\w*(?:Error|Exception): .+)$", re.MULTILINE)


def root_cause(text: str) -> str:
    """The exception that the first process of an engine to fail gave as its reason, else empty.

    What comes after it in the log are the other processes that miss the first.
    """
    found = _RAISED.search(text)
    return found[1].strip() if found else ""


def start_warnings(text: str) -> tuple[str, ...]:
    """One short sentence for everything the start said that changes speed or meaning, no repeats.

    ``text`` is the server's log; what it says after it was ready does not count.
    """
    start = _start(text)
    found = []
    for pattern, sentence in _RULES:
        for match in re.finditer(pattern, start):
            found.append(sentence.format(*match.groups()))
    return tuple(dict.fromkeys(found))


def runner(text: str) -> str | None:
    """The model runner: vLLM names V2 when it takes it, and V1 only when that is second choice.

    ``None`` without a log, as for a server that was already running.
    """
    if not text:
        return None
    return "V2" if "Using V2 Model Runner" in _start(text) else "V1"


def scheduler(text: str) -> str | None:
    """``sync`` where the log says that async scheduling was switched off, else ``None``.

    ``/server_info`` knows more; the CPU build switches it off without a word.
    """
    return "sync" if _SYNC.search(_start(text)) else None


def kv_cache_tokens(text: str) -> int | None:
    """Tokens that fit into the KV cache; ``None`` where the log does not say."""
    found = _KV_CACHE.search(_start(text))
    return int(found[1].replace(",", "")) if found else None


def _start(text: str) -> str:
    return text.partition(_READY)[0]
