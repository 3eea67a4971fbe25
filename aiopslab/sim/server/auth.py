"""Who asks: bearer tokens and impersonation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from multidict import CIMultiDictProxy

from aiopslab.sim.core.api import Api
from aiopslab.sim.core.apierrors import bad_request, unauthorized
from aiopslab.sim.core.ports import Principal
from aiopslab.sim.core.rbac import Action, forbidden_error
from aiopslab.sim.core.tokens import ISSUER

Obj = dict[str, Any]

AUTHENTICATED = "system:authenticated"
ANONYMOUS = Principal("system:anonymous", ("system:unauthenticated",))
ADMIN = Principal("kubernetes-admin", ("system:masters", AUTHENTICATED))
_EXTRA = "impersonate-extra-"
_ACCOUNT = "system:serviceaccount:"


class Authenticator:
    """Static tokens (the administrator's) and ServiceAccount tokens."""

    def __init__(self, api: Api, static: Mapping[str, Principal]) -> None:
        self._api = api
        self._static = dict(static)

    def user(self, headers: CIMultiDictProxy[str]) -> Principal:
        """The principal of a request. Raises 401 for credentials that are not known."""
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        if not scheme:
            return ANONYMOUS
        found = self.by_token(token.strip()) if scheme.lower() == "bearer" else None
        if found is None:
            raise unauthorized()
        return found

    def by_token(self, token: str, audience: str = ISSUER) -> Principal | None:
        """Who a token stands for, or None."""
        if token in self._static:
            return self._static[token]
        checked = self._api.tokens.check(token) if token.count(".") == 2 else None
        if checked is None or audience not in checked[1]:
            return None
        return checked[0]

    def impersonated(self, user: Principal, headers: CIMultiDictProxy[str]) -> Principal:
        """The principal that ``Impersonate-*`` headers ask for. Raises 400 or 403."""
        name = headers.get("Impersonate-User", "")
        groups = headers.getall("Impersonate-Group", [])
        extra: dict[str, list[str]] = {}
        for key, value in headers.items():
            if key.lower().startswith(_EXTRA):
                extra.setdefault(key.lower()[len(_EXTRA) :], []).append(value)
        uid = headers.get("Impersonate-Uid", "")
        if not name:
            if groups or extra or uid:
                raise bad_request("requested impersonation without impersonating a user")
            return user
        self._check(user, name, groups, extra)
        return Principal(name, self._groups(name, groups), uid, extra)

    def _groups(self, name: str, asked: list[str]) -> tuple[str, ...]:
        groups = list(asked)
        if not groups and name.startswith(_ACCOUNT):
            namespace = name.removeprefix(_ACCOUNT).split(":")[0]
            groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
        if name != ANONYMOUS.username and AUTHENTICATED not in groups:
            groups.append(AUTHENTICATED)
        return tuple(groups)

    def _check(self, user: Principal, name: str, groups: list[str], extra: Mapping[str, list[str]]) -> None:
        actions = [Action("impersonate", "", "users", name=name)]
        if name.startswith(_ACCOUNT) and name.count(":") == 3:
            namespace, account = name.removeprefix(_ACCOUNT).split(":")
            actions = [Action("impersonate", "", "serviceaccounts", namespace=namespace, name=account)]
        actions += [Action("impersonate", "", "groups", name=g) for g in groups]
        actions += [
            Action("impersonate", "authentication.k8s.io", "userextras", key, name=value)
            for key, values in extra.items() for value in values
        ]  # fmt: skip
        for action in actions:
            if not self._api.admission.rbac.allows(user, action):
                raise forbidden_error(user, action, None)
