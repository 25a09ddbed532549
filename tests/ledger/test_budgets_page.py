"""The page's view of budgets, in a real browser: what a token shows, and that nothing of it stays without the token."""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dprounds import Gaussian
from dprounds.ledger import Ledger

playwright: Any = pytest.importorskip("playwright.sync_api", reason="the page is driven by Playwright")
pytest.importorskip("fastapi", reason="the page needs the extra web")

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
