"""Small on purpose: limits on the size of functions, files and signatures, and on what code may import.

An exception is a line in ``EXCEPTIONS`` with its reason; one that is no longer needed fails the test too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CODE = ("aiopslab", "apps", "faults", "workloads", "problems", "bench", "tests")
CONTENT = ("apps", "faults", "workloads", "problems")

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
PARAMETERS_MAX = 6

# (file, function or "", rule) -> reason
_SEAM = "a seam of docs/seams.md: the parts of one request of the Kubernetes or Jaeger API, each under its own name"
EXCEPTIONS: dict[tuple[str, str, str], str] = {
    ("aiopslab/sim/core/api.py", "Api.patch", "parameters"): _SEAM,
    ("aiopslab/sim/core/api.py", "Api.event", "parameters"): _SEAM,
    ("aiopslab/sim/core/ssa.py", "apply", "parameters"): _SEAM,
    ("aiopslab/sim/core/ssa.py", "track_update", "parameters"): _SEAM,
    ("aiopslab/sim/world/spans.py", "SpanStore.search", "parameters"): _SEAM,
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def files() -> list[Path]:
    return sorted(
        path for name in CODE for path in (ROOT / name).rglob("*.py") if "_bundle" not in path.parts
    )


def functions(tree: ast.AST, outer: str = "") -> Iterator[tuple[str, Function]]:
    """Every function with its dotted name; a function inside a function counts on its own too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{outer}{node.name}", node
        named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        yield from functions(node, f"{outer}{node.name}." if named else outer)  # type: ignore[attr-defined]


def parameters(function: Function) -> int:
    """How many values a caller may give; ``self`` and ``cls`` are not given, ``*`` and ``**`` count once."""
    spec = function.args
    named = [*spec.posonlyargs, *spec.args]
    own = 1 if named and named[0].arg in ("self", "cls") else 0
    return len(named) - own + len(spec.kwonlyargs) + (spec.vararg is not None) + (spec.kwarg is not None)


def imports(tree: ast.AST) -> Iterator[str]:
    """The first part of every absolutely imported module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.split(".")[0]


@cache
def violations(path: Path) -> list[tuple[tuple[str, str, str], str]]:
    """Each broken rule of one file, as a key of ``EXCEPTIONS`` and a sentence."""
    return list(_violations(path))


def _violations(path: Path) -> Iterator[tuple[tuple[str, str, str], str]]:
    name = path.relative_to(ROOT).as_posix()
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    lines = text.count("\n")
    if lines > FILE_LINES_MAX:
        yield (name, "", "file"), f"{name} has {lines} lines; split it by subject (at most {FILE_LINES_MAX})"
    for function_name, node in functions(tree):
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        where = f"{name}:{node.lineno} {function_name}"
        if length > FUNCTION_LINES_MAX:
            yield (
                (name, function_name, "function"),
                f"{where} has {length} lines; at most {FUNCTION_LINES_MAX}",
            )
        if parameters(node) > PARAMETERS_MAX:
            yield (
                (name, function_name, "parameters"),
                f"{where} takes {parameters(node)} parameters; at most {PARAMETERS_MAX}, then a dataclass",
            )
    for module in sorted(set(imports(tree)) & {*CONTENT, "tests"}):
        yield (name, module, "imports"), f"{name} imports {module}; content is found by its manifest, by path"


@pytest.mark.parametrize("folder", CODE)
def test_code_is_small_and_imports_no_content(folder: str) -> None:
    found = [
        sentence
        for path in files()
        if path.relative_to(ROOT).parts[0] == folder
        for key, sentence in violations(path)
        if key not in EXCEPTIONS
    ]
    assert not found, "\n" + "\n".join(found)


def test_content_imports_only_the_public_module() -> None:
    found = []
    for path in files():
        if path.relative_to(ROOT).parts[0] not in CONTENT:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            module = node.module or "" if isinstance(node, ast.ImportFrom) and node.level == 0 else ""
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [module]
            found += [f"{path}: {n}" for n in names if n.split(".")[0] == "aiopslab" and n != "aiopslab.api"]
    assert not found, "content may import aiopslab.api only:\n" + "\n".join(found)


def test_every_exception_is_still_needed() -> None:
    broken = {key for path in files() for key, _ in violations(path)}
    assert set(EXCEPTIONS) <= broken
