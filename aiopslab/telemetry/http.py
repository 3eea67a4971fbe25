"""What the telemetry clients share: sessions and readable reasons."""

from __future__ import annotations

from urllib.parse import urlsplit

import requests

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def new_session(url: str) -> requests.Session:
    """A session for one server. A proxy of the environment is not used for this machine itself."""
    session = requests.Session()
    if urlsplit(url).hostname in _LOOPBACK:
        session.trust_env = False
    return session


def reason(error: requests.RequestException) -> str:
    """Why a request failed, without the library's wrapping."""
    inner: BaseException = error
    while inner.__cause__ is not None or inner.__context__ is not None:
        inner = inner.__cause__ or inner.__context__ or inner
    return f"{inner or type(inner).__name__}"
