"""How client and server libraries word what goes wrong, and how they reconnect.

An error is a gRPC-like code with a message; ids of interned errors are what the columns hold, 0 meaning OK.
Messages may hold ``{placeholders}`` of the request in which they occur; they are filled when read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

REFUSED = "refused"  # nobody listens, or a Service without endpoints
UNKNOWN_NAME = "unknown-name"
NAME_TIMEOUT = "name-timeout"  # the DNS does not answer
NAME_UNREACHED = "name-unreached"  # nobody listens where the DNS should
NAME_FAILED = "name-failed"  # the DNS says SERVFAIL
NAME_REFUSED = "name-refused"  # the DNS says REFUSED: it has nothing to do with the name
SILENT = "silent"  # packets of a new connection vanish
NO_ROUTE = "no-route"  # an address outside, which nothing leads to
DEADLINE = "deadline"
CANCELED = "canceled"
CLOSED = "closed"  # the peer went away in the middle of a call
UNIMPLEMENTED = "unimplemented"
WRONG_PROTOCOL = "wrong-protocol"
NO_LOGIN = "no-login"  # a data store wants a user and a password

GRPC_NUMBERS = {
    "OK": 0,
    "Canceled": 1,
    "Unknown": 2,
    "InvalidArgument": 3,
    "DeadlineExceeded": 4,
    "NotFound": 5,
    "AlreadyExists": 6,
    "PermissionDenied": 7,
    "ResourceExhausted": 8,
    "FailedPrecondition": 9,
    "Aborted": 10,
    "OutOfRange": 11,
    "Unimplemented": 12,
    "Internal": 13,
    "Unavailable": 14,
    "DataLoss": 15,
    "Unauthenticated": 16,
}
# What marks a server span as failed; other codes are the caller's fault.
SERVER_FAULTS = frozenset({"Unknown", "DeadlineExceeded", "Unimplemented", "Internal", "Unavailable", "DataLoss"})


class Error(NamedTuple):
    """Code and message as the caller's library gives them."""

    code: str
    message: str


class Errors:
    """Interned errors; equal errors have equal ids, in order of first use."""

    def __init__(self) -> None:
        self._known: list[Error] = [Error("OK", "")]
        self._ids: dict[Error, int] = {self._known[0]: 0}

    def intern(self, error: Error) -> int:
        """The id of an error."""
        found = self._ids.get(error)
        if found is None:
            found = self._ids[error] = len(self._known)
            self._known.append(error)
        return found

    def __getitem__(self, number: int) -> Error:
        return self._known[number]

    def __len__(self) -> int:
        return len(self._known)


class Backoff(NamedTuple):
    """Delay before the nth reconnect: ``base_s * factor**n`` up to ``cap_s``, times 1 ± ``jitter``."""

    base_s: float
    factor: float
    cap_s: float
    jitter: float

    def delay(self, failures: int, draw: float) -> float:
        """Seconds after the given number of failures (from 1); ``draw`` is uniform in [0, 1)."""
        plain = min(self.base_s * self.factor ** min(failures - 1, 40), self.cap_s)
        return plain * (1.0 + self.jitter * (2.0 * draw - 1.0))


class Text(NamedTuple):
    """Wording of one condition and how long the call takes to fail with it."""

    code: str
    message: str
    fail_after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Client:
    """A client library. ``show`` words an error as its language prints it."""

    show: Callable[[Error], str]
    texts: dict[str, Text]
    backoff: Backoff | None  # None: dials at every call
    connect_timeout_s: float = 20.0


GRPC_BACKOFF = Backoff(1.0, 1.6, 120.0, 0.2)


def _show_go(error: Error) -> str:
    return f"rpc error: code = {error.code} desc = {error.message}"


def _show_js(error: Error) -> str:
    return f"{GRPC_NUMBERS.get(error.code, 2)} {constant_name(error.code)}: {error.message}"


def _show_python(error: Error) -> str:
    number = GRPC_NUMBERS.get(error.code, 2)
    return (
        f"<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.{constant_name(error.code)}\n"
        f'\tdetails = "{error.message}"\n\tdebug_error_string = "UNKNOWN:Error received from peer  '
        f'{{grpc_message:"{error.message}", grpc_status:{number}}}"\n>'
    )


def _show_message(error: Error) -> str:
    return error.message


def constant_name(code: str) -> str:
    """``DeadlineExceeded`` to ``DEADLINE_EXCEEDED``; Canceled is spelled with two Ls there."""
    if code in ("OK", "Canceled"):
        return {"OK": "OK", "Canceled": "CANCELLED"}[code]
    return "".join(f"_{c}" if c.isupper() and i else c for i, c in enumerate(code)).upper()


