"""One time inside the shell: turns times of the machine's clock in a command's output into cluster times.

On a stepped clock the cluster's time and the machine's differ. Two kinds of machine time reach an output:

* times that a program took from the machine's clock (Helm's release times, an HTTP ``Date``). The cluster's
  clock stands still between its steps, so the map from machine time to cluster time is a staircase: ``note``
  records each step.
* cluster times that the API server moved by a shift so that kubectl computes right ages from the machine's
  clock. They are moved back by that shift (``shifts``, in seconds).
"""

from __future__ import annotations

import bisect
import datetime as dt
import math
import re
from collections.abc import Sequence

_BEFORE_S = 3600.0  # how far before the run's first instant a machine time may lie and still be one of the run
_AFTER_S = 2 * 86400.0

_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
_CLOCK = r"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)"
_DAY = r"(?P<Y>\d{4})-(?P<M>\d\d)-(?P<D>\d\d)"
_FRACTION = r"(?P<f>\.\d{1,9})?"
_FORMS = {
    "iso": re.compile(rf"(?<!\d){_DAY}(?P<t>[T ]){_CLOCK}{_FRACTION}(?P<z>Z|\+00:00| \+0000 UTC| \+0000| UTC)"),
    "mail": re.compile(
        rf"(?P<d>[A-Z][a-z]{{2}}), (?P<D>\d\d) (?P<N>[A-Z][a-z]{{2}}) (?P<Y>\d{{4}}) {_CLOCK} (?P<z>\+0000|GMT|UTC)"
    ),
    "ansi": re.compile(rf"(?P<d>[A-Z][a-z]{{2}}) (?P<N>[A-Z][a-z]{{2}}) (?P<D>[ \d]\d) {_CLOCK} (?P<Y>\d{{4}})"),
    "klog": re.compile(
        rf"^(?P<l>[IWEF])(?P<M>\d\d)(?P<D>\d\d) {_CLOCK}(?P<f>\.\d{{6}})(?P<z> +\d+ )", re.MULTILINE
    ),
}


class TimeMap:
    """The staircase from machine time to cluster time of one run (both Unix seconds)."""

    def __init__(self) -> None:
        self._machine: list[float] = []
        self._cluster: list[float] = []
        self._shift = 0.0

    def note(self, machine: float, cluster: float) -> None:
        """From ``machine`` on, the cluster's clock shows ``cluster``."""
        self._shift = machine - cluster
        if self._cluster and self._cluster[-1] == cluster:
            return
        self._machine.append(machine)
        self._cluster.append(cluster)

    def at(self, machine: float) -> float:
        """The cluster time that was shown at ``machine``."""
        index = bisect.bisect_right(self._machine, machine) - 1
        return self._cluster[max(0, index)]

    def restore(self, text: str, shifts: Sequence[float] = ()) -> str:
        """``text`` with every time near the machine's clock replaced by the cluster time it stands for."""
        if not self._machine:
            return text
        for name, form in _FORMS.items():
            text = form.sub(lambda found, name=name: self._replace(name, found, shifts), text)  # type: ignore[misc]
        return text

    def _replace(self, form: str, found: re.Match[str], shifts: Sequence[float]) -> str:
        shown = self._read(form, found)
        if shown is None or not self._is_machine_time(shown, shifts):
            return found.group()
        fraction = float("0" + (found.groupdict().get("f") or ".0"))
        moved = self._back(shown, fraction, shifts if form != "klog" else ())
        return _write(form, found, moved)

    def _is_machine_time(self, shown: float, shifts: Sequence[float]) -> bool:
        past_s = self._cluster[-1] - self._cluster[0] + _BEFORE_S
        near = self._machine[0] - past_s <= shown <= self._machine[-1] + _AFTER_S
        is_cluster_time = self._cluster[0] - _BEFORE_S <= shown <= self._cluster[-1] + _BEFORE_S
        return near and not is_cluster_time

    def _back(self, shown: float, fraction: float, shifts: Sequence[float]) -> float:
        if not shifts and shown < self._machine[0] - 1:
            shifts = [round(self._shift)]  # older than the run: no program's own time
        if not shifts:
            return self.at(shown + fraction)
        # Cluster times are whole seconds where kubectl prints them; the shift may have a fraction.
        candidates = sorted({math.ceil(round(shown - shift, 6)) for shift in shifts})
        return float(candidates[0])

    def _read(self, form: str, found: re.Match[str]) -> float | None:
        part = found.groupdict()
        year = int(part["Y"]) if part.get("Y") else dt.datetime.fromtimestamp(self._machine[-1], dt.UTC).year
        try:
            month = int(part["M"]) if part.get("M") else _MONTHS.index(part["N"]) + 1
            moment = dt.datetime(
                year, month, int(part["D"]), int(part["h"]), int(part["m"]), int(part["s"]), tzinfo=dt.UTC
            )
        except ValueError:
            return None
        return moment.timestamp()


def _write(form: str, found: re.Match[str], moment_s: float) -> str:
    moment = dt.datetime.fromtimestamp(math.floor(moment_s), dt.UTC)
    clock = f"{moment:%H:%M:%S}"
    digits = len(found.groupdict().get("f") or ".") - 1
    fraction = (
        f".{round((moment_s - math.floor(moment_s)) * 10**digits):0{digits}d}"[: digits + 1] if digits else ""
    )
    if form == "iso":
        return f"{moment:%Y-%m-%d}{found['t']}{clock}{fraction}{found['z']}"
    if form == "mail":
        return (
            f"{_DAYS[moment.weekday()]}, {moment:%d} {_MONTHS[moment.month - 1]} {moment:%Y} {clock} {found['z']}"
        )
    if form == "klog":
        return f"{found['l']}{moment:%m%d} {clock}{fraction}{found['z']}"
    return f"{_DAYS[moment.weekday()]} {_MONTHS[moment.month - 1]} {moment.day:2d} {clock} {moment:%Y}"
