"""MLflow's own pages in a real browser: experiments, our view, six points compared, the page."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pytest
from selenium.webdriver.common.by import By

from sweeper.report.mlflow import default_tracking_uri, publish
from sweeper.report.outcome import write_report
from tests.e2e.browser import CHROMIUM, DRIVER, MISSING, chromium, until
from tests.unit.sweeps import CHAT, Made, counts, folder, point, record

pytestmark = [
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason=MISSING),
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:mlflow"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:sqlalchemy"),
]
SLOW_S = 60
SPEED = {"ngram": 1.6, "suffix": 1.2, "eagle3": 0.9}


def made() -> list[Made]:
    """Two datasets, three methods at two γ, each of its own speed."""
    points: list[Made] = []
    for name in ("chat", "code"):
        dataset, base = replace(CHAT, name=name, digest=name), len(points)
        points.append(one("none", 0, dataset, 2.0, base))
        points += [
            one(method, gamma, dataset, seconds + gamma / 20, base)
            for method, seconds in SPEED.items()
            for gamma in (2, 4)
        ]
    return points


def one(method: str, gamma: int, dataset: Any, seconds: float, base: int) -> Made:
    spec = counts((1, *[0] * (gamma - 1), 2)) if gamma else None
    records = tuple(
        record(f"p{n}", seconds=seconds + n / 30, spec=spec, steps=3 if gamma else 7, tokens=8)
        for n in range(4)
    )
    return Made(point=point(method, gamma, dataset=dataset), records=records, baseline=base)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A running ``python -m sweeper.ui``, the address of our view that it printed, the sweep's
    run."""

    address: str
    view: str
    run: str


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    outputs = tmp_path_factory.mktemp("outputs")
    sweep_folder = folder(outputs / "d" / "s", *made())
    judgement, _ = write_report(sweep_folder)
    run = publish(sweep_folder, judgement, default_tracking_uri(outputs), "drafts")
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "sweeper.ui", "--outputs", str(outputs), "--port", str(port)],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout
    try:
        first, second = process.stdout.readline(), process.stdout.readline()
        address = f"http://127.0.0.1:{port}"
        assert first == f"MLflow on {address} for {outputs / 'mlflow.db'}\n"
        said = re.fullmatch(r"  drafts: (\S+)\n", second)
        assert said
        until(lambda: answers(port), SLOW_S)
        yield Shown(address=address, view=said.group(1), run=run)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=30)
        process.stdout.close()


def answers(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with chromium(1600, 1000) as browser:
        yield browser


def go(driver: Any, address: str) -> None:
    driver.get("about:blank")
    driver.get(address)


def texts(driver: Any, selector: str) -> list[str]:
    """Of what is on the page now; MLflow replaces its elements while we look."""
    return list(
        driver.execute_script(
            "return [...document.querySelectorAll(arguments[0])]"
            ".map(e => (e.innerText ?? e.textContent).trim())",
            selector,
        )
    )


def click(driver: Any, selector: str, text: str) -> None:
    def found() -> bool:
        return bool(
            driver.execute_script(
                "const e = [...document.querySelectorAll(arguments[0])]"
                ".find(e => e.innerText.trim() === arguments[1] && !e.disabled);"
                "if (e) e.click(); return !!e",
                selector,
                text,
            )
        )

    until(found, SLOW_S)


def test_the_list_of_experiments_leads_to_ours(driver: Any, shown: Shown) -> None:
    go(driver, f"{shown.address}/#/experiments")
    until(lambda: "drafts" in texts(driver, 'a[href*="/experiments/"]'), SLOW_S)
    click(driver, 'a[href*="/experiments/"]', "drafts")
    until(lambda: re.search(r"/experiments/\d+", driver.current_url), SLOW_S)


def test_the_view_has_the_columns_that_matter_and_the_fastest_first(
    driver: Any, shown: Shown
) -> None:
    go(driver, shown.view)
    until(lambda: "speedup" in texts(driver, "[role=columnheader]"), SLOW_S)
    heads = texts(driver, "[role=columnheader]")
    assert {"dataset", "load", "concurrency", "method", "gamma"} <= set(heads)
    names = until(lambda: texts(driver, ".ag-pinned-left-cols-container [role=row]"), SLOW_S)
    assert "eagle3 γ=2" in names[0] and "sweep" in names[-1]


def test_the_charts_of_the_view_are_those_of_gamma(driver: Any, shown: Shown) -> None:
    go(driver, f"{shown.view}&compareRunsMode=CHART")

    def charts() -> bool:
        said = driver.execute_script("return document.body.innerText")
        wanted = ("Speculation\n(5)", "Parallel Coordinates", "gamma vs. speedup")
        return all(words in said for words in wanted)

    until(charts, SLOW_S)
    drawn = "return document.querySelectorAll('.contourlayer, .scatterlayer .points').length"
    until(lambda: driver.execute_script(drawn) >= 2, SLOW_S)


def test_six_points_are_compared(driver: Any, shown: Shown) -> None:
    go(driver, shown.view)
    boxes = ".ag-pinned-left-cols-container [role=row] .ag-selection-checkbox"
    until(lambda: len(driver.find_elements(By.CSS_SELECTOR, boxes)) >= 6, SLOW_S)
    for box in driver.find_elements(By.CSS_SELECTOR, boxes)[:6]:
        box.click()
    click(driver, "button", "Compare")
    until(lambda: "Comparing 6 Runs from 1 Experiment" in texts(driver, "h2"), SLOW_S)
    axes = until(lambda: texts(driver, ".axis-title"), SLOW_S)
    assert {"gamma", "method", "speedup"} <= set(axes)
    tab = "//*[@role='tab'][normalize-space()='Contour Plot']"  # hears the mouse, not a script
    until(lambda: driver.find_elements(By.XPATH, tab), SLOW_S)[0].click()
    until(lambda: "X-axis:" in driver.find_element(By.TAG_NAME, "body").text, SLOW_S)


def test_the_page_is_read_as_an_artefact_of_the_sweeps_run(driver: Any, shown: Shown) -> None:
    experiment = re.search(r"/experiments/(\d+)", shown.view)
    assert experiment
    at = f"/#/experiments/{experiment.group(1)}/runs/{shown.run}/artifacts/index.html"
    go(driver, shown.address + at)
    frame = until(lambda: driver.find_elements(By.TAG_NAME, "iframe"), SLOW_S)[0]
    driver.switch_to.frame(frame)
    try:
        until(lambda: texts(driver, "h1") == ["Speculative decoding, compared"], SLOW_S)
        assert texts(driver, "#shown") == ["14 points"]
    finally:
        driver.switch_to.default_content()
