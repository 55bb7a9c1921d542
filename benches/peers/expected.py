"""What the results must be, from the peers' numbers alone."""

import pathlib
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "dev" / "peers"))
import check_pairs  # noqa: E402

# Entries of a table that is held at a time.
BLOCK = 8_000_000


class Different(Exception):
    """Our result is not the peer's."""


def same(ours, theirs, what):
    """Rows of integers must be equal, one for one."""
    if ours.shape != theirs.shape:
        raise Different(f"{what}: {len(ours)} here, {len(theirs)} there")
    wrong = numpy.flatnonzero((ours != theirs).reshape(len(ours), -1).any(axis=1)) if len(ours) else ()
    if len(wrong):
        raise Different(f"{what}: {len(wrong)} differ, first {ours[wrong[0]]} here, {theirs[wrong[0]]} there")


def pairs(texts, groups, eta):
    """Rows (a, b, LCS) of all matching pairs a < b inside a group, sorted: rapidfuzz, the threshold decided exactly."""
    found = [numpy.zeros((0, 3), numpy.int64)]
    for members in groups:
        a, b, lcs = check_pairs.expected_pairs([texts[i] for i in members], eta, 1)[0]
        found.append(numpy.stack([members[a], members[b], lcs], axis=1))
    found = numpy.concatenate(found)
    return found[numpy.lexsort((found[:, 1], found[:, 0]))]


def occurrences(problem, matching):
    """(ends, rows (turn, root, start, lines), similarities): per window and turn its best place, from all pairs.

    Ties go to the smaller difference of token counts, then to the earlier place.
    """
    n, sizes = len(problem.windows), problem.windows.sizes()
    # The first place of each window in each turn: all its places have the same similarity to anything.
    owner = numpy.repeat(numpy.arange(n), numpy.diff(problem.place_ends))
    turn = problem.places[:, 0]
    order = numpy.lexsort((problem.places[:, 3], problem.places[:, 2], problem.places[:, 1], turn, owner))
    is_first = numpy.ones(len(order), bool)
    is_first[1:] = (numpy.diff(owner[order]) != 0) | (numpy.diff(turn[order]) != 0)
    firsts = order[is_first]
    first_ends = numpy.searchsorted(owner[firsts], numpy.arange(n + 1))
    everything = numpy.arange(n)
    rows = numpy.concatenate(
        [matching, matching[:, [1, 0, 2]], numpy.stack([everything, everything, sizes], axis=1)]
    )
    rows = rows[numpy.argsort(rows[:, 0], kind="stable")]
    row_ends = numpy.searchsorted(rows[:, 0], numpy.arange(n + 1))
    n_firsts = numpy.concatenate([[0], numpy.cumsum(first_ends[rows[:, 1] + 1] - first_ends[rows[:, 1]])])[row_ends]
    # The first holds what a task without windows has.
    kept = [(numpy.zeros(0, numpy.int64), numpy.zeros(0, numpy.int64), numpy.zeros(0))]
    at = 0
    while at < n:
        # As many windows as fit a block, at least one.
        end = max(at + 1, int(numpy.searchsorted(n_firsts, n_firsts[at] + BLOCK, "right")) - 1)
        kept.append(_best(problem, rows[row_ends[at] : row_ends[end]], firsts, first_ends, sizes))
        at = end
    window, place, similarity = (numpy.concatenate(column) for column in zip(*kept))
    return numpy.searchsorted(window, numpy.arange(n + 1)), problem.places[place], similarity


def _best(problem, rows, firsts, first_ends, sizes):
    a, b, lcs = rows.T
    n_places = first_ends[b + 1] - first_ends[b]
    row = numpy.repeat(numpy.arange(len(rows)), n_places)
    within = numpy.arange(len(row)) - numpy.repeat(numpy.cumsum(n_places) - n_places, n_places)
    place = firsts[first_ends[b[row]] + within]
    totals = sizes[a] + sizes[b]
    similarity = (2.0 * lcs / totals)[row]
    difference = numpy.abs(sizes[a] - sizes[b])[row]
    turn, root, start, lines = problem.places[place].T
    order = numpy.lexsort((lines, start, root, difference, -similarity, turn, a[row]))
    is_best = numpy.ones(len(order), bool)
    is_best[1:] = (numpy.diff(a[row][order]) != 0) | (numpy.diff(turn[order]) != 0)
    best = order[is_best]
    return a[row][best], place[best], similarity[best]
