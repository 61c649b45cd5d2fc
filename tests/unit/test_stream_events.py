"""What a streamed body says, and when its events arrived."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sweeper.drive.events import Found, one_by_one, outline, read_stream

USAGE = {"prompt_tokens": 3, "completion_tokens": 4}
END = b"data: [DONE]\n\n"
BUSY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no fault."""


def event(value: Any, *, compact: bool = True) -> bytes:
    separators = (",", ":") if compact else None
    return b"data: " + json.dumps(value, separators=separators).encode() + b"\n\n"


def plain(text: str, reason: str | None = None, ids: list[int] | None = None) -> bytes:
    choice = {"index": 0, "text": text, "finish_reason": reason}
    return event({"id": "c", "choices": [choice | ({"token_ids": ids} if ids else {})]})


def chat(delta: dict[str, Any], reason: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return event({"id": "c", "choices": [choice]} | more)


def usage(**more: Any) -> bytes:
    return event({"id": "c", "choices": [], "usage": USAGE} | more)


def arrivals(parts: list[bytes]) -> tuple[list[int], list[int]]:
    """Event i arrives whole at ``100 + 10 i``."""
    sizes = [sum(map(len, parts[: i + 1])) for i in range(len(parts))]
    return [100 + 10 * i for i in range(len(parts))], sizes


def read(*parts: bytes) -> Any:
    return read_stream(b"".join(parts), *arrivals(list(parts)))


def test_tokens_come_from_usage_and_chunks_from_events() -> None:
    found = read(plain("a b", ids=[1, 2]), plain(" c d", "length", [3, 4]), usage(), END)
    assert found.error == ""
    assert found.chunks_ns == [100, 110]
    (choice,) = found.answer["choices"]
    assert choice == {"text": "a b c d", "token_ids": [1, 2, 3, 4], "finish_reason": "length"}
    assert found.answer["usage"] == USAGE


def test_the_role_alone_is_not_the_first_token() -> None:
    role = chat({"role": "assistant", "content": ""}, prompt_token_ids=[7, 8])
    found = read(role, chat({"content": "x"}), chat({"content": ""}, "stop"), usage(), END)
    assert found.chunks_ns == [110, 120]
    assert found.answer["prompt_token_ids"] == [7, 8]
    assert found.answer["choices"][0]["text"] == "x"


def test_a_finish_reason_of_its_own_is_still_part_of_the_answer() -> None:
    found = read(chat({"content": "x"}), chat({}, "stop"), usage(), END)
    assert found.chunks_ns == [100, 110]
    assert found.answer["choices"][0]["finish_reason"] == "stop"


def test_an_event_arrives_with_its_first_byte() -> None:
    parts = [plain("a"), plain("b", "stop"), usage(), END]
    body = b"".join(parts)
    inside = len(parts[0]) + 5
    found = read_stream(body, [1, 2, 3], [len(parts[0]), inside, len(body)])
    assert found.chunks_ns == [1, 2]
    together = read_stream(body, [1], [len(body)])
    assert together.chunks_ns == [1, 1]


def test_metrics_of_the_last_event_are_kept() -> None:
    metrics = {"speculative_decoding": {"num_spec_steps": 1}}
    assert read(plain("a", "stop"), usage(metrics=metrics), END).answer["metrics"] == metrics


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ([plain("a", "stop"), END], "no usage in the stream; tokens are not guessed"),
        ([plain("a"), usage()], "the stream ended without [DONE]"),
        (
            [plain("a"), plain("b")[:30]],
            'not a JSON object in the stream: {"id":"c","choices":[{"i',
        ),
        ([usage(), END], "the stream brought no tokens"),
        ([], "the stream ended without [DONE]"),
        (
            [plain("a"), event({"error": {"message": "engine died", "code": 500}}), END],
            "error event in the stream: engine died",
        ),
        (
            [plain("a"), event({"error": "no"}), plain("b"), usage(), END],
            "error event in the stream: no",
        ),
        ([plain("a"), event([1]), END], "not a JSON object in the stream: [1]"),
    ],
)
def test_a_stream_that_cannot_be_used_says_why(parts: list[bytes], error: str) -> None:
    assert read(*parts).error == error


def test_what_came_before_an_error_event_is_kept() -> None:
    found = read(plain("a"), event({"error": {"message": "x"}}), END)
    assert (found.chunks_ns, found.answer["choices"][0]["text"]) == ([100], "a")


def test_comments_and_line_ends_of_other_servers_do_not_matter() -> None:
    parts = [b": ping\n\n", plain("a"), b"event: x\n" + plain("b", "stop"), usage(), END]
    unix, dos = read(*parts), read(*(p.replace(b"\n", b"\r\n") for p in parts))
    assert unix.chunks_ns == dos.chunks_ns == [110, 120]
    assert unix.answer == dos.answer
    assert unix.error == dos.error == ""


TEXTS = st.lists(st.text(), min_size=1, max_size=6)


def asked(found: Found) -> tuple[Any, ...]:
    return found.starts, found.answer(), found.error


@BUSY
@given(texts=TEXTS, kind=st.sampled_from(["plain", "chat"]), ids=st.booleans())
def test_the_outline_reads_what_reading_every_event_reads(
    texts: list[str], kind: str, ids: bool
) -> None:
    last = len(texts) - 1
    parts = []
    for n, text in enumerate(texts):
        reason = "stop" if n == last else None
        if kind == "plain":
            parts.append(plain(text, reason, [n, n + 1] if ids else None))
        else:
            parts.append(chat({"content": text}, reason))
    body = b"".join([*parts, usage(), END])
    quick = outline(body)
    assert quick is not None
    assert asked(quick) == asked(one_by_one(body))
    assert quick.text == "".join(texts)


@BUSY
@given(
    st.lists(
        st.sampled_from([
            plain("a"), plain('"text":"', "stop"), chat({"content": "\\"}), chat({"role": "x"}),
            usage(), END, b": c\n\n", b"\n\n", b"data: {}\n\n", event({"error": "e"}),
            plain("é\n"), b'data: {"choices":[null]}\n\n',
        ]),
        max_size=7,
    )
)  # fmt: skip
@example([plain("a"), plain("b", "stop"), plain("c"), END])
def test_whatever_comes_the_outline_never_says_otherwise(parts: list[bytes]) -> None:
    body = b"".join(parts)
    quick = outline(body)
    assert quick is None or asked(quick) == asked(one_by_one(body))
