"""Programs that write a lot: of such a file only the beginning is kept, and its size."""

from __future__ import annotations

import hashlib
import re

from aiopslab.sim.world.userland.io import NO_SPACE, Io, options, program

KEPT_BYTES = 64 << 10
ENDLESS = {"/dev/zero": 1.6e9, "/dev/urandom": 0.35e9, "/dev/random": 0.35e9}  # bytes per second
FILE_BPS = 1.2e9
START_S = 0.0004
NO_END = 1 << 50
BLOCK_BYTES = 512
_SIZE = re.compile(r"(\d+)([kKMGTcwb]?)(i?B)?")
_UNITS = {"": 1, "c": 1, "w": 2, "b": 512}


def size(text: str) -> int | None:
    """``64M``, ``1GB``, ``512``: 1024 with a letter alone or with iB, 1000 with a B. None when malformed."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    number, letter, tail = match.groups()
    if letter in _UNITS:
        return int(number) * _UNITS[letter]
    return int(int(number) * (1000 if tail == "B" else 1024) ** (1 + "KMGT".index(letter.upper())))


@program("dd")
def dd(io: Io, argv: list[str]) -> int:
    """dd [if=FILE] [of=FILE] [bs=N] [count=N] [conv=notrunc] [oflag=append] [status=none]"""
    given = dict(word.split("=", 1) for word in argv[1:] if "=" in word)
    block, count = size(given.get("bs", str(BLOCK_BYTES))), size(given.get("count", "0"))
    if not block or count is None:
        io.err(f"dd: invalid number '{given.get('count' if block else 'bs')}'")
        return 1
    source, target = given.get("if", ""), given.get("of", "")
    content, bulk = _read(io, source, block * count if "count" in given else None)
    if content is None:
        return 1
    if not target:
        io.out(content)
        written, fits = len(content), True
    elif target == "/dev/null":
        written, fits = len(content) + bulk, True
    elif not io.machine.writable(target):
        io.err(f"dd: can't open '{target}': {'Read-only file system' if io.machine.read_only else 'Permission denied'}")
        return 1
    else:
        written, fits = _write(io, target, (content, bulk), "append" in given.get("oflag", ""))
    if not fits:
        io.err(f"dd: error writing '{target}': {NO_SPACE}")
    took_s = START_S + written / ENDLESS.get(source, FILE_BPS)
    io.machine.spent_s += took_s
    if given.get("status") != "none":
        _report(io, (len(content) + bulk, written, block), took_s, fits)
    return 0 if fits else 1


def _read(io: Io, source: str, most: int | None) -> tuple[bytes | None, int]:
    """(beginning, bytes that follow); an endless source without a count fills whatever it is written to."""
    if source in ENDLESS:
        total = most if most is not None else NO_END
        kept = min(total, KEPT_BYTES)
        return (bytes(kept) if source == "/dev/zero" else _noise(source, kept)), total - kept
    if source in ("", "/dev/null"):
        content: bytes | None = b"" if source else io.stdin
    else:
        content = io.machine.files.get(io.machine.resolved(source))
    if content is None:
        io.err(f"dd: can't open '{source}': No such file or directory")
        return None, 0
    bulk = io.machine.bulk.get(io.machine.resolved(source), 0) if source else 0
    if most is not None:
        content, bulk = content[:most], max(0, min(bulk, most - len(content)))
    return content, bulk


def _noise(source: str, length: int) -> bytes:
    """Bytes that do not compress; the same ones each time."""
    words = (hashlib.sha256(f"{source}{i}".encode()).digest() for i in range(-(-length // 32)))
    return b"".join(words)[:length]


def _write(io: Io, target: str, data: tuple[bytes, int], append: bool) -> tuple[int, bool]:
    """(bytes written, whether all of them were)."""
    content, bulk = data
    before = io.machine.size(target) if append else 0
    if before:
        content, bulk = io.machine.files[io.machine.resolved(target)], io.machine.size(target) + len(content) + bulk
        bulk -= len(content)
    fits = io.machine.store(target, content, bulk)
    return io.machine.size(target) - before, fits


def _report(io: Io, counts: tuple[int, int, int], took_s: float, fits: bool) -> None:
    """Records in and out, and the rate, in the words of busybox or of GNU."""
    got, written, block = counts
    read = got if fits else written + block
    io.err(f"{read // block}+{int(read % block > 0)} records in")
    io.err(f"{written // block}+{int(written % block > 0)} records out")
    if io.machine.flavour == "alpine":
        io.err(f"{written} bytes ({_binary(written)}B) copied, {took_s:.6f} seconds, {_binary(written / took_s)}B/s")
        return
    parts = [_decimal(written)] if written >= 1000 else []
    parts += [f"{_binary(written, ' ')}iB"] if written >= 1024 else []
    shown = f" ({', '.join(parts)})" if parts else ""
    io.err(f"{written} bytes{shown} copied, {took_s:.6g} s, {_decimal(written / took_s)}/s")


def _binary(value: float, space: str = "") -> str:
    for suffix in ("", "K", "M", "G"):
        if value < 1024:
            return f"{value:.1f}{space}{suffix}" if not space or value < 10 else f"{value:.0f}{space}{suffix}"
        value /= 1024
    return f"{value:.1f}{space}T"


def _decimal(value: float) -> str:
    for suffix in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.1f} {suffix}" if value < 10 else f"{value:.0f} {suffix}"
        value /= 1000
    return f"{value:.1f} TB"


@program("fallocate")
def fallocate(io: Io, argv: list[str]) -> int:
    """fallocate -l LENGTH FILE"""
    found, paths = options(argv, "lo")
    length = size(found.get("l", ""))
    if length is None or not paths:
        io.err("fallocate: no length argument specified" if "l" not in found else "fallocate: failed to parse length")
        return 1
    path = paths[0]
    if not io.machine.writable(path):
        io.err(f"fallocate: cannot open {path}: Permission denied")
        return 1
    if io.machine.size(path) >= length:
        return 0
    content = io.machine.files.get(io.machine.resolved(path), b"") or bytes(min(length, KEPT_BYTES))
    if not io.machine.store(path, content, length - len(content)):
        io.err(f"fallocate: fallocate failed: {NO_SPACE}")
        return 1
    return 0
