"""Decide, with evidence, how to run speculative decoding on vLLM servers."""

__version__ = "0.1.0"
