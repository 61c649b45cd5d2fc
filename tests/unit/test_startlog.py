"""Sentences, runner and scheduler out of lines that vLLM 0.32 wrote."""

from __future__ import annotations

from sweeper.serve.startlog import kv_cache_tokens, root_cause, runner, scheduler, start_warnings

NGRAM_ON_CPU = """\
Triton is installed, but doesn't include CPU backend. Disabling Triton.
(APIServer pid=12509) WARNING 11-29 18:16:21 [vllm.py:1605] Async scheduling not supported with \
ngram-based speculative decoding and will be disabled.
(APIServer pid=12509) WARNING 11-29 18:16:21 [vllm.py:1703] Enforce eager set, disabling \
torch.compile, CUDAGraphs, and JIT kernel warmup. This is equivalent to setting -cc.mode=none
(APIServer pid=12509) WARNING 11-29 18:16:21 [vllm.py:2276] max_num_scheduled_tokens is set to \
2048 based on the speculative decoding settings. This may lead to suboptimal performance.
(APIServer pid=12509) WARNING 11-29 18:16:21 [vllm.py:725] Model Runner V2 requires Triton; using \
the V1 model runner instead.
(Worker pid=12662) WARNING 11-29 18:17:00 [cpu_worker.py:114] libtcmalloc is not found in \
LD_PRELOAD. For best performance, please follow the section `set LD_PRELOAD`
(Worker pid=12662) WARNING 11-29 18:17:00 [__init__.py:211] min_p and logit_bias parameters won't \
work with speculative decoding.
(EngineCore pid=12589) WARNING 11-29 18:17:08 [vllm.py:725] Model Runner V2 requires Triton; using \
the V1 model runner instead.
(EngineCore pid=12139) INFO 11-29 18:15:48 [kv_cache_utils.py:2327] CPU KV cache size: 46,592 \
tokens, Maximum concurrency for 2,048 tokens per request: 22.75x
"""
READY = "(APIServer pid=1) INFO:     Application startup complete.\n"


def test_a_start_with_ngram_on_a_cpu() -> None:
    assert start_warnings(NGRAM_ON_CPU) == (
        "async scheduling is off with ngram",
        "speculation limits a step to 2048 tokens (max_num_scheduled_tokens)",
        "V1 model runner: no Triton in this environment",
        "eager: neither compiled nor with CUDA graphs",
        "tcmalloc is not preloaded",
        "min_p and logit_bias do not work with speculation",
    )
    assert runner(NGRAM_ON_CPU) == "V1"
    assert scheduler(NGRAM_ON_CPU) == "sync"
    assert kv_cache_tokens(NGRAM_ON_CPU) == 46592


def test_what_is_said_after_the_start_does_not_count() -> None:
    assert start_warnings(READY + NGRAM_ON_CPU) == ()
    assert kv_cache_tokens(READY + NGRAM_ON_CPU) is None


def test_the_second_runner_and_the_first_as_second_choice() -> None:
    assert runner("INFO [gpu_worker.py:518] Using V2 Model Runner\n" + READY) == "V2"
    reluctant = "Model Runner V2 does not yet support suffix; using the V1 model runner instead.\n"
    assert runner(reluctant) == "V1"
    assert start_warnings(reluctant) == ("V1 model runner: V2 does not support suffix",)
    assert runner("") is None
    assert scheduler(READY) is None


def test_a_changed_method_and_a_gamma_of_vllms_own() -> None:
    assert start_warnings(
        "method `deepseek_mtp` is deprecated and replaced with mtp.\n"
        "Defaulted num_speculative_tokens to 24 for suffix decoding.\n"
        "Async scheduling is not compatible with disable_padded_drafter_batch=True and will be "
        "disabled.\n"
    ) == (
        "async scheduling is not compatible with disable_padded_drafter_batch=True and will be "
        "disabled",
        "method deepseek_mtp is now called mtp",
        "gamma was left to vLLM, which took 24",
    )


def test_a_missing_openmp_is_said_once_with_its_weight() -> None:
    said = start_warnings(
        "libiomp is not found in LD_PRELOAD.\n"
        "Speculative decoding on CPU without Intel OpenMP in LD_PRELOAD will cause significant "
        "performance loss.\n"
    )
    assert said == (
        "Intel OpenMP is not preloaded: speculation on this CPU loses much speed",
        "Intel OpenMP is not preloaded",
    )


def test_a_workaround_in_force() -> None:
    line = "sweeper: work-around vllm-55005 in force (pid {})\n"
    assert start_warnings(line.format(1) + line.format(2)) == (
        "work-around vllm-55005 is in force",
    )


def test_the_first_process_that_failed_says_why() -> None:
    worker = "(VllmWorker-0 pid=63) ERROR 11-29 22:40:43 [multiproc_executor.py:953]"
    log = "\n".join(
        (
            "(APIServer pid=55) INFO 11-29 22:39:53 [api.py:1] ValueError: not an error",
            f"{worker}     raise ValueError(",
            f"{worker} ValueError: Available memory on node 0 (16.17/23.59 GiB) is not enough",
            "(EngineCore pid=60) ERROR 11-29 22:40:44 [core.py:9] RuntimeError: a worker died",
            "RuntimeError: Engine core initialization failed. See root cause above.",
        )
    )
    assert root_cause(log) == (
        "ValueError: Available memory on node 0 (16.17/23.59 GiB) is not enough"
    )
    assert root_cause("RuntimeError: no memory\n") == ""
