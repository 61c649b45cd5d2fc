"""A weight sync under a draft that stays: acceptance by policy version, on real vLLM.

    python -m demo.policy                                              # about a quarter of an hour
    python -m demo.policy --method ngram --moved outputs/policy/moved  # the same two policies

One server, three versions of the policy: the target; the target after some steps of training on its
own rollouts (``demo.moved``), its weights loaded over the old ones as a trainer does it; and the
target again. The draft is never touched. Ends with ``python -m sweeper.rollout`` on the log, and
with its exit status: 1 says that acceptance collapsed.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import httpx

from demo.build import build_draft, build_head
from demo.heldout import HELDOUT
from demo.moved import Line, build_moved
from demo.target import build_target
from sweeper.drive.rollout import Sample, body_of, send_batch
from sweeper.measure.counters import Counters, parse
from sweeper.rollout import RolloutBatch, RolloutLog
from sweeper.rollout.__main__ import main as by_version
from sweeper.serve.session import Session, serve
from sweeper.store import ServerFolder
from sweeper.values import Sampling, ServerSpec

DRAFTS = {"draft_model": build_draft, "eagle3": build_head}
SAMPLING = Sampling(
    name="rollout", temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, presence_penalty=0.0,
    frequency_penalty=0.0, repetition_penalty=1.0, seed=0, max_tokens=48, n=4,
)  # fmt: skip
A_BATCH = 4  # prompts


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollouts:
    """What trainer and server share: prompts as token ids, and the log."""

    session: Session
    prompts: tuple[tuple[int, ...], ...]
    log: RolloutLog

    def of(self, version: str) -> Iterator[tuple[tuple[int, ...], Sample]]:
        """Every prompt's samples from the weights that are served now; logged batch by batch."""
        for number, at in enumerate(range(0, len(self.prompts), A_BATCH)):
            some = self.prompts[at : at + A_BATCH]
            batch, samples = self._batch(some, version, number)
            self.log.append(batch)
            if batch.error:
                raise SystemExit(f"version {version}: batch {number} failed: {batch.error}")
            owners = (prompt for prompt in some for _ in range(SAMPLING.n))
            yield from zip(owners, samples, strict=True)

    def _batch(
        self, some: Sequence[tuple[int, ...]], version: str, number: int
    ) -> tuple[RolloutBatch, tuple[Sample, ...]]:
        end, before = self.session.endpoint, _counters(self.session)
        answer = send_batch(
            end.base_url,
            end.api_key,
            "completions",
            body_of("completions", end.model, some, replace(SAMPLING, seed=number)),
            sequences=len(some) * SAMPLING.n,
            timeout_s=900.0,
            poll_s=0.5,
            origin_ns=time.perf_counter_ns(),
        )
        change = _counters(self.session).since(before)
        if change is None:
            raise SystemExit("the server was restarted")
        return RolloutBatch(
            policy_version=version,
            batch=number,
            prompts=len(some),
            sequences=len(answer.sequences),
            seconds=answer.seconds,
            tokens=sum(len(sample.token_ids) for sample in answer.sequences),
            drafts=int(change.verify_steps or 0),
            drafted=int(change.drafted or 0),
            accepted=int(change.accepted or 0),
            decode_steps=int(change.decode_steps or 0),
            error=answer.error,
        ), answer.sequences


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    folder = Path(arguments.folder) / time.strftime("%Y-%m-%d-%H%M%S")
    folder.mkdir(parents=True)
    log = RolloutLog(folder / "rollouts.jsonl")
    with serve(_spec(arguments.method, arguments.gamma), ServerFolder(folder)) as session:
        print(f"server ready after {session.start_s:.0f} s", flush=True)
        chats = ({"messages": [{"role": "user", "content": held.text}]} for held in HELDOUT)
        prompts = tuple(map(session.endpoint.tokenize, chats))[: arguments.prompts]
        rollouts = Rollouts(session=session, prompts=prompts, log=log)
        first = _show("0", rollouts)
        moved = arguments.moved or build_moved(
            folder / "moved", list(_in_capitals(session, first)), arguments.steps
        )
        for version, weights in (("1", moved), ("2", build_target())):
            _load(session, weights)
            _show(version, rollouts)
    print("$", shlex.join(["python", "-m", "sweeper.rollout", str(log.path)]), flush=True)
    return by_version([str(log.path)])


def _show(version: str, rollouts: Rollouts) -> list[tuple[tuple[int, ...], Sample]]:
    found = list(rollouts.of(version))
    print(f"version {version}: {found[0][1].text!r}", flush=True)
    return found


def _spec(method: str, gamma: int) -> ServerSpec:
    config: dict[str, str | int] = {"method": method, "num_speculative_tokens": gamma}
    config |= {"model": str(DRAFTS[method]())} if method in DRAFTS else {}
    config |= {"prompt_lookup_min": 2, "prompt_lookup_max": 4} if method == "ngram" else {}
    return ServerSpec(
        kind="vllm",
        command=(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
        model=str(build_target()),
        speculative_config=json.dumps(config, sort_keys=True),
        args=("--enforce-eager", "--max-model-len", "2048"),
        env=(("VLLM_CPU_KVCACHE_SPACE", "1"),),
        workarounds=("vllm-55005",),
        start_timeout_s=900.0,
    )


def _counters(session: Session) -> Counters:
    return parse(session.endpoint.metrics() or "")


def _in_capitals(
    session: Session, samples: Sequence[tuple[tuple[int, ...], Sample]]
) -> Iterator[Line]:
    for prompt, sample in samples:
        if text := sample.text.strip():
            yield prompt, session.endpoint.tokenize({"prompt": text.upper()})


def _load(session: Session, weights: Path) -> None:
    """Over the target's weights, and over nothing else; then nothing of the old ones is cached."""
    end = session.endpoint
    body = {"method": "reload_weights", "kwargs": {"weights_path": str(weights)}}
    key = {"Authorization": f"Bearer {end.api_key}"}
    answer = httpx.post(f"{end.base_url}/collective_rpc", json=body, headers=key, timeout=600.0)
    answer.raise_for_status()
    if not end.reset_prefix_cache():
        raise SystemExit("the prefix cache of the old weights could not be emptied")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m demo.policy",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--method", default="draft_model", choices=[*DRAFTS, "ngram", "suffix"])
    parser.add_argument("--gamma", type=int, default=2)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--steps", type=int, default=24, help="of training for version 1")
    parser.add_argument("--moved", type=Path, help="version 1 from an earlier run: no training")
    parser.add_argument("--folder", default="outputs/policy")
    return parser


if __name__ == "__main__":
    sys.exit(main())
