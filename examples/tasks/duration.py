"""Durations such as 1h30m to seconds and back."""

ID = "duration"
PATH = "duration.py"
PROMPT = "Make parse() and show() in duration.py right: \"1h30m\", \"45\", \"-2m5s\"; anything else is a ValueError."

TEMPLATE = '''
"""Durations: text to seconds and back."""

@@imports@@

UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def parse(text):
    """Seconds of a duration such as 1h30m; a bare number is seconds; a leading minus makes it negative."""
@@check@@
@@sum@@


def show(seconds):
    """The shortest text that parses to these seconds."""
@@show@@
'''

TESTS = '''
import unittest
from duration import parse, show

class Tests(unittest.TestCase):
    def test_one_unit(self):
        self.assertEqual(parse("5m"), 300)
    def test_several(self):
        self.assertEqual(parse("1h30m"), 5400)
        self.assertEqual(parse("1d2h3m4s"), 93784)
    def test_bare(self):
        self.assertEqual(parse("45"), 45)
    def test_negative(self):
        self.assertEqual(parse("-2m5s"), -125)
    def test_rejects(self):
        for text in ("", "-", "h", "5x", "1h-3m", "3 m"):
            with self.assertRaises(ValueError):
                parse(text)
    def test_rejects_twice(self):
        with self.assertRaises(ValueError):
            parse("1h1h")
    def test_show(self):
        self.assertEqual(show(5400), "1h30m")
        self.assertEqual(show(60), "1m")
    def test_show_zero(self):
        self.assertEqual(show(0), "0s")
    def test_show_negative(self):
        self.assertEqual(show(-125), "-2m5s")
'''

CHECK = '''
    match = re.fullmatch(r"(-?)((?:\\d+[dhms])+|\\d+)", text)
    if match is None:
        raise ValueError(f"not a duration: {text!r}")
    sign = -1 if match[1] else 1
    if match[2].isdigit():
        return sign * int(match[2])
'''

SUM = '''
    seconds = 0
    seen = set()
    for number, unit in re.findall(r"(\\d+)([dhms])", text):
        if unit in seen:
            raise ValueError(f"unit {unit} stands twice in {text!r}")
        seen.add(unit)
        seconds += int(number) * UNITS[unit]
    return sign * seconds
'''

SHOW = '''
    if seconds == 0:
        return "0s"
    sign = "-" if seconds < 0 else ""
    rest = abs(seconds)
    parts = []
    for unit, size in UNITS.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return sign + "".join(parts)
'''

SLOTS = {
    "imports": {"start": ("", ""), "re": ("import re", "A regular expression fits here.")},
    "check": {
        "start": ("", ""),
        "full": (CHECK, "`fullmatch` refuses whatever is left over, and the sign is taken once."),
        "full_renamed": (
            CHECK.replace("match", "found").replace("fullfound", "fullmatch"),
            "The whole text has to match, or it is no duration.",
        ),
        "prefix": (
            CHECK.replace("fullmatch", "match"),
            "Match sign and parts, and raise when nothing matches.",
        ),
        "no_sign": (
            '''
    if text.isdigit():
        return int(text)
    sign = 1
''',
            "A bare number is seconds already.",
        ),
    },
    "sum": {
        "start": ("    number, unit = text[:-1], text[-1]\n    return int(number) * UNITS[unit]", ""),
        "good": (SUM, "Add up the parts; the same unit twice is an error."),
        "twice": (
            "\n".join(line for line in SUM.split("\n") if "seen" not in line and "twice" not in line),
            "Add up the parts, each number times its unit.",
        ),
        "twice_renamed": (
            "\n".join(line for line in SUM.split("\n") if "seen" not in line and "twice" not in line)
            .replace("number", "count")
            .replace("seconds", "result"),
            "Sum over all parts that the pattern finds.",
        ),
    },
    "show": {
        "start": ('    return f"{seconds}s"', ""),
        "good": (SHOW, "Take the largest units first; zero and negative numbers are cases of their own."),
        "no_zero": (
            SHOW.replace('    if seconds == 0:\n        return "0s"\n', ""),
            "Take the largest units first and leave out those that are zero.",
        ),
        "no_sign": (
            SHOW.replace('    sign = "-" if seconds < 0 else ""\n', "")
            .replace("abs(seconds)", "seconds")
            .replace("sign + ", ""),
            "Divide by each unit, largest first.",
        ),
    },
}

ROLLOUTS = [
    [{"imports": "re", "check": "full", "sum": "good", "show": "good"}],
    [{"imports": "re", "check": "full", "sum": "twice", "show": "good"}],
    [{"imports": "re", "check": "prefix", "sum": "good", "show": "good"}],
    [{"imports": "re", "check": "no_sign", "sum": "twice"}, {"check": "full"}, {"show": "no_zero"}],
    [{"imports": "re", "check": "full_renamed", "sum": "twice_renamed"}, {"sum": "good"}, {"show": "good"}],
    [{"imports": "re", "check": "full_renamed", "sum": "good", "show": "no_sign"}, {"show": "good"}],
    [{"imports": "re", "check": "prefix", "sum": "twice_renamed", "show": "no_zero"}],
    [{"show": "good"}, {"check": "full", "sum": "good"}, {"imports": "re"}],
]
