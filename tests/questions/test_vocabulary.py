"""A question, a word, a mechanism and a method are each written once, and every face is made of that."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import dprounds
from dprounds import PoissonSampled, UnsupportedError, conversions, mechanisms
from dprounds.mechanisms.accounted import RUN_METHODS
from dprounds.questions import MECHANISMS as MAKERS
from dprounds.questions import Setting, vocabulary
from dprounds.questions.vocabulary import (
    ALIASES,
    CONVERSION_METHODS,
    FIELDS,
    MECHANISMS,
    METHODS,
    NOISY_MECHANISMS,
    QUESTIONS,
    RUN_QUESTIONS,
    SAMPLED_MECHANISMS,
    SETTING,
    WORDS,
)
from dprounds.sweep.grid import EXAMPLES

SOURCE = Path(dprounds.__file__).parent
FACES = ("cli", "web", "sweep")


def test_the_words_of_a_setting_are_its_fields() -> None:
    assert tuple(field.name for field in fields(Setting)) == SETTING


def test_the_methods_are_those_that_the_library_knows() -> None:
    assert tuple(METHODS) == RUN_METHODS
    assert CONVERSION_METHODS == conversions.METHODS


@pytest.mark.parametrize("word", MECHANISMS)
def test_a_mechanism_is_a_public_class_and_what_is_said_of_it_is_true(word: str) -> None:
    described = MECHANISMS[word]
    assert described.makes in dprounds.__all__
    assert MAKERS[word] == (getattr(mechanisms, described.makes), described.parameters)
    made = Setting(mechanism=word, **{name: EXAMPLES[name] for name in described.parameters}).bare_mechanism()
    assert made.has_moment_function == described.is_exact
    assert hasattr(made, "noise_multiplier") == (word in NOISY_MECHANISMS)
    try:
        PoissonSampled(made, 0.5)
    except UnsupportedError:
        assert word not in SAMPLED_MECHANISMS
    else:
        assert word in SAMPLED_MECHANISMS


def test_every_mechanism_of_the_library_that_is_public_has_a_word() -> None:
    kinds = {name for name in dprounds.__all__ if isinstance(kind := getattr(dprounds, name), type)
             and issubclass(kind, mechanisms.Mechanism)}  # fmt: skip
    # loaders are words of `sampling`, and pairs and mixtures of long lists are made in Python
    loaders = {"PoissonSampled", "RandomAllocation", "FixedSizeSampled", "Shuffled", "TruncatedPoissonSampled"}
    assert kinds - loaders - {"DiscretePair", "MixtureOfGaussians"} == {each.makes for each in MECHANISMS.values()}


@pytest.mark.parametrize("name", WORDS)
def test_a_word_says_what_it_is(name: str) -> None:
    word = WORDS[name]
    assert word.name == name
    assert word.meaning
    assert not word.meaning.endswith(".")
    if name in FIELDS:
        field = FIELDS[name]
        assert word.interval.low <= field.low < field.start < field.high <= word.interval.high


def test_the_page_has_a_field_for_each_word_that_flags_hold() -> None:
    held = {name for question in RUN_QUESTIONS for name in QUESTIONS[question].flags if WORDS[name].kind != "choice"}
    assert set(FIELDS) == held
    assert set(ALIASES) <= {*WORDS, "plot", "out"}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_speaks_of_known_words(name: str) -> None:
    question = QUESTIONS[name]
    assert {*question.words, *question.flags, *question.answers, *question.example} <= set(WORDS)
    assert not set(question.answers) & set(question.flags)
    assert set(question.example) <= set(question.flags)
    if name in RUN_QUESTIONS:
        assert question.quantity is not None
        assert question.quantity.name == question.columns[0] == question.answers[0]


@pytest.mark.parametrize("face", FACES)
def test_no_face_keeps_a_table_of_its_own(face: str) -> None:
    """No file of a face names more than a few mechanisms, or all methods, or all questions."""
    for path in (SOURCE / face).rglob("*"):
        if path.suffix not in (".py", ".js", ".html"):
            continue
        text = path.read_text(encoding="utf-8")
        named = {kind: [word for word in words if f'"{word}"' in text] for kind, words in TABLES.items()}
        assert len(named["mechanisms"]) <= 3, (path, named)  # the page says which answers take long
        assert len(named["methods"]) < len(METHODS), (path, named)
        assert len(named["questions"]) < len(RUN_QUESTIONS), (path, named)


TABLES = {"mechanisms": MECHANISMS, "methods": METHODS, "questions": RUN_QUESTIONS}

# Every face, asked about a mechanism and a question that are written into the vocabulary and nowhere else.
ADDED = """
import json, sys, types
from pathlib import Path

