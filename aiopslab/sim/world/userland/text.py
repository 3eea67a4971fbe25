"""Text filters."""

from __future__ import annotations

import re

from aiopslab.sim.world.userland.files import inputs
from aiopslab.sim.world.userland.io import Io, number, options, program


@program("echo")
def echo(io: Io, argv: list[str]) -> int:
    """echo [-n] [-e] WORD..."""
    words = argv[1:]
    newline, escapes = True, False
    while words and re.fullmatch(r"-[neE]+", words[0]):
        newline = newline and "n" not in words[0]
        escapes = escapes or "e" in words[0]
        words = words[1:]
    text = " ".join(words)
    io.out((unescape(text) if escapes else text) + ("\n" if newline else ""))
    return 0


def unescape(text: str) -> str:
    """Backslash escapes of echo -e and printf."""
    table = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "0": "\0", "a": "\a"}
    return re.sub(r"\\(.)", lambda m: table.get(m[1], m[0]), text)


@program("printf")
def printf(io: Io, argv: list[str]) -> int:
    """printf FORMAT [ARG...]"""
    if len(argv) < 2:
        io.err("printf: usage: printf FORMAT [ARGUMENT...]")
        return 1
    form, rest = unescape(argv[1]), argv[2:]
    fields = len(re.findall(r"%[-0-9.]*[sdiuxf]", form))
    while True:
        taken, rest = rest[:fields], rest[fields:]
        io.out(_formatted(form, taken))
        if not rest or not fields:
            return 0


def _formatted(form: str, values: list[str]) -> str:
    queue = list(values)

    def fill(match: re.Match[str]) -> str:
        if match[0] == "%%":
            return "%"
        value = queue.pop(0) if queue else ""
        kind = match[0][-1]
        try:
            return match[0] % (value if kind == "s" else float(value or 0) if kind == "f" else int(value or 0))
        except ValueError:
            return "0"

    return re.sub(r"%%|%[-0-9.]*[sdiuxf]", fill, form)


@program("head", "tail")
def head_tail(io: Io, argv: list[str]) -> int:
    """head/tail [-n N | -N | -c N] [FILE...]"""
    words = [argv[0], *(re.sub(r"^-(\d+)$", r"-n\1", w) for w in argv[1:])]
    found, paths = options(words, "nc")
    texts = inputs(io, argv[0], paths)
    for path, text in texts:
        if len(paths) > 1:
            io.line(f"==> {path} <==")
        if "c" in found:
            count = number(found["c"], 0)
            io.out(text[:count] if argv[0] == "head" else text[-count:] if count else "")
            continue
        lines = text.splitlines(keepends=True)
        raw = found.get("n", "10")
        count = number(raw, 10)
        if argv[0] == "head":
            io.out("".join(lines[:count] if count >= 0 else lines[: len(lines) + count]))
        else:
            io.out("".join(lines[count - 1 :] if raw.startswith("+") else lines[-count:] if count else []))
    return 0 if len(texts) == len(paths or ["-"]) else 1


@program("grep", "egrep", "fgrep")
def grep(io: Io, argv: list[str]) -> int:
    """grep [-invcEFoqlwA N -B N -C N] PATTERN [FILE...]"""
    found, operands = options(argv, "eABCm")
    pattern = found["e"] if "e" in found else operands.pop(0) if operands else None
    if pattern is None:
        io.err("Usage: grep [OPTION]... PATTERN [FILE]...")
        return 2
    fixed = "F" in found or argv[0] == "fgrep"
    extended = "E" in found or "P" in found or argv[0] == "egrep"
    source = re.escape(pattern) if fixed else pattern if extended else basic_to_python(pattern)
    if "w" in found:
        source = rf"\b(?:{source})\b"
    try:
        expression = re.compile(source, re.IGNORECASE if "i" in found else 0)
    except re.error:
        io.err(f"grep: bad regex '{pattern}'")
        return 2
    hits = 0
    for path, text in inputs(io, "grep", operands):
        prefix = f"{path}:" if len(operands) > 1 and "h" not in found else ""
        hits += _grep_one(io, expression, text, found, prefix)
    return 0 if hits else 1


