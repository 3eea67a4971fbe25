"""Programs that look at and change files."""

from __future__ import annotations

import base64
import fnmatch
import hashlib

from aiopslab.sim.world.userland.io import NO_SPACE, Io, number, options, program

# A node's disk; what is free where nobody knows better.
DISK_KIB, DISK_RESERVED_KIB, DISK_FREE_KIB = 104_857_600, 5_242_880, 76_333_300


def read(io: Io, name: str, path: str) -> bytes | None:
    """A file's content (``-`` is standard input); complains in the name of the program when absent."""
    if path == "-":
        return io.stdin
    content = io.machine.files.get(io.machine.resolved(path))
    if content is None:
        what = "Is a directory" if io.machine.is_dir(path) else "No such file or directory"
        prefix = f"{name}: can't open '{path}'" if io.machine.flavour == "alpine" else f"{name}: {path}"
        io.err(f"{prefix}: {what}")
    return content


def inputs(io: Io, name: str, paths: list[str]) -> list[tuple[str, str]]:
    """(path, text) of each operand, or of standard input when there is none; absent files are skipped."""
    found = []
    for path in paths or ["-"]:
        content = read(io, name, path)
        if content is not None:
            found.append((path, content.decode(errors="replace")))
    return found


@program("cat")
def cat(io: Io, argv: list[str]) -> int:
    """cat [FILE...]"""
    _, paths = options(argv)
    code = 0
    for path in paths or ["-"]:
        content = read(io, "cat", path)
        if content is None:
            code = 1
        else:
            io.out(content)
    return code


@program("ls")
def ls(io: Io, argv: list[str]) -> int:
    """ls [-la1] [PATH...]"""
    found, paths = options(argv)
    code = 0
    for path in paths or ["."]:
        full = io.machine.resolved(path)
        if full in io.machine.files:
            names = [path]
        elif io.machine.is_dir(path):
            if len(paths) > 1:
                io.line(f"{path}:")
            names = [n for n in io.machine.children(path) if "a" in found or not n.startswith(".")]
        else:
            quoted = path if io.machine.flavour == "alpine" else f"cannot access '{path}'"
            io.err(f"ls: {quoted}: No such file or directory")
            code = 1 if io.machine.flavour == "alpine" else 2
            continue
        for name in names:
            io.line(_long(io, full, name) if "l" in found else name)
    return code


def _long(io: Io, folder: str, name: str) -> str:
    path = folder if folder in io.machine.files else f"{folder.rstrip('/')}/{name}"
    content = io.machine.files.get(path)
    kind, size = ("d", 4096) if content is None else ("-", io.machine.size(path))
    mode = "rwxr-xr-x" if kind == "d" else "rw-r--r--"
    return f"{kind}{mode}    1 {io.machine.user:<8} {io.machine.user:<8} {size:>9} {name}"


@program("find")
def find(io: Io, argv: list[str]) -> int:
    """find [PATH...] [-name PATTERN] [-type f|d]"""
    roots = []
    rest = argv[1:]
    while rest and not rest[0].startswith("-"):
        roots.append(rest.pop(0))
    tests = dict(zip(rest[::2], rest[1::2], strict=False))
    for root in roots or ["."]:
        full = io.machine.resolved(root)
        prefix = full.rstrip("/") + "/"
        names = sorted(p for p in io.machine.files if p == full or p.startswith(prefix))
        if not names and not io.machine.is_dir(root):
            io.err(f"find: {root}: No such file or directory")
            return 1
        for path in names:
            base = path.rsplit("/", 1)[-1]
            if tests.get("-type", "f") == "f" and fnmatch.fnmatchcase(base, tests.get("-name", "*")):
                io.line(path if root.startswith("/") else root.rstrip("/") + path[len(full) :])
    return 0


