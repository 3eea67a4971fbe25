"""redis-cli against the redis that answers at an address: the common commands, with state."""

from __future__ import annotations

import fnmatch
import shlex
from collections.abc import Callable

from aiopslab.sim.world.userland.acl import KeySpace, User, digest
from aiopslab.sim.world.userland.io import Io, number, program
from aiopslab.sim.world.userland.network import connect, lookup

Space = KeySpace
NO_LOGIN = "NOAUTH Authentication required."
WRONG_LOGIN = "WRONGPASS invalid username-password pair or user is disabled."
WARNING = "Warning: Using a password with '-a' or '-u' option on the command line interface may not be safe."
BEFORE_LOGIN = frozenset({"AUTH", "HELLO", "QUIT", "RESET"})
WRONG_TYPE = "(error) WRONGTYPE Operation against a key holding the wrong kind of value"
Reply = str | int | None | list["Reply"]


class RedisError(Exception):
    """An ``(error)`` reply; the text is what follows."""


@program("redis-cli", "valkey-cli")
def redis_cli(io: Io, argv: list[str]) -> int:
    """redis-cli [-h HOST] [-p PORT] [-n DB] [--raw] [COMMAND ARG...]; commands on standard input otherwise"""
    host, port = "127.0.0.1", 6379
    words: list[str] = []
    login = io.machine.env.get("REDISCLI_AUTH")
    user = ""
    at = 1
    while at < len(argv):
        word = argv[at]
        if word in ("-h", "-p", "-n", "-a", "--user", "--pass", "-u") and not words:
            value = argv[at + 1] if at + 1 < len(argv) else ""
            login = value if word in ("-a", "--pass") else login
            user = value if word == "--user" else user
            host, port = (value, port) if word == "-h" else (host, number(value, port) if word == "-p" else port)
            at += 2
            continue
        if not (word.startswith("--") and not words):
            words.append(word)
        at += 1
    space = _open(io, host, port)
    if space is None:
        return 1
    if login is not None and "--no-auth-warning" not in argv and "REDISCLI_AUTH" not in io.machine.env:
        io.err(WARNING)
    session = Login(space)
    if login is not None:
        try:
            session.run(["AUTH", *([user] if user else []), login])
        except RedisError as error:
            io.err(f"AUTH failed: {error}")
    lines = [words] if words else [shlex.split(line) for line in io.text().splitlines() if line.strip()]
    raw = "--no-raw" not in argv  # standard output is a pipe, never a terminal
    for line in lines:
        try:
            io.line(shown(session.run(line), raw))
        except RedisError as error:
            io.line(f"(error) {error}" if not raw else str(error))
    return 0


