"""``report/index.html``: one page a sweep, with everything on it that a decision needs."""
