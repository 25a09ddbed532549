"""The page in a real browser, from end to end.

Driven by Playwright rather than a WebDriver because it waits for what it looks for, sees every request and console
message, and knows clipboards, downloads and touch; the browser is the system's own Chromium.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import shutil
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from dprounds import Accountant, Gaussian, PoissonSampled, questions
from dprounds.mechanisms import Run
from dprounds.plots.style import LAYERS, METHOD_STYLES
from dprounds.questions import Answers, Setting
from dprounds.questions.vocabulary import METHODS, SAMPLINGS, WORDS
from tests.web.conftest import Served

playwright: Any = pytest.importorskip("playwright.sync_api", reason="the page is driven by Playwright")

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed here")

# Nothing but the page: no sandbox, because tests run as root in containers, and nothing that calls home.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SGD: dict[str, Any] = {"batch_size": 256, "dataset_size": 60_000}
# A machine that does other things as well may take its time.
PATIENCE = 30_000

Page = Any  # Playwright is optional, and so are its types
Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, headless=True, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Any, served: Served) -> Iterator[Open]:
    """Opens the page at a query; in the end nothing was wrong on the console, and no other host was asked."""
    contexts = []
    complaints: list[str] = []
    hosts: set[str] = set()

    def begin(query: str = "", **options: Any) -> Page:
        context = browser.new_context(viewport={"width": 1280, "height": 860}, **options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
        page.goto(served.address + query)
        return page

    yield begin
    for context in contexts:
        context.close()
    # Chromium counts a refusal, which has status 422, as an error on its console; and that we took its network
    assert [text for text in complaints if "422" not in text and "DISCONNECTED" not in text] == []
    assert {host for host in hosts if host} == {urlsplit(served.address).netloc}


def expect_sentence(page: Page, sentence: str) -> None:
    playwright.expect(page.locator("#sentence")).to_have_text(sentence, timeout=PATIENCE)


def asked_for(page: Page, name: str) -> str:
    return str(page.locator(f"#{name}").input_value())


def rounds_as_shown(page: Page) -> Answers:
    """What the library says to the question that the page shows."""
    setting = Setting(noise_multiplier=float(asked_for(page, "noise_multiplier")), **SGD)
    return questions.rounds(setting, epsilon=float(asked_for(page, "epsilon")), delta=float(asked_for(page, "delta")))


def wait_until(page: Page, condition: str) -> None:
    """Wait for a condition in JavaScript, asked from outside: the page's policy lets no text run inside."""
    end = time.monotonic() + PATIENCE / 1000
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(20)


def settle(page: Page) -> None:
    """Wait for an answer by all methods."""
    playwright.expect(page.locator("#sentence")).to_contain_text("Balle", timeout=PATIENCE)


def whole(page: Page) -> None:
    """Wait until all of the answer is there."""
    wait_until(page, "document.querySelectorAll('[aria-busy=true]').length === 0")


def dimmed(page: Page) -> dict[str, bool]:
    """What is shown as not belonging to the answer."""
    seen: dict[str, bool] = page.evaluate(
        """Object.fromEntries(Object.entries({ headline: "#headline", sentence: "#sentence", table: "#table",
             curve: "#rounds-chart > g", attack: "#attack-figure" }).map(([name, place]) =>
               [name, Number(getComputedStyle(document.querySelector(place)).opacity) < 0.6]))"""
    )
    return seen


def test_it_loads_with_the_librarys_answer_a_table_and_both_charts(open_page: Open) -> None:
    page = open_page()
    found = questions.rounds(Setting(noise_multiplier=1.1, **SGD), epsilon=3.0, delta=1e-5)
    expect_sentence(page, found.sentence)
    assert page.locator("#value").inner_text() == f"{found.best.values['rounds']:,}"
    rows = page.locator("#table tbody tr")
    playwright.expect(rows).to_have_count(5)
    assert [row.split("\t")[1] for row in rows.all_inner_texts()] == [
        f"{answer.values['rounds']:,}" for answer in found.answers
    ]
    playwright.expect(page.locator("#rounds-chart .curve")).to_have_count(5)
    wait_until(page, "document.getElementById('attack-sentence').textContent.includes('1 % false alarms')")
    playwright.expect(page.locator("#attack-chart .curve.exact")).to_have_count(1)
    assert page.locator("#legend li").all_inner_texts() == ["moments", "balle", "closed-form", "optimal", "exact"]
    assert page.locator("#spoken").inner_text() == found.sentence  # what a screen reader says


def test_a_slider_moves_the_answer(open_page: Open) -> None:
    page = open_page()
    settle(page)
    before = asked_for(page, "noise_multiplier")
    box = page.locator("#noise_multiplier-slider").bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.2, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, y, steps=6)
    page.mouse.up()
    assert float(asked_for(page, "noise_multiplier")) > 2 * float(before)
    expect_sentence(page, rounds_as_shown(page).sentence)


def test_a_typed_value_moves_the_answer_and_the_slider(open_page: Open) -> None:
    page = open_page()
    settle(page)
    before = page.locator("#epsilon-slider").input_value()
    page.locator("#epsilon").fill("1.25")
    expect_sentence(page, rounds_as_shown(page).sentence)
    assert int(page.locator("#epsilon-slider").input_value()) < int(before)
    page.locator("#dataset_size").fill("120,000")  # as people write it
    found = questions.rounds(
        Setting(noise_multiplier=1.1, batch_size=256, dataset_size=120_000), epsilon=1.25, delta=1e-5
    )
    expect_sentence(page, found.sentence)


def test_a_bad_value_shows_the_librarys_sentence_beside_its_field_and_dims_the_last_answer(open_page: Open) -> None:
    page = open_page()
    settle(page)
    for text, sentence in (
        ("2", "delta must be in [0, 1), got 2."),
        ("small", "delta must be a real number in [0, 1), got 'small'."),
        ("", "delta is missing: choose it below one over the number of records, such as 1e-05 for 60,000."),
        ("nan", "delta must be a real number in [0, 1), got 'nan'."),
    ):
        page.locator("#delta").fill(text)
        playwright.expect(page.locator("#refusal")).to_have_text(sentence)
        playwright.expect(page.locator("#delta-wrong")).to_have_text(sentence)
        assert page.locator("#delta").get_attribute("aria-invalid") == "true"
        assert width_of_border(page, "#delta") == "2px" != width_of_border(page, "#epsilon")
        assert all(dimmed(page).values())
        assert page.locator("#rounds-chart .curve").count() == 5  # the last good one stays
    page.locator("#delta").fill("1e-6")
    expect_sentence(page, rounds_as_shown(page).sentence)
    assert page.locator("#refusal").is_hidden()
    assert page.locator("#delta-wrong").is_hidden()
    whole(page)
    assert not any(dimmed(page).values())


def width_of_border(page: Page, place: str) -> str:
    return str(page.locator(place).evaluate("field => getComputedStyle(field).borderTopWidth"))


