"""What a shell script is once it is parsed; words keep their quotes."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Redirect:
    """``kind`` one of ``> >> < >& <<``; ``target`` a raw word (or here-document text)."""

    fd: int
    kind: str
    target: str
    quoted: bool = False


@dataclass(slots=True)
class Simple:
    """Assignments, words and redirections of one simple command."""

    assignments: list[tuple[str, str]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True)
class Group:
    """``( ... )`` or ``{ ...; }``."""

    body: Sequence
    subshell: bool
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True)
class For:
    """``for name in words; do body; done``."""

    name: str
    words: list[str]
    body: Sequence
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True)
class While:
    """``while``/``until`` (``negate``)."""

    condition: Sequence
    body: Sequence
    negate: bool
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True)
class If:
    """``if``/``elif`` branches and the ``else`` body."""

    branches: list[tuple[Sequence, Sequence]]
    otherwise: Sequence | None
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True)
class Case:
    """``case word in pattern) body;; esac``: patterns and bodies in order."""

    word: str
    branches: list[tuple[list[str], Sequence]]
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True)
class Function:
    """``name() { body; }``."""

    name: str
    body: Sequence
    redirects: list[Redirect] = field(default_factory=list)


Command = Simple | Group | For | While | If | Case | Function


@dataclass(slots=True)
class Pipeline:
    """Commands joined by ``|``."""

    commands: list[Command]
    negate: bool = False


@dataclass(slots=True)
class AndOr:
    """Pipelines joined by ``&&`` and ``||``: the operator stands before its pipeline."""

    parts: list[tuple[str, Pipeline]]
    background: bool = False


@dataclass(slots=True)
class Sequence:
    """And-or lists, one after the other."""

    items: list[AndOr] = field(default_factory=list)