@program("mkdir", "touch")
def make(io: Io, argv: list[str]) -> int:
    """mkdir [-p] DIR..., touch FILE..."""
    _, paths = options(argv, "m")
    for path in paths:
        if not io.machine.writable(path):
            what = "Read-only file system" if io.machine.read_only else "Permission denied"
            shown = f"can't create directory '{path}'" if argv[0] == "mkdir" else path
            io.err(f"{argv[0]}: {shown}: {what}")
            return 1
        full = io.machine.resolved(path)
        io.machine.files.setdefault(full + "/.keep" if argv[0] == "mkdir" else full, b"")
    return 0


@program("rm")
def rm(io: Io, argv: list[str]) -> int:
    """rm [-rf] FILE..."""
    found, paths = options(argv)
    code = 0
    for path in paths:
        full = io.machine.resolved(path)
        inside = [p for p in io.machine.files if p.startswith(full + "/")]
        if full in io.machine.files or ("r" in found and inside):
            if not io.machine.writable(path):
                why = "Read-only file system" if io.machine.read_only else "Permission denied"
                io.err(f"rm: can't remove '{path}': {why}")
                code = 1
                continue
            for name in [full, *inside]:
                io.machine.remove(name)
        elif "f" not in found:
            io.err(f"rm: can't remove '{path}': No such file or directory")
            code = 1
    return code


@program("cp", "mv")
def copy(io: Io, argv: list[str]) -> int:
    """cp SOURCE TARGET, mv SOURCE TARGET"""
    _, paths = options(argv)
    if len(paths) < 2:
        io.err(f"{argv[0]}: missing file operand")
        return 1
    source, target = paths[0], paths[-1]
    content = read(io, argv[0], source)
    if content is None:
        return 1
    if io.machine.is_dir(target):
        target = f"{target.rstrip('/')}/{source.rsplit('/', 1)[-1]}"
    if not io.machine.writable(target):
        io.err(f"{argv[0]}: can't create '{target}': Read-only file system")
        return 1
    if not io.machine.store(target, content, io.machine.bulk.get(io.machine.resolved(source), 0)):
        io.err(f"{argv[0]}: error writing '{target}': {NO_SPACE}")
        return 1
    if argv[0] == "mv":
        io.machine.remove(source)
    return 0


@program("stat")
def stat(io: Io, argv: list[str]) -> int:
    """stat FILE..."""
    _, paths = options(argv, "c")
    for path in paths:
        content = read(io, "stat", path)
        if content is None:
            return 1
        io.line(f"  File: {path}\n  Size: {io.machine.size(path)}\tregular file")
    return 0


@program("md5sum", "sha256sum")
def checksum(io: Io, argv: list[str]) -> int:
    """md5sum, sha256sum"""
    _, paths = options(argv)
    code = 0
    for path in paths or ["-"]:
        content = read(io, argv[0], path)
        if content is None:
            code = 1
            continue
        digest = hashlib.new("md5" if argv[0] == "md5sum" else "sha256", content, usedforsecurity=False)
        io.line(f"{digest.hexdigest()}  {path}")
    return code


@program("base64")
def base64_(io: Io, argv: list[str]) -> int:
    """base64 [-d] [FILE]"""
    found, paths = options(argv, "w")
    content = read(io, "base64", paths[0] if paths else "-")
    if content is None:
        return 1
    if "d" in found or "decode" in found:
        try:
            io.out(base64.b64decode(content, validate=False))
        except ValueError:
            io.err("base64: invalid input")
            return 1
        return 0
    encoded = base64.b64encode(content).decode()
    width = number(found.get("w", "76"), 76) or len(encoded) or 1
    for start in range(0, len(encoded), width):
        io.line(encoded[start : start + width])
    return 0


@program("tee")
def tee(io: Io, argv: list[str]) -> int:
    """tee [-a] FILE..."""
    found, paths = options(argv)
    io.out(io.stdin)
    code = 0
    for path in paths:
        if not io.machine.writable(path):
            io.err(f"tee: {path}: Read-only file system")
            code = 1
            continue
        full = io.machine.resolved(path)
        before, bulk = (io.machine.files.get(full, b""), io.machine.bulk.get(full, 0)) if "a" in found else (b"", 0)
        if not io.machine.store(full, before + io.stdin, bulk):
            io.err(f"tee: {path}: {NO_SPACE}")
            code = 1
    return code


