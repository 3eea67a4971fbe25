"""ServiceAccount tokens: real JSON Web Tokens (HS256 with a key of the seed), bound to the account's uid."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import orjson

from aiopslab.sim.core.kernel import Kernel, rfc3339
from aiopslab.sim.core.ports import Principal
from aiopslab.sim.core.store import Key

Obj = dict[str, Any]

ISSUER = "https://kubernetes.default.svc.cluster.local"
DEFAULT_LIFETIME_S = 3600


class Tokens:
    """Issues and checks tokens of one cluster."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._key = kernel.ids.digest("token-signing-key")
        self._issued: dict[str, int] = {}  # how many per account uid

    def issue(self, account: Obj, lifetime_s: int, audiences: list[str]) -> tuple[str, str]:
        """A token and when it expires (RFC 3339). Times are cluster time."""
        meta, now = account["metadata"], int(self._kernel.now)
        count = self._issued[meta["uid"]] = self._issued.get(meta["uid"], 0) + 1
        where = (meta["namespace"], meta["name"])
        claims: Obj = {
            "aud": audiences or [ISSUER],
            "exp": now + lifetime_s,
            "iat": now,
            "iss": ISSUER,
            "jti": self._kernel.ids.uid("token", *where, now, count),
            "kubernetes.io": {
                "namespace": meta["namespace"],
                "serviceaccount": {"name": meta["name"], "uid": meta["uid"]},
            },
            "nbf": now,
            "sub": f"system:serviceaccount:{meta['namespace']}:{meta['name']}",
        }
        head = _encode({"alg": "HS256", "kid": self._kernel.ids.hex(16, "token-key-id"), "typ": "JWT"})
        body = f"{head}.{_encode(claims)}"
        return f"{body}.{self._signature(body)}", rfc3339(now + lifetime_s)

    def check(self, token: str) -> tuple[Principal, list[str]] | None:
        """Who a token stands for and its audiences; None when it is not ours, expired, or its account gone."""
        body, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature, self._signature(body)):
            return None
        claims = orjson.loads(_decode(body.split(".")[1]))
        if claims["exp"] <= self._kernel.now:
            return None
        bound = claims["kubernetes.io"]
        namespace, name = bound["namespace"], bound["serviceaccount"]["name"]
        account = self._kernel.store.get(Key("serviceaccounts", namespace, name))
        if account is None or account["metadata"]["uid"] != bound["serviceaccount"]["uid"]:
            return None
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        extra = {"authentication.kubernetes.io/credential-id": [f"JTI={claims['jti']}"]}
        return Principal(claims["sub"], groups, bound["serviceaccount"]["uid"], extra), claims["aud"]

    def _signature(self, body: str) -> str:
        raw = hmac.new(self._key, body.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _encode(value: Obj) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(value)).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
