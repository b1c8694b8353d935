"""Hostile YAML: anchors, tags, keys, numbers, depths and encodings."""

from __future__ import annotations

from random import Random

from tests.hostile.texts import SIGNS, text

VALUES = (
    "*nowhere", "&a [*a]", "&a {b: *a}", "&a &b 1", "*a : 1", "!!python/object:os.system [ls]",
    "!!binary aGVsbG8=", "!!binary '%'", "!!set {a, b}", "!!omap [a: 1]", "!!timestamp 2026-01-01",
    "!!float x", "!!int 1_000", "!local x", "!<tag:x> y", "!!null x", "2026-01-01T00:00:00Z",
    "0o17", "0x1F", "1_000", "1:30:00", ".inf", "-.INF", ".nan", "1e400", "-1e-400",
    "0x" + "F" * 40, "9" * 30, "9" * 5_000, "0." + "3" * 5_000, "1e" + "9" * 100, "yes", "~", "''",
    '""', "{}", "[]", "{a: 1, a: 2}", "{[a]: 1}", "{{a: 1}: 2}", "? a", "? [a]\n: b", "{<<: *a}",
    "{<<: 3}", "{<<: [{}]}", "{null: 1, 1: 2, true: 3}", "|2\n      x", "|-9\n x", ">+\n\n\n",
    "'unended", '"unended', '"\\x"', '"\\ud800"', '"\\0"', '"\\U00110000"', '"\\u2028"', "@at",
    "`tick", "%percent", "- - - a", "a: b: c", "{file: m.yaml}", "{file: ../m.yaml}",
    "{file: /dev/zero}", "{file: .}", "[x" + ", x" * 5_000 + "]",
    "{" + ", ".join(f"k{n}: 1" for n in range(3_000)) + "}", "x" * 200_000, "a\u0085b", "a\ufeffb",
)  # fmt: skip
LINES = (
    "---", "...", "%YAML 1.1", "%YAML 3.0", "%TAG ! x", "--- !x", "\t", "\tkey: 1", "# \x00",
    "\x00", "\x1b[2J", "\ufeff", "\ud800", "- x", "x", ": x", "? x", "loopkit: 1", "loopkit: 2",
    "states:", "states: &s {a: *s}", "__proto__: 1", "<<: *a", "<<: {name: x}", "name: A",
    "input: {x: *x}",
)  # fmt: skip
BOM = {"utf-8": b"\xef\xbb\xbf", "utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}
ENCODINGS = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-7", "latin-1", "cp1252", "utf-8", "cp037")


def with_oddities(random: Random, original: str) -> str:
    """A file with some lines of hostile YAML, or hostile values in its lines."""
    lines = original.split("\n")
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        place = random.randrange(len(lines))
        odd = random.choice((_value, _value, _line, _indented, _deep, _bomb))
        lines[place] = odd(random, lines[place])
    return random.choice(("\n", "\n", "\n", "\r\n", "\r", "\u2028")).join(lines)


def encoded(random: Random, whole: str) -> bytes:
    """A file as UTF-8, mostly; else with another mark, in another encoding, or with odd bytes."""
    if random.random() < 0.8:
        return whole.encode(errors="surrogatepass")
    encoding = random.choice(ENCODINGS)
    data = random.choice((b"", BOM.get(encoding, b""))) + whole.encode(encoding, errors="replace")
    for _ in range(random.choice((0, 1, 5))):
        place = random.randrange(len(data) + 1)
        data = data[:place] + bytes(random.choices(range(256), k=2)) + data[place:]
    return data


def _value(random: Random, line: str) -> str:
    key, colon, _ = line.partition(":")
    return f"{key}{colon} {random.choice(VALUES)}"


def _line(random: Random, line: str) -> str:
    indent = line[: len(line) - len(line.lstrip())] if random.random() < 0.5 else ""
    return f"{line}\n{indent}{random.choice(LINES)}"


def _indented(random: Random, line: str) -> str:
    return random.choice((" ", "\t", "   ", "- ", random.choice(SIGNS))) + line


def _deep(random: Random, line: str) -> str:
    key, colon, _ = line.partition(":")
    depth = random.choice((10, 63, 65, 1_000, 20_000))
    opening = random.choice(("[", "{a: ", "{? ", "- ", "[&a ", "!t ["))
    return f"{key}{colon} {opening * depth}{text(random, 30)}"


def _bomb(random: Random, line: str) -> str:
    """What is small in the file and large when its aliases are expanded."""
    key, colon, _ = line.partition(":")
    levels = random.choice((3, 9, 40))
    bomb = ["&l0 [x, x]", *(f"&l{n} [*l{n - 1}, *l{n - 1}]" for n in range(1, levels))]
    return f"{key}{colon} [{', '.join(bomb)}]"
