"""kubeconfig files for the clients of a server."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import yaml


def kubeconfig(url: str, ca_pem: str, token: str, user: str = "kubernetes-admin", namespace: str = "") -> str:
    """The text of a kubeconfig with one context that uses a bearer token."""
    context = {"cluster": "aiopslab", "user": user}
    if namespace:
        context["namespace"] = namespace
    authority = base64.b64encode(ca_pem.encode()).decode()
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "aiopslab", "cluster": {"server": url, "certificate-authority-data": authority}}],
            "contexts": [{"name": f"{user}@aiopslab", "context": context}],
            "current-context": f"{user}@aiopslab",
            "users": [{"name": user, "user": {"token": token}}],
        },
        sort_keys=False,
    )


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read; readers see the old or the new one, never half."""
    draft = path.with_name(path.name + ".tmp")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    draft.replace(path)
