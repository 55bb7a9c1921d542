"""Merging and subtracting half-open intervals."""

ID = "intervals"
PATH = "intervals.py"
PROMPT = "Make merge(), total() and subtract() in intervals.py right. Intervals are half-open pairs (start, end)."

TEMPLATE = '''
"""Half-open intervals (start, end)."""


def merge(intervals):
    """Sorted disjoint intervals that cover the same points; touching ones become one, empty ones go."""
    merged = []
@@loop@@
    return merged


def total(intervals):
    """How many points the intervals cover."""
@@total@@


def subtract(whole, holes):
    """What is left of one interval when the holes are taken out."""
@@subtract@@
'''

TESTS = '''
import unittest
from intervals import merge, total, subtract

class Tests(unittest.TestCase):
    def test_disjoint(self):
        self.assertEqual(merge([(1, 2), (4, 6)]), [(1, 2), (4, 6)])
    def test_unsorted(self):
        self.assertEqual(merge([(4, 6), (1, 5)]), [(1, 6)])
    def test_touching(self):
        self.assertEqual(merge([(1, 3), (3, 5)]), [(1, 5)])
    def test_nested(self):
        self.assertEqual(merge([(1, 10), (2, 3), (4, 5)]), [(1, 10)])
    def test_empty_interval(self):
        self.assertEqual(merge([(3, 3), (5, 6)]), [(5, 6)])
    def test_total_overlap(self):
        self.assertEqual(total([(0, 4), (2, 6)]), 6)
    def test_subtract_middle(self):
        self.assertEqual(subtract((0, 10), [(3, 4), (6, 8)]), [(0, 3), (4, 6), (8, 10)])
    def test_subtract_edges(self):
        self.assertEqual(subtract((0, 10), [(-5, 2), (9, 20)]), [(2, 9)])
    def test_subtract_all(self):
        self.assertEqual(subtract((0, 4), [(0, 2), (2, 4)]), [])
'''

LOOP = """
    for start, end in sorted(intervals):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            last_start, last_end = merged[-1]
            merged[-1] = (last_start, max(last_end, end))
        else:
            merged.append((start, end))
"""

SUBTRACT = """
    start, end = whole
    left = []
    for hole_start, hole_end in merge(holes):
        if hole_start > start:
            left.append((start, min(hole_start, end)))
        start = max(start, hole_end)
        if start >= end:
            break
    if start < end:
        left.append((start, end))
    return left
"""

SLOTS = {
    "loop": {
        "start": (
            """
    for start, end in intervals:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
""",
            "",
        ),
        "good": (LOOP, "Sort first, skip empty intervals, join on `<=`, and keep the larger end."),
        "good_renamed": (
            LOOP.replace("last_start", "low").replace("last_end", "high"),
            "Sorted order makes one pass enough; touching intervals join, and a nested one must not shrink the end.",
        ),
        "no_touch": (
            LOOP.replace("start <= merged", "start < merged"),
            "Sort first, skip empty intervals, and keep the larger end when two overlap.",
        ),
        "shrinks": (
            LOOP.replace("max(last_end, end)", "end"),
            "Sort first and join each interval with the one before.",
        ),
        "keeps_empty": (
            LOOP.replace("        if start >= end:\n            continue\n", ""),
            "Sort first, join on `<=`, and keep the larger end.",
        ),
    },
    "total": {
        "start": ("    return sum(end - start for start, end in intervals)", ""),
        "merged": (
            "    return sum(end - start for start, end in merge(intervals))",
            "Overlaps must count once, so merge before summing.",
        ),
        "points": (
            """
    points = set()
    for start, end in intervals:
        points.update(range(start, end))
    return len(points)
""",
            "A set of points counts each one once.",
        ),
    },
    "subtract": {
        "start": ("    return [whole]", ""),
        "good": (SUBTRACT, "Walk over the merged holes and keep what lies before each one."),
        "good_renamed": (
            SUBTRACT.replace("hole_start", "low").replace("hole_end", "high").replace("left", "rest"),
            "Keep the rest before each hole, then what is left at the end.",
        ),
        "no_clip": (
            """
    start, end = whole
    left = []
    for hole_start, hole_end in merge(holes):
        left.append((start, hole_start))
        start = hole_end
    left.append((start, end))
    return left
""",
            "Walk over the holes; the piece before each hole stays.",
        ),
    },
}

ROLLOUTS = [
    [{"loop": "good", "total": "merged", "subtract": "good"}],
    [{"loop": "no_touch", "total": "merged", "subtract": "good"}, {"total": "points"}],
    [{"loop": "good_renamed", "total": "merged", "subtract": "no_clip"}],
    [{"loop": "keeps_empty", "total": "points"}, {"subtract": "no_clip"}, {"subtract": "good_renamed"}],
    [{"loop": "shrinks", "total": "merged"}, {"stale": True, "loop": "good"}, {"loop": "good", "subtract": "good"}],
    [{"loop": "no_touch", "total": "merged", "subtract": "no_clip"}],
    [{"loop": "good", "total": "points", "subtract": "good_renamed"}],
    [{"total": "merged"}, {"loop": "shrinks", "subtract": "good"}, {"loop": "no_touch"}, {"loop": "good_renamed"}],
]