def _grep_one(io: Io, expression: re.Pattern[str], text: str, found: dict[str, str], prefix: str) -> int:
    lines = text.splitlines()
    wanted = [bool(expression.search(line)) != ("v" in found) for line in lines]
    hits = [i for i, hit in enumerate(wanted) if hit][: number(found.get("m", ""), len(lines) + 1)]
    if "q" in found:
        return len(hits)
    if "c" in found:
        io.line(f"{prefix}{len(hits)}")
        return len(hits)
    if "l" in found:
        if hits:
            io.line(prefix.rstrip(":") or "(standard input)")
        return len(hits)
    around = number(found.get("C", "0"), 0)
    before, after = number(found.get("B", ""), around), number(found.get("A", ""), around)
    shown: set[int] = set()
    for hit in hits:
        if "o" in found:
            for match in expression.finditer(lines[hit]):
                io.line(prefix + match[0])
            continue
        start = max(0, hit - before)
        if shown and (before or after) and start > max(shown) + 1:
            io.line("--")
        for index in range(start, min(len(lines), hit + after + 1)):
            if index not in shown:
                shown.add(index)
                number_part = f"{index + 1}{':' if wanted[index] else '-'}" if "n" in found else ""
                io.line(f"{prefix}{number_part}{lines[index]}")
    return len(hits)


def basic_to_python(pattern: str) -> str:
    """POSIX basic regular expression to Python's: ``\\(`` groups, plain ``(``, ``+``, ``|`` literal."""
    swapped = re.sub(r"\\([(){}|+?])|([(){}|+?])", lambda m: m[1] if m[1] else "\\" + m[2], pattern)
    return re.sub(r"\[\[:(\w+):\]\]", lambda m: {"space": r"\s", "digit": r"\d"}.get(m[1], r"\w"), swapped)


@program("wc")
def wc(io: Io, argv: list[str]) -> int:
    """wc [-lwc] [FILE...]"""
    found, paths = options(argv)
    for path, text in inputs(io, "wc", paths):
        size = len(io.stdin) if path == "-" else io.machine.size(path)
        counts = {"l": text.count("\n"), "w": len(text.split()), "c": size}
        wanted = [k for k in "lwc" if k in found] or list("lwc")
        line = " ".join(str(counts[k]) for k in wanted)
        io.line(line if path == "-" else f"{line} {path}")
    return 0


@program("sort")
def sort(io: Io, argv: list[str]) -> int:
    """sort [-rnu] [-k N] [-t C] [FILE...]"""
    found, paths = options(argv, "kt")
    lines = [line for _, text in inputs(io, "sort", paths) for line in text.splitlines()]
    field = number(found.get("k", "0").split(",")[0].rstrip("nr"), 0)

    def key(line: str) -> tuple[float, str]:
        parts = line.split(found["t"]) if "t" in found else line.split()
        part = (parts[field - 1] if field <= len(parts) else "") if field else line
        match = re.match(r"\s*-?\d+(\.\d+)?", part)
        return (float(match[0]) if match and ("n" in found or "n" in found.get("k", "")) else 0.0, part)

    lines.sort(key=key, reverse="r" in found or "r" in found.get("k", ""))
    for line in dict.fromkeys(lines) if "u" in found else lines:
        io.line(line)
    return 0


@program("uniq")
def uniq(io: Io, argv: list[str]) -> int:
    """uniq [-cd]"""
    found, paths = options(argv)
    runs: list[tuple[str, int]] = []
    for line in (line for _, text in inputs(io, "uniq", paths) for line in text.splitlines()):
        if runs and runs[-1][0] == line:
            runs[-1] = (line, runs[-1][1] + 1)
        else:
            runs.append((line, 1))
    for line, count in runs:
        if "d" not in found or count > 1:
            io.line(f"{count:>7} {line}" if "c" in found else line)
    return 0


