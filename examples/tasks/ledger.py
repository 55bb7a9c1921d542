"""Amounts of money from a text ledger."""

ID = "ledger"
PATH = "ledger.py"
PROMPT = "Make amount(), read() and balance() in ledger.py right. Money is exact; lines are `date; account; amount`."

TEMPLATE = '''
"""A ledger: one entry a line, `date; account; amount`."""

@@imports@@

CURRENCIES = "€$£"


def amount(text):
    """The exact amount of a text such as `1,234.50 €`; parentheses mean a negative amount."""
@@amount@@


def read(lines):
    """Entries (date, account, amount); blank lines and lines that begin with # are left out."""
    entries = []
    for number, line in enumerate(lines, 1):
@@skip@@
        date, account, money = [part.strip() for part in line.split(";")]
        entries.append((date, account, amount(money)))
    return entries


def balance(entries):
    """Sum of the amounts of each account, in order of the accounts' names."""
@@balance@@
'''

TESTS = '''
import unittest
from decimal import Decimal
from ledger import amount, read, balance

class Tests(unittest.TestCase):
    def test_plain(self):
        self.assertEqual(amount("12.50"), Decimal("12.50"))
    def test_exact(self):
        self.assertEqual(amount("0.10") + amount("0.20"), Decimal("0.30"))
    def test_currency(self):
        self.assertEqual(amount("3.00 €"), Decimal("3.00"))
        self.assertEqual(amount("£4"), Decimal("4"))
    def test_thousands(self):
        self.assertEqual(amount("1,234.50"), Decimal("1234.50"))
    def test_parentheses(self):
        self.assertEqual(amount("(7.25 €)"), Decimal("-7.25"))
    def test_skips(self):
        lines = ["# opening", "", "2026-01-02; food; 3.00", "  # note", "2026-01-03; rent; (9)"]
        self.assertEqual(len(read(lines)), 2)
    def test_bad_line(self):
        with self.assertRaisesRegex(ValueError, "line 2"):
            read(["2026-01-02; food; 3.00", "2026-01-02; food"])
    def test_balance(self):
        entries = [("d", "rent", Decimal(2)), ("d", "food", Decimal(1)), ("d", "rent", Decimal(3))]
        self.assertEqual(list(balance(entries).items()), [("food", Decimal(1)), ("rent", Decimal(5))])
'''

AMOUNT = '''
    text = text.strip()
    negative = text.startswith("(") and text.endswith(")")
    if negative:
        text = text[1:-1]
    value = Decimal(text.strip(CURRENCIES + " ").replace(",", ""))
    return -value if negative else value
'''

SLOTS = {
    "imports": {
        "start": ("", ""),
        "decimal": ("from decimal import Decimal", "Money must be exact, so `Decimal`."),
    },
    "amount": {
        "start": ("    return float(text)", ""),
        "good": (AMOUNT, "Parentheses first, then the currency sign and the commas go."),
        "good_renamed": (
            AMOUNT.replace("negative", "is_debit").replace("value", "money"),
            "A debit stands in parentheses; strip the sign of the currency and the commas.",
        ),
        "no_parentheses": (
            '''
    text = text.strip().strip(CURRENCIES + " ")
    return Decimal(text.replace(",", ""))
''',
            "The currency sign and the commas go, the rest is a `Decimal`.",
        ),
        "comma_point": (
            AMOUNT.replace('.replace(",", "")', '.replace(",", ".")'),
            "Parentheses first, then the currency sign goes and a comma is a decimal point.",
        ),
        "float": (
            AMOUNT.replace("Decimal(", "float("),
            "Parentheses first, then the currency sign and the commas go.",
        ),
    },
    "skip": {
        "start": ("", ""),
        "good": (
            '''
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.count(";") != 2:
            raise ValueError(f"line {number}: expected date; account; amount")
''',
            "Blank lines and comments are skipped, and a bad line is named in the error.",
        ),
        "no_strip": (
            '''
        if not line or line.startswith("#"):
            continue
        if line.count(";") != 2:
            raise ValueError(f"line {number}: expected date; account; amount")
''',
            "Skip empty lines and comments, and say which line is wrong.",
        ),
        "silent": (
            '''
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.count(";") != 2:
            continue
''',
            "Whatever is no entry is skipped.",
        ),
    },
    "balance": {
        "start": ("    return {}", ""),
        "good": (
            '''
    sums = {}
    for _, account, money in entries:
        sums[account] = sums.get(account, 0) + money
    return dict(sorted(sums.items()))
''',
            "One sum per account, sorted at the end.",
        ),
        "good_renamed": (
            '''
    totals = {}
    for _, name, value in entries:
        totals[name] = totals.get(name, 0) + value
    return dict(sorted(totals.items()))
''',
            "Totals by name, in order.",
        ),
        "unsorted": (
            '''
    sums = {}
    for _, account, money in entries:
        sums[account] = sums.get(account, 0) + money
    return sums
''',
            "One sum per account.",
        ),
    },
}

ROLLOUTS = [
    [{"imports": "decimal", "amount": "good", "skip": "good", "balance": "good"}],
    [{"imports": "decimal", "amount": "good_renamed", "skip": "silent", "balance": "good"}],
    [{"imports": "decimal", "amount": "no_parentheses", "skip": "good"}, {"balance": "good_renamed"}],
    [{"amount": "float", "skip": "no_strip"}, {"imports": "decimal", "amount": "good"}, {"balance": "unsorted"}],
    [{"imports": "decimal", "amount": "good_renamed", "skip": "no_strip", "balance": "good"}, {"skip": "good"}],
    [{"imports": "decimal", "amount": "comma_point", "skip": "silent", "balance": "unsorted"}],
    [{"imports": "decimal", "amount": "good", "balance": "good_renamed"}, {"skip": "good"}],
    [{}],
]
