"""Prompt files: the two shipped ones and those of users, read by one loader."""

from __future__ import annotations

from sweeper.drive.datasets.jsonl import describe, digest, read_prompts, shipped

__all__ = ["describe", "digest", "read_prompts", "shipped"]
