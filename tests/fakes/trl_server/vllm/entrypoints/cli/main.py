"""``vllm serve``, which is the stand-in for it."""

from __future__ import annotations

from tests.fakes import engine

if __name__ == "__main__":
    engine.main()
