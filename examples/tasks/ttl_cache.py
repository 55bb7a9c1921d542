"""A cache with a time limit and a size limit."""

ID = "ttl-cache"
PATH = "cache.py"
PROMPT = "Finish Cache in cache.py: entries live for `ttl` seconds, at most `size` of them, least recently used goes."

TEMPLATE = '''
"""A cache whose entries grow old."""

@@imports@@


class Cache:
    """At most `size` entries, each alive for `ttl` seconds; the least recently used one goes first."""

    def __init__(self, size, ttl, clock=time.monotonic):
        if size < 1:
            raise ValueError("size must be at least 1")
        self.size = size
        self.ttl = ttl
        self.clock = clock
@@store@@

    def get(self, key, default=None):
        """The value, or the default when it is not there or too old."""
@@get@@

    def put(self, key, value):
        """Stores the value; its life starts anew."""
@@put@@

    def __len__(self):
        """How many entries are alive."""
@@len@@
'''

TESTS = '''
import unittest
from cache import Cache

class Clock:
    def __init__(self):
        self.now = 0.0
    def __call__(self):
        return self.now

class Tests(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        self.cache = Cache(2, 10.0, self.clock)
    def test_get_put(self):
        self.cache.put("a", 1)
        self.assertEqual(self.cache.get("a"), 1)
        self.assertEqual(self.cache.get("b", 7), 7)
    def test_too_old(self):
        self.cache.put("a", 1)
        self.clock.now = 10.5
        self.assertIsNone(self.cache.get("a"))
    def test_border(self):
        self.cache.put("a", 1)
        self.clock.now = 10.0
        self.assertIsNone(self.cache.get("a"))
    def test_put_again(self):
        self.cache.put("a", 1)
        self.clock.now = 6.0
        self.cache.put("a", 2)
        self.clock.now = 12.0
        self.assertEqual(self.cache.get("a"), 2)
    def test_get_keeps_age(self):
        self.cache.put("a", 1)
        self.clock.now = 6.0
        self.cache.get("a")
        self.clock.now = 12.0
        self.assertIsNone(self.cache.get("a"))
    def test_least_recent_goes(self):
        self.cache.put("a", 1)
        self.cache.put("b", 2)
        self.cache.get("a")
        self.cache.put("c", 3)
        self.assertIsNone(self.cache.get("b"))
        self.assertEqual(self.cache.get("a"), 1)
    def test_len_alive(self):
        self.cache.put("a", 1)
        self.clock.now = 6.0
        self.cache.put("b", 2)
        self.clock.now = 12.0
        self.assertEqual(len(self.cache), 1)
    def test_none_value(self):
        self.cache.put("a", None)
        self.assertIsNone(self.cache.get("a", 5))
'''

GET = """
        entry = self.entries.get(key)
        if entry is None:
            return default
        value, born = entry
        if self.clock() - born >= self.ttl:
            del self.entries[key]
            return default
        self.entries.move_to_end(key)
        return value
"""

PUT = """
        self.entries[key] = (value, self.clock())
        self.entries.move_to_end(key)
        while len(self.entries) > self.size:
            self.entries.popitem(last=False)
"""

SLOTS = {
    "imports": {
        "start": ("import time", ""),
        "ordered": ("import time\nfrom collections import OrderedDict", "`OrderedDict` keeps the order of use."),
    },
    "store": {
        "start": ("        self.entries = {}", ""),
        "ordered": ("        self.entries = OrderedDict()", "The entries are (value, time) pairs, oldest use first."),
    },
    "get": {
        "start": ("        return self.entries.get(key, default)", ""),
        "good": (GET, "An entry is dead once its age reaches the limit; a hit moves it to the end."),
        "good_renamed": (
            GET.replace("entry", "found").replace("born", "stamp"),
            "Look the entry up, drop it when it is too old, else mark it as used.",
        ),
        "late": (
            GET.replace(">= self.ttl", "> self.ttl"),
            "An entry is dead once it is older than the limit; a hit moves it to the end.",
        ),
        "refreshes": (
            GET.replace(
                "        self.entries.move_to_end(key)\n",
                "        self.entries[key] = (value, self.clock())\n        self.entries.move_to_end(key)\n",
            ),
            "A hit renews the entry and moves it to the end.",
        ),
    },
    "put": {
        "start": ("        self.entries[key] = value", ""),
        "good": (PUT, "Store with the time, mark as used, and drop the least recently used while there are too many."),
        "no_move": (
            PUT.replace("        self.entries.move_to_end(key)\n", ""),
            "Store with the time and drop the oldest while there are too many.",
        ),
        "pops_last": (
            PUT.replace("last=False", "last=True"),
            "Store with the time, and pop an entry while there are too many.",
        ),
    },
    "len": {
        "start": ("        return len(self.entries)", ""),
        "alive": (
            """
        now = self.clock()
        return sum(now - born < self.ttl for _, born in self.entries.values())
""",
            "`len` counts only what is alive.",
        ),
        "alive_late": (
            """
        now = self.clock()
        return sum(now - born <= self.ttl for _, born in self.entries.values())
""",
            "`len` must skip entries older than the limit.",
        ),
    },
}

BASE = {"imports": "ordered", "store": "ordered"}

ROLLOUTS = [
    [{**BASE, "get": "good", "put": "good", "len": "alive"}],
    [{**BASE, "get": "late", "put": "good", "len": "alive"}],
    [{**BASE, "get": "late", "put": "good", "len": "alive_late"}, {"len": "alive"}, {"get": "good"}],
    [{**BASE, "get": "refreshes", "put": "good"}, {"len": "alive"}],
    [{**BASE, "get": "good_renamed", "put": "pops_last", "len": "alive"}],
    [{**BASE, "get": "good", "put": "no_move"}, {"len": "alive"}],
    [{**BASE, "get": "refreshes", "put": "pops_last"}, {"len": "alive_late", "put": "good"}],
    [{**BASE, "put": "good"}, {"get": "late"}, {"get": "good_renamed", "len": "alive"}],
]
