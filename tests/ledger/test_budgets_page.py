"""The page's view of budgets, in a real browser: what a token shows, and that nothing of it stays without the token."""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dprounds import Gaussian
from dprounds.ledger import Ledger

playwright: Any = pytest.importorskip("playwright.sync_api", reason="the page is driven by Playwright")
pytest.importorskip("fastapi", reason="the page needs the extra web")
parquet: Any = pytest.importorskip("pyarrow.parquet", reason="one of the files is Parquet")

from tests.web.conftest import Served, start  # noqa: E402  (after the check that it can be imported)
from tests.web.test_browser import ARGUMENTS, CONTRAST, PATIENCE  # noqa: E402  (as above)

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed here")

# A name that would do something if it were taken for HTML.
HOSTILE = '<img src="/x" onerror="document.title = 1">'


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Ledger]]:
    folder = tmp_path_factory.mktemp("page")
    url = f"sqlite:///{folder}/budget.db"
    ledger = Ledger(url)
    ledger.open("patients", epsilon=6.0, delta=1e-5, note=HOSTILE)
    ledger.open(HOSTILE, epsilon=1.0, filter="pure")
    for number in range(15):
        ledger.reserve("patients", Gaussian(20.0) * 20, key=f"job {number}", by=HOSTILE).commit()
    served = start(folder / "log", f"port=0, workers=2, ledger={url!r}")
    yield served, ledger
    ledger.close()
    assert served.stop() == 0
    assert "Traceback" not in (folder / "log").read_text()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_a_token_shows_its_budgets_and_nothing_stays_without_it(
    opened: tuple[Served, Ledger], tmp_path: Path, scheme: str, width: int
) -> None:
    served, ledger = opened
    token = ledger.tokens.create(f"page {scheme}", budget=None, scope="read")
    playwright.expect.set_options(timeout=PATIENCE)
    expect, complaints, addresses = playwright.expect, list[str](), list[str]()
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, headless=True, args=ARGUMENTS)
        context = browser.new_context(viewport={"width": width, "height": 860}, color_scheme=scheme)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: addresses.append(request.url))
        page.goto(f"{served.address}?question=epsilon&delta=1e-5&noise_multiplier=20&rounds=900")
        page.wait_for_selector("#rounds-chart .curve")

        page.locator("#token").fill("dpr_wrong")
        page.locator("#token-form [type=submit]").click()
        expect(page.locator("#budgets-refusal")).to_have_text(
            "This token is not valid: it is unknown, expired or revoked."
        )
        assert page.locator("#budgets-found").is_hidden()

        page.locator("#token").fill(token)
        page.locator("#token").press("Enter")
        expect(page.locator("#budget-list .name")).to_have_text([HOSTILE, "patients"])
        page.get_by_role("button", name="patients").click()
        expect(page.locator("#budget-note")).to_have_text(HOSTILE)
        page.wait_for_selector("#spent-chart .curve")
        left = int(ledger.status("patients").share_left * 10_000) / 100
        expect(page.locator("#budget-list .left").nth(1)).to_have_text(f"{left:.2f} % left")
        assert page.get_by_role("meter", name="Left of patients").get_attribute("aria-valuenow") == str(int(left))
        rows = page.locator("#history tbody tr")
        expect(rows).to_have_count(20)
        page.locator("#older").click()
        expect(rows).to_have_count(31)
        assert [int(text) for text in page.locator("#history tbody th").all_inner_texts()] == list(range(31, 0, -1))

        page.locator("#ask-cost").click()
        refusal = ledger.cost("patients", Gaussian(20.0) * 900).refusal
        expect(page.locator("#job-refusal")).to_have_text(refusal)
        page.locator("#rounds").fill("100")
        page.locator("#ask-cost").click()
        expect(page.locator("#job-cost")).to_contain_text("This job of 100 rounds would cost 14.60 % of the budget")
        assert page.locator("#job-refusal").is_hidden()
        assert ledger.status("patients").entries == 31

        with page.expect_download() as download:
            page.locator("#history-csv").click()
        download.value.save_as(tmp_path / "history.csv")
        with (tmp_path / "history.csv").open(newline="") as file:
            assert len(list(csv.DictReader(file))) == 31

        with page.expect_download() as download:
            page.locator("#history-parquet").click()
        download.value.save_as(tmp_path / "history.parquet")
        assert parquet.read_table(tmp_path / "history.parquet").num_rows == 31

        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        worst, where = page.evaluate(CONTRAST)
        assert worst >= 4.5, where
        # the token is in this tab's storage, and in no address, field or lasting storage
        assert page.evaluate("Object.values({ ...sessionStorage })") == [token]
        assert page.evaluate("JSON.stringify({ ...localStorage }) + document.cookie") == "{}"
        assert page.locator("#token").input_value() == ""
        assert not any(token in address for address in addresses)
        page.reload()
        expect(page.locator("#budget-list li")).to_have_count(2)
        expect(page.locator("#history tbody tr").first).to_be_visible()

        page.locator("#forget-token").click()
        assert page.locator("#budgets-found").is_hidden()
        assert "job 14" not in page.content()
        assert "patients" not in page.content()
        assert page.evaluate("sessionStorage.length") == 0
        assert page.title() == "dprounds: the planner"
        browser.close()
    assert [text for text in complaints if "401" not in text] == []


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Ledger]]:
    """A ledger in which each test opens a budget of its own."""
    folder = tmp_path_factory.mktemp("empty")
    url = f"sqlite:///{folder}/budget.db"
    ledger = Ledger(url)
    served = start(folder / "log", f"port=0, workers=2, ledger={url!r}")
    yield served, ledger
    ledger.close()
    assert served.stop() == 0
    assert "Traceback" not in (folder / "log").read_text()


