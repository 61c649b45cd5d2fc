"""Known defects of vLLM that make a measurement wrong or end a server, as a table.

A defect with a condition is one the plan can see. The others stand here so that whoever meets a
strange figure finds its cause; ``docs/compatibility.md`` shows them all.
"""

from __future__ import annotations

from sweeper.plan.defect import (
    Defect,
    block_draft_cached,
    block_ignored,
    fake_step,
    min_p,
    no_proposer,
    sampled_on_cpu,
    schedule_with_replicas,
    shared_tree,
    suffix_with_schedule,
    synthetic_on_cpu,
    too_long,
    top_k_alone_on_cpu,
)

DEFECTS: tuple[Defect, ...] = (
    Defect(
        id="vllm-55005",
        seen=("0.27.1", "0.32.0"),
        severity="refuse",
        condition=sampled_on_cpu,
        consequence=(
            "sampling.temperature={point.sampling.temperature:g} with speculation is wrong on "
            "vLLM's CPU build: drafts are rejected against uninitialised sampling parameters; "
            "use sampling=greedy here, or a GPU, or server.workarounds=[vllm-55005]"
        ),
        reference="vllm#55005",
        workaround=True,
    ),
    Defect(
        id="suffix-schedule",
        seen=("0.32.0",),
        severity="refuse",
        condition=suffix_with_schedule,
        consequence=(
            "suffix with a schedule by batch size ends the server at the first request; "
            "remove method.speculative.num_speculative_tokens_per_batch_size"
        ),
        reference="assertion in vllm/v1/spec_decode/suffix_decoding.py",
    ),
    Defect(
        id="schedule-data-parallel",
        seen=("0.32.0",),
        severity="refuse",
        condition=schedule_with_replicas,
        consequence=(
            "vLLM drops a schedule by batch size when data_parallel_size is above 1; "
            "remove one of the two"
        ),
        reference="warning in vllm/config/vllm.py",
    ),
    Defect(
        id="block-rejection-v1",
        seen=("0.32.0",),
        severity="refuse",
        condition=block_ignored,
        consequence=(
            "rejection_sample_method=block is ignored by the V1 model runner, which vLLM takes "
            "here; the point would be the standard method under another name; remove it"
        ),
        reference="vllm/v1/sample/rejection_sampler.py reads only synthetic",
    ),
    Defect(
        id="synthetic-cpu",
        seen=("0.32.0",),
        severity="refuse",
        condition=synthetic_on_cpu,
        consequence=("synthetic acceptance ends a CPU server at the first drafted step; use a GPU"),
        reference="assertion in vllm/utils/cpu_triton_utils.py",
    ),
    Defect(
        id="mlp-speculator-v1",
        seen=("0.32.0",),
        severity="refuse",
        condition=no_proposer,
        consequence=(
            "mlp_speculator passes vLLM's checks, but no model runner of vLLM 0.32 has it; "
            "use another method"
        ),
        reference="vllm/v1/worker/gpu_model_runner.py: Unknown speculative decoding method",
    ),
    Defect(
        id="gamma-128-v1",
        seen=("0.32.0",),
        severity="refuse",
        condition=too_long,
        consequence=(
            "gamma={point.gamma}: the V1 model runner, which vLLM takes here, "
            "verifies at most 128 draft tokens a step"
        ),
        reference="assertion in vllm/v1/sample/rejection_sampler.py",
    ),
    Defect(
        id="cpu-top-k-alone",
        seen=("0.32.0",),
        severity="refuse",
        condition=top_k_alone_on_cpu,
        consequence=(
            "sampling.top_k={point.sampling.top_k} without top_p ends the engine of vLLM's CPU "
            "build at the first step without a draft; set sampling.top_p=0.999 or less beside it, "
            "or use a GPU"
        ),
        reference="vllm/v1/sample/ops/topk_topp_sampler.py",
    ),
    Defect(
        id="min-p",
        seen=("0.32.0",),
        severity="refuse",
        condition=min_p,
        consequence=(
            "sampling.min_p={point.sampling.min_p:g}: vLLM refuses min_p above 0 with speculation; "
            "set sampling.min_p=0.0"
        ),
        reference="vllm/sampling_params.py",
    ),
    Defect(
        id="vllm-50518",
        seen=("0.32.0",),
        severity="warn",
        condition=fake_step,
        consequence=(
            "a repeated prompt of a length one above a multiple of the cache's block gets one "
            "verify step whose drafts are never accepted; acceptance of repeats is a little low "
            "(+server.args.enable_prefix_caching=false avoids it)"
        ),
        reference="vllm#50518",
    ),
    Defect(
        id="suffix-tree",
        seen=("0.32.0",),
        severity="warn",
        condition=shared_tree,
        consequence=(
            "the suffix tree learns from every earlier request and no reset empties it; "
            "this point depends on the order of prompts and on the points before it"
        ),
        reference="vllm/v1/spec_decode/suffix_decoding.py",
    ),
    Defect(
        id="vllm-47926",
        seen=(),
        severity="warn",
        condition=block_draft_cached,
        consequence=(
            "dflash and dspark draft worse after a hit in the prefix cache; "
            "measure them with +server.args.enable_prefix_caching=false"
        ),
        reference="vllm#47926",
    ),
    Defect(
        id="stop-string-metrics",
        seen=("0.32.0",),
        severity="note",
        consequence=(
            "a request that ends on a stop string, or has n above 1, reports no speculation counts"
        ),
        reference="vllm/v1/core/sched/scheduler.py",
    ),
    Defect(
        id="accepted-past-end",
        seen=("0.32.0",),
        severity="note",
        consequence=(
            "accepted draft tokens past the end of the answer are counted as accepted but never "
            "sent; rates of short answers are a little high, tokens per step are not concerned"
        ),
        reference="vllm#56101",
    ),
    Defect(
        id="zero-draft-steps",
        seen=("0.32.0",),
        severity="note",
        consequence=(
            "steps without a draft are left out of the mean acceptance length; "
            "tokens per decode step counts them"
        ),
        reference="vllm PR 24344",
    ),
    Defect(
        id="exit-0",
        seen=("0.32.0",),
        severity="note",
        consequence="a server whose engine died exits with status 0; any exit counts as a failure",
        reference="met with 0.32.0",
    ),
    Defect(
        id="sigterm-open-stream",
        seen=("0.32.0",),
        severity="note",
        consequence="SIGTERM with a stream open never ends the server; it is killed after a time",
        reference="vllm --shutdown-timeout 0",
    ),
    Defect(
        id="orphans",
        seen=("0.32.0",),
        severity="note",
        consequence="killing the API server leaves engine and worker alive; the guard removes them",
        reference="met with 0.32.0",
    ),
    Defect(
        id="cpu-seed-parts",
        seen=("0.32.0",),
        severity="note",
        consequence=(
            "at a temperature with a seed, a prompt that is read in several steps ends a CPU "
            "engine; keep the prompt tokens that arrive together under "
            "server.args.max_num_batched_tokens (2048 unless set)"
        ),
        reference="RuntimeError: CPU Generator does not use offset",
    ),
    Defect(
        id="fingerprint",
        seen=("0.32.0",),
        severity="note",
        consequence=(
            "system_fingerprint is the same for other gammas, lookup windows and synthetic "
            "acceptance; it identifies nothing here"
        ),
        reference="vllm/config/speculative.py: compute_hash",
    ),
)
