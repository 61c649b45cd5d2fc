"""Every error a user can meet; each carries one string, so it survives a pickle.

SweeperError
├── UserError            what was asked for is wrong; exit status 2, nothing was started
│   ├── ConfigError      a setting: unknown, missing, of the wrong type, contradictory
│   ├── DatasetError     a prompt file: the line is named
│   └── StoreError       a sweep folder: not there, not writable, not one of ours
├── ServerError          a server did not start, died, or is not the one we asked for
│   └── IdentityError    something else answers where our server should be
├── RequestError         one request failed; becomes data in its record
└── PublishError         MLflow did not take a result; the files are complete
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence


class SweeperError(Exception):
    """Root of the family."""


class UserError(SweeperError):
    """What the user asked for cannot be done; nothing was started."""


class ConfigError(UserError):
    """A setting is unknown, missing, of the wrong type or contradicts another."""


class DatasetError(UserError):
    """A prompt file cannot be used; the message names file and line."""


class StoreError(UserError):
    """A sweep folder is missing, not writable or not one of ours."""


class ServerError(SweeperError):
    """A server did not start, died, or resolved other settings than asked for."""


class IdentityError(ServerError):
    """Something else answers at the address where our server should be."""


class RequestError(SweeperError):
    """One request failed."""


class PublishError(SweeperError):
    """The tracker did not take a result; the sweep's files are complete."""


def get_extra(extra: str, python: str = "python") -> str:
    """The command that installs an optional part of this project beside ``python``."""
    return f"in a clone of this project: {python} -m pip install '.[{extra}]'"


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """``". Did you mean 'gamma'?"``, else the list of what exists, else nothing."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        return f". Did you mean '{close[0]}'?"
    return f"; known: {', '.join(known)}" if known else ""
