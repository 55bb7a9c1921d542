"""Build order of packages."""

ID = "toposort"
PATH = "order.py"
PROMPT = "Make order() in order.py right: dependencies before dependents, names in order where free, cycles reported."

TEMPLATE = '''
"""Build order of packages that need each other."""

@@imports@@


class Cycle(ValueError):
    """Packages that need each other in a circle."""

    def __init__(self, names):
        super().__init__("cycle: " + " → ".join(names))
        self.names = names


def order(needs):
    """Names in build order: what a package needs stands before it; by name where the order is free."""
@@count@@
@@walk@@
@@cycle@@
    return done
'''

TESTS = '''
import unittest
from order import Cycle, order

class Tests(unittest.TestCase):
    def test_empty(self):
        self.assertEqual(order({}), [])
    def test_chain(self):
        self.assertEqual(order({"a": ["b"], "b": ["c"], "c": []}), ["c", "b", "a"])
    def test_by_name(self):
        self.assertEqual(order({"z": [], "m": [], "a": ["m"]}), ["m", "a", "z"])
    def test_unlisted(self):
        self.assertEqual(order({"app": ["lib"]}), ["lib", "app"])
    def test_twice(self):
        self.assertEqual(order({"app": ["lib", "lib"], "lib": []}), ["lib", "app"])
    def test_diamond(self):
        needs = {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}
        self.assertEqual(order(needs), ["d", "b", "c", "a"])
    def test_cycle(self):
        with self.assertRaises(Cycle):
            order({"a": ["b"], "b": ["a"], "c": []})
    def test_self(self):
        with self.assertRaises(Cycle):
            order({"a": ["a"]})
'''

COUNT = """
    names = sorted(set(needs).union(*needs.values()))
    waiting = {name: set(needs.get(name, ())) for name in names}
    users = {name: [] for name in names}
    for name, wanted in waiting.items():
        for other in wanted:
            users[other].append(name)
"""

WALK = """
    ready = [name for name in names if not waiting[name]]
    heapq.heapify(ready)
    done = []
    while ready:
        name = heapq.heappop(ready)
        done.append(name)
        for user in users[name]:
            waiting[user].discard(name)
            if not waiting[user]:
                heapq.heappush(ready, user)
"""

SLOTS = {
    "imports": {"start": ("", ""), "heapq": ("import heapq", "A heap gives the smallest free name.")},
    "count": {
        "start": ("", ""),
        "good": (COUNT, "Names that are only needed count too, and a need stated twice is one need."),
        "good_renamed": (
            COUNT.replace("wanted", "required").replace("other", "item"),
            "First collect every name, then who waits for whom, as sets.",
        ),
        "listed_only": (
            COUNT.replace("set(needs).union(*needs.values())", "needs"),
            "Collect the names, then who waits for whom.",
        ),
        "lists": (
            COUNT.replace("set(needs.get(name, ()))", "list(needs.get(name, ()))"),
            "Collect every name and the list of what it needs.",
        ),
    },
    "walk": {
        "start": ("    done = sorted(needs)", ""),
        "good": (WALK, "Kahn's walk: take a free name, free those that waited for it."),
        "good_renamed": (
            WALK.replace("ready", "free").replace("user", "child").replace("childs", "users"),
            "Take the smallest free name, then look at its users.",
        ),
        "no_heap": (
            WALK.replace("    heapq.heapify(ready)\n", "")
            .replace("heapq.heappop(ready)", "ready.pop(0)")
            .replace("heapq.heappush(ready, user)", "ready.append(user)"),
            "Kahn's walk with a plain list as queue.",
        ),
        "endless": (
            """
    done = []
    while len(done) < len(names):
        for name in names:
            if name not in done and waiting[name] <= set(done):
                done.append(name)
                break
""",
            "Until all are placed: take the first name whose needs are all done.",
        ),
    },
    "cycle": {
        "start": ("", ""),
        "good": (
            """
    if len(done) < len(names):
        raise Cycle(sorted(name for name in names if waiting[name]))
""",
            "Whatever still waits at the end is in a circle or behind one.",
        ),
        "good_renamed": (
            """
    if len(done) < len(names):
        raise Cycle(sorted(left for left in names if waiting[left]))
""",
            "If some names never got free, they form a cycle.",
        ),
    },
}

ROLLOUTS = [
    [{"imports": "heapq", "count": "good", "walk": "good", "cycle": "good"}],
    [{"imports": "heapq", "count": "listed_only", "walk": "good", "cycle": "good"}],
    [{"count": "good", "walk": "no_heap"}, {"cycle": "good_renamed"}, {"imports": "heapq", "walk": "good"}],
    [{"count": "good", "walk": "endless", "cycle": "good"}],
    [{"imports": "heapq", "count": "good_renamed", "walk": "good_renamed"}, {"cycle": "good_renamed"}],
    [{"count": "lists", "walk": "no_heap", "cycle": "good"}, {"count": "good_renamed"}],
    [{"count": "good_renamed", "walk": "endless"}, {"cycle": "good_renamed"}],
    [{"imports": "heapq", "count": "listed_only", "walk": "good_renamed"}, {"count": "good"}, {"cycle": "good"}],
]
