"""The error that a Kubernetes API answer becomes."""

from __future__ import annotations

from typing import Any

from aiopslab.errors import ClusterError

UNREACHABLE = "Unreachable"


class KubeError(ClusterError):
    """The API server refused a request, or could not be reached.

    ``code`` is the HTTP status (0 when there was no answer), ``reason`` the machine-readable word
    of the Status object such as ``NotFound``, ``message`` its text.
    """

    def __init__(self, code: int, reason: str, message: str, request: str = "") -> None:
        self.code, self.reason, self.message = code, reason, message
        super().__init__(f"{request}: {message}" if request else message)

    @property
    def not_found(self) -> bool:
        """Whether the object, or its resource, does not exist."""
        return self.code == 404


def error_from(code: int, body: Any, request: str) -> KubeError:
    """KubeError from an HTTP answer; ``body`` is the parsed Status, or whatever the server sent."""
    if isinstance(body, dict) and body.get("kind") == "Status":
        return KubeError(code, str(body.get("reason") or ""), str(body.get("message") or ""), request)
    text = str(body)[:300] if body else f"HTTP {code}"
    return KubeError(code, "", text, request)
