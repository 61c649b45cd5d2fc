"""The report in a real browser: sorting, narrowing, copying, requests, colours, paper."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from sweeper.drive.datasets import describe
from sweeper.judge.judgement import Judgement, judge
from sweeper.judge.verdict import Recommendation
from sweeper.report.page import build
from sweeper.report.page.build import write_page
from sweeper.values import SpecCounts
from tests.e2e.browser import CHROMIUM, DRIVER, MISSING, chromium, until
from tests.unit.sweeps import CHAT, Made, counts, folder, point, record

pytestmark = [
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason=MISSING),
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
COMMAND = 'vllm serve org/model --speculative-config \'{"method":"ngram"}\''
VOCABULARY = {"[UNK]": 0, "a": 1, "b": 2, "c": 3, "d": 4}


def tokenizer(home: Path) -> None:
    """A model folder with four words, for answers that are coloured by step."""
    home.mkdir(parents=True)
    model = {"type": "WordLevel", "vocab": VOCABULARY, "unk_token": "[UNK]"}
    parts = dict.fromkeys(("normalizer", "pre_tokenizer", "post_processor", "truncation"))
    decoder = {"type": "Replace", "pattern": {"String": " "}, "content": ""}
    text: dict[str, Any] = {
        "version": "1.0",
        "model": model,
        "added_tokens": [],
        "padding": None,
        **parts,
    }
    (home / "tokenizer.json").write_text(json.dumps(text | {"decoder": decoder}))
    (home / "config.json").write_text('{"model_type": "llama"}')


def made(home: Path) -> list[Made]:
    """Two datasets; three methods, one of which failed."""
    prompts = home / "chat.jsonl"
    prompts.write_text("".join(f'{{"id": "p{n}", "prompt": "why {n}"}}\n' for n in range(4)))
    points: list[Made] = []
    for name in ("chat", "code"):
        dataset = describe(name, prompts, None) if name == "chat" else replace(CHAT, name=name)
        base = len(points)
        points.append(one("none", 0, dataset, home, 2.0, base))
        points.append(one("ngram", 2, dataset, home, 1.0, base))
        points.append(one("ngram", 4, dataset, home, 3.0, base))
        points.append(replace(one("eagle3", 4, dataset, home, 1.0, base), records=(),
                              status="failed", reason="CUDA out of memory"))  # fmt: skip
    return points


def one(method: str, gamma: int, dataset: Any, home: Path, seconds: float, base: int) -> Made:
    server = replace(point(method, gamma).server, model=str(home / "model"))
    # a, then "bc" accepted and the target's "d", then nothing accepted and "a": "abcda"
    detailed = replace(
        counts((1, 0, 1) if gamma == 2 else (1, 0, 1, 0, 0)),
        per_step_drafted=(gamma, gamma),
        per_step_accepted=(2, 0),
    )
    spec: SpecCounts | None = detailed if gamma else None
    records = tuple(
        record(
            f"p{n}",
            seconds=seconds + n / 10,
            spec=spec,
            tokens=5,
            steps=2 if gamma else 4,
            text="abcda" if gamma else "abcdb",
            token_ids=(1, 2, 3, 4, 1),
            sent_ns=n,
        )
        for n in range(4)
    )
    return Made(point=point(method, gamma, dataset=dataset, server=server),
                records=records, baseline=base)  # fmt: skip


def deploying(judgement: Judgement) -> Judgement:
    """As if the first workload had a verdict to copy."""
    first = judgement.workloads[0]
    advice = Recommendation(speculative_config={}, command=COMMAND)
    first = replace(first, verdict="deploy", recommended=first.candidates[0], recommendation=advice)
    return replace(judgement, workloads=(first, *judgement.workloads[1:]))


def page(home: Path) -> Path:
    tokenizer(home / "model")
    sweep_folder = folder(home / "s", *made(home))
    return write_page(sweep_folder, deploying(judge(sweep_folder)))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def browser(driver: Any, written: Path) -> Iterator[Any]:
    driver.get("about:blank")
    driver.get(written.as_uri())
    yield driver
    severe = [e["message"] for e in driver.get_log("browser") if e["level"] == "SEVERE"]
    assert [m for m in severe if "ERR_FILE_NOT_FOUND" not in m] == []


def find(browser: Any, selector: str) -> Any:
    return browser.find_element(By.CSS_SELECTOR, selector)


def texts(browser: Any, selector: str) -> list[str]:
    found = browser.find_elements(By.CSS_SELECTOR, selector)
    return [e.text.splitlines()[0] for e in found if e.is_displayed()]


def column(browser: Any, name: str) -> list[str]:
    heads = [h.text for h in browser.find_elements(By.CSS_SELECTOR, "#points thead th")]
    number = [" ".join(h.split()).rstrip(" ↑↓") for h in heads].index(name) + 1
    return texts(browser, f"#points tbody tr > :nth-child({number})")


def click_heading(browser: Any, name: str) -> None:
    buttons = browser.find_elements(By.CSS_SELECTOR, "#points thead button")
    next(b for b in buttons if " ".join(b.text.split()).rstrip(" ↑↓") == name).click()


def test_numbers_sort_downwards_first_and_what_is_missing_stays_last(browser: Any) -> None:
    click_heading(browser, "speed-up")
    down = column(browser, "speed-up")
    assert down[:2] == ["1.87", "1.87"] and all(c.startswith("not measured") for c in down[-2:])
    click_heading(browser, "speed-up")
    up = column(browser, "speed-up")
    assert float(up[0]) < 1 and up[-2:] == down[-2:]
    heads = browser.find_elements(By.CSS_SELECTOR, "#points thead th[aria-sort=ascending]")
    assert [h.text.rstrip(" ↑") for h in heads] == ["speed-up"]


def test_names_sort_upwards_first(browser: Any) -> None:
    click_heading(browser, "method γ")
    assert column(browser, "method γ")[:2] == ["eagle3 γ=4", "eagle3 γ=4"]


def test_choices_and_words_narrow_the_table(browser: Any) -> None:
    facets = {
        e.text.splitlines()[0]: e for e in browser.find_elements(By.CSS_SELECTOR, "form label")
    }
    Select(facets["dataset"].find_element(By.TAG_NAME, "select")).select_by_visible_text("code")
    assert find(browser, "#shown").text == "4 of 8 points"
    find(browser, "#search").send_keys("cuda memory")
    assert column(browser, "method γ") == ["eagle3 γ=4"]
    find(browser, "form button[type=reset]").click()
    assert until(lambda: find(browser, "#shown").text == "8 points")


def test_the_command_is_copied(browser: Any, written: Path) -> None:
    browser.execute_cdp_cmd(
        "Browser.grantPermissions",
        {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]},
    )
    button = find(browser, ".copy")
    browser.execute_script(
        "const button = arguments[0]; window.said = [];"  # it says so for two seconds only
        "new MutationObserver(() => window.said.push(button.textContent))"
        ".observe(button, {childList: true})",
        button,
    )
    button.click()
    assert until(lambda: "Copied" in browser.execute_script("return window.said"))
    pasted = "navigator.clipboard.readText().then(arguments[0], e => arguments[0](String(e)))"
    assert browser.execute_async_script(pasted) == COMMAND


def test_a_row_opens_its_requests_beside_the_baselines(browser: Any) -> None:
    find(browser, '#points a[href="#point-1"]').click()
    assert until(lambda: len(browser.find_elements(By.CSS_SELECTOR, ".request")) == 4)
    assert find(browser, "#h-detail").text.startswith("Requests of ngram γ=2 · chat · greedy")
    first = find(browser, ".request[open]")
    assert [e.text for e in first.find_elements(By.CSS_SELECTOR, ".text")] == [
        "why 0",
        "abcda",
        "abcdb",
    ]
    assert [e.text for e in first.find_elements(By.CSS_SELECTOR, ".a")] == ["bc"]
    assert first.find_element(By.CSS_SELECTOR, ".a").get_attribute("title") == (
        "step 1: 2 of 2 accepted"
    )
    assert "The first difference is at character 5." in first.text
    assert first.find_element(By.CSS_SELECTOR, "summary").text == (
        "p0 5 tokens in 1.00 s · A/D 2/4 · 5.0 tokens/s, the baseline 2.5"
    )


def test_the_keyboard_sorts_and_opens(browser: Any) -> None:
    heading = find(browser, "#points thead button")
    heading.send_keys(Keys.ENTER)
    assert column(browser, "method γ")[0] == "eagle3 γ=4"
    find(browser, '#points a[href="#point-2"]').send_keys(Keys.ENTER)
    assert until(lambda: "Requests of ngram γ=4" in find(browser, "#h-detail").text)
    assert browser.switch_to.active_element.get_attribute("id") == "h-detail"
    second = browser.find_elements(By.CSS_SELECTOR, ".request summary")[1]
    second.send_keys(Keys.ENTER)
    assert until(lambda: len(browser.find_elements(By.CSS_SELECTOR, ".request[open]")) == 2)


def test_a_dot_of_a_plot_opens_its_point(browser: Any) -> None:
    dot = find(browser, 'figure svg a[*|href="#point-1"], figure svg a[href="#point-1"]')
    browser.execute_script(
        "arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", dot
    )
    assert until(lambda: "Requests of ngram γ=2" in find(browser, "#h-detail").text)


def test_a_failed_point_says_why_it_has_no_requests(browser: Any) -> None:
    find(browser, '#points a[href="#point-3"]').click()
    assert until(lambda: find(browser, "#requests").text.endswith("CUDA out of memory"))


def test_requests_beside_the_page_are_read_from_disk_and_missed_by_name(
    driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "EMBED_BYTES", 0)
    index = page(tmp_path)
    driver.get(f"{index.as_uri()}#point-1")
    assert until(lambda: len(driver.find_elements(By.CSS_SELECTOR, ".request")) == 4)
    mailed = tmp_path / "mailed.html"
    shutil.copy(index, mailed)
    driver.get(f"{mailed.as_uri()}#point-1")
    said = until(lambda: [e.text for e in driver.find_elements(By.CSS_SELECTOR, "[role=alert]")])
    assert said[0].endswith("is not beside this page: open the report in the sweep's folder")


@pytest.mark.parametrize(
    ("scheme", "background", "ink"), [("light", 255, "27, 31, 36"), ("dark", 20, "230, 233, 238")]
)
def test_light_and_dark(browser: Any, scheme: str, background: int, ink: str) -> None:
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    colour = "return getComputedStyle(document.body).backgroundColor"
    assert browser.execute_script(colour).startswith(f"rgb({background}, ")
    fills = "return [...document.querySelectorAll('svg text')].map(t => getComputedStyle(t).fill)"
    assert f"rgb({ink})" in browser.execute_script(fills)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_paper_has_no_controls(browser: Any) -> None:
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert not find(browser, ".filters").is_displayed()
    assert not find(browser, ".copy").is_displayed()
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert browser.print_page()[:5] == "JVBER"  # %PDF


@pytest.mark.parametrize("width", [360, 800, 1400])
def test_the_page_never_scrolls_sideways(browser: Any, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_thousand_points_open_at_once(driver: Any, tmp_path: Path) -> None:
    points: list[Made] = []
    for workload in range(50):
        dataset = replace(CHAT, name=f"set{workload}", digest=f"d{workload}")
        base = len(points)
        for n in range(20):
            method = ("ngram", "suffix", "eagle3")[n % 3] if n else "none"
            points.append(one(method, 2 + n if n else 0, dataset, tmp_path, 1 + n / 9, base))
    sweep_folder = folder(tmp_path / "s", *points)
    index = write_page(sweep_folder, judge(sweep_folder))
    assert index.stat().st_size < 20e6
    started = time.monotonic()
    driver.get(index.as_uri())
    assert find(driver, "#shown").text == "1000 points"
    assert time.monotonic() - started < 3
