"""Every error the lab raises on purpose. The tree first; three families are never mixed.

    AIOpsLabError
    ├── AuthorError            somebody's input is wrong: a flag, a manifest, a problem id   (exit 2)
    │   ├── UsageError         a command line or an API call
    │   ├── UnknownIdError     an id that no bundle has; carries "did you mean"
    │   └── ManifestError      a content folder that cannot be used
    ├── LabFailure             the lab could not do its job: verdict ``unknown``              (exit 3)
    │   ├── ClusterError       a cluster that does not come up, answer or go down
    │   ├── DeployError        an application that does not become healthy
    │   ├── InjectionError     a fault that cannot be put in, or does not bite
    │   └── TelemetryError     Prometheus, Jaeger or logs do not answer
    └── AgentFailure           the agent raised, hung, or answered with something unusable    (verdict fail)

Every message names the thing, the value and the next step.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class AIOpsLabError(Exception):
    """Base of all errors of the lab. ``str(error)`` is one readable line."""


class AuthorError(AIOpsLabError):
    """Wrong input from a person: a flag, a manifest, an id."""


class UsageError(AuthorError):
    """A command line or API call that cannot be carried out as written."""


class ManifestError(AuthorError):
    """A content folder whose manifest or code cannot be used. Names the file."""


class UnknownIdError(AuthorError):
    """No bundle has this id. Suggests near ones."""

    def __init__(self, kind: str, wanted: str, known: Iterable[str]) -> None:
        self.kind, self.wanted = kind, wanted
        self.suggestions = did_you_mean(wanted, known)
        hint = (
            f"Did you mean {' or '.join(self.suggestions)}?"
            if self.suggestions
            else f"`aiopslab list {kind}s` names them all."
        )
        super().__init__(f"unknown {kind} {wanted!r}. {hint}")


class LabFailure(AIOpsLabError):
    """The lab failed. Never the agent's fault and never a pass."""


class ClusterError(LabFailure):
    """A cluster that does not come up, does not answer or does not go down."""


class DeployError(LabFailure):
    """An application that cannot be installed or does not become healthy in time."""


class InjectionError(LabFailure):
    """A fault that cannot be injected, does not bite, or cannot be recovered."""


class TelemetryError(LabFailure):
    """Prometheus, Jaeger or the log source does not answer as it must."""


class AgentFailure(AIOpsLabError):
    """The agent raised, hung, or returned something that is not a reply."""


def did_you_mean(wanted: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names nearest to ``wanted``, best first, at most ``most``."""
    return difflib.get_close_matches(wanted, list(known), n=most, cutoff=0.5)
