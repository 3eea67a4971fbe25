"""Log lines as the logging libraries print them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple


class Entry(NamedTuple):
    """What a library is given. ``fields`` are values by key; ``serial`` is a number that varies by line."""

    at: float  # Unix seconds
    level: str  # debug, info, warning, error
    message: str
    logger: str
    pod: str
    fields: dict[str, str | int]
    serial: int


def _dump(data: dict[str, object]) -> str:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False)


def _logrus(entry: Entry) -> str:
    nanos = int(entry.at * 1e6 % 1e6) * 1000 + entry.serial % 1000
    stamp = f"{_utc(entry.at):%Y-%m-%dT%H:%M:%S}.{nanos:09d}".rstrip("0") + "Z"
    data = {**entry.fields, "message": entry.message, "severity": entry.level, "timestamp": stamp}
    return _dump({key: data[key] for key in sorted(data)})


def _nested(fields: dict[str, str | int]) -> dict[str, object]:
    """Fields with dotted keys as objects inside objects."""
    found: dict[str, object] = {}
    for key, value in fields.items():
        *outer, last = key.split(".")
        place: dict[str, object] = found
        for part in outer:
            place = place.setdefault(part, {})  # type: ignore[assignment]
        place[last] = value
    return found


def _pino(entry: Entry) -> str:
    return _dump(
        {
            "severity": entry.level,
            "time": int(entry.at * 1000),
            "pid": 1,
            "hostname": entry.pod,
            "name": entry.logger,
            **_nested(entry.fields),
            "message": entry.message,
        }
    )


def _python_json(entry: Entry) -> str:
    data = {
        "timestamp": round(entry.at, 6),
        "severity": entry.level.upper(),
        "name": entry.logger,
        "message": entry.message,
        **entry.fields,
    }
    return json.dumps(data, ensure_ascii=False)


def _log4j2(entry: Entry) -> str:
    thread = "main" if entry.fields.get("thread") == "main" else f"grpc-default-executor-{entry.serial % 4}"
    return _dump(
        {
            "instant": {
                "epochSecond": int(entry.at),
                "nanoOfSecond": int(entry.at * 1e6 % 1e6) * 1000 + entry.serial % 1000,
            },
            "thread": thread,
            "level": {"warning": "WARN"}.get(entry.level, entry.level.upper()),
            "loggerName": entry.logger,
            "message": entry.message,
            "endOfBatch": False,
            "loggerFqcn": "org.apache.logging.log4j.spi.AbstractLogger",
            "threadId": 1 if thread == "main" else 28 + entry.serial % 4,
            "threadPriority": 5,
            "logging.googleapis.com/trace": "${ctx:traceId}",
            "logging.googleapis.com/spanId": "${ctx:spanId}",
            "logging.googleapis.com/traceSampled": "${ctx:traceSampled}",
            "time": f"{_utc(entry.at):%Y-%m-%dT%H:%M:%S}.{int(entry.at * 1e3 % 1e3):03d}Z",
        }
    )


def _redis(entry: Entry) -> str:
    millis = int(entry.at * 1e3 % 1e3)
    role = "C" if entry.logger == "C" else "M"
    return f"1:{role} {_utc(entry.at):%d %b %Y %H:%M:%S}.{millis:03d} * {entry.message}"


def _locust(entry: Entry) -> str:
    millis = int(entry.at * 1e3 % 1e3)
    stamp = f"[{_utc(entry.at):%Y-%m-%d %H:%M:%S},{millis:03d}]"
    return f"{stamp} {entry.pod}/{entry.level.upper()}/{entry.logger}: {entry.message}"


def _pino_numbered(entry: Entry) -> str:
    """Pino as it comes: numbers for levels, ``msg`` last."""
    level = {"debug": 20, "info": 30, "warning": 40, "error": 50}[entry.level]
    head = {"level": level, "time": int(entry.at * 1000), "pid": 17, "hostname": entry.pod}
    return _dump({**head, **_nested(entry.fields), **({"msg": entry.message} if entry.message else {})})


def _python_otel(entry: Entry) -> str:
    data = {"asctime": f"{_utc(entry.at):%Y-%m-%d %H:%M:%S},{int(entry.at * 1e3 % 1e3):03d}"}
    data |= {"levelname": entry.level.upper(), "name": entry.logger, "filename": "recommendation_server.py"}
    return json.dumps({**data, **entry.fields, "message": entry.message}, ensure_ascii=False)


def _log4j2_console(entry: Entry) -> str:
    trace, span = entry.fields.get("trace_id", ""), entry.fields.get("span_id", "")
    context = f"trace_id={trace} span_id={span} trace_flags={'01' if trace else ''}"
    return f"{_utc(entry.at):%Y-%m-%d %H:%M:%S} - {entry.logger} - {entry.message} {context}"


def _rust_tracing(entry: Entry) -> str:
    stamp = f"{_utc(entry.at):%Y-%m-%dT%H:%M:%S}.{int(entry.at * 1e6 % 1e6):06d}Z"
    values = " ".join(f'{k}="{v}"' if isinstance(v, str) else f"{k}={v}" for k, v in entry.fields.items())
    return f"{stamp} {entry.level.upper():>5} {entry.logger}: {entry.message} {values}".rstrip()


def _dotnet(entry: Entry) -> str:
    """Two lines or more: the level with category and event number, then the message, indented."""
    level = {"debug": "dbug", "info": "info", "warning": "warn", "error": "fail"}[entry.level]
    category = entry.logger if entry.logger.endswith("]") else f"{entry.logger}[0]"
    return "\n      ".join([f"{level}: {category}", *entry.message.split("\n")])


def _postgres(entry: Entry) -> str:
    millis = int(entry.at * 1e3 % 1e3)
    level = {"fatal": "FATAL", "error": "ERROR", "warning": "WARNING"}.get(entry.level, "LOG")
    return f"{_utc(entry.at):%Y-%m-%d %H:%M:%S}.{millis:03d} UTC [1] {level}:  {entry.message}"


def _kafka(entry: Entry) -> str:
    millis = int(entry.at * 1e3 % 1e3)
    stamp = f"{_utc(entry.at):%Y-%m-%d %H:%M:%S},{millis:03d}"
    return f"[{stamp}] {entry.level.upper()} {entry.message} ({entry.logger})"


def _flagd(entry: Entry) -> str:
    stamp = f"{_utc(entry.at):%Y-%m-%dT%H:%M:%S}.{int(entry.at * 1e3 % 1e3):03d}Z"
    return f"{stamp}\t{entry.level}\t{entry.message}"


def _access(entry: Entry) -> str:
    return f"{entry.fields.get('client', '-')} - - [{_utc(entry.at):%d/%b/%Y:%H:%M:%S} +0000] {entry.message}"


def _plain(entry: Entry) -> str:
    return entry.message


def _utc(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


FORMATS: dict[str, Callable[[Entry], str]] = {
    "logrus": _logrus,
    "pino": _pino,
    "python-json": _python_json,
    "log4j2": _log4j2,
    "redis": _redis,
    "locust": _locust,
    "pino-numbered": _pino_numbered,
    "python-otel": _python_otel,
    "log4j2-console": _log4j2_console,
    "rust-tracing": _rust_tracing,
    "dotnet": _dotnet,
    "postgres": _postgres,
    "kafka": _kafka,
    "flagd": _flagd,
    "access": _access,
    "plain": _plain,
}
