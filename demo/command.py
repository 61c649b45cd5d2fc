"""Commands that take nothing but ``--help``: a word that would be ignored is refused."""

from __future__ import annotations

import argparse


def no_arguments(description: str | None) -> None:
    """Ends the program for ``--help`` and for anything else that is given."""
    form = argparse.RawDescriptionHelpFormatter
    argparse.ArgumentParser(description=description, formatter_class=form).parse_args()
