"""A small target model and the drafts trained for it, so that every sweep runs on a CPU.

Nothing in ``sweeper`` imports this package; it makes checkpoints that vLLM can serve.
"""