@program("basename")
def basename(io: Io, argv: list[str]) -> int:
    """basename PATH [SUFFIX]"""
    name = argv[1].rstrip("/").rsplit("/", 1)[-1] if len(argv) > 1 else ""
    io.line(name.removesuffix(argv[2]) if len(argv) > 2 else name)
    return 0


@program("dirname")
def dirname(io: Io, argv: list[str]) -> int:
    """dirname PATH"""
    path = argv[1] if len(argv) > 1 else ""
    io.line(path.rpartition("/")[0] or ("/" if path.startswith("/") else "."))
    return 0


@program("df")
def df(io: Io, argv: list[str]) -> int:
    """df [-h]: the overlay root, mounted volumes and the tmpfs mounts"""
    machine, human = io.machine, "h" in options(argv)[0]
    left = machine.disk_room() // 1024 if machine.disk_room is not None else DISK_FREE_KIB
    used = max(0, DISK_KIB - DISK_RESERVED_KIB - left)
    rows = [("overlay", DISK_KIB, used, left, "/"), ("tmpfs", 65536, 0, 65536, "/dev")]
    for folder in machine.mounts:
        tmpfs = (machine.limits.get(folder) or 0) // 1024
        taken = sum(machine.size(name) for name in machine.files if name.startswith(f"{folder}/")) // 1024
        row = ("tmpfs", tmpfs, taken, max(0, tmpfs - taken)) if tmpfs else ("/dev/vda1", DISK_KIB, used, left)
        rows.append((*row, folder))
    size = "Size" if human else "1K-blocks"
    io.line(f"Filesystem           {size:>9} {'Used':>9} Available Use% Mounted on")
    for name, total, taken, free, mounted in rows:
        shown = [_human(kib) if human else str(kib) for kib in (total, taken, free)]
        percent = -(-taken * 100 // (taken + free)) if taken + free else 100
        io.line(f"{name:<20} {shown[0]:>9} {shown[1]:>9} {shown[2]:>9} {percent:>3}% {mounted}")
    return 0


@program("du")
def du(io: Io, argv: list[str]) -> int:
    """du [-shm] PATH..."""
    found, paths = options(argv, "d")
    for path in paths or ["."]:
        full = io.machine.resolved(path)
        inside = full.rstrip("/") + "/"
        size = sum(io.machine.size(name) for name in io.machine.files if name == full or name.startswith(inside))
        kib = -(-size // 1024) + 4
        if "h" in found:
            shown = _human(kib)
        else:
            shown = str(-(-kib // 1024) if "m" in found else kib)
        io.line(f"{shown}\t{path}")
    return 0


def _human(kib: int) -> str:
    """KiB with the suffix that leaves less than 1024."""
    value, suffix = float(kib), "K"
    while value >= 1024 and suffix != "T":
        value, suffix = value / 1024, "KMGT"["KMGT".index(suffix) + 1]
    return f"{value:.1f}{suffix}" if kib else "0"


@program("mount")
def mount(io: Io, argv: list[str]) -> int:
    """mount: what is mounted"""
    io.line(f"overlay on / type overlay ({'ro' if io.machine.read_only else 'rw'},relatime)")
    io.line("proc on /proc type proc (rw,nosuid,nodev,noexec,relatime)")
    io.line("tmpfs on /dev type tmpfs (rw,nosuid,size=65536k,mode=755)")
    for folder in io.machine.mounts:
        kind = "tmpfs on {} type tmpfs" if io.machine.limits.get(folder) else "/dev/vda1 on {} type ext4"
        io.line(f"{kind.format(folder)} (rw,relatime)")
    return 0