_GO_DIAL = 'connection error: desc = "transport: Error while dialing: dial tcp {ip}:{port}: '
_UNKNOWN_METHOD = Text("Unimplemented", "unknown service {service}")
_REDIS_END = (
    "on {host}:{port}/Interactive, Initializing/NotStarted, last: NONE, origin: BeginConnectAsync, "
    "outstanding: 0, last-read: 0s ago, last-write: 0s ago, keep-alive: 60s, state: Connecting, "
    "mgr: 10 of 10 available"
)
_REDIS_BACKLOG = (
    "StackExchange.Redis.RedisConnectionException: The message timed out in the backlog attempting to "
    "send because no connection became available (5000ms) - Last Connection Exception: It was not possible to "
    "connect to the redis server(s). {why} " + _REDIS_END
)


def _redis(why: str) -> Text:
    return Text("FailedPrecondition", _REDIS_BACKLOG.replace("{why}", why), 5.0)


CLIENTS: dict[str, Client] = {
    "grpc-go": Client(
        _show_go,
        {
            REFUSED: Text("Unavailable", _GO_DIAL + 'connect: connection refused"'),
            UNKNOWN_NAME: Text("Unavailable", "name resolver error: produced zero addresses"),
            SILENT: Text("Unavailable", _GO_DIAL + 'i/o timeout"', 20.0),
            DEADLINE: Text("DeadlineExceeded", "context deadline exceeded"),
            CANCELED: Text("Canceled", "context canceled"),
            CLOSED: Text("Unavailable", "error reading from server: EOF"),
            UNIMPLEMENTED: _UNKNOWN_METHOD,
            WRONG_PROTOCOL: Text("Unavailable", 'connection error: desc = "error reading server preface: EOF"'),
        },
        GRPC_BACKOFF,
    ),
    "grpc-js": Client(
        _show_js,
        {
            REFUSED: Text(
                "Unavailable",
                "No connection established. Last error: Error: connect ECONNREFUSED {ip}:{port}. Resolution note: ",
            ),
            UNKNOWN_NAME: Text("Unavailable", "Name resolution failed for target dns:{host}:{port}"),
            SILENT: Text(
                "Unavailable",
                "No connection established. Last error: Error: connect ETIMEDOUT {ip}:{port}. Resolution note: ",
                20.0,
            ),
            DEADLINE: Text("DeadlineExceeded", "Deadline exceeded"),
            CANCELED: Text("Canceled", "Cancelled on client"),
            CLOSED: Text("Unavailable", "Connection dropped"),
            UNIMPLEMENTED: Text("Unimplemented", "The server does not implement the method {method}"),
            WRONG_PROTOCOL: Text("Unavailable", "Connection dropped"),
        },
        GRPC_BACKOFF,
    ),
    "grpc-python": Client(
        _show_python,
        {
            REFUSED: Text(
                "Unavailable",
                "failed to connect to all addresses; last error: UNKNOWN: ipv4:{ip}:{port}: "
                "Failed to connect to remote host: connect: Connection refused (111)",
            ),
            UNKNOWN_NAME: Text(
                "Unavailable",
                "DNS resolution failed for {host}:{port}: C-ares status is not "
                "ARES_SUCCESS qtype=A name={host} is_balancer=0: Domain name not found",
            ),
            SILENT: Text(
                "Unavailable",
                "failed to connect to all addresses; last error: UNKNOWN: "
                "ipv4:{ip}:{port}: connection attempt timed out before receiving SETTINGS frame",
                20.0,
            ),
            DEADLINE: Text("DeadlineExceeded", "Deadline Exceeded"),
            CANCELED: Text("Canceled", "Locally cancelled by application!"),
            CLOSED: Text("Unavailable", "Socket closed"),
            UNIMPLEMENTED: Text("Unimplemented", "Method not found!"),
            WRONG_PROTOCOL: Text("Unavailable", "Socket closed"),
        },
        GRPC_BACKOFF,
    ),
    "grpc-dotnet": Client(
        _show_message,
        {
            REFUSED: Text(
                "Unavailable",
                "Error starting gRPC call. HttpRequestException: Connection refused "
                "({host}:{port}) SocketException: Connection refused",
            ),
            UNKNOWN_NAME: Text("Unavailable", "Error getting DNS hosts for address 'dns:///{host}'."),
            SILENT: Text("Unavailable", "Error connecting to subchannel.", 20.0),
            DEADLINE: Text("DeadlineExceeded", ""),
            CANCELED: Text("Canceled", "Call canceled by the client."),
            CLOSED: Text(
                "Unavailable",
                "Error starting gRPC call. HttpRequestException: An error occurred while sending the request.",
            ),
            UNIMPLEMENTED: Text("Unimplemented", "Service is unimplemented."),
            WRONG_PROTOCOL: Text("Unavailable", "Error connecting to subchannel."),
        },
        GRPC_BACKOFF,
    ),
    "grpc-java": Client(
        _show_message,
        {
            REFUSED: Text("Unavailable", "io exception"),
            UNKNOWN_NAME: Text("Unavailable", "Unable to resolve host {host}"),
            SILENT: Text("Unavailable", "io exception", 20.0),
            DEADLINE: Text("DeadlineExceeded", "CallOptions deadline exceeded"),
            CANCELED: Text("Canceled", "client cancelled"),
            CLOSED: Text("Unavailable", "Network closed for unknown reason"),
            UNIMPLEMENTED: Text("Unimplemented", "Method not found: {method}"),
            WRONG_PROTOCOL: Text("Unavailable", "Network closed for unknown reason"),
        },
        GRPC_BACKOFF,
    ),
    "stackexchange-redis": Client(
        _show_message,
        {
            REFUSED: _redis("UnableToConnect"),
            UNKNOWN_NAME: _redis("UnableToConnect"),
            SILENT: _redis("ConnectTimeout"),
            NO_LOGIN: Text(
                "FailedPrecondition",
                "StackExchange.Redis.RedisConnectionException: It was not possible to connect to the redis server(s). "
                "There was an authentication failure; check that passwords (or client certificates) are configured "
                "correctly: (RedisServerException) NOAUTH Returned - connection has not yet authenticated.",
                0.05,
            ),
            DEADLINE: Text(
                "FailedPrecondition",
                "StackExchange.Redis.RedisTimeoutException: Timeout awaiting response "
                "(outbound=0KiB, inbound=0KiB, 5450ms elapsed, timeout is 5000ms), command=HGET, next: INFO, "
                "inst: 0, qu: 0, qs: 3, aw: False, rs: ReadAsync, ws: Idle, in: 0, last-in: 2, cur-in: 0, "
                "serverEndpoint: {host}:{port}, mc: 1/1/0, mgr: 10 of 10 available",
            ),
            CANCELED: Text("Canceled", "A task was canceled."),
            CLOSED: Text(
                "FailedPrecondition",
                "StackExchange.Redis.RedisConnectionException: SocketClosed "
                "(ReadEndOfStream, last-recv: 0) on {host}:{port}/Interactive, Idle/MarkProcessed",
            ),
            UNIMPLEMENTED: Text(
                "FailedPrecondition", "StackExchange.Redis.RedisServerException: ERR unknown command"
            ),
            WRONG_PROTOCOL: _redis("ProtocolFailure"),
        },
        Backoff(5.0, 1.5, 60.0, 0.1),
        5.0,
    ),
    "http": Client(
        _show_message,
        {
            REFUSED: Text("Unavailable", "ConnectionRefusedError(111, 'Connection refused')"),
            UNKNOWN_NAME: Text("Unavailable", "gaierror(-2, 'Name or service not known')"),
            SILENT: Text("Unavailable", "timeout('timed out')", 60.0),
            DEADLINE: Text("DeadlineExceeded", "timeout('timed out')"),
            CANCELED: Text("Canceled", "timeout('timed out')"),
            CLOSED: Text("Unavailable", "RemoteDisconnected('Remote end closed connection without response')"),
            UNIMPLEMENTED: Text("NotFound", "404"),
            WRONG_PROTOCOL: Text("Unavailable", "BadStatusLine()"),
        },
        None,
        60.0,
    ),
}

