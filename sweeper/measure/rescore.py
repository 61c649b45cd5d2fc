"""Do returned logprobs agree with a re-score? Importance sampling weighs every token by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sweeper.drive.rollout import Sample
from sweeper.errors import RequestError
from sweeper.measure.batches import Tokens
from sweeper.measure.measurement import Measurement
from sweeper.values import Json, RolloutApi, Sampling

UNLIKE = "are not those of the tokens that were sent"


def rescored(one: Measurement, kept: Sequence[tuple[Tokens, Sample]]) -> dict[str, Json]:
    """Returned logprobs against those the same server gives the same tokens as a prompt."""
    load, sampling = one.planned.point.load, one.planned.point.sampling
    if reason := _not_scorable(sampling):
        return {"reason": reason}
    some = [(ids, sample) for ids, sample in kept if sample.token_ids][: load.rescore]
    if not some:
        return {"reason": "load.rescore is 0" if not load.rescore else "no sequence came back"}
    if any(sample.logprobs is None for _, sample in some):
        return {"reason": "the server returned no logprobs"}
    differences: list[float] = []
    for ids, sample in some:
        try:
            again = _SCORED[one.session.api](one, ids, sample.token_ids)
        except RequestError as problem:
            return {"reason": f"the re-score failed: {problem}"}
        if len(sample.logprobs or ()) != len(again):
            return {"reason": f"{len(sample.logprobs or ())} logprobs came for {len(again)} tokens"}
        pairs = zip(sample.logprobs or (), again, strict=True)
        differences += [returned - scored for returned, scored in pairs]
    return {
        "sequences": len(some),
        "tokens": len(differences),
        "mean_difference": sum(differences) / len(differences),
        "mean_absolute_difference": sum(map(abs, differences)) / len(differences),
        "largest_difference": max(map(abs, differences)),
        "reason": "",
    }


def _not_scorable(sampling: Sampling) -> str:
    """A prompt's logprobs are those of the model itself, before any sampling field."""
    plain = {"temperature": 1.0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0}
    plain |= {"presence_penalty": 0.0, "frequency_penalty": 0.0}
    changed = [name for name, value in plain.items() if getattr(sampling, name) != value]
    changed += ["top_k"] if sampling.top_k > 0 else []
    if not changed:
        return ""
    return (
        f"a re-score is of the model's own distribution, and sampling.{changed[0]}="
        f"{getattr(sampling, changed[0]):g} changes the one that was sampled from"
    )


def _by_vllm(one: Measurement, prompt: Tokens, completion: Tokens) -> list[float]:
    body: dict[str, Json] = {"prompt": [*prompt, *completion], "max_tokens": 1, "temperature": 1.0}
    timeout_s = one.planned.point.load.request_timeout_s
    answer = one.session.endpoint.complete(body | {"prompt_logprobs": 0}, timeout_s)
    found = answer["choices"][0].get("prompt_logprobs")
    if found is None:
        raise RequestError("the server returned no prompt_logprobs")
    positions = found[len(prompt) :]
    try:
        return [float(at[str(t)]["logprob"]) for at, t in zip(positions, completion, strict=True)]
    except (KeyError, TypeError, ValueError) as problem:
        raise RequestError(f"prompt_logprobs {UNLIKE}: {problem!r}") from None


def _by_trl(one: Measurement, prompt: Tokens, completion: Tokens) -> list[float]:
    """TRL's own server scores for distillation, with the likeliest token beside each."""
    body: dict[str, Json] = {
        "sequences": [[*prompt, *completion]],
        "prompt_lengths": [len(prompt)],
        "top_logprobs": 1,
        "temperature": 1.0,
    }
    timeout_s = one.planned.point.load.request_timeout_s
    answer = one.session.endpoint.complete(body, timeout_s, "/get_sequence_logprobs/")
    try:
        (values,), (tokens,) = answer["logprobs"], answer["logprob_token_ids"]
        at = zip(tokens, values, completion, strict=True)
        return [float(logprobs[ids.index(token)]) for ids, logprobs, token in at]
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise RequestError(f"sequence logprobs {UNLIKE}: {problem!r}") from None


_SCORED: dict[RolloutApi, Callable[[Measurement, Tokens, Tokens], list[float]]] = {
    "completions": _by_vllm,
    "generate": _by_trl,
}