path = Path(sys.argv[1])
text = path.read_text(encoding="utf-8")
twin = '''MechanismWord("twin", "Gaussian", ("noise_multiplier",), "Twin noise"),
        MechanismWord("laplace"'''
price = '''Question(name="price", title="What is the price?", tab="What price?", needs=("delta",), answers=("epsilon",),
            columns=("epsilon",), quantity=wording.EPSILON),
        Question(
            name="convert"'''
for old, new in (('MechanismWord("laplace"', twin), ('Question(\\n            name="convert"', price)):
    assert text.count(old) == 1
    text = text.replace(old, new)
import dprounds.questions
module = types.ModuleType("dprounds.questions.vocabulary")
sys.modules[module.__name__] = dprounds.questions.vocabulary = module
exec(compile(text, path, "exec"), module.__dict__)
dprounds.questions.price = dprounds.questions.epsilon  # the answer itself, which is new of course

from dprounds.cli import main
from dprounds.sweep import grid_from_toml
from dprounds.web.app import _filled, _vocabulary, create_app
from dprounds.web.asked import answer

asked = {"mechanism": "twin", "noise_multiplier": 9, "rounds": 5, "delta": 1e-5, "method": "balle"}
described = create_app().app.openapi()
enum = described["paths"]["/api/rounds"]["get"]["parameters"][0]["schema"]["enum"]
grid = grid_from_toml(
    'question = "price"\\n[grid]\\nmechanism = "twin"\\nnoise_multiplier = 9\\nrounds = 5\\ndelta = 1e-5'
)
found = {
    "API": answer("price", asked)["answers"] == answer("epsilon", asked | {"mechanism": "gaussian"})["answers"],
    "OpenAPI": "twin" in enum and "/api/price" in described["paths"],
    "page": "Twin noise" in _vocabulary()
    and "What price?" in _filled("<!-- questions -->", has_documentation=False, has_budgets=False),
    "sweep": grid.columns == ("mechanism", "noise_multiplier", "rounds", "delta", "method", "epsilon", "error"),
    "command line": main("price --mechanism twin --noise-multiplier 9 --rounds 5 --delta 1e-5 --method balle".split()),
    "noise": main("noise --mechanism twin --epsilon 3 --delta 1e-5 --rounds 5 --method balle".split()),
}
print(json.dumps(found))
"""


def test_a_question_and_a_mechanism_are_added_in_one_place() -> None:
    words = [sys.executable, "-c", ADDED, str(vocabulary.__file__)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "API": True,
        "OpenAPI": True,
        "page": True,
        "sweep": True,
        "command line": 0,
        "noise": 0,
    }


def test_the_vocabulary_loads_no_numpy() -> None:
    code = "import sys, dprounds.questions.vocabulary; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_the_guarantee_of_one_round_is_refused_by_its_own_name(value: float) -> None:
    for word in ("pure-dp", "randomized-response"):
        with pytest.raises(dprounds.ParameterError, match=r"^step_epsilon must be in \[0, inf\), got"):
            Setting(mechanism=word, step_epsilon=value).bare_mechanism()
