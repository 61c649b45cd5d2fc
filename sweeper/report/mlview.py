"""How MLflow's pages open an experiment of ours: which columns, which charts, in what order.

MLflow keeps a view that somebody shared as JSON in a tag of the experiment; an address with
``viewStateShareKey`` opens it. Names are those of its web application (checked with 3.17).
"""

from __future__ import annotations

import json

from sweeper.values import Json

SHARED = "mlflow.sharedViewState."
KEY = "sweeper"
TAG = SHARED + KEY
PARAMS = ("dataset", "load", "concurrency", "method", "gamma")
FIGURES = (
    *("speedup", "speedup_low", "speedup_high", "tokens_per_decode_step", "acceptance_rate"),
    *("draft_coverage", "request_time_s", "output_tokens_per_s", "tpot_ms_p99", "quality"),
)
_SECTION = "sweeper-section"


def state() -> str:
    """The value of the tag: every point a row, the fastest first, and charts of γ."""
    columns = [
        *(f"params.`{name}`" for name in PARAMS),
        *(f"metrics.`{name}`" for name in FIGURES),
        *("tags.`status`", "tags.`verdict`"),
    ]
    view = {
        "orderByKey": "metrics.`speedup`",  # any but the time shows points without their parent
        "orderByAsc": False,
        "selectedColumns": columns,
        "columnOrder": columns,
        "runsHiddenMode": "SHOWALL",
        "compareRunSections": [
            {"uuid": _SECTION, "name": "Speculation", "display": True, "isReordered": True}
        ],
        "compareRunCharts": list(_charts()),
        "isAccordionReordered": True,
    }
    return json.dumps(view, sort_keys=True)


def _charts() -> tuple[Json, ...]:
    gamma, speedup = _axis("gamma", "PARAM"), _axis("speedup", "METRIC")
    tokens = _axis("tokens_per_decode_step", "METRIC")
    lines = {"selectedParams": ["method", "gamma"], "showAllRuns": False}
    return (
        _chart("PARALLEL", "From γ to the speed-up", **lines, selectedMetrics=["speedup"]),
        _chart("SCATTER", "Speed-up over γ", xaxis=gamma, yaxis=speedup),
        _chart("CONTOUR", "Speed-up over γ and tokens per step",
               xaxis=gamma, yaxis=tokens, zaxis=speedup),
        _chart("BAR", "Speed-up", metricKey="speedup"),
        _chart("LINE", "Survival by draft position", metricKey="survival", xAxisKey="step",
               selectedMetricKeys=["survival"]),
    )  # fmt: skip


def _axis(key: str, kind: str) -> Json:
    return {"key": key, "type": kind}


def _chart(kind: str, title: str, **more: Json) -> Json:
    known = {"uuid": f"sweeper-{kind.lower()}", "type": kind, "displayName": title}
    fixed = {"metricSectionId": _SECTION, "runsCountToCompare": 100}
    return {**known, **fixed, "deleted": False, "isGenerated": False, **more}


def page(address: str, experiment: str) -> str:
    """Where a browser finds the experiment in this view."""
    return f"{address}/#/experiments/{experiment}/runs?viewStateShareKey={KEY}"