@pytest.mark.parametrize("query", ["", "?question=epsilon&noise_multiplier=2&rounds=1&delta=0"])
def test_the_charts_are_drawn_for_the_size_that_they_have(open_page: Open, query: str) -> None:
    page = open_page(query)
    whole(page)
    for place in ("#rounds-chart", "#attack-chart"):
        box = page.locator(place).bounding_box()
        drawn = [float(number) for number in page.locator(place).get_attribute("viewBox").split()[2:]]
        assert drawn == pytest.approx([box["width"], box["height"]], abs=1.0)


def drag_line(page: Page, by: float, move: Callable[[str, float, float], None]) -> None:
    """Drag the budget line by so many pixels downward."""
    page.wait_for_selector("#rounds-chart .curve")
    box = page.locator("#rounds-chart .budget .line").bounding_box()
    x, y = box["x"] + box["width"] * 0.4, box["y"] + box["height"] / 2
    move("start", x, y)
    for step in range(1, 9):
        move("move", x, y + by * step / 8)
    move("end", x, y + by)


def test_the_budget_line_is_dragged_by_the_mouse(open_page: Open) -> None:
    page = open_page()
    settle(page)

    def move(what: str, x: float, y: float) -> None:
        page.mouse.move(x, y)
        if what == "start":
            page.mouse.down()
        if what == "end":
            page.mouse.up()

    drag_line(page, 60, move)
    assert float(asked_for(page, "epsilon")) < 2.6
    expect_sentence(page, rounds_as_shown(page).sentence)
    assert page.locator("#rounds-chart [role=slider]").get_attribute("aria-valuenow") == asked_for(page, "epsilon")


def test_the_budget_line_is_dragged_by_touch(open_page: Open) -> None:
    page = open_page(has_touch=True)
    settle(page)
    finger = page.context.new_cdp_session(page)

    def move(what: str, x: float, y: float) -> None:
        points = [] if what == "end" else [{"x": x, "y": y}]
        finger.send("Input.dispatchTouchEvent", {"type": f"touch{what.capitalize()}", "touchPoints": points})

    drag_line(page, -40, move)
    assert float(asked_for(page, "epsilon")) > 3.2
    expect_sentence(page, rounds_as_shown(page).sentence)


def test_the_budget_line_is_moved_by_the_keyboard(open_page: Open) -> None:
    page = open_page()
    whole(page)
    line = page.locator("#rounds-chart [role=slider]")
    line.focus()
    for key, holds in (("ArrowUp", 3.06), ("ArrowDown", 3.0), ("PageUp", 3.6), ("Home", 0.05), ("End", 50.0)):
        page.keyboard.press(key)
        assert float(str(line.get_attribute("aria-valuenow"))) == pytest.approx(holds, rel=1e-2)
        assert asked_for(page, "epsilon") == line.get_attribute("aria-valuenow")
    for name in ("aria-label", "aria-valuemin", "aria-valuemax", "aria-valuetext"):
        assert line.get_attribute(name)


QUESTIONS = {
    "rounds": "?question=rounds&epsilon=2.5&delta=1e-6&noise_multiplier=1.3&batch_size=100&dataset_size=50000",
    "rounds of all records": "?question=rounds&epsilon=6&delta=1e-5&noise_multiplier=20",
    "rounds of randomized response": (
        "?question=rounds&epsilon=3&delta=1e-5&mechanism=randomized-response&step_epsilon=0.1"
    ),
    "rounds of zcdp": "?question=rounds&epsilon=3&delta=1e-5&mechanism=zcdp&rho=0.002",
    "rounds of approximate-dp": (
        "?question=rounds&epsilon=3&delta=1e-5&mechanism=approximate-dp&step_epsilon=0.1&step_delta=1e-9"
    ),
    "epsilon": "?question=epsilon&delta=1e-5&noise_multiplier=1.1&batch_size=256&dataset_size=60000&epochs=60",
    "epsilon at a rate": "?question=epsilon&delta=1e-5&noise_multiplier=0.9&sampling_rate=0.01&rounds=1000",
    "delta": "?question=delta&epsilon=2&noise_multiplier=1.1&batch_size=256&dataset_size=60000&epochs=60",
    "noise": "?question=noise&epsilon=3&delta=1e-5&batch_size=256&dataset_size=60000&epochs=20",
    "rate": "?question=rate&epsilon=3&delta=1e-5&noise_multiplier=1.1&dataset_size=60000&rounds=2000",
    "rounds of an allocation": (
        "?question=rounds&epsilon=3&delta=1e-5&noise_multiplier=2&sampling=allocation&batch_size=100&dataset_size=1050"
    ),
    "epsilon of shuffled batches": (
        "?question=epsilon&delta=1e-5&noise_multiplier=2&sampling=shuffled&batch_size=100&dataset_size=1050"
        "&relation=replace-one&epochs=3"
    ),
    "epsilon of truncated samples": (
        "?question=epsilon&delta=1e-5&noise_multiplier=2&sampling=truncated&batch_size=100&dataset_size=1050"
        "&largest_batch=130&relation=zero-out&epochs=3"
    ),
    "delta of batches of fixed size": (
        "?question=delta&epsilon=1&noise_multiplier=8&sampling=fixed-size&batch_size=10&dataset_size=1000&rounds=10000"
    ),
    "epsilon of a group": (
        "?question=epsilon&delta=1e-5&noise_multiplier=2&batch_size=256&dataset_size=60000&relation=zero-out"
        "&group_size=3&epochs=5"
    ),
    "rate by epochs": "?question=rate&epsilon=3&delta=1e-5&noise_multiplier=1.1&dataset_size=60000&epochs=20",
}


def library_answer(query: str) -> Answers:
    """What the library says to the question of a link."""
    given: dict[str, Any] = {name: values[0] for name, values in parse_qs(query[1:]).items()}
    question = given.pop("question")
    numbers = {name: value if WORDS[name].kind == "choice" else json.loads(value) for name, value in given.items()}
    budget = {name: numbers.pop(name) for name in ("epsilon", "delta") if name in numbers}
    answers: Answers = getattr(questions, question)(Setting(**numbers), **budget)
    return answers


def test_the_statement_of_the_question_is_copied_in_the_form_that_is_chosen(open_page: Open) -> None:
    query = QUESTIONS["epsilon"]
    page = open_page(query, permissions=["clipboard-read", "clipboard-write"])
    expect_sentence(page, library_answer(query).sentence)
    for form, begins in (
        ("text", "Release: "),
        ("markdown", "- **Release**"),
        ("latex", "\\begin{description}"),
        ("json", "{"),
    ):
        page.locator("#statement-form").select_option(form)
        page.locator("#copied").evaluate("(copied) => { copied.textContent = ''; }")
        page.locator("#copy-statement").click()
        playwright.expect(page.locator("#copied")).to_contain_text("Guarantee")
        assert page.evaluate("navigator.clipboard.readText()").startswith(begins)


