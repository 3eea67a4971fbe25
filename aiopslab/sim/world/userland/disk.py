"""Programs that fill files and tell how full disks are."""

from __future__ import annotations

from aiopslab.sim.world.userland.io import Io, options, program
from aiopslab.sim.world.userland.machine import Blob, Machine

KEPT_BYTES_MAX = 1 << 20  # what is larger keeps its size only
DISK_KIB, SYSTEM_KIB, RESERVED_KIB = 103_079_844, 21_483_520, 5_263_024  # of a node: all, used by it, root's reserve
WRITE_BYTES_S = 1.2e9
UNITS = {"": 1, "c": 1, "w": 2, "b": 512, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
DECIMAL = {"kb": 10**3, "mb": 10**6, "gb": 10**9}
ENDLESS = ("/dev/zero", "/dev/urandom", "/dev/random")


def size_of(text: str) -> int | None:
    """``100M``, ``1GiB``, ``64k``, ``512`` in bytes; None for what is not a size."""
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = text[len(digits) :].lower().removesuffix("ib")
    factor = UNITS.get(unit, DECIMAL.get(unit))
    return int(digits) * factor if digits.isdigit() and factor is not None else None


def filled(size: int, source: bytes = b"") -> bytes:
    """Content of a size: the source's beginning, then zeros; only the size of what is large."""
    return Blob(size) if size > KEPT_BYTES_MAX else source[:size].ljust(size, b"\0")


def _used_bytes(machine: Machine) -> int:
    return sum(len(content) for content in machine.files.values())


def _free_bytes(machine: Machine) -> int:
    return (DISK_KIB - SYSTEM_KIB - RESERVED_KIB) * 1024 - _used_bytes(machine)


def _put(io: Io, path: str, content: bytes) -> str:
    """Write a file; why it cannot be written, or nothing."""
    if path == "/dev/null":
        return ""
    if not io.machine.writable(path):
        return "Read-only file system" if io.machine.read_only else "Permission denied"
    full = io.machine.resolved(path)
    free = _free_bytes(io.machine) + len(io.machine.files.get(full, b""))
    io.machine.files[full] = content if len(content) <= free else filled(free)
    return "" if len(content) <= free else "No space left on device"


@program("dd")
def dd(io: Io, argv: list[str]) -> int:
    """dd [if=FILE] [of=FILE] [bs=N] [count=N]"""
    given = dict(word.partition("=")[::2] for word in argv[1:])
    block = size_of(given.get("bs", "512"))
    count = size_of(given["count"]) if "count" in given else None
    if block is None or not block or ("count" in given and count is None):
        wrong = given["count"] if block else given.get("bs", "")
        io.err(f"dd: invalid number '{wrong}'")
        return 1
    source = given.get("if", "-")
    if source in ENDLESS:
        content, size = b"", _free_bytes(io.machine) + 1 if count is None else block * count
    else:
        found = io.stdin if source == "-" else io.machine.files.get(io.machine.resolved(source))
        if found is None:
            opened = f"can't open '{source}'" if io.machine.flavour == "alpine" else f"failed to open '{source}'"
            io.err(f"dd: {opened}: No such file or directory")
            return 1
        content, size = found, len(found) if count is None else min(len(found), block * count)
    problem = ""
    if target := given.get("of"):
        problem = _put(io, target, filled(size, content))
        size = len(io.machine.files.get(io.machine.resolved(target), b"")) if problem else size
    else:
        io.out(filled(size, content))
    took_s = size / WRITE_BYTES_S + 1e-4
    io.machine.spent_s += took_s
    if problem and problem != "No space left on device":
        io.err(f"dd: can't open '{target}': {problem}")
        return 1
    if problem:
        io.err(f"dd: error writing '{target}': {problem}")
    records = f"{size // block}+{int(size % block > 0)}"
    io.err(f"{records} records in\n{records} records out\n{_copied(io.machine, size, took_s)}")
    return 1 if problem else 0


def _copied(machine: Machine, size: int, took_s: float) -> str:
    speed = size / took_s
    if machine.flavour == "alpine":
        return f"{size} bytes ({_binary(size)}B) copied, {took_s:.6f} seconds, {_binary(speed)}B/s"
    shown = f" ({size / 1e6:.0f} MB, {size / 2**20:.0f} MiB)" if size >= 10**6 else ""
    return f"{size} bytes{shown} copied, {took_s:.6g} s, {speed / 1e9:.1f} GB/s"


def _binary(size: float) -> str:
    """``1.5M``, as busybox shortens sizes."""
    for unit in ("", "K", "M", "G"):
        if size < 1024 or unit == "G":
            break
        size /= 1024
    return f"{size:.1f}{unit}" if unit else f"{size:.0f}"


@program("fallocate", "truncate")
def fallocate(io: Io, argv: list[str]) -> int:
    """fallocate -l SIZE FILE, truncate -s SIZE FILE..."""
    found, paths = options(argv, "lso")
    text = found.get("l", found.get("s", ""))
    size = size_of(text)
    if size is None:
        io.err(f"{argv[0]}: invalid number '{text}'" if text else f"{argv[0]}: no length argument specified")
        return 1
    for path in paths:
        problem = _put(io, path, filled(size, io.machine.files.get(io.machine.resolved(path), b"")))
        if problem:
            io.err(f"{argv[0]}: {path}: {problem}")
            return 1
    return 0


@program("sync")
def sync(io: Io, argv: list[str]) -> int:
    """sync: everything is on disk already"""
    return 0


@program("df")
def df(io: Io, argv: list[str]) -> int:
    """df [-h]: the overlay root, the volumes and the tmpfs mounts"""
    human = "h" in options(argv)[0]
    used = SYSTEM_KIB + -(-_used_bytes(io.machine) // 1024)
    left = max(0, DISK_KIB - RESERVED_KIB - used)
    rows = [("overlay", DISK_KIB, used, left, "/"), ("tmpfs", 65536, 0, 65536, "/dev")]
    rows += [("/dev/vda1", DISK_KIB, used, left, mount) for mount in io.machine.mounts]
    size = "Size" if human else "1K-blocks"
    io.line(f"Filesystem           {size:>9} {'Used':>9} Available Use% Mounted on")
    for name, total, taken, free, mount in rows:
        numbers = [_binary(n * 1024) if human else str(n) for n in (total, taken, free)]
        percent = -(-taken * 100 // (taken + free)) if taken + free else 100
        io.line(f"{name:<20} {numbers[0]:>9} {numbers[1]:>9} {numbers[2]:>9} {percent:>3}% {mount}")
    return 0


@program("du")
def du(io: Io, argv: list[str]) -> int:
    """du [-sh] PATH..."""
    found, paths = options(argv)
    for path in paths or ["."]:
        prefix = io.machine.resolved(path)
        inside = prefix.rstrip("/") + "/"
        size = sum(len(c) for p, c in io.machine.files.items() if p == prefix or p.startswith(inside))
        kib = -(-size // 1024) + 4
        io.line(f"{_binary(kib * 1024) if 'h' in found else kib}\t{path}")
    return 0


@program("mount")
def mount(io: Io, argv: list[str]) -> int:
    """mount: what is mounted"""
    io.line(f"overlay on / type overlay ({'ro' if io.machine.read_only else 'rw'},relatime)")
    io.line("proc on /proc type proc (rw,nosuid,nodev,noexec,relatime)")
    io.line("tmpfs on /dev type tmpfs (rw,nosuid,size=65536k,mode=755)")
    for path in io.machine.mounts:
        io.line(f"/dev/vda1 on {path} type ext4 (rw,relatime)")
    return 0
