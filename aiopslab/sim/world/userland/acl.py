"""Who may talk to a redis: its users, as ``ACL`` and ``CONFIG SET requirepass`` change them.

Open connections keep their login; a new one that sends no name and password is the user ``default``'s.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field


@dataclass(slots=True)
class User:
    """One user. Rules about keys, channels and commands are kept as text."""

    on: bool = False
    nopass: bool = False
    passwords: list[str] = field(default_factory=list)  # SHA-256, hexadecimal
    keys: list[str] = field(default_factory=list)
    channels: list[str] = field(default_factory=list)
    commands: str = "-@all"

    def line(self, name: str) -> str:
        """As ``ACL LIST`` shows it."""
        marks = ["on" if self.on else "off", *(["nopass"] if self.nopass else [])]
        marks += [f"#{p}" for p in self.passwords]
        marks += ["sanitize-payload", *self.keys, *(self.channels or ["resetchannels"]), self.commands]
        return f"user {name} {' '.join(marks)}"

    def change(self, rule: str) -> bool:
        """Apply one rule of ``ACL SETUSER``; False when it is none."""
        simple = {
            "on": ("on", True), "off": ("on", False), "nopass": ("nopass", True),
            "resetpass": ("passwords", []), "resetkeys": ("keys", []), "resetchannels": ("channels", []),
            "allkeys": ("keys", ["~*"]), "allchannels": ("channels", ["&*"]),
            "allcommands": ("commands", "+@all"), "nocommands": ("commands", "-@all"),
        }  # fmt: skip
        if rule in simple:
            name, value = simple[rule]
            setattr(self, name, list(value) if isinstance(value, list) else value)
            if rule in ("nopass", "resetpass"):
                self.passwords, self.nopass = [], rule == "nopass"
            return True
        mark, text = rule[:1], rule[1:]
        if mark in (">", "#"):
            self.passwords.append(digest(text) if mark == ">" else text)
            self.nopass = False
        elif mark == "<":
            self.passwords = [p for p in self.passwords if p != digest(text)]
        elif mark in ("~", "%"):
            self.keys.append(rule)
        elif mark == "&":
            self.channels.append(rule)
        elif mark in ("+", "-"):
            whole = text in ("@all", "all")
            self.commands = f"{mark}@all" if whole else f"{self.commands} {rule}"
        else:
            return False
        return True


def digest(password: str) -> str:
    """A password as redis keeps it."""
    return hashlib.sha256(password.encode()).hexdigest()


class KeySpace(dict[str, object]):
    """The keys of one redis, and who may use them."""

    def __init__(self) -> None:
        super().__init__()
        self.users = {"default": User(True, True, [], ["~*"], ["&*"], "+@all")}
        self.shared: set[str] = set()  # keys that are kept by the simulated users, not by commands

    @property
    def open(self) -> bool:
        """Whether a connection without a password is let in."""
        default = self.users["default"]
        return default.on and default.nopass

    def allows(self, name: str, password: str) -> bool:
        """Whether a login is right."""
        user = self.users.get(name or "default")
        return user is not None and user.on and (user.nopass or digest(password) in user.passwords)