@pytest.mark.parametrize("case", QUESTIONS)
def test_a_link_shows_its_question_and_what_is_copied_from_there_gives_the_same_answer(
    open_page: Open, served: Served, case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    query = QUESTIONS[case]
    page = open_page(query, permissions=["clipboard-read", "clipboard-write"])
    found = library_answer(query)
    expect_sentence(page, found.sentence)
    wait_until(page, f"location.search === {json.dumps(query)}")  # the address as it was given

    page.locator("#copy-link").click()
    playwright.expect(page.locator("#done")).to_have_text("Copied the link.")
    assert page.evaluate("navigator.clipboard.readText()") == served.address + query

    page.locator("#copy-python").click()
    playwright.expect(page.locator("#done")).to_have_text("Copied the program.")
    program = page.evaluate("navigator.clipboard.readText()")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program, {})  # that it runs is the claim
    assert json.loads(printed.getvalue()) == found.best.values[found.quantity.name]

    page.locator("#copy-command").click()
    playwright.expect(page.locator("#done")).to_have_text("Copied the command.")
    words = page.evaluate("navigator.clipboard.readText()").split()
    assert words[0] == "dprounds"
    pytest.importorskip("typer", reason="the command line needs Typer")
    from dprounds.cli import main

    capsys.readouterr()
    assert main([*words[1:], "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(found.to_json())


def choose_loader(page: Page, name: str) -> None:
    page.locator(f"#sampling input[value={name}]").check()


def test_the_loaders_stand_side_by_side_with_what_each_costs(open_page: Open) -> None:
    words = "&noise_multiplier=2&batch_size=100&dataset_size=1050"
    page = open_page(f"?question=epsilon&delta=1e-5{words}&epochs=3")
    assert page.locator("#sampling legend").inner_text() == "How does your loader choose a batch?"
    for loader, meaning in SAMPLINGS.items():
        assert meaning in page.locator(f"#sampling label:has([value={loader}])").inner_text()

    def costs() -> list[str]:
        """What is shown for each loader, once all of it belongs to the question."""
        whole(page)
        wait_until(page, "document.querySelectorAll('.loaders .cost.stale').length === 0")
        return [text.replace("\n", " ") for text in page.locator(".loaders .cost").all_inner_texts()]

    def cost(loader: str, relation: str = "") -> float:
        chosen = f"&relation={relation}" if relation else ""
        query = f"?question=epsilon&delta=1e-5&sampling={loader}{words}{chosen}&epochs=3"
        return float(library_answer(query).best.values["epsilon"] or 0.0)

    first = costs()
    relations = ["add or remove one", "add or remove one", "", "replace one", "zero out one", ""]
    assert all(text.endswith(relation) for text, relation in zip(first, relations, strict=True))
    assert [text.startswith("ε ≤ ") for text in first] == [False, False, False, True, True, False]
    page.locator("#relation").select_option("zero-out")
    second = costs()
    assert not second.pop(2)  # nobody has said where batches are cut
    assert all(text.endswith("zero out one") for text in second[:4])
    for text, loader in zip(second, ("poisson", "allocation", "fixed-size", "shuffled"), strict=False):
        value = float(text.removeprefix("ε ").removeprefix("≤ ").split()[0])
        assert cost(loader, "zero-out") <= value <= cost(loader, "zero-out") * (1 + 1e-3), loader
    choose_loader(page, "shuffled")  # which keeps the relation, since it has that too
    wait_until(page, "location.search.includes('sampling=shuffled')")
    assert [text for i, text in enumerate(costs()) if i != 2] == second
    page.locator("#relation").select_option("replace-one")
    assert [text.split()[0] for text in costs()[:2]] == ["ε", "not"]  # an allocation has no such relation
    choose_loader(page, "allocation")
    assert asked_for(page, "relation") == "add-remove"
    choose_loader(page, "poisson")
    assert costs() == first


def test_the_chart_of_a_loader_by_epochs_counts_epochs(open_page: Open) -> None:
    query = QUESTIONS["rounds of an allocation"]
    page = open_page(query)
    whole(page)
    epochs = library_answer(query).best.values["epochs"]
    assert page.locator("#rounds-chart .note").text_content() == f"{epochs:g} epochs"
    assert "epochs of 11 rounds" in page.locator("#rounds-chart text").all_text_contents()
    assert page.locator("#rounds-chart .curve.exact").count() == 1
    assert "1 % false alarms" in page.locator("#attack-sentence").inner_text()


def test_every_move_is_in_the_address_and_the_address_brings_it_back(open_page: Open) -> None:
    page = open_page()
    settle(page)
    page.get_by_role("radio", name="What ε does it cost?").dispatch_event("click")
    page.locator("#batch").select_option("rate")
    page.locator("#sampling_rate").fill("0.02")
    page.locator("#length").select_option("rounds")
    page.locator("#rounds").fill("5000")
    query = "?question=epsilon&delta=1e-5&noise_multiplier=1.1&sampling_rate=0.02&rounds=5000"
    wait_until(page, f"location.search === {json.dumps(query)}")
    expect_sentence(page, library_answer(query).sentence)
    again = open_page(query)
    expect_sentence(again, library_answer(query).sentence)
    assert asked_for(again, "sampling_rate") == "0.02"
    assert asked_for(again, "length") == "rounds"


def test_figure_and_data_are_downloaded(open_page: Open, tmp_path: Path) -> None:
    page = open_page("?question=rounds&epsilon=6&delta=1e-5&noise_multiplier=20")
    settle(page)
    wait_until(page, "document.getElementById('attack-sentence').textContent.includes('1 % false alarms')")
    wait_until(page, "document.querySelectorAll('#rounds-chart .curve').length === 5")
    found = library_answer("?question=rounds&epsilon=6&delta=1e-5&noise_multiplier=20")
    saved = {}
    for button in ("save-figure", "save-csv", "save-json"):
        with page.expect_download() as download:
            page.locator(f"#{button}").click()
        saved[button] = tmp_path / download.value.suggested_filename
        download.value.save_as(saved[button])
    assert [path.name for path in saved.values()] == ["dprounds.svg", "dprounds.csv", "dprounds.json"]

    figure = ET.parse(saved["save-figure"]).getroot()
    text = " ".join(figure.itertext())
    assert figure.tag == "{http://www.w3.org/2000/svg}svg"
    assert found.sentence in text
    assert "685 rounds" in text
    assert len(figure.findall(".//{http://www.w3.org/2000/svg}polyline")) == 5

    data = json.loads(saved["save-json"].read_text())
    expected = json.loads(found.to_json())
    assert {name: data[name] for name in expected} == expected
    assert {row["method"] for row in data["curve"]} == {"moments", "balle", "closed-form", "optimal", "exact"}
    assert data["trade-off"][0].keys() == {"false_positive_rate", "false_negative_rate"}

    rows = list(csv.DictReader(io.StringIO(saved["save-csv"].read_text())))
    assert [row["rounds"] for row in rows if row["table"] == "answers"] == ["501", "603", "603", "603", "685"]
    assert len(rows) == 5 + len(data["curve"]) + len(data["trade-off"])


# The least contrast of text against what is behind it, over all elements that show text of their own.
CONTRAST = """() => {
  const channels = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (node) => {
    for (let each = node; each; each = each.parentElement) {
      const colour = channels(getComputedStyle(each).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.getClientRects().length || ["OPTION", "NOSCRIPT"].includes(node.tagName)) continue;
    const style = getComputedStyle(node);
    const ink = light(channels(node.namespaceURI.endsWith("svg") ? style.fill : style.color));
    const back = light(ground(node));
    found.push([(Math.max(ink, back) + 0.05) / (Math.min(ink, back) + 0.05), node.textContent.slice(0, 40)]);
  }
  return found.sort((a, b) => a[0] - b[0])[0];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_light_and_dark(open_page: Open, scheme: str) -> None:
    page = open_page(color_scheme=scheme)
    settle(page)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(16, 19, 23)") == (scheme == "dark")
    worst, where = page.evaluate(CONTRAST)
    assert worst >= 4.5, where


def test_dark_can_be_chosen_and_stays(open_page: Open) -> None:
    page = open_page(color_scheme="light")
    settle(page)
    ground = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(ground)
    page.locator("#theme").click()
    after = page.evaluate(ground)
    assert before != after
    assert page.locator("#theme").get_attribute("aria-pressed") == "true"
    page.reload()
    assert page.evaluate(ground) == after
    page.locator("#theme").click()
    assert page.evaluate(ground) == before


def test_no_method_is_told_by_its_colour_alone(open_page: Open) -> None:
    page = open_page()
    page.wait_for_selector("#rounds-chart .curve.exact")
    styles = page.evaluate(
        """[...document.querySelectorAll("#rounds-chart .curve")]
             .map((line) => getComputedStyle(line).strokeDasharray + getComputedStyle(line).strokeWidth)"""
    )
    assert len(set(styles)) == len(styles) == 5


@pytest.mark.parametrize("width", [360, 768])
def test_a_narrow_screen_scrolls_in_one_direction_only(open_page: Open, width: int) -> None:
    page = open_page()
    page.set_viewport_size({"width": width, "height": 740})
    settle(page)
    for question in ("How many rounds?", "What ε does it cost?", "What δ?", "How much noise?", "What rate?"):
        page.get_by_role("radio", name=question).dispatch_event("click")
        page.locator("#copy-python").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # nothing reaches beyond the edge, but for the table, which scrolls by itself
        assert (
            page.evaluate(
                """Math.max(...[...document.querySelectorAll("body *:not(.unseen)")]
                 .filter((each) => !each.closest(".scroll, svg")).map((each) => each.getBoundingClientRect().right))"""
            )
            <= width + 0.5
        )


def test_the_whole_page_is_used_by_keyboard_alone(open_page: Open) -> None:
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    settle(page)
    reached = []
    for _ in range(50):
        page.keyboard.press("Tab")
        at = page.evaluate(
            """(() => { const node = document.activeElement;
                 const shown = node.matches("[name=question]") ? node.nextElementSibling : node;
                 const style = getComputedStyle(node.matches("[role=slider]") ? node.querySelector(".knob") : shown);
                 const ring = node.matches("[role=slider]") ? style.strokeWidth === "3px"
                   : style.outlineStyle !== "none" && style.outlineWidth !== "0px";
                 return [node.id || node.value || node.getAttribute("role"), ring]; })()"""
        )
        if at[0] is None or at[0] in reached:  # past the end
            break
        reached.append(at[0])
        assert at[1], f"{at[0]} does not show its focus"
        if at[0] == "rounds":  # the question, a group of radio buttons
            page.keyboard.press("ArrowRight")
            expect_sentence(
                page,
                library_answer(
                    "?question=epsilon&delta=1e-5&noise_multiplier=1.1&batch_size=256&dataset_size=60000&epochs=60"
                ).sentence,
            )
            page.keyboard.press("ArrowLeft")
            settle(page)
        if at[0] == "epsilon-slider":
            page.keyboard.press("ArrowRight")
        if at[0] == "epsilon":
            assert float(asked_for(page, "epsilon")) > 3
            page.keyboard.type("4")  # the text is selected when one tabs into it
            expect_sentence(page, rounds_as_shown(page).sentence)
        if at[0] == "copy-command":
            page.keyboard.press("Enter")
            playwright.expect(page.locator("#done")).to_have_text("Copied the command.")
    wanted = ["theme", "rounds", "epsilon-slider", "epsilon", "mechanism", "noise_multiplier", "poisson", "batch_size"]
    assert [name for name in reached if name in wanted] == wanted
    assert {"slider", "copy-python", "copy-command", "save-figure", "save-csv", "save-json"} <= set(reached)


def test_every_input_has_a_name_for_a_screen_reader(open_page: Open) -> None:
    page = open_page()
    settle(page)
    nameless = page.evaluate(
        """[...document.querySelectorAll("input, select, button, [role=slider], [role=region], svg[role]")]
             .filter((each) => !(each.labels?.length || each.getAttribute("aria-label")
               || each.getAttribute("aria-labelledby") || each.textContent.trim()))
             .map((each) => each.outerHTML)"""
    )
    assert nameless == []
    assert page.locator("#spoken").get_attribute("aria-live") == "polite"
    assert page.locator("html").get_attribute("lang") == "en"


def test_a_mechanism_that_cannot_be_sampled_says_so_and_all_records_mend_it(open_page: Open) -> None:
    page = open_page()
    settle(page)
    page.locator("#mechanism").select_option("zcdp")
    playwright.expect(page.locator("#refusal")).to_contain_text("Poisson-sampled zcdp")
    choose_loader(page, "none")
    expect_sentence(page, library_answer("?question=rounds&mechanism=zcdp&epsilon=3&delta=1e-5&rho=0.001").sentence)


def test_a_server_that_is_gone_is_named(open_page: Open) -> None:
    page = open_page("?question=rounds&epsilon=6&delta=1e-5&noise_multiplier=20")
    settle(page)
    page.wait_for_load_state("networkidle")
    page.context.set_offline(True)
    page.locator("#epsilon").fill("5")
    playwright.expect(page.locator("#refusal")).to_have_text(
        "The server does not answer. Start it again: dprounds serve."
    )
    page.context.set_offline(False)
    page.locator("#epsilon").fill("5.5")
    expect_sentence(page, library_answer("?question=rounds&epsilon=5.5&delta=1e-5&noise_multiplier=20").sentence)


def test_every_move_is_measured_to_its_answer_and_to_all_of_it(open_page: Open) -> None:
    """How long that takes depends on who else computes: `benchmarks.moves` says it of a quiet machine."""
    page = open_page()
    whole(page)
    page.evaluate("performance.clearMeasures()")
    for step in range(3):
        page.evaluate(
            """(share) => { const slider = document.getElementById("noise_multiplier-slider"); slider.value = share;
                 slider.dispatchEvent(new Event("input")); }""",
            200 + 20 * step,
        )
        whole(page)
    first, last = page.evaluate(
        """["answer", "settled"].map((name) => performance.getEntriesByName(name).map((each) => each.duration))"""
    )
    assert len(first) == len(last) == 3
    assert all(0 < one <= all_of_it for one, all_of_it in zip(first, last, strict=True))


@pytest.mark.skipif(
    "SCREENSHOTS" not in os.environ, reason="draws the documentation's pictures when SCREENSHOTS names a folder"
)
def test_pictures_for_the_documentation(open_page: Open) -> None:
    for name, scheme in (("light", "light"), ("dark", "dark")):
        page = open_page(color_scheme=scheme)
        page.set_viewport_size({"width": 1280, "height": 860})
        whole(page)
        wait_until(page, "document.querySelectorAll('.loaders .cost b').length === 5")
        page.screenshot(path=Path(os.environ["SCREENSHOTS"]) / f"page-{name}.png")


class Held:
    """Requests that are kept from the server until they are let go."""

    def __init__(self, page: Page, *words: str, but: str = "#") -> None:
        self.words, self.but = words, but
        self.kept: list[Any] = []
        page.route("**/api/**", self._keep)

    def _keep(self, route: Any) -> None:
        if any(word in route.request.url for word in self.words) and self.but not in route.request.url:
            self.kept.append(route)
        else:
            route.continue_()

    def let_go(self) -> None:
        self.words = ()
        for route in self.kept:
            with contextlib.suppress(playwright.Error):  # given up meanwhile
                route.continue_()


def download(page: Page, button: str) -> str:
    """What a button saves."""
    with page.expect_download() as saved:
        page.locator(button).click()
    return str(Path(saved.value.path()).read_text())


@pytest.mark.parametrize("button", ["#save-json", "#save-csv", "#save-figure"])
def test_a_file_saved_right_after_a_move_belongs_to_one_question(open_page: Open, button: str) -> None:
    page = open_page()
    whole(page)
    before = download(page, button)
    held = Held(page, "/curve", "/trade-off")
    page.locator("#noise_multiplier").fill("2")
    playwright.expect(page.locator("#value")).to_have_text("99,448")  # the answer is there, and the curves are not
    with page.expect_download() as saved:
        page.locator(button).click()
        playwright.expect(page.locator("#done")).to_have_text("Waiting for the whole answer…")
        held.let_go()
    soon = Path(saved.value.path()).read_text()
    whole(page)
    assert soon == download(page, button)
    assert soon != before
    if button == "#save-json":
        found = json.loads(soon)
        assert found["inputs"]["noise_multiplier"] == 2
        exact = [row for row in found["curve"] if row["method"] == "exact"]
        assert exact[-1]["epsilon"] == pytest.approx(
            (Setting(noise_multiplier=2.0, **SGD).step() * exact[-1]["rounds"]).epsilon(delta=1e-5), rel=1e-3
        )


def test_a_file_of_a_question_that_was_left_is_not_saved(open_page: Open) -> None:
    page = open_page()
    whole(page)
    downloads: list[str] = []
    page.on("download", lambda saved: downloads.append(saved.url))
    held = Held(page, "/curve", "/trade-off")
    page.locator("#noise_multiplier").fill("2")
    page.locator("#save-json").click()
    playwright.expect(page.locator("#done")).to_have_text("Waiting for the whole answer…")
    page.locator("#noise_multiplier").fill("3")
    playwright.expect(page.locator("#done")).to_have_text("The question has changed since: press again.")
    held.let_go()
    whole(page)
    assert downloads == []
    page.locator("#delta").fill("2")
    playwright.expect(page.locator("#refusal")).to_be_visible()
    page.locator("#save-json").click()
    playwright.expect(page.locator("#done")).to_have_text("There is no answer to take.")


def test_what_is_not_yet_computed_is_dimmed_beside_a_new_headline(open_page: Open) -> None:
    page = open_page()
    whole(page)
    assert not any(dimmed(page).values())
    held = Held(page, "/curve", "/trade-off", "/rounds", but="method=")
    before = page.locator("#value").inner_text()
    page.locator("#noise_multiplier").fill("2")
    # on a slow machine a bound stands in for the exact answer, which waits for the table
    playwright.expect(page.locator("#value")).not_to_have_text(before)
    assert dimmed(page) == {"headline": False, "sentence": False, "table": True, "curve": True, "attack": True}
    page.wait_for_timeout(700)
    for place in ("#rounds-figure", "#attack-figure", "#methods"):  # and says that it is on its way
        assert page.evaluate(f"getComputedStyle(document.querySelector('{place}'), '::after').opacity") == "1"
    held.let_go()
    whole(page)
    assert not any(dimmed(page).values())
    assert page.locator("#table tr.best td").first.inner_text() == page.locator("#value").inner_text() == "99,448"


def test_a_headline_that_is_late_is_dimmed_too(open_page: Open) -> None:
    page = open_page()
    whole(page)
    held = Held(page, "/rounds")
    page.locator("#epsilon").fill("2")
    wait_until(page, "document.getElementById('headline').classList.contains('stale')")
    assert all(dimmed(page).values())
    held.let_go()
    whole(page)
    assert not any(dimmed(page).values())


def test_the_budget_moves_along_a_curve_that_stays(open_page: Open) -> None:
    """The curve does not depend on the budget, so that it is neither dimmed nor asked for again."""
    page = open_page()
    whole(page)
    Held(page, "/curve")
    page.locator("#rounds-chart [role=slider]").focus()
    page.keyboard.press("ArrowUp")
    expect_sentence(page, rounds_as_shown(page).sentence)
    assert not dimmed(page)["curve"]


def test_a_bound_that_stands_in_says_on_which_side_it_errs(open_page: Open) -> None:
    page = open_page("?question=rounds&epsilon=3&delta=1e-5&noise_multiplier=20")
    whole(page)
    held = Held(page, "/api/rounds", but="method=closed-form")
    page.locator("#mechanism").select_option("laplace")
    choose_loader(page, "poisson")
    playwright.expect(page.locator("#headline")).to_contain_text("at least")
    playwright.expect(page.locator("#sentence")).to_contain_text("The exact answer is being computed.")
    held.let_go()
    whole(page)
    assert "at least" not in page.locator("#headline").inner_text()


@pytest.mark.parametrize("width", [390, 1280])
def test_the_downloaded_figure_is_whole(open_page: Open, width: int, tmp_path: Path) -> None:
    page = open_page("?question=rounds&epsilon=3&delta=1e-4&noise_multiplier=1.1&batch_size=256&dataset_size=60000")
    page.set_viewport_size({"width": width, "height": 860})
    whole(page)
    drawn = page.context.new_page()
    drawn.set_content(download(page, "#save-figure"))
    boxes = drawn.evaluate(
        """[...document.querySelectorAll("svg text, svg line.curve")].map((each) => {
             const { left, right, top, bottom } = each.getBoundingClientRect();
             const whole = document.querySelector("svg").getBoundingClientRect();
             return { text: each.textContent, name: each.getAttribute("class"), left, right, top, bottom,
               inside: left >= whole.left && right <= whole.right && top >= whole.top && bottom <= whole.bottom };
           })"""
    )
    assert [box["text"] for box in boxes if not box["inside"]] == []
    fills = drawn.evaluate("[...document.querySelectorAll('svg polyline')].map((each) => getComputedStyle(each).fill)")
    assert fills == ["none"] * 5  # lines, not areas
    words = " ".join(box["text"] for box in boxes)
    found = library_answer(
        "?question=rounds&epsilon=3&delta=1e-4&noise_multiplier=1.1&batch_size=256&dataset_size=60000"
    )
    for sentence in (found.sentence, found.holds_for, *found.remarks, "budget ε = 3"):
        assert sentence in words
    written = [box for box in boxes if box["text"] in ("moments", "balle", "closed-form", "optimal", "exact")]
    lines = [box for box in boxes if not box["text"]]
    assert len(written) == len(lines) == 5
    for one in written:  # no name runs into the next, or into its line
        for other in (*written, *lines):
            apart = one["right"] <= other["left"] or other["right"] <= one["left"]
            assert one is other or apart or one["bottom"] <= other["top"] + 1 or other["bottom"] <= one["top"] + 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_method_has_one_look_on_the_page_and_in_pictures(open_page: Open, scheme: str) -> None:
    page = open_page(color_scheme=scheme)
    whole(page)
    for method, style in METHOD_STYLES.items():
        red, green, blue = (int(style.color[i : i + 2], 16) for i in (1, 3, 5))
        stroke, width = page.evaluate(
            """(method) => { const style = getComputedStyle(document.querySelector(`#rounds-chart .curve.${method}`));
                 return [style.stroke, style.strokeWidth]; }""",
            method,
        )
        assert stroke == f"rgb({red}, {green}, {blue})"
        assert width == f"{style.width:g}px"
    order = page.evaluate("[...document.querySelectorAll('#rounds-chart .curve')].map((each) => each.classList[1])")
    assert tuple(order) == LAYERS


def test_a_link_that_asks_what_the_page_does_not_know_says_so(open_page: Open) -> None:
    page = open_page("?question=foo")
    whole(page)
    assert page.locator("#trouble").inner_text() == (
        "This link asks “foo”; this page answers rounds, epsilon, delta, noise, rate. It shows its own example instead."
    )
    assert page.locator("#value").inner_text() == "21,364"
    page.locator("#epsilon").fill("2")
    playwright.expect(page.locator("#trouble")).to_be_hidden()
    page = open_page("?question=noise&epsilon=3&delta=1e-5&sampling_rate=0.01&rounds=100&mechanism=zcdp&epsilom=2")
    whole(page)
    assert page.locator("#trouble").inner_text() == (
        "Of this link, “epsilom” is no word of this page; “zcdp” is no mechanism of this question, which takes "
        "gaussian, laplace, discrete-gaussian, discrete-laplace. Left out."
    )


def test_a_number_that_no_double_holds_is_refused_at_its_field(open_page: Open) -> None:
    page = open_page("?question=rounds&epsilon=1e400&delta=1e-5&noise_multiplier=20")
    sentence = "epsilon must be a number that a double holds, got '1e400': too large."
    playwright.expect(page.locator("#refusal")).to_have_text(sentence)
    playwright.expect(page.locator("#epsilon-wrong")).to_have_text(sentence)
    assert page.locator("#epsilon").get_attribute("aria-invalid") == "true"
    for place in ("#charts", "#methods", "#actions", "#headline"):  # nothing was found yet, so nothing is shown
        assert page.locator(place).is_hidden()
    page.locator("#epsilon").fill("6")
    expect_sentence(page, library_answer("?question=rounds&epsilon=6&delta=1e-5&noise_multiplier=20").sentence)
    playwright.expect(page.locator("#charts")).to_be_visible()


def test_an_infinite_answer_is_said_in_words_and_drawn_as_far_as_it_is_finite(open_page: Open) -> None:
    page = open_page("?question=epsilon&delta=1e-5&mechanism=approximate-dp&step_epsilon=0.1&step_delta=1e-6&rounds=30")
    whole(page)
    assert page.locator("#headline").inner_text() == "∞ no finite ε is proven"
    playwright.expect(page.locator("#rounds-chart")).to_contain_text("Beyond 10 rounds no finite ε is proven.")
    assert page.locator("#rounds-chart .curve.exact").count() == 1
    ticks = page.locator("#rounds-chart text").all_text_contents()
    assert "1.5" in ticks  # the axis fits what is drawn


def test_it_says_what_is_assumed_and_what_the_methods_are(open_page: Open) -> None:
    page = open_page("?question=rounds&epsilon=3&delta=1e-4&noise_multiplier=1.1&batch_size=256&dataset_size=60000")
    whole(page)
    found = library_answer(
        "?question=rounds&epsilon=3&delta=1e-4&noise_multiplier=1.1&batch_size=256&dataset_size=60000"
    )
    assert "add or remove one record" in found.holds_for
    assert page.locator("#holds-for").inner_text() == found.holds_for
    assert page.locator("#remarks").inner_text() == found.remarks[0]
    assert found.remarks[0] in page.locator("#spoken").inner_text()
    for method, words in METHODS.items():
        assert page.locator(f"#explained [data-method={method}] dd").inner_text() == words
    assert page.locator("#legend li").first.get_attribute("title") == METHODS["moments"]
    page.locator("#delta").fill("1e-6")
    whole(page)
    assert page.locator("#remarks").is_hidden()


def test_nothing_below_the_answer_moves_when_its_sentence_changes(open_page: Open) -> None:
    page = open_page("?question=rounds&epsilon=3&delta=1e-5&noise_multiplier=1.1&batch_size=256&dataset_size=60000")
    whole(page)
    place = "document.getElementById('charts').getBoundingClientRect().top"
    before = page.evaluate(place)
    for epsilon in ("0", "2.123456", "3"):  # a sentence of one line, and of two
        page.locator("#epsilon").fill(epsilon)
        whole(page)
        assert page.evaluate(place) == before


def test_the_budget_line_is_dragged_beyond_the_chart(open_page: Open) -> None:
    page = open_page()
    whole(page)

    def move(what: str, x: float, y: float) -> None:
        page.mouse.move(x, y)
        if what == "start":
            page.mouse.down()
        if what == "end":
            page.mouse.up()

    drag_line(page, -200, move)
    assert float(asked_for(page, "epsilon")) > 4.5
    whole(page)
    line = page.locator("#rounds-chart .budget .line").bounding_box()
    assert line["y"] > page.locator("#rounds-chart").bounding_box()["y"] + 20  # the scale has followed


def test_on_a_phone_the_chart_comes_before_the_inputs_and_the_table_fits(open_page: Open) -> None:
    page = open_page()
    page.set_viewport_size({"width": 390, "height": 844})
    for query in QUESTIONS.values():
        page.goto(page.url.partition("?")[0] + query)
        whole(page)
        tops = [page.locator(place).bounding_box()["y"] for place in ("#questions", "#rounds-figure", "#fields")]
        assert tops == sorted(tops)
        wide, room = page.evaluate(
            "(({ scrollWidth, clientWidth }) => [scrollWidth, clientWidth])(document.getElementById('methods'))"
        )
        assert wide <= room, query


def test_the_chart_of_a_rate_for_epochs_reaches_its_rounds(open_page: Open) -> None:
    page = open_page(QUESTIONS["rate by epochs"])
    whole(page)
    made = library_answer(QUESTIONS["rate by epochs"]).best.values["rounds"]
    assert page.locator("#rounds-chart .note").text_content() == f"{made:,} rounds"


def test_a_delta_of_zero_is_a_question(open_page: Open) -> None:
    page = open_page("?question=epsilon&delta=0&mechanism=laplace&noise_multiplier=2&rounds=1")
    whole(page)
    assert page.locator("#value").inner_text() == "0.5"
    assert page.locator("#sentence").inner_text() == "1 round costs ε = 0.5 at δ = 0."
    assert page.locator("#rounds-chart .curve.exact").count() == 1
    page.locator("#mechanism").select_option("gaussian")  # which has no largest loss
    whole(page)
    assert page.locator("#headline").inner_text() == "∞ no finite ε is proven"
    playwright.expect(page.locator("#rounds-chart")).to_contain_text("No finite ε is proven for any of these rounds.")


PLANNED: dict[str, Any] = {"dataset_size": 4_000, "epsilon": 1, "delta": 1e-5, "epochs": 10, "habit": 64}


def open_plan(open_page: Open, **options: Any) -> Page:
    """The page with its view *Plan* open and the question of `PLANNED` answered there."""
    page = open_page(**options)
    page.locator("#plan summary").click()
    for name, value in PLANNED.items():
        page.locator(f"#plan-{name}").fill(f"{value}")
    planned(page)
    return page


def planned(page: Page) -> dict[str, Any]:
    """What HTTP answers to the question in the fields of the view, once the view shows all of it."""
    asked = {name: page.locator(f"#plan-{name}").input_value() for name in PLANNED}
    found: dict[str, Any] = page.request.get(f"{page.url.partition('?')[0]}api/plan", params=asked).json()
    playwright.expect(page.locator("#plan-sentence")).to_have_text(found["sentence"], timeout=PATIENCE)
    wait_until(page, "document.querySelectorAll('#plan .stale').length === 0")
    whole(page)
    return found


def shown_plan(page: Page) -> list[str]:
    """The cells of the plan in the table of the view."""
    return [str(text) for text in page.locator("#plan-table tr.best > *").all_inner_texts()]


def test_the_plan_view_shows_the_librarys_plan_a_row_for_each_batch_size_and_a_chart(open_page: Open) -> None:
    page = open_plan(open_page)
    found = questions.plan(**PLANNED)
    assert page.locator("#plan-sentence").inner_text() == found.sentence
    assert page.locator("#plan-remarks").inner_text() == " ".join((found.holds_for, *found.remarks))
    rows = page.locator("#plan-table tbody tr").all_inner_texts()
    assert [row.split("\t")[:2] for row in rows[:-1]] == [
        [f"{row.values['batch_size']:,}", f"{row.values['rounds']:,}"] for row in found.answers[:-1]
    ]
    best: dict[str, Any] = dict(found.best.values)
    cells = shown_plan(page)
    assert cells[:3] == [f"Plan: {best['batch_size']:,}", f"{best['rounds']:,}", f"{best['epochs']:g}"]
    assert best["noise_multiplier"] <= float(cells[3]) <= best["noise_multiplier"] + 1e-4  # never less noise
    assert cells[4] == f"{100 * best['excess']:.1f}"
    legend = page.locator("#plan-legend li").all_inner_texts()
    assert {f"batches of {best['batch_size']:,}", "batches of 64"} <= set(legend)
    assert (
        page.locator("#plan-chart .curve.of-plan").count() == page.locator("#plan-chart .curve.of-habit").count() == 1
    )
    assert {"plan", "today"} <= set(page.locator("#plan-chart .note").all_text_contents())


@pytest.mark.parametrize("width", [390, 360, 320])
def test_on_a_phone_the_plan_has_all_its_columns_and_no_line_goes_through_its_note(open_page: Open, width: int) -> None:
    page = open_plan(open_page)
    page.set_viewport_size({"width": width, "height": 800})
    note = page.locator("#plan-chart .note", has_text="plan")
    wait_until(page, f"document.querySelector('#plan-chart').getBoundingClientRect().width < {width}")
    line = page.locator("#plan-chart [role=slider] .line").bounding_box()
    box = note.bounding_box()
    assert not box["x"] < line["x"] < box["x"] + box["width"]
    assert (
        page.evaluate(
            "(() => { const s = document.querySelector('#plan .scroll'); return s.scrollWidth - s.clientWidth; })()"
        )
        <= 1
    )


def test_the_plan_is_for_the_loader_that_is_chosen(open_page: Open) -> None:
    page = open_plan(open_page)
    loader = page.locator("#plan-sampling")
    assert loader.locator("option").evaluate_all("(all) => all.map((each) => each.value)") == [
        name for name in SAMPLINGS if name != "none"
    ]
    loader.select_option("shuffled")
    found = questions.plan(**PLANNED, sampling="shuffled")
    playwright.expect(page.locator("#plan-sentence")).to_have_text(found.sentence)
    playwright.expect(page.locator("#plan-remarks")).to_contain_text(found.holds_for)


def test_a_plan_whose_chart_is_refused_is_shown_and_typed_epochs_move_their_line(open_page: Open) -> None:
    page = open_plan(open_page)
    refusal = "This takes longer than 10 s to compute, and was stopped."
    page.route("**/api/plan-curve?*", lambda route: route.fulfill(status=422, json={"error": refusal}))
    page.locator("#plan-epochs").fill("9")
    assert page.locator("#plan-chart [role=slider]").get_attribute("aria-valuenow") == "9"
    playwright.expect(page.locator("#plan-refusal")).to_have_text(
        f"The plan is complete, but its chart is not. {refusal}"
    )
    assert page.locator("#plan-sentence").inner_text() == questions.plan(**{**PLANNED, "epochs": 9}).sentence
    assert [each.get_attribute("id") for each in page.locator("#plan .stale").all()] == ["plan-chart"]


def test_the_line_of_epochs_is_dragged_and_the_plan_follows(open_page: Open) -> None:
    page = open_plan(open_page)
    before = shown_plan(page)
    line = page.locator("#plan-chart [role=slider]")
    line.scroll_into_view_if_needed()
    box = page.locator("#plan-chart [role=slider] .line").bounding_box()
    y, wide = box["y"] + box["height"] / 2, page.locator("#plan-chart").bounding_box()["width"]
    page.mouse.move(box["x"], y)
    page.mouse.down()
    page.mouse.move(box["x"] - 0.2 * wide, y, steps=8)
    assert page.locator("#plan-chart .epochs .note").text_content().count(" %") == 2  # of the plan and of the habit
    page.mouse.up()
    epochs = int(asked_for(page, "plan-epochs"))
    assert 1 <= epochs < PLANNED["epochs"]
    shorter = planned(page)
    assert shorter["inputs"]["epochs"] == epochs
    assert shorter["sentence"] == questions.plan(**{**PLANNED, "epochs": epochs}).sentence
    assert shown_plan(page) != before
    assert shown_plan(page)[1] == f"{shorter['answers'][-1]['rounds']:,}"
    assert line.get_attribute("aria-valuenow") == f"{epochs}"

    last = int(float(str(line.get_attribute("aria-valuemax"))))
    line.focus()
    for key, holds in (("ArrowRight", epochs + 1), ("ArrowLeft", epochs), ("End", last), ("PageUp", last), ("Home", 1)):
        page.keyboard.press(key)
        assert asked_for(page, "plan-epochs") == line.get_attribute("aria-valuenow") == f"{holds}"
    assert page.locator("#plan-chart .epochs .note").text_content() == "1 epoch"


def test_a_bad_value_of_the_plan_gets_its_sentence_and_dims_the_last_plan(open_page: Open) -> None:
    page = open_plan(open_page)
    before = shown_plan(page)
    for name, text, sentence in (
        ("delta", "2", "Failure mass δ must be in [0, 1), got 2."),
        ("habit", "5000", "Batch size today must be an integer in [1, 4000], got 5000."),
        ("epochs", "long", "Epochs must be a real number in (0, inf), got 'long'."),
    ):
        page.locator(f"#plan-{name}").fill(text)
        playwright.expect(page.locator("#plan-refusal")).to_have_text(sentence)
        marked = page.locator("#plan-form [aria-invalid=true]")
        assert [field.get_attribute("name") for field in marked.all()] == [name]
        assert shown_plan(page) == before  # the last good one stays, dimmed
        for place in ("#plan-sentence", "#plan-table", "#plan-chart > g"):
            assert float(page.locator(place).first.evaluate("(each) => getComputedStyle(each).opacity")) < 0.6
        page.locator(f"#plan-{name}").fill(f"{PLANNED[name]}")
        planned(page)
        playwright.expect(page.locator("#plan-refusal")).to_be_hidden()
        assert marked.count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_plan_fits_a_phone_and_its_text_stands_out(open_page: Open, scheme: str) -> None:
    page = open_page(color_scheme=scheme)
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator("#plan summary").click()
    planned(page)  # of 60,000 records: long numbers
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    wide, room = page.evaluate(
        "(({ scrollWidth, clientWidth }) => [scrollWidth, clientWidth])(document.querySelector('#plan .scroll'))"
    )
    assert wide <= room
    worst, where = page.evaluate(CONTRAST)
    assert worst >= 4.5, where


def test_a_kept_setting_stands_next_to_the_one_that_is_asked(open_page: Open) -> None:
    page = open_page()
    whole(page)
    page.locator("#keep").click()
    table = page.locator("#compare-table")
    playwright.expect(table).to_contain_text("Both are the same")
    before = page.locator("#value").inner_text()
    page.locator("#noise_multiplier").fill("1.5")
    whole(page)
    after = page.locator("#value").inner_text()
    rows = [row.split("\t") for row in table.locator("tr").all_inner_texts()]
    assert rows[0] == ["", "Kept", "Now"]
    assert rows[1] == ["noise multiplier", "1.1", "1.5"]  # what is the same is not listed
    assert rows[-1] == ["exact", f"{before} rounds", f"{after} rounds"]
    page.locator("[name=question][value=epsilon]").check()
    playwright.expect(table).to_contain_text("Question")
    page.locator("#compare-back").click()
    playwright.expect(table).to_contain_text("Both are the same")
    assert asked_for(page, "noise_multiplier") == "1.1"
    page.locator("#compare-forget").click()
    playwright.expect(page.locator("#compare")).to_be_hidden()


def test_a_run_of_several_parts_is_typed_or_opened(open_page: Open, tmp_path: Path) -> None:
    page = open_page()
    page.locator("#parts summary").click()
    sentence = page.locator("#parts .sentence")
    step = PoissonSampled(Gaussian(1.1), 256 / 60_000) * 14_100

    def cost(run: Run) -> str:
        return questions.epsilon(questions.Setting(), delta=1e-5, run=run).sentence

    playwright.expect(sentence).to_have_text(cost(step + Gaussian(20.0) * 10))
    page.locator("#parts-rows button").last.click()
    playwright.expect(sentence).to_have_text(cost(step))
    page.locator("#parts-add").click()
    page.keyboard.type("30")
    page.locator("#parts-rows input[name=rounds]").last.fill("5")
    playwright.expect(sentence).to_have_text(cost(step + Gaussian(30.0) * 5))
    page.locator("#parts-rows input").first.fill('1"\n[[part]]')
    playwright.expect(page.locator("#parts .refusal")).to_contain_text("part 1: noise_multiplier must be a real number")
    accountant = Accountant()
    accountant.record(Gaussian(7.0) * 3)
    (tmp_path / "spent.json").write_text(accountant.to_json())
    page.locator("#parts-file").set_input_files(tmp_path / "spent.json")
    playwright.expect(sentence).to_have_text(cost(Gaussian(7.0) * 3))
    playwright.expect(page.locator("#parts .refusal")).to_be_hidden()
    page.locator("#parts-rows input").first.fill("1.1")  # what is typed counts again
    playwright.expect(sentence).to_have_text(cost(step + Gaussian(30.0) * 5))


def test_a_renyi_bound_is_converted_both_ways(open_page: Open) -> None:
    page = open_page()
    page.locator("#convert summary").click()
    sentence = page.locator("#convert .sentence")
    playwright.expect(sentence).to_have_text(questions.convert(order=8, rdp=0.5, delta=1e-5).sentence)
    rows = page.locator("#convert tbody tr").all_inner_texts()
    assert [row.split("\t")[0].strip() for row in rows] == ["moments", "balle", "closed-form", "optimal"]
    page.locator("#convert-rdp").fill("")
    page.locator("#convert-epsilon").fill("2")
    playwright.expect(sentence).to_have_text(questions.convert(order=8, epsilon=2, delta=1e-5).sentence)
    page.locator("#convert-order").fill("1")
    playwright.expect(page.locator("#convert .refusal")).to_have_text("order must be in (1, inf], got 1.")
    assert page.locator("#convert [aria-invalid=true]").get_attribute("name") == "order"
    playwright.expect(sentence).to_have_class("sentence stale")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_views_below_the_planner_fit_a_phone_and_their_text_stands_out(open_page: Open, scheme: str) -> None:
    page = open_page(color_scheme=scheme)
    page.set_viewport_size({"width": 390, "height": 844})
    whole(page)
    page.locator("#keep").click()
    for view in ("parts", "convert"):
        page.locator(f"#{view} summary").click()
        playwright.expect(page.locator(f"#{view} .sentence")).not_to_be_empty()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    worst, where = page.evaluate(CONTRAST)
    assert worst >= 4.5, where
