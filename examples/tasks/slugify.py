"""Titles to URL slugs: accents, runs of dashes, a length limit at word borders."""

ID = "slugify"
PATH = "slug.py"
PROMPT = "Make `slugify(title, limit=None)` in slug.py right: ASCII words joined by single dashes, never cut in a word."

TEMPLATE = '''
"""Slugs for page addresses."""

@@imports@@

SEPARATOR = "-"


def slugify(title, limit=None):
    """ASCII words of the title in lower case, joined by dashes; at most `limit` characters."""
    text = title.strip().lower()
@@fold@@
@@clean@@
@@limit@@
    return slug


def unique(slug, taken):
    """The slug, with a number when it is taken already."""
    if slug not in taken:
        return slug
    number = 2
    while f"{slug}-{number}" in taken:
        number += 1
    return f"{slug}-{number}"
'''

TESTS = '''
import unittest
from slug import slugify

class Tests(unittest.TestCase):
    def test_plain(self):
        self.assertEqual(slugify("Hello World"), "hello-world")
    def test_accents(self):
        self.assertEqual(slugify("Crème brûlée à Zürich"), "creme-brulee-a-zurich")
    def test_punctuation(self):
        self.assertEqual(slugify("  rock & roll -- live! "), "rock-roll-live")
    def test_limit_at_word(self):
        self.assertEqual(slugify("one three five", limit=10), "one-three")
    def test_limit_exact(self):
        self.assertEqual(slugify("one three five", limit=9), "one-three")
    def test_long_word(self):
        self.assertEqual(slugify("incomprehensible", limit=8), "incompre")
    def test_empty(self):
        self.assertEqual(slugify("???"), "untitled")
'''

SLOTS = {
    "imports": {
        "start": ("import re", ""),
        "unicode": ("import re\nimport unicodedata", "`unicodedata` can take the accents off."),
    },
    "fold": {
        "start": ("", ""),
        "nfkd": (
            """
    decomposed = unicodedata.normalize("NFKD", text)
    text = "".join(char for char in decomposed if not unicodedata.combining(char))
""",
            "Decompose the text and drop the combining marks, so that é becomes e.",
        ),
        "nfkd_renamed": (
            """
    folded = unicodedata.normalize("NFKD", text)
    text = "".join(c for c in folded if not unicodedata.combining(c))
""",
            "NFKD splits é into e and a mark; the marks go.",
        ),
        "ascii": (
            """
    text = text.encode("ascii", "ignore").decode("ascii")
""",
            "Non-ASCII characters cannot stay in an address, so encode with `ignore`.",
        ),
        "table": (
            """
    for accented, plain in (("é", "e"), ("è", "e"), ("à", "a"), ("û", "u")):
        text = text.replace(accented, plain)
""",
            "A short table of the accents we see → plain letters.",
        ),
    },
    "clean": {
        "start": (
            """
    slug = text.replace(" ", SEPARATOR)
""",
            "",
        ),
        "words": (
            """
    words = re.findall(r"[a-z0-9]+", text)
    slug = SEPARATOR.join(words)
    if not slug:
        slug = "untitled"
""",
            "Take the words and join them: no run of dashes can appear, and an empty slug gets a name.",
        ),
        "words_no_empty": (
            """
    words = re.findall(r"[a-z0-9]+", text)
    slug = SEPARATOR.join(words)
""",
            "Take the words and join them, so that no run of dashes can appear.",
        ),
        "sub": (
            """
    slug = re.sub(r"[^a-z0-9]", SEPARATOR, text)
    if not slug:
        slug = "untitled"
""",
            "Replace everything that is not a letter or a digit with a dash.",
        ),
    },
    "limit": {
        "start": (
            """
    if limit is not None:
        slug = slug[:limit]
""",
            "",
        ),
        "word": (
            """
    if limit is not None and len(slug) > limit:
        head = slug[:limit]
        if slug[limit] != SEPARATOR and SEPARATOR in head:
            head = head[: head.rindex(SEPARATOR)]
        slug = head.rstrip(SEPARATOR)
""",
            "Cut at the last dash unless the limit falls right on a word border.",
        ),
        "word_renamed": (
            """
    if limit is not None and len(slug) > limit:
        short = slug[:limit]
        if slug[limit] != SEPARATOR and SEPARATOR in short:
            short = short[: short.rindex(SEPARATOR)]
        slug = short.rstrip(SEPARATOR)
""",
            "When the cut falls inside a word, go back to the dash before it.",
        ),
        "always_back": (
            """
    if limit is not None and len(slug) > limit:
        head = slug[:limit]
        slug = head[: head.rindex(SEPARATOR)]
""",
            "Cut at the limit, then go back to the last dash.",
        ),
    },
}

ROLLOUTS = [
    [{"imports": "unicode", "fold": "nfkd", "clean": "words", "limit": "word"}],
    [{"imports": "unicode", "fold": "nfkd", "clean": "words", "limit": "always_back"}],
    [{"fold": "ascii", "clean": "words", "limit": "word_renamed"}],
    [
        {"clean": "words_no_empty", "limit": "always_back"},
        {"imports": "unicode", "fold": "nfkd_renamed", "clean": "words"},
        {"limit": "word"},
    ],
    [{"imports": "unicode", "fold": "nfkd_renamed", "clean": "sub", "limit": "word"}, {"clean": "words"}],
    [{"fold": "table", "clean": "sub", "limit": "always_back"}, {"clean": "words_no_empty"}],
    [{"imports": "unicode", "fold": "nfkd", "clean": "words"}, {"limit": "word_renamed"}],
    [{"fold": "ascii", "clean": "sub"}, {"limit": "always_back"}, {}],
]
