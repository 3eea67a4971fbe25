"""Every command in a ``bash`` block of the documentation is one that works.

``aiopslab`` commands are bound by the real command line (so a renamed flag fails here) and their ids are looked
up in the catalogue; ``make`` verbs must be in the Makefile; anything else must be in ``OTHERS``. What the commands
do is the business of the tests named in ``RUN_BY``: each verb is run by at least one of them.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from aiopslab.catalog.catalog import Catalog
from aiopslab.cli.app import build
from aiopslab.errors import UnknownIdError

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/*/README.md")])
BLOCK = re.compile(r"^```(?:bash|sh|shell|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)

OTHERS = frozenset(
    {"git", "cd", "pip", "export", "python", "kubectl", "helm", "kind", "docker", "pytest", "source"}
)
RUN_BY = {  # verb -> the test file that runs it
    "list": "tests/cli/test_content.py",
    "show": "tests/cli/test_content.py",
    "new": "tests/cli/test_content.py",
    "grade": "tests/cli/test_grade.py",
    "run": "tests/cli/test_run.py",
    "check": "tests/cli/test_run.py",
    "shell": "tests/cli/test_run.py",
    "cluster": "tests/cli/test_cluster.py",
    "tools": "tests/cli/test_content.py",
}
NEW_NAMES = re.compile(r"^(my|your)-|^\.|/|^<|^FOLDER$|^NAME$")  # what a reader makes himself


def commands() -> list[tuple[str, str]]:
    """``(document, command)`` for every command line; continued lines joined, comments and prompts dropped."""
    found = []
    for document in DOCUMENTS:
        for block in BLOCK.findall(document.read_text(encoding="utf-8")):
            for line in block.replace("\\\n", " ").splitlines():
                text = re.sub(r"^\$ ", "", line.strip())
                if text and not text.startswith("#"):
                    found += [
                        (document.relative_to(ROOT).as_posix(), part.strip()) for part in text.split("&&")
                    ]
    return found


def targets() -> set[str]:
    return set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return Catalog.load()


@pytest.mark.parametrize(("document", "command"), commands(), ids=lambda text: text[:60])
def test_documented_command(document: str, command: str, catalog: Catalog) -> None:
    words = shlex.split(command.split("|")[0], comments=True)
    while words and "=" in words[0] and not words[0].startswith("-"):
        words = words[1:]  # VARIABLE=value in front
    if not words:
        return
    if words[0] in (".venv/bin/aiopslab", "aiopslab"):
        check_aiopslab(words[1:], catalog)
    elif words[0] == "make":
        verbs = [word for word in words[1:] if "=" not in word]
        assert set(verbs) <= targets(), f"{document}: the Makefile has no {verbs}"
    else:
        program = words[0].rsplit("/", 1)[-1]
        assert program in OTHERS, f"{document}: nothing here checks {program!r}; drop it or add it to OTHERS"


def check_aiopslab(words: list[str], catalog: Catalog) -> None:
    words = [word for word in words if word not in ("2>/dev/null", ">")]
    build().parse_args(words, exit_on_error=False, print_error=False)
    if words[0] in ("run", "shell", "check", "show") and len(words) > 1 and not NEW_NAMES.search(words[1]):
        known = {*catalog.problems, *catalog.apps, *catalog.faults, *catalog.workloads}
        if words[1] not in known:
            try:
                catalog.problem(words[1])
            except UnknownIdError as error:
                pytest.fail(str(error))


@pytest.mark.parametrize("verb", sorted(RUN_BY))
def test_each_verb_is_run_by_a_test(verb: str) -> None:
    text = (ROOT / RUN_BY[verb]).read_text(encoding="utf-8")
    assert f'"{verb}"' in text


def test_every_verb_is_listed_here() -> None:
    verbs = {name for name in build() if not name.startswith("-")}
    assert verbs == set(RUN_BY)


def test_links_between_documents_lead_somewhere() -> None:
    missing = []
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
            if (
                "://" not in target
                and not target.startswith("mailto:")
                and not (document.parent / target).exists()
            ):
                missing.append(f"{document.relative_to(ROOT)}: {target}")
    assert not missing
