"""Prompts: the shipped ones, those of users, and well-known benchmarks from their files."""

from __future__ import annotations

from sweeper.drive.datasets.jsonl import digest, read_prompts, shipped
from sweeper.drive.datasets.sources import WHERE, describe, prompts_of

__all__ = ["WHERE", "describe", "digest", "prompts_of", "read_prompts", "shipped"]