@program("cut")
def cut(io: Io, argv: list[str]) -> int:
    """cut -d C -f LIST | -c LIST"""
    found, paths = options(argv, "dfc")
    spans = _spans(found.get("f") or found.get("c") or "")
    if not spans:
        io.err("cut: you must specify a list of bytes, characters, or fields")
        return 1
    separator = found.get("d", "\t")
    for _, text in inputs(io, "cut", paths):
        for line in text.splitlines():
            if "c" in found:
                io.line("".join(line[a - 1 : b] for a, b in spans))
            elif separator not in line:
                if "s" not in found:
                    io.line(line)
            else:
                parts = line.split(separator)
                io.line(separator.join(p for a, b in spans for p in parts[a - 1 : b]))
    return 0


def _spans(spec: str) -> list[tuple[int, int | None]]:
    spans: list[tuple[int, int | None]] = []
    for part in filter(None, spec.split(",")):
        low, dash, high = part.partition("-")
        start = number(low or "1", 1)
        spans.append((start, (number(high, start) if high else None) if dash else start))
    return spans


@program("tr")
def tr(io: Io, argv: list[str]) -> int:
    """tr [-ds] SET1 [SET2]"""
    found, sets = options(argv)
    if not sets:
        io.err("tr: missing operand")
        return 1
    first = _char_set(sets[0])
    text = io.text()
    if "d" in found:
        io.out("".join(c for c in text if c not in first))
        return 0
    if len(sets) > 1:
        second = _char_set(sets[1])
        second += second[-1:] * (len(first) - len(second))
        text = text.translate(dict(zip(map(ord, first), second, strict=False)))
    if "s" in found:
        squeezed = _char_set(sets[-1])
        text = re.sub(f"([{re.escape(squeezed)}])\\1+", r"\1", text)
    io.out(text)
    return 0


def _char_set(spec: str) -> str:
    classes = {"upper": "A-Z", "lower": "a-z", "digit": "0-9", "space": " \t\n", "alnum": "A-Za-z0-9"}
    spec = re.sub(r"\[:(\w+):\]", lambda m: classes.get(m[1], ""), unescape(spec))
    return re.sub(r"(.)-(.)", lambda m: "".join(map(chr, range(ord(m[1]), ord(m[2]) + 1))), spec)


@program("sed")
def sed(io: Io, argv: list[str]) -> int:
    """sed [-n] [-E] SCRIPT [FILE...]: commands s, p, d, with line, range and /regex/ addresses"""
    found, operands = options(argv, "e")
    script = found["e"] if "e" in found else operands.pop(0) if operands else ""
    extended = "E" in found or "r" in found
    commands = [_sed_command(part.strip(), extended) for part in re.split(r"(?<!\\);|\n", script) if part.strip()]
    if any(c is None for c in commands):
        io.err(f"sed: unsupported command: {script}")
        return 1
    for path, text in inputs(io, "sed", operands):
        lines = text.splitlines()
        edited: list[str] = []
        for index, line in enumerate(lines):
            edited += _sed_line([c for c in commands if c], line, index + 1, len(lines), "n" in found)
        body = "".join(line + "\n" for line in edited)
        if "i" in found and path != "-" and io.machine.writable(path):
            io.machine.store(path, body.encode())
        else:
            io.out(body)
    return 0


SedCommand = tuple[str, str, str, re.Pattern[str] | None, str, str]  # from, to, verb, pattern, replacement, flags


def _sed_command(text: str, extended: bool) -> SedCommand | None:
    address = r"(?P<a>\d+|\$|/(?:\\.|[^/])*/)?(?:,(?P<b>\d+|\$|/(?:\\.|[^/])*/))?\s*"
    if match := re.fullmatch(address + r"(?P<v>[pdq])", text):
        return match["a"] or "", match["b"] or "", match["v"], None, "", ""
    match = re.fullmatch(
        address + r"s(?P<d>.)(?P<x>(?:\\.|(?!(?P=d)).)*)(?P=d)(?P<y>(?:\\.|(?!(?P=d)).)*)(?P=d)(?P<f>\w*)", text
    )
    if match is None:
        return None
    source = match["x"] if extended else basic_to_python(match["x"])
    replacement = re.sub(r"(?<!\\)&", r"\\g<0>", match["y"]).replace("\\" + match["d"], match["d"])
    flags = re.IGNORECASE if "I" in match["f"] or "i" in match["f"] else 0
    return match["a"] or "", match["b"] or "", "s", re.compile(source, flags), replacement, match["f"]


