"""One request of a block, looked at closely: its texts, ids and outcomes. Made only for what is read."""

from __future__ import annotations

import re
from functools import cached_property

from aiopslab.sim.world.addresses import address_in
from aiopslab.sim.world.blocks import Block
from aiopslab.sim.world.dialects import CLIENTS, GRPC_NUMBERS, Error, Errors, constant_name
from aiopslab.sim.world.hashing import mix_int, text_key
from aiopslab.sim.world.programs import Programs
from aiopslab.sim.world.programspec import Program
from aiopslab.sim.world.routes import Node
from aiopslab.sim.world.runs import Runs
from aiopslab.sim.world.walk import status_of

_NAME = re.compile(r"\{([a-z_]+)(?::([a-z_A-Z0-9]+))?(?::(\d+))?\}")
TRACE_SALTS = (0x7472616365, 0x6964)
TRACE_STEP = 0x1000


class Reader:
    """What is needed to read requests: words, runs, errors."""

    def __init__(self, programs: Programs, runs: Runs, errors: Errors) -> None:
        self.programs = programs
        self.runs = runs
        self.errors = errors


class RequestView:
    """Request ``column`` of ``block``. ``text`` fills in templates:

    ``{path} {method} {status} {took_ms} {bytes} {error}``, variables by word (``{product}``), ``{number:x}`` for a
    variable's number, ``{item}`` of the loop a call is in, ``{session}`` of the user, ``{uuid:x}`` an id of the
    request, ``{some:vocabulary:n}`` n random words as a Python list, ``{one:vocabulary}`` one, ``{digits:x:n}``,
    ``{stack:x}`` a stack trace, ``{flag:x}`` whether a boolean flag was ``on`` or ``off`` for the call.
    """

    def __init__(self, reader: Reader, block: Block, column: int) -> None:
        self.reader = reader
        self.block = block
        self.column = column
        self.key = int(block.key[column])
        self.start = float(block.start[column])

    @cached_property
    def session(self) -> str:
        """The user's session id."""
        if self.block.origin is not None and self.block.origin.sent:
            return self._sender().session
        client = int(self.block.client[self.column]) if self.block.client is not None else -1
        lane = int(self.block.connection[self.column]) if self.block.connection is not None else 0
        who = self.reader.runs[client].ref if client >= 0 else "nobody"
        return uuid_of(text_key("session", who, lane))

    @cached_property
    def path(self) -> str:
        """The request's path."""
        return self.text(self.block.route.op.target, 0) or "/"

    @cached_property
    def status(self) -> int:
        """HTTP status of the request."""
        return self.status_of(0)

    def status_of(self, node: int) -> int:
        """HTTP status with which a call was answered."""
        op, error = self.block.route.nodes[node].op, self.outcome(node, served=True)
        return op.status if error is None else status_of(op, error)

    def trace_of(self, node: int) -> str:
        """Id of the trace that the call ``node`` belongs to."""
        first = next(n for n in self.block.route.path(node) if n.new_trace or n.parent < 0)
        origin = self.block.origin
        if first.index or origin is None or not origin.traced:
            return trace_id(self.key, first.index)
        return RequestView(self.reader, origin.block, int(origin.columns[self.column])).trace_of(origin.node)

    def span_of(self, node: int) -> str:
        """Id of the span that a line written inside the call ``node`` belongs to."""
        at = self.block.route.nodes[node]
        return span_id(self.key, node if at.server_span is not None else max(at.within, 0), True)

    def happened(self, node: int) -> bool:
        """Whether a call was made."""
        return self.block.made is None or bool(self.block.made[node, self.column])

    def run(self, node: int) -> int:
        """The run that answered a call, -1 for none."""
        return int(self.block.run[node, self.column])

    def outcome(self, node: int, *, served: bool) -> Error | None:
        """Error of a call at the callee (``served``) or at the caller, texts filled in; None when it went well."""
        rows = self.block.returned if served else self.block.error
        number = int(rows[node, self.column]) if rows is not None else 0
        if not number:
            return None
        error = self.reader.errors[number]
        return Error(error.code, self.text(error.message, node))

    def failure(self, node: int) -> str:
        """The error that an operation ended with, in its own words; empty when it went well."""
        error = self.outcome(node, served=True)
        return error.message if error is not None else ""

    def shown(self, node: int, program: Program) -> str:
        """The error of a call as the client library of ``program``, which made it, prints it."""
        error, call = self.outcome(node, served=False), self.block.route.nodes[node]
        if error is None:
            return ""
        client = None if call.local else CLIENTS.get(program.library(call.program))
        return client.show(error) if client is not None else error.message

    def told(self, template: str, node: int, error: str) -> str:
        """``text``, with another ``{error}``."""
        return error.join(self.text(part, node) for part in template.split("{error}"))

    def text(self, template: str, node: int) -> str:
        """Fill in a template as it reads inside the call ``node``."""
        if "{" not in template:
            return template
        return _NAME.sub(lambda m: self._value(m, node), template)

    def item(self, node: int) -> str | None:
        """The word that the innermost loop around a call stands at; for a failed request, of the failed call."""
        for at in self.block.route.path(node):
            word = self._loop_word(at)
            if word is not None:
                return word
        if self.block.error is not None:
            for child in reversed(self.block.route.nodes):
                if child.index > node and self.happened(child.index) and self.block.error[child.index, self.column]:
                    word = self._loop_word(child)
                    if word is not None:
                        return word
        return None

    def _loop_word(self, node: Node) -> str | None:
        if node.step is None or not node.step.each:
            return None
        caller = self.block.route.nodes[node.parent].program
        words = self.reader.programs.words(caller, node.step.each)
        if not self.reader.programs.is_set(caller, node.step.each):
            return words[node.repeat % len(words)]
        members = self.members(node.step.each)
        return members[node.repeat] if node.repeat < len(members) else None

    def members(self, name: str) -> list[str]:
        """Words of a set variable."""
        bits = int(self.block.variables[name][self.column]) if name in self.block.variables else 0
        words = self.reader.programs.words(self.block.route.program, name)
        return [word for i, word in enumerate(words) if bits >> i & 1]

    def _value(self, match: re.Match[str], node: int) -> str:
        name, argument, count = match[1], match[2], match[3]
        if argument is not None:
            return self._call(name, argument, int(count or 1), node)
        simple = {
            "session": lambda: self.session,
            "status": lambda: str(self.status_of(self._http(node))),
            "method": self._method,
            "path": lambda: self.path,
            "bytes": self._bytes,
            "took_ms": lambda: str(int(self.block.served[node, self.column])),
            "item": lambda: self.item(node) or match[0],
            "code": lambda: str(GRPC_NUMBERS.get(getattr(self.outcome(node, served=False), "code", ""), 2)),
            "code_name": lambda: constant_name(getattr(self.outcome(node, served=False), "code", "Unknown")),
            "details": lambda: getattr(self.outcome(node, served=False), "message", ""),
            "error": lambda: self.failure(node),
            "trace_id": lambda: self.trace_of(node),
            "span_id": lambda: self.span_of(node),
            "address": lambda: self._address(node, 0),
            "client": self._client,
            "caller": lambda: self._pod_ip(int(self.block.caller(node)[self.column])),
            "host": lambda: self._address(node, 1),
        }
        if name in simple:
            return simple[name]()
        return self._argument(name, node) or self._variable(name) or match[0]

    def _http(self, node: int) -> int:
        """The HTTP operation that a call is part of."""
        return next((n.index for n in self.block.route.path(node) if n.op.target), 0)

    def _method(self) -> str:
        return self.block.route.op.method

    def _bytes(self) -> str:
        if self.block.route.op.body and self.status == 200:
            return str(len(self.block.route.op.body.lstrip("\n")))
        base = self.block.route.op.response_bytes if self.status < 500 else 3200
        return str(base + mix_int(self.key ^ 0xB) % 97)

    def _client(self) -> str:
        """Address of the pod that the request came from."""
        return self._pod_ip(int(self.block.client[self.column]) if self.block.client is not None else -1)

    def _pod_ip(self, number: int) -> str:
        return self.reader.runs[number].spec.pod_ip if number >= 0 else "-"

    def _address(self, node: int, part: int) -> str:
        at = self.block.route.nodes[node]
        if at.step is None:
            return ""
        caller = int(self.block.caller(node)[self.column])
        known = caller >= 0 and bool(at.step.call)
        address = address_in(self.reader.runs[caller].spec.env, at.step.call) if known else ""
        return address.rpartition(":")[0] if part else address

    def _argument(self, name: str, node: int) -> str | None:
        for at in self.block.route.path(node):
            if at.step is not None and name in at.step.args:
                given = at.step.args[name]
                own = given == "{item}" or given.startswith("{one:")  # drawn for the call itself
                return self.text(given, at.index if own else at.parent)
        return None

    def _variable(self, name: str) -> str | None:
        vocabulary = self.reader.programs.vocabulary(self.block.route.program, name)
        by = vocabulary.by if vocabulary and vocabulary.by else name
        if by not in self.block.variables:
            return None
        number = int(self.block.variables[by][self.column])
        if vocabulary is None:
            return str(number)
        return vocabulary.values[number % len(vocabulary.values)]

    def _sender(self) -> RequestView:
        """The request; of a consumed message, the one that sent it."""
        origin = self.block.origin
        if origin is None or not origin.sent:
            return self
        return RequestView(self.reader, origin.block, int(origin.columns[self.column]))._sender()

    def _chosen(self, flag: str, node: int) -> bool:
        """Whether the call was one that a flag is on for: it took a step that needs the flag."""
        steps = (self.block.route.nodes[child] for child in self.block.route.nodes[node].children)
        return any(
            s.step is not None and s.step.when is not None and s.step.when.flag == flag and not s.step.when.unless
            and self.happened(s.index)
            for s in steps
        )  # fmt: skip

    def _call(self, name: str, argument: str, count: int, node: int) -> str:
        seed = mix_int(self._sender().key ^ text_key(argument))
        if name == "uuid":
            return uuid_of(seed)
        if name == "stack":
            return self.reader.programs.stack(self.block.route.program, argument)
        if name == "flag":
            return "on" if self._chosen(argument, node) else "off"
        if name == "digits":
            return "".join(str(mix_int(seed + i) % 10) for i in range(count))
        words = self.reader.programs.words(self.block.route.program, argument)
        place = mix_int(seed + node)
        if name == "one":
            return words[place % len(words)]
        if name == "some":
            order = sorted(range(len(words)), key=lambda i: mix_int(place + i))
            return "[" + ", ".join(f"'{words[i]}'" for i in order[:count]) + "]"
        if name == "word":
            number = int(self.block.variables.get(argument, [0] * (self.column + 1))[self.column])
            return words[number % len(words)]
        return ""


def typed(value: str) -> str | int | float | bool:
    """An attribute as its type: text, or after ``#`` a number or truth value."""
    if not value.startswith("#"):
        return value
    plain = value[1:]
    if plain in ("true", "on", "false", "off"):
        return plain in ("true", "on")
    try:
        return float(plain) if "." in plain else int(plain)
    except ValueError:
        return plain


def uuid_of(key: int) -> str:
    """A version-4-shaped UUID from a key."""
    high, low = mix_int(key), mix_int(key + 1)
    text = f"{high & 0xFFFFFFFFFFFF0FFF | 0x4000:016x}{low & 0x3FFFFFFFFFFFFFFF | 1 << 63:016x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def span_id(key: int, node: int, server: bool) -> str:
    """16 hexadecimal digits of a span."""
    return f"{mix_int(mix_int(key) + 2 * node + server) or 1:016x}"


def trace_id(key: int, node: int) -> str:
    """32 hexadecimal digits of the trace that begins at ``node`` of a request."""
    base = key if node == 0 else mix_int(key + TRACE_STEP + node)
    return f"{mix_int(base ^ TRACE_SALTS[0]):016x}{mix_int(base ^ TRACE_SALTS[1]):016x}"