_ENVOY = "upstream connect error or disconnect/reset before headers. "
_GO_HTTP = "dial tcp {ip}:{port}: "


def _others(texts: dict[str, Text]) -> dict[str, Text]:
    """Texts with those that a library does not word in its own way."""
    usual = {
        DEADLINE: Text("DeadlineExceeded", "context deadline exceeded"),
        CANCELED: Text("Canceled", "context canceled"),
        UNIMPLEMENTED: Text("Unimplemented", "unexpected answer"),
    }
    return {**usual, WRONG_PROTOCOL: texts[CLOSED], **texts}


CLIENTS |= {
    "http-go": Client(
        _show_message,
        _others(
            {
                REFUSED: Text("Unavailable", _GO_HTTP + "connect: connection refused"),
                UNKNOWN_NAME: Text("Unavailable", "dial tcp: lookup {host} on 10.96.0.10:53: no such host"),
                SILENT: Text("Unavailable", _GO_HTTP + "i/o timeout", 30.0),
                CLOSED: Text("Unavailable", "EOF"),
            }
        ),
        None,
        30.0,
    ),
    "http-js": Client(
        _show_message,
        _others(
            {
                REFUSED: Text("Unavailable", "fetch failed: connect ECONNREFUSED {ip}:{port}"),
                UNKNOWN_NAME: Text("Unavailable", "fetch failed: getaddrinfo ENOTFOUND {host}"),
                SILENT: Text("Unavailable", "fetch failed: Connect Timeout Error", 10.0),
                CLOSED: Text("Unavailable", "fetch failed: other side closed"),
            }
        ),
        None,
        10.0,
    ),
    "http-rust": Client(
        _show_message,
        _others(
            {
                REFUSED: Text("Unavailable", "Failed to connect to host: Connection refused (os error 111)"),
                UNKNOWN_NAME: Text("Unavailable", "Failed to connect to host: failed to lookup address"),
                SILENT: Text("Unavailable", "Timeout while waiting for response", 5.0),
                DEADLINE: Text("DeadlineExceeded", "Timeout while waiting for response"),
                CLOSED: Text("Unavailable", "Connection closed before message completed"),
            }
        ),
        None,
        5.0,
    ),
    "envoy": Client(
        _show_message,
        _others(
            {
                REFUSED: Text(
                    "Unavailable",
                    _ENVOY + "retried and the latest reset reason: remote connection failure, transport failure "
                    "reason: delayed connect error: Connection refused",
                ),
                UNKNOWN_NAME: Text("Unavailable", "no healthy upstream"),
                SILENT: Text("Unavailable", _ENVOY + "reset reason: connection timeout", 5.0),
                DEADLINE: Text("DeadlineExceeded", "upstream request timeout"),
                CLOSED: Text("Unavailable", _ENVOY + "reset reason: connection termination"),
            }
        ),
        None,
        5.0,
    ),
    "sarama": Client(
        _show_message,
        _others(
            {
                REFUSED: Text(
                    "Unavailable",
                    "kafka: client has run out of available brokers to talk to: dial tcp {ip}:{port}: "
                    "connect: connection refused",
                ),
                UNKNOWN_NAME: Text(
                    "Unavailable",
                    "kafka: client has run out of available brokers to talk to: dial tcp: lookup {host} "
                    "on 10.96.0.10:53: no such host",
                ),
                SILENT: Text(
                    "Unavailable",
                    "kafka: client has run out of available brokers to talk to: dial tcp {ip}:{port}: i/o timeout",
                    30.0,
                ),
                CLOSED: Text("Unavailable", "EOF"),
            }
        ),
        Backoff(0.25, 1.5, 10.0, 0.1),
        30.0,
    ),
    "sql-go": Client(
        _show_message,
        _others(
            {
                REFUSED: Text("Unavailable", _GO_HTTP + "connect: connection refused"),
                UNKNOWN_NAME: Text("Unavailable", "dial tcp: lookup {host} on 10.96.0.10:53: no such host"),
                SILENT: Text("Unavailable", _GO_HTTP + "connect: connection timed out", 130.0),
                CLOSED: Text("Unavailable", "driver: bad connection"),
            }
        ),
        None,
        130.0,
    ),
    "npgsql": Client(
        _show_message,
        _others(
            {
                REFUSED: Text(
                    "Unavailable",
                    "Npgsql.NpgsqlException (0x80004005): Failed to connect to {ip}:{port}\n"
                    " ---> System.Net.Sockets.SocketException (111): Connection refused",
                ),
                UNKNOWN_NAME: Text("Unavailable", "System.Net.Sockets.SocketException: Name or service not known"),
                SILENT: Text(
                    "Unavailable", "Npgsql.NpgsqlException (0x80004005): The operation has timed out", 15.0
                ),
                CLOSED: Text("Unavailable", "Npgsql.NpgsqlException (0x80004005): Error while reading from stream"),
            }
        ),
        None,
        15.0,
    ),
}
for _library in ("kafka-java", "kafka-net"):
    CLIENTS[_library] = Client(_show_message, CLIENTS["sarama"].texts, Backoff(0.05, 2.0, 1.0, 0.2), 30.0)


def uncaught(server: str, shown: str) -> Error:
    """What a caller receives when a handler of this server library lets an error escape."""
    if server == "grpc-python":
        return Error("Unknown", f"Exception calling application: {shown}")
    if server == "grpc-java":
        return Error("Unknown", "Application error processing RPC")
    if server == "grpc-dotnet":
        return Error("Unknown", "Exception was thrown by handler.")
    return Error("Unknown", shown)


def fill(template: str, facts: dict[str, str]) -> str:
    """Replace the ``{names}`` that ``facts`` has; other braces stay."""
    for name, value in facts.items():
        template = template.replace("{" + name + "}", value)
    return template
