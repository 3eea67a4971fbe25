"""How client libraries word a dial that failed, also where the name was the problem."""

from __future__ import annotations

from aiopslab.sim.world.dialects import (
    CLIENTS,
    CLOSED,
    NAME_FAILED,
    NAME_REFUSED,
    NAME_TIMEOUT,
    NAME_UNREACHED,
    NO_LOGIN,
    SILENT,
    UNKNOWN_NAME,
    Client,
    Text,
)

LOOKUP_S = 10.0  # a resolver's two attempts of five seconds each
_GO_LOOKUP = {
    NAME_TIMEOUT: "lookup {host} on 10.96.0.10:53: read udp {source}->10.96.0.10:53: i/o timeout",
    NAME_UNREACHED: "lookup {host} on 10.96.0.10:53: read udp {source}->10.96.0.10:53: read: connection refused",
    NAME_FAILED: "lookup {host} on 10.96.0.10:53: server misbehaving",
    NAME_REFUSED: "lookup {host} on 10.96.0.10:53: server misbehaving",
}
# How libraries that tell failures of the DNS apart word them; {why} is one of the texts.
_LOOKUP_TEXTS: dict[str, tuple[str, dict[str, str]]] = {
    "grpc-go": ("dns: A record lookup error: {why}", _GO_LOOKUP),
    "http-go": ("dial tcp: {why}", _GO_LOOKUP),
    "sql-go": ("dial tcp: {why}", _GO_LOOKUP),
    "sarama": ("kafka: client has run out of available brokers to talk to: dial tcp: {why}", _GO_LOOKUP),
    "grpc-python": (
        "DNS resolution failed for {host}:{port}: C-ares status is not ARES_SUCCESS qtype=A name={host} "
        "is_balancer=0: {why}",
        {
            NAME_TIMEOUT: "Timeout while contacting DNS servers",
            NAME_UNREACHED: "Could not contact DNS servers",
            NAME_FAILED: "DNS server returned general failure",
            NAME_REFUSED: "DNS server refused query",
        },
    ),
    "http": ("gaierror(-3, '{why}')", dict.fromkeys(_GO_LOOKUP, "Temporary failure in name resolution")),
    "http-js": ("fetch failed: getaddrinfo {why} {host}", dict.fromkeys(_GO_LOOKUP, "EAI_AGAIN")),
    "npgsql": (
        "System.Net.Sockets.SocketException ({why}",
        dict.fromkeys(_GO_LOOKUP, "00000001, 11): Resource temporarily unavailable"),
    ),
}


def wording(client: Client, condition: str) -> Text:
    """How a library words a failed dial. One that does not tell the DNS' failures apart words them as a name that
    is not there; whatever else it has no words for looks like silence to it."""
    if condition in client.texts:
        return client.texts[condition]
    if condition == NO_LOGIN:
        return Text(client.texts[CLOSED].code, "NOAUTH Authentication required.")
    if condition not in _GO_LOOKUP:
        return client.texts[SILENT]
    name = next(name for name, known in CLIENTS.items() if known is client)
    fail_after_s = 0.1 if condition == NAME_UNREACHED else 0.0 if condition in (NAME_FAILED, NAME_REFUSED) else LOOKUP_S
    unknown = client.texts[UNKNOWN_NAME]
    if name not in _LOOKUP_TEXTS:
        return Text(unknown.code, unknown.message, max(fail_after_s, unknown.fail_after_s))
    frame, why = _LOOKUP_TEXTS[name]
    return Text(unknown.code, frame.replace("{why}", why[condition]), fail_after_s)
