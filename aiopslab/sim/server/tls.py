"""The server's certificate: a fresh authority per process, valid for the loopback names."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

import trustme

NAMES = ("127.0.0.1", "localhost", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
         "kubernetes.default.svc.cluster.local")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tls:
    """What a listener and its clients need."""

    context: ssl.SSLContext
    ca_pem: str


def make_tls() -> Tls:
    """A new authority and a server certificate signed by it."""
    authority = trustme.CA(organization_name="kubernetes", organization_unit_name="kubernetes-ca")
    certificate = authority.issue_cert(*NAMES, common_name="kube-apiserver")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(context)
    return Tls(context, authority.cert_pem.bytes().decode())
