"""Where the program's own messages go while a sweep is watched."""

from __future__ import annotations

import logging

from rich.console import Console
from rich.logging import RichHandler


def log_to(console: Console, level: str) -> None:
    """Messages of the program from ``level`` on: above the live view, else on standard error."""
    root = logging.getLogger()
    root.setLevel(level.upper())
    for chatty in ("httpx", "httpcore", "asyncio", "urllib3"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))
    if console.is_terminal:
        handler = RichHandler(console=console, show_path=False, log_time_format="%H:%M:%S")
        root.handlers = [handler]