@contextmanager
def shown(served: Served, token: str, budget: str, *, scheme: str = "light", width: int = 1280) -> Iterator[Any]:
    """A page that shows one budget, and complains about nothing."""
    playwright.expect.set_options(timeout=PATIENCE)
    complaints = list[str]()
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, headless=True, args=ARGUMENTS)
        context = browser.new_context(viewport={"width": width, "height": 860}, color_scheme=scheme)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{served.address}?question=epsilon&delta=1e-5&noise_multiplier=20&rounds=100")
        page.wait_for_selector("#rounds-chart .curve")
        page.locator("#token").fill(token)
        page.locator("#token").press("Enter")
        playwright.expect(page.locator("#budget-list [aria-pressed=true] .name")).to_have_text(budget)
        page.wait_for_selector("#spent-chart .curve", state="attached")  # a flat one counts as hidden
        yield page
        browser.close()
    assert complaints == []


# The heights of the curve of what was spent, as shares: one for each step.
STEPS_OF_CURVE = """() => {
  const chart = document.getElementById("spent-chart");
  const lines = [...chart.querySelectorAll(".grid")].map((line) => Number(line.getAttribute("y1")));
  const [none, all] = [Math.max(...lines), Math.min(...lines)];
  const points = chart.querySelector(".curve").getAttribute("points").split(" ");
  const heights = points.map((point) => Number(point.split(",")[1]));
  return heights.filter((y, i) => y !== heights[i - 1]).map((y) => (none - y) / (none - all));
}"""


