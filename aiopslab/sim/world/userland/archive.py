"""tar, which ``kubectl cp`` runs on the container's side."""

from __future__ import annotations

import io as streams
import tarfile

from aiopslab.sim.world.userland.io import Io, program
from aiopslab.sim.world.userland.machine import Machine

USAGE_CODE = 1
TAR_ERROR_CODE = 2
FILE_MODE, DIRECTORY_MODE = 0o644, 0o755


@program("tar")
def tar(io: Io, argv: list[str]) -> int:
    """tar {-c|-x|-t}[zvm] [-f FILE] [-C DIR] [FILE...]: plain and gzipped archives"""
    flags, archive, folder, paths = _parsed(argv[1:])
    mode = next((m for m in "cxt" if m in flags), "")
    if not mode:
        io.err("tar: must specify exactly one of -c, -x or -t" if io.machine.flavour == "alpine" else
               "tar: You must specify one of the '-Acdtrux' options")  # fmt: skip
        return USAGE_CODE
    if mode == "c":
        return _create(io, (archive, folder, paths), compressed="z" in flags)
    content = io.stdin if archive == "-" else io.machine.files.get(io.machine.resolved(archive))
    if content is None:
        io.err(f"tar: can't open '{archive}': No such file or directory")
        return TAR_ERROR_CODE
    try:
        with tarfile.open(fileobj=streams.BytesIO(content), mode="r:*") as found:
            return _extract(io, found, folder, flags) if mode == "x" else _listed(io, found)
    except (tarfile.TarError, EOFError, OSError):
        io.err(
            "tar: This does not look like a tar archive\ntar: Exiting with failure status due to previous errors"
        )
        return TAR_ERROR_CODE


def _parsed(words: list[str]) -> tuple[str, str, str, list[str]]:
    """(flags, archive, folder, operands). The first word may lack its dash; long options change nothing here."""
    flags, archive, folder, paths = "", "-", ".", []
    at, first = 0, True
    while at < len(words):
        word = words[at]
        if word.startswith("--") and len(word) > 2:
            pass
        elif (word.startswith("-") and len(word) > 1) or (first and not word.startswith("/")):
            for letter in word.lstrip("-"):
                flags += letter
                if letter in "fC" and at + 1 < len(words):
                    at += 1
                    archive, folder = (words[at], folder) if letter == "f" else (archive, words[at])
        else:
            paths.append(word)
        at, first = at + 1, False
    return flags, archive, folder, paths


def _create(io: Io, what: tuple[str, str, list[str]], *, compressed: bool) -> int:
    archive, folder, paths = what
    machine, missing = io.machine, 0
    made = streams.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz" if compressed else "w") as target:
        for path in paths:
            full = machine.resolved(path if path.startswith("/") else f"{folder}/{path}")
            if full not in machine.files and not machine.is_dir(full):
                io.err(f"tar: {path}: No such file or directory")
                missing += 1
                continue
            if path.startswith("/") and "removing leading" not in io.stderr.decode():
                io.err("tar: removing leading '/' from member names")
            _add(target, machine, full, path)
    if archive != "-":
        machine.store(archive, made.getvalue())
    elif missing < len(paths):
        # An archive of nothing is not even begun: at its end mark kubectl cp would stop without the exit code.
        io.out(made.getvalue())
    return int(missing > 0)


def _add(target: tarfile.TarFile, machine: Machine, full: str, name: str) -> None:
    """A file, or a directory with everything below."""
    member = tarfile.TarInfo(name.lstrip("/").rstrip("/") or ".")
    member.mtime = int(machine.now)
    content = machine.files.get(full)
    if content is None:
        member.type, member.mode = tarfile.DIRTYPE, DIRECTORY_MODE
        target.addfile(member)
        for child in machine.children(full):
            _add(target, machine, f"{full.rstrip('/')}/{child}", f"{name.rstrip('/')}/{child}")
        return
    member.size, member.mode = len(content), FILE_MODE
    target.addfile(member, streams.BytesIO(content))


def _extract(io: Io, found: tarfile.TarFile, folder: str, flags: str) -> int:
    code = 0
    for member in found.getmembers():
        reader = found.extractfile(member) if member.isfile() else None
        path = io.machine.resolved(f"{folder}/{member.name}")
        if reader is None:
            continue
        if not io.machine.writable(path):
            why = "Read-only file system" if io.machine.read_only else "Permission denied"
            io.err(f"tar: can't open '{member.name}': {why}")
            code = 1
            continue
        io.machine.store(path, reader.read())
        if "v" in flags:
            io.line(member.name)
    return code


def _listed(io: Io, found: tarfile.TarFile) -> int:
    for member in found.getmembers():
        io.line(member.name + ("/" if member.isdir() else ""))
    return 0