def _sed_line(commands: list[SedCommand], line: str, at: int, last: int, quiet: bool) -> list[str]:
    printed: list[str] = []
    for start, end, verb, pattern, replacement, flags in commands:
        if not _addressed(start, end, line, at, last):
            continue
        if verb == "d":
            return printed
        if verb == "p":
            printed.append(line)
        elif verb == "s" and pattern is not None:
            line, count = pattern.subn(replacement, line, count=0 if "g" in flags else 1)
            if count and "p" in flags:
                printed.append(line)
    return printed if quiet else [*printed, line]


def _addressed(start: str, end: str, line: str, at: int, last: int) -> bool:
    def hit(address: str) -> bool:
        if address.startswith("/"):
            return re.search(basic_to_python(address[1:-1]), line) is not None
        return at == (last if address == "$" else int(address))

    if not start:
        return True
    if not end or start.startswith("/"):
        return hit(start)
    first = last if start == "$" else int(start)
    final = last if end == "$" or not end.isdigit() else int(end)
    return first <= at <= final


@program("awk")
def awk(io: Io, argv: list[str]) -> int:
    """awk [-F S] '[/re/|NR op N] {print $1, $2}': selection and printing of fields"""
    found, operands = options(argv, "Fv")
    script = operands.pop(0) if operands else ""
    match = re.fullmatch(r"\s*(?P<when>[^{]*?)\s*(?:\{\s*print\s*(?P<what>[^}]*?)\s*;?\s*\})?\s*", script)
    if match is None:
        io.err(f"awk: unsupported program: {script}")
        return 2
    for _, text in inputs(io, "awk", operands):
        for index, line in enumerate(text.splitlines(), 1):
            fields = line.split(found["F"]) if "F" in found else line.split()
            if _awk_when(match["when"], line, index, fields):
                io.line(_awk_print(match["what"] or "$0", line, index, fields))
    return 0


def _awk_when(when: str, line: str, index: int, fields: list[str]) -> bool:
    if not when:
        return True
    if pattern := re.fullmatch(r"(!?)/(.*)/", when):
        return (re.search(pattern[2], line) is not None) != bool(pattern[1])
    if test := re.fullmatch(r"(NR|NF|\$\d+)\s*(==|!=|>=|<=|>|<|~)\s*\"?/?([^\"/]*)/?\"?", when):
        left = _awk_value(test[1], line, index, fields)
        if test[2] == "~":
            return re.search(test[3], left) is not None
        try:
            a: float | str = float(left)
            b: float | str = float(test[3])
        except ValueError:
            a, b = left, test[3]
        compare = {"==": a == b, "!=": a != b}
        if type(a) is type(b):
            compare |= {">": a > b, "<": a < b, ">=": a >= b, "<=": a <= b}  # type: ignore[operator]
        return compare.get(test[2], False)
    return False


def _awk_value(name: str, line: str, index: int, fields: list[str]) -> str:
    if name == "NR":
        return str(index)
    if name == "NF":
        return str(len(fields))
    if name == "$0":
        return line
    at = len(fields) if name == "$NF" else int(name[1:])
    return fields[at - 1] if 0 < at <= len(fields) else ""


def _awk_print(what: str, line: str, index: int, fields: list[str]) -> str:
    groups = []
    for part in what.split(","):
        pieces = re.findall(r'"((?:\\.|[^"])*)"|(\$NF|\$\d+|NR|NF)', part)
        groups.append("".join(unescape(a) if not b else _awk_value(b, line, index, fields) for a, b in pieces))
    return " ".join(groups)


@program("seq")
def seq(io: Io, argv: list[str]) -> int:
    """seq [FIRST] LAST"""
    values = [number(a, 1) for a in argv[1:]]
    if not values:
        io.err("seq: missing operand")
        return 1
    for value in range(values[0] if len(values) > 1 else 1, values[-1] + 1):
        io.line(str(value))
    return 0


@program("yes")
def yes(io: Io, argv: list[str]) -> int:
    """yes [WORD]: until the reader has enough"""
    line = " ".join(argv[1:]) or "y"
    while True:
        io.line(line)
