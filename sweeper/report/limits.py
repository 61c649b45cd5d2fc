"""Texts and times as MLflow takes them."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256

from sweeper.values import Json

LONGEST_PARAM = 250
"""What every MLflow server takes; some refuse more, some cut it off without a word."""
LONGEST_TAG = 500


def milliseconds(stamp: str, otherwise: int = 0) -> int:
    """Of an ISO 8601 stamp; one without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return otherwise
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


def pairs(section: Json) -> str:
    if not isinstance(section, dict):
        return ""
    return ", ".join(f"{k}={v}" for k, v in section.items() if not isinstance(v, dict | list))


def cut(text: str, longest: int) -> str:
    """Short enough, and still different from another long text; artefacts hold all of it."""
    if len(text) <= longest:
        return text
    digest = f"… sha256:{sha256(text.encode()).hexdigest()[:16]}"
    return text[: longest - len(digest)] + digest
