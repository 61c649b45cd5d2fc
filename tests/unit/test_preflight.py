"""vLLM's messages as one line, and who is asked at all."""

from __future__ import annotations

import sys

from sweeper.serve.preflight import one_line, preflight
from sweeper.values import ServerSpec


def problem(message: str, of: str = "SpeculativeConfig", at: str = "") -> dict[str, str]:
    return {"of": of, "at": at, "message": message}


def test_the_useful_line_of_a_validation_error() -> None:
    message = "Value error, prompt_lookup_min=5 must be <= prompt_lookup_max=2"
    assert one_line([problem(message)]) == "prompt_lookup_min=5 must be <= prompt_lookup_max=2"


def test_fields_are_called_as_they_are_set_here() -> None:
    assert one_line(
        [
            problem("Unexpected keyword argument", at="disable_by_batch_size"),
            problem("Input should be greater than 0", at="num_speculative_tokens"),
        ]
    ) == (
        "method.speculative.disable_by_batch_size: unexpected keyword argument; "
        "method.speculative.num_speculative_tokens: input should be greater than 0"
    )
    assert one_line([problem("too big", of="ModelConfig", at="max_model_len")]) == (
        "max_model_len: too big"
    )


def test_many_lines_become_one_and_a_long_one_is_cut() -> None:
    assert one_line([problem("a\n  b\n\nc")]) == "a b c"
    assert len(one_line([problem("word " * 200)])) == 300
    assert one_line([problem("same"), problem("same")]) == "same"
    assert one_line([problem("", of="AssertionError")]) == "AssertionError"
    assert one_line([]) == ""


def test_a_command_that_is_not_vllms_is_not_asked() -> None:
    def server(*command: str, kind: str = "vllm") -> ServerSpec:
        assert kind in ("vllm", "external")
        external = kind == "external"
        return ServerSpec(kind="external" if external else "vllm", command=command, model="m")

    wrapped = server(sys.executable, "wrapper.py")
    elsewhere = server("/no/such/python", "-m", "vllm.entrypoints.openai.api_server")
    found = preflight([wrapped, wrapped, elsewhere, server(kind="external")])
    assert found.findings == {}
    assert found.unasked == (
        f"{sys.executable} wrapper.py is not vLLM's own command",
        "/no/such/python is not a Python of this machine",
    )