class Login:
    """One connection to a redis: who it is logged in as, empty for nobody."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self.user = "default" if space.open else ""

    def run(self, words: list[str]) -> Reply:
        """Run one command. Raises RedisError."""
        name = words[0].upper()
        if name == "AUTH":
            return self._auth(words[1:])
        if not self.user and name not in BEFORE_LOGIN:
            raise RedisError(NO_LOGIN)
        if name == "ACL" and [w.upper() for w in words[1:2]] == ["WHOAMI"]:
            return self.user
        return execute(self._space, words)

    def _auth(self, arguments: list[str]) -> Reply:
        if not arguments or len(arguments) > 2:
            raise RedisError("ERR wrong number of arguments for 'auth' command")
        user, password = arguments if len(arguments) == 2 else ("default", arguments[0])
        if len(arguments) == 1 and self._space.users["default"].nopass:
            raise RedisError(
                "ERR AUTH <password> called without any password configured for the default user. "
                "Are you sure your configuration is correct?"
            )
        if not self._space.allows(user, password):
            raise RedisError(WRONG_LOGIN)
        self.user = user
        return "OK"


def _open(io: Io, host: str, port: int) -> Space | None:
    if host.startswith("127.") or host == "localhost":
        address = io.machine.pod_ip
        if io.machine.redis is not None and port == 6379:
            return io.machine.redis
    else:
        answer = lookup(io, host)
        if not answer.addresses:
            io.err(f"Could not connect to Redis at {host}:{port}: Name does not resolve")
            return None
        address = answer.addresses[0]
    result = connect(io, address, port)
    space = io.machine.network.redis(address, port) if result.outcome == "open" else None
    if space is None:
        why = {"refused": "Connection refused", "timeout": "Operation timed out", "open": "Protocol error"}
        io.err(f"Could not connect to Redis at {host}:{port}: {why.get(result.outcome, 'Host is unreachable')}")
    return space


def inline(space: Space, text: str) -> str:
    """Inline protocol, as ``nc`` would speak it: one command a line, RESP replies."""
    answers = []
    session = Login(space)
    for line in text.splitlines():
        words = line.split()
        if not words:
            continue
        try:
            reply = session.run(words)
        except RedisError as error:
            answers.append(f"-{error}\r\n")
            continue
        answers.append(f":{reply}\r\n" if isinstance(reply, int) else f"+{reply}\r\n")
    return "".join(answers)


def shown(reply: Reply, raw: bool = False, indent: str = "") -> str:
    """A reply as redis-cli prints it on a terminal (``raw``: as it does into a pipe)."""
    if reply is None:
        return "" if raw else "(nil)"
    if isinstance(reply, int):
        return str(reply) if raw else f"(integer) {reply}"
    if isinstance(reply, str):
        return reply if raw or reply in ("OK", "PONG") or "\n" in reply else f'"{reply}"'
    if not reply:
        return "" if raw else "(empty array)"
    if raw:
        return "\n".join(shown(item, raw) for item in reply)
    return "\n".join(f"{indent}{i}) {shown(item, raw, indent + '   ')}" for i, item in enumerate(reply, 1))


def execute(space: Space, words: list[str]) -> Reply:
    """Run one command on a key space. Raises RedisError."""
    name, arguments = words[0].upper(), words[1:]
    command = COMMANDS.get(name)
    if command is None:
        shown_args = " ".join(f"'{a}'" for a in arguments)
        raise RedisError(f"ERR unknown command '{words[0]}', with args beginning with: {shown_args}")
    least, function = command
    if len(arguments) < least:
        raise RedisError(f"ERR wrong number of arguments for '{words[0].lower()}' command")
    return function(space, arguments)


def _keys(space: Space, arguments: list[str]) -> Reply:
    return [k for k in sorted(space) if fnmatch.fnmatchcase(k, arguments[0])]


def _get(space: Space, arguments: list[str]) -> Reply:
    value = space.get(arguments[0])
    if value is not None and not isinstance(value, str):
        raise RedisError(WRONG_TYPE.removeprefix("(error) "))
    return value


def _set(space: Space, arguments: list[str]) -> Reply:
    space[arguments[0]] = arguments[1]
    return "OK"


def _del(space: Space, arguments: list[str]) -> Reply:
    return sum(space.pop(key, None) is not None for key in arguments)


def _exists(space: Space, arguments: list[str]) -> Reply:
    return sum(key in space for key in arguments)


def _type(space: Space, arguments: list[str]) -> Reply:
    value = space.get(arguments[0])
    return "none" if value is None else "string" if isinstance(value, str) else "hash"


def _hash(space: Space, key: str) -> dict[str, str]:
    value = space.get(key, {})
    if not isinstance(value, dict):
        raise RedisError(WRONG_TYPE.removeprefix("(error) "))
    return value


def _hgetall(space: Space, arguments: list[str]) -> Reply:
    return [part for pair in _hash(space, arguments[0]).items() for part in pair]


def _hget(space: Space, arguments: list[str]) -> Reply:
    return _hash(space, arguments[0]).get(arguments[1])


def _hset(space: Space, arguments: list[str]) -> Reply:
    fields = _hash(space, arguments[0])
    new = 0
    for name, value in zip(arguments[1::2], arguments[2::2], strict=False):
        new += name not in fields
        fields[name] = value
    space[arguments[0]] = fields
    return new


def _scan(space: Space, arguments: list[str]) -> Reply:
    return ["0", [*sorted(space)]]


def _flush(space: Space, arguments: list[str]) -> Reply:
    space.clear()
    return "OK"


def _info(space: Space, arguments: list[str]) -> Reply:
    sections = {
        "server": "# Server\nredis_version:7.4.1\nredis_mode:standalone\nprocess_id:1\ntcp_port:6379",
        "memory": "# Memory\nused_memory_human:1.61M\nmaxmemory:0\nmaxmemory_policy:noeviction",
        "replication": "# Replication\nrole:master\nconnected_slaves:0",
        "persistence": "# Persistence\nloading:0\nrdb_last_bgsave_status:ok\naof_enabled:0",
        "keyspace": "# Keyspace" + (f"\ndb0:keys={len(space)},expires={len(space)},avg_ttl=0" if space else ""),
    }
    wanted = arguments[0].lower() if arguments else ""
    return sections.get(wanted, "\n\n".join(sections.values()))


def _acl(space: Space, arguments: list[str]) -> Reply:
    what, names = arguments[0].upper(), arguments[1:]
    if what == "LIST":
        return [user.line(name) for name, user in sorted(space.users.items())]
    if what == "USERS":
        return [*sorted(space.users)]
    if what == "CAT":
        return ["keyspace", "read", "write", "hash", "string", "fast", "slow", "admin", "dangerous", "connection"]
    if what == "LOG":
        return []
    if what == "SETUSER" and names:
        user = space.users.setdefault(names[0], User())
        for rule in names[1:]:
            if not user.change(rule):
                raise RedisError(f"ERR Error in ACL SETUSER modifier '{rule}': Syntax error")
        return "OK"
    if what == "DELUSER" and names:
        if "default" in names:
            raise RedisError("ERR The 'default' user cannot be removed")
        return sum(space.users.pop(name, None) is not None for name in names)
    if what == "GETUSER" and names:
        found = space.users.get(names[0])
        if found is None:
            return None
        flags: list[Reply] = ["on" if found.on else "off", *(["nopass"] if found.nopass else [])]
        keys, channels = " ".join(found.keys), " ".join(found.channels)
        hashes: list[Reply] = [*found.passwords]
        return ["flags", flags, "passwords", hashes, "commands", found.commands, "keys", keys, "channels", channels]
    raise RedisError(f"ERR unknown subcommand or wrong number of arguments for '{arguments[0]}'. Try ACL HELP.")


def _config(space: Space, arguments: list[str]) -> Reply:
    if arguments[0].upper() == "SET" and len(arguments) > 2 and arguments[1].lower() == "requirepass":
        default = space.users["default"]
        default.nopass, default.passwords = not arguments[2], [digest(arguments[2])] if arguments[2] else []
        return "OK"
    values = {
        "maxmemory": "0",
        "maxmemory-policy": "noeviction",
        "save": "3600 1 300 100 60 10000",
        "appendonly": "no",
    }
    if arguments[0].upper() != "GET" or len(arguments) < 2:
        return "OK"
    return [part for k, v in sorted(values.items()) if fnmatch.fnmatchcase(k, arguments[1]) for part in (k, v)]


COMMANDS: dict[str, tuple[int, Callable[[Space, list[str]], Reply]]] = {
    "ACL": (1, _acl),
    "CONFIG": (1, _config),
    "DBSIZE": (0, lambda space, arguments: len(space)),
    "DEL": (1, _del),
    "EXISTS": (1, _exists),
    "FLUSHALL": (0, _flush),
    "FLUSHDB": (0, _flush),
    "GET": (1, _get),
    "HGET": (2, _hget),
    "HGETALL": (1, _hgetall),
    "HSET": (3, _hset),
    "INFO": (0, _info),
    "KEYS": (1, _keys),
    "PING": (0, lambda space, arguments: arguments[0] if arguments else "PONG"),
    "SCAN": (1, _scan),
    "SET": (2, _set),
    "TTL": (1, lambda space, arguments: 172_800 if arguments[0] in space else -2),
    "TYPE": (1, _type),
}
