"""Pairs of answers for people: sides shuffled, the key kept apart, choices read back."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import jinja2

from sweeper import store
from sweeper.drive.datasets import prompts_of
from sweeper.errors import StoreError
from sweeper.scores import Grader, Preference, Quality
from sweeper.store import PointFolder, SweepFolder, read_json, read_sweep, write_json, write_text
from sweeper.values import Json, PlannedPoint, Prompt, RequestRecord

COLUMNS = ("pair", "request", "left", "right", "choice")
CHOICES = ("left", "right", "same")

PAGE = """\
<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Which answer is better?</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem }
section { border-top: 1px solid #999; padding: 1rem 0 }
div { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem }
pre { white-space: pre-wrap; background: #8882; padding: .7rem; margin: .3rem 0 }
label { margin-right: 2rem }
</style>
<h1>Which answer is better?</h1>
<p>{{ pairs | length }} pairs. Choose one each, then save; nothing leaves this page before.</p>
{% for pair in pairs %}
<section data-pair="{{ pair.pair }}">
<h2>{{ pair.pair }}</h2><pre>{{ pair.request }}</pre>
<div><pre>{{ pair.left }}</pre><pre>{{ pair.right }}</pre></div>
{% for choice, words in (("left", "left"), ("right", "right"), ("same", "equally good")) %}
<label><input type="radio" name="{{ pair.pair }}" value="{{ choice }}"> {{ words }}</label>
{% endfor %}
</section>
{% endfor %}
<button>Save pairs.csv</button>
<script>
document.querySelector("button").onclick = () => {
  const lines = ["pair,choice"];
  for (const one of document.querySelectorAll("section")) {
    const chosen = one.querySelector("input:checked");
    lines.push(`${one.dataset.pair},${chosen ? chosen.value : ""}`);
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines.join("\\n") + "\\n"], {type: "text/csv"}));
  link.download = "pairs.csv";
  link.click();
};
</script>
</html>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """What a person sees; an empty ``choice`` is none yet."""

    pair: str
    request: str
    left: str
    right: str
    choice: str = ""


def export(folder: SweepFolder, grader: Grader, seed: int) -> int:
    """Write ``blind/pairs.html``, ``blind/pairs.csv`` and, apart, ``blind-key.json``.

    Returns the number of pairs. Equal answers are not shown: they are a draw.
    """
    sides, pairs, key = random.Random(seed), [], {}
    shown = list(_shown(folder, grader))
    sides.shuffle(shown)  # pairs of one point do not stand together
    for number, (planned, prompt, base, other) in enumerate(shown, start=1):
        name, point_left = f"pair-{number:03d}", sides.random() < 0.5
        left, right = (other, base) if point_left else (base, other)
        pairs.append(Pair(pair=name, request=prompt.asked, left=left.text, right=right.text))
        key[name] = {
            "point": planned.number,
            "prompt": prompt.id,
            "side": "left" if point_left else "right",
        }
    page = jinja2.Environment(autoescape=True).from_string(PAGE).render(pairs=pairs)
    write_text(folder.blind / "pairs.html", page)
    write_text(folder.blind / "pairs.csv", _csv(pairs))
    write_json(folder.blind_key, key)
    return len(pairs)


def read_back(folder: SweepFolder, grader: Grader, file: Path) -> dict[int, int]:
    """Read the choices into ``quality.json`` of each point; how many there are of each.

    :raises StoreError: for a file that is not the one exported, with every mistake.
    """
    key, chosen = read_json(folder.blind_key), _choices(file)
    unknown = sorted(set(chosen) - set(key))
    if unknown:
        raise StoreError(f"{file}: not pairs of this sweep: {', '.join(unknown)}")
    found: dict[int, list[Preference]] = {}
    for name, choice in chosen.items():
        about = key[name]
        better = 0.5 if choice == "same" else float(choice == about["side"])
        one = Preference(prompt_id=about["prompt"], better=better)
        found.setdefault(about["point"], []).append(one)
    for planned in read_sweep(folder).plan.points:
        if planned.number in found:
            draws = _draws(folder, planned, grader)
            liked = (*found[planned.number], *draws)
            quality = Quality(grader="blind", key=str(file.name), preferences=liked)
            write_json(folder.point(planned).quality, store.to_json(quality))
    return {number: len(liked) for number, liked in found.items()}


Shown = tuple[PlannedPoint, Prompt, RequestRecord, RequestRecord]


def _shown(folder: SweepFolder, grader: Grader) -> Iterator[Shown]:
    for planned in read_sweep(folder).plan.points:
        for prompt, base, other in _answers(folder, planned, grader):
            if base.text != other.text:
                yield planned, prompt, base, other


def _draws(folder: SweepFolder, planned: PlannedPoint, grader: Grader) -> Iterator[Preference]:
    for prompt, base, other in _answers(folder, planned, grader):
        if base.text == other.text:
            yield Preference(prompt_id=prompt.id, better=0.5)


def _answers(
    folder: SweepFolder, planned: PlannedPoint, grader: Grader
) -> Iterator[tuple[Prompt, RequestRecord, RequestRecord]]:
    """The first answers of a point and its baseline to the first so many prompts."""
    plan = read_sweep(folder).plan
    base = next((p for p in plan.points if p.number == planned.baseline), None)
    if base is None:
        return
    ours, theirs = _first(folder.point(planned)), _first(folder.point(base))
    for prompt in prompts_of(planned.point.dataset)[: grader.pairs]:
        if prompt.id in ours and prompt.id in theirs:
            yield prompt, theirs[prompt.id], ours[prompt.id]


def _first(home: PointFolder) -> Mapping[str, RequestRecord]:
    """First turns: a later one answers another question than the one that is shown."""
    return {r.prompt_id: r for r in home.records() if not (r.error or r.repeat or r.turn)}


def _csv(pairs: Sequence[Pair]) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(pair) for pair in pairs)
    return file.getvalue()


def _choices(file: Path) -> dict[str, str]:
    """Pairs with a choice; those without one were not judged."""
    try:
        rows: list[Json] = list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8-sig"))))
    except (OSError, ValueError, csv.Error) as problem:
        raise StoreError(f"{file}: {problem}") from None
    if not rows or not {"pair", "choice"} <= set(rows[0]):
        raise StoreError(f"{file}: no columns pair and choice; save it from pairs.html")
    made = {str(r["pair"]): str(r["choice"] or "").strip().lower() for r in rows}
    wrong = [f"{name}: {c}" for name, c in made.items() if c and c not in CHOICES]
    if wrong:
        raise StoreError(f"{file}: choices are {', '.join(CHOICES)}, not {'; '.join(wrong)}")
    return {name: c for name, c in made.items() if c}