def test_the_curve_falls_where_money_came_back_and_ends_where_the_status_does(empty: tuple[Served, Ledger]) -> None:
    served, ledger = empty
    ledger.open("stopped early", epsilon=6.0, delta=1e-5, filter="renyi")

    def spent() -> float:
        return 1 - ledger.status("stopped early").share_left

    heights = [0.0]
    for number in range(3):
        ledger.reserve("stopped early", Gaussian(20.0) * 100, key=str(number))
        heights.append(spent())
    ledger.commit("stopped early", "0", made=Gaussian(20.0) * 25)
    heights.append(spent())
    ledger.void("stopped early", "1", reason="never started")
    heights.append(spent())
    token = ledger.tokens.create("page of refunds", budget="stopped early", scope="read")
    with shown(served, token, "stopped early") as page:
        left = page.locator("#budget-list .left")
        # the curve is drawn to a tenth of a pixel
        assert page.evaluate(STEPS_OF_CURVE) == pytest.approx(heights, abs=2e-3)
        playwright.expect(left).to_have_text(f"{int((1 - spent()) * 10_000) / 100:.2f} % left")
        playwright.expect(page.locator("#budget-published")).to_contain_text("1 job reserved, 1 committed, 1 voided.")

        ledger.commit("stopped early", "2", made=Gaussian(20.0) * 10)
        heights.append(spent())
        page.get_by_role("button", name="stopped early").click()
        playwright.expect(left).to_have_text(f"{int((1 - spent()) * 10_000) / 100:.2f} % left")
        playwright.expect(page.locator("#history tbody tr")).to_have_count(7)
        playwright.expect(page.locator("#budget-published")).to_contain_text("0 jobs reserved, 2 committed, 1 voided.")
        page.wait_for_function(f"({STEPS_OF_CURVE})().length === {len(heights)}")
        assert page.evaluate(STEPS_OF_CURVE) == pytest.approx(heights, abs=2e-3)
        assert heights[-1] < heights[-2] < heights[-3] < heights[-4]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_blocks_are_shown_with_the_least_left_first_and_asked_about(
    empty: tuple[Served, Ledger], scheme: str, width: int
) -> None:
    served, ledger = empty
    name = f"days {scheme}"
    ledger.open(name, epsilon=6.0, delta=1e-5, blocks=True)
    token = ledger.tokens.create(f"page of {name}", budget=name, scope="read")
    days = [f"2026-01-{day:02}" for day in range(1, 31)]
    with shown(served, token, name, scheme=scheme, width=width) as page:
        expect, left = playwright.expect, page.locator("#budget-list .left")
        blocks, answer = page.locator("#block-list .name"), page.locator("#job-cost")
        expect(left).to_have_text("100.00 % left in every block")
        expect(page.locator("#blocks-others")).to_have_text("A block that no job has named has the whole budget.")

        ledger.reserve(name, Gaussian(20.0) * 50, key="all", blocks=days)
        ledger.reserve(name, Gaussian(20.0) * 600, key="one", blocks=["2026-01-07", HOSTILE])
        page.get_by_role("button", name=name).click()
        found = ledger.blocks(name)
        expect(blocks).to_have_text([one.block for one in found[:12]])
        expect(page.locator("#block-list .left")).to_have_text(
            [f"{int(one.share_left * 10_000) / 100:.2f} % left" for one in found[:12]]
        )
        assert [one.block for one in found[:3]] == ["2026-01-07", HOSTILE, "2026-01-01"]
        least = f"{int(found[0].share_left * 10_000) / 100:.2f} %"
        expect(left).to_have_text(f"{least} left in the fullest of 31 blocks")
        expect(page.locator("#budget-published")).to_contain_text(f"{least} is left in the fullest of 31 blocks; that")
        expect(page.locator("#budget-published")).to_contain_text("2 jobs reserved")
        others = f"{int(found[12].share_left * 10_000) / 100:.2f} %"
        expect(page.locator("#blocks-others")).to_have_text(
            f"19 other blocks have {others} left each, or more. A block that no job has named has the whole budget."
        )
        expect(page.locator("#spent-caption")).to_have_text("Share spent over time, of the fullest block")

        # what does this job of 100 rounds cost? that depends on the blocks
        page.locator("#ask-cost").click()
        expect(page.locator("#job-refusal")).to_have_text(
            "Name the blocks that the job reads: each of them is charged."
        )
        page.get_by_label("Blocks that the job reads").fill("2026-01-02\n\n2026-02-01\n2026-01-02\n")
        page.locator("#ask-cost").click()
        expect(answer).to_contain_text(f"of the budget of {name} in each of its 2 blocks, of which {others} is left")
        expect(answer).to_contain_text("in the fullest of them. It fits. 1 block is new: no job has named it before.")
        page.locator("#blocks-asked").fill("2026-01-02")
        page.locator("#ask-cost").click()
        expect(answer).to_contain_text(f"in its one block, of which {others} is left. It fits.")
        expect(answer).not_to_contain_text("new")
        for _ in range(2):
            page.locator("#block-list button").first.click()
        assert page.locator("#blocks-asked").input_value() == "2026-01-02\n2026-01-07"
        page.locator("#ask-cost").click()
        refusal = ledger.cost(name, Gaussian(20.0) * 100, blocks=["2026-01-02", "2026-01-07"]).refusal
        expect(page.locator("#job-refusal")).to_have_text(refusal)
        assert answer.is_hidden()

        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        worst, where = page.evaluate(CONTRAST)
        assert worst >= 4.5, where
        if folder := os.environ.get("DPROUNDS_PICTURES"):
            page.locator("#budgets").screenshot(path=f"{folder}/blocks-{scheme}-{width}.png")
        page.locator("#forget-token").click()
        assert "2026-01" not in page.content()
        assert page.locator("#blocks-asked").input_value() == ""
    assert ledger.status(name).entries == 3
