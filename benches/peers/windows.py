"""window_similarity and pair_similarity against rapidfuzz; the embedding part against numpy."""

import bisect

import numpy
from rapidfuzz import process
from rapidfuzz.distance import Indel

import expected
from timing import clock, in_turns
from worker import Problem, Ragged, as_strings

# The peer does so many random rows of its matrix, scaled to the whole, where the whole would take longer than this or has
# more than this many windows of a type, which would not fit.
SAMPLED_ROWS = 400
MOST_SECONDS = 15.0
MOST_WINDOWS = 14_000


def cdist_seconds(texts, groups, eta, sampled):
    """Seconds of one thread of rapidfuzz for all pairs inside each group. Only cdist itself is on the clock: reading the
    hits out of its matrix is not."""
    seconds = 0.0
    options = {"scorer": Indel.normalized_similarity, "score_cutoff": eta, "workers": 1}
    for members in groups:
        of_group = [texts[i] for i in members]
        if sampled:
            # Rows against everything hold each pair twice.
            rows = numpy.random.default_rng(1).choice(len(of_group), min(SAMPLED_ROWS, len(of_group)), replace=False)
            some = [of_group[i] for i in rows]
            seconds += clock(lambda: process.cdist(some, of_group, **options)) * len(of_group) / len(some) / 2
        else:
            # The same list twice: cdist fills one triangle alone.
            seconds += clock(lambda: process.cdist(of_group, of_group, **options))
    return seconds


def must_sample(texts, groups, eta):
    """True when only random rows of the peer's matrix can be timed."""
    if max((len(members) for members in groups), default=0) > MOST_WINDOWS:
        return True
    return cdist_seconds(texts, groups, eta, True) > MOST_SECONDS


def scaled(sampled):
    """What a row says of its peer when that was sampled."""
    return f" ({SAMPLED_ROWS} random rows, scaled)" if sampled else ""


def check_windows(problem, eta):
    """Both forms against rapidfuzz. Gives the pairs."""
    worker, texts, groups = problem.worker, problem.texts(), problem.by_type()
    theirs = expected.pairs(texts, groups, eta)
    worker("matches", eta=eta, embedding_weight=0.0, threads=1, out=str(worker.folder))
    expected.same(worker.array("matches.u32").reshape(-1, 3).astype(numpy.int64), theirs, "pairs (a, b, LCS)")
    ends, places, similarities = expected.occurrences(problem, theirs)
    worker("occurrences", eta=eta, threads=1, out=str(worker.folder))
    expected.same(worker.array("ends.u32").astype(numpy.int64), ends, "occurrences of each window")
    expected.same(worker.array("items.u32").reshape(-1, 4).astype(numpy.int64), places, "occurrences")
    expected.same(worker.array("similarities.f64", "<f8"), similarities, "similarities")
    return theirs, len(places)


def check_forms(problem, eta):
    """Both forms of the peer give the same scores."""
    texts, lists = problem.texts(), problem.token_lists()
    options = {"scorer": Indel.normalized_similarity, "score_cutoff": eta, "workers": 1}
    for members in problem.by_type():
        strings, of_str = ([form[i] for i in members] for form in (texts, lists))
        expected.same(
            process.cdist(of_str, of_str, **options), process.cdist(strings, strings, **options), "scores of both forms"
        )


def window_rows(problem, name, eta):
    """A row for each form."""
    worker = problem.worker
    texts, groups = problem.texts(), problem.by_type()
    matching, n_occurrences = check_windows(problem, eta)
    n_pairs = sum(len(members) * (len(members) - 1) // 2 for members in groups)
    shape = f"{len(problem.windows)} windows of {problem.shape['lines']} lines, {n_pairs / 1e6:.3g} M pairs"
    forms = [
        ("all pairs", f"{len(matching)} pairs", "matches", {"embedding_weight": 0.0}),
        ("best per turn", f"{n_occurrences} occurrences", "occurrences", {}),
    ]
    # The strictest form of the peer for both of ours, its natural one for the list of pairs.
    peers = [("rapidfuzz cdist, strings", texts, forms), ("rapidfuzz cdist, lists of str", problem.token_lists(), forms[:1])]
    for peer, items, of_ours in peers:
        sampled = must_sample(items, groups, eta)
        for form, hits, op, fields in of_ours:
            times = in_turns(
                lambda: worker(op, eta=eta, threads=1, out=None, **fields)["seconds"],
                lambda: cdist_seconds(items, groups, eta, sampled),
            )
            row = f"window_similarity, {name}, {form}"
            yield {"row": row, "peer": peer + scaled(sampled), "shape": shape, "hits": hits, **times}


def thread_row(problem, name, eta):
    worker = problem.worker
    one, two = (
        lambda threads=threads: worker("occurrences", eta=eta, threads=threads, out=None)["seconds"] for threads in (1, 2)
    )
    # A turn each of about equal length, many of them: the peer is ourselves.
    times = in_turns(two, lambda: numpy.median([one() for _ in range(5)]))
    shape = f"{len(problem.windows)} windows of {problem.shape['lines']} lines"
    hits = f"{worker('occurrences', eta=eta, threads=2, out=None)['hits']} occurrences"
    return {"row": f"window_similarity, {name}, 2 threads", "peer": "ours, 1 thread", "shape": shape, "hits": hits, **times}


def embedding_row(problem, name, eta, dim, is_timed=True):
    """The embedding part alone, against a product of window vectors in f32, a threshold and the indices of the hits."""
    worker = problem.worker
    n_lines = worker("line_vectors", dim=dim, out=str(worker.folder))["lines"]
    of_line = worker.array("vectors.i8", "i1").reshape(n_lines, dim).astype(numpy.int64)
    exact = numpy.stack([of_line[problem.lines[i]].sum(axis=0) for i in range(len(problem.windows))])
    norms = (exact * exact).sum(axis=1)
    lengths = numpy.sqrt(norms.astype(numpy.float64))
    unit = (exact / numpy.maximum(lengths, 1.0)[:, None]).astype(numpy.float32)
    groups = [unit[members] for members in problem.by_type()]

    def theirs():
        return [_near(vectors, eta) for vectors in groups]

    fields = {"eta": eta, "embedding_weight": 1.0, "threads": 1}
    hits = worker("matches", out=str(worker.folder), **fields)["hits"]
    ours = worker.array("matches.u32").reshape(-1, 3)[:, :2].astype(numpy.int64)
    pairs = [numpy.zeros((0, 2), numpy.int64)]
    for members, vectors in zip(problem.by_type(), groups):
        # What f32 puts near the threshold is decided in f64 from the exact integers.
        a, b = (members[i] for i in _near(vectors, eta - 1e-5))
        cosines = _cosines(exact, norms, a, b)
        pairs.append(numpy.stack([a, b], axis=1)[cosines >= eta])
    pairs = numpy.concatenate(pairs)
    expected.same(ours, pairs[numpy.lexsort((pairs[:, 1], pairs[:, 0]))], f"pairs by {dim} dimensions")
    if not is_timed:
        return None
    times = in_turns(lambda: worker("matches", out=None, **fields)["seconds"], lambda: clock(theirs))
    return {
        "row": f"embedding part, {name}, dimension {dim}",
        "peer": "numpy f32 sgemm, threshold, nonzero",
        "shape": f"{len(problem.windows)} windows of {problem.shape['lines']} lines",
        "hits": f"{hits} pairs",
        **times,
    }


def _near(vectors, eta):
    """Pairs a < b with a product of at least eta: one triangle, in blocks of rows."""
    a, b = [], []
    for first in range(0, len(vectors), 1024):
        near = vectors[first : first + 1024] @ vectors[first:].T >= eta
        i, j = numpy.nonzero(near)
        above = i < j
        a.append(i[above] + first)
        b.append(j[above] + first)
    return numpy.concatenate(a), numpy.concatenate(b)


def _cosines(exact, norms, a, b):
    """In f64 from exact integers; 0 where a vector is zero."""
    found = [numpy.zeros(0)]
    for first in range(0, len(a), 20_000):
        i, j = a[first : first + 20_000], b[first : first + 20_000]
        dots = (exact[i] * exact[j]).sum(axis=1).astype(numpy.float64)
        products = norms[i].astype(numpy.float64) * norms[j].astype(numpy.float64)
        found.append(numpy.where(products > 0, dots / numpy.sqrt(numpy.maximum(products, 1.0)), 0.0))
    return numpy.concatenate(found)


def list_rows(problem, name, eta, n_items, is_timed=True):
    """pair_similarity on a random sample of windows, as sequences that know nothing of each other; a row for each form
    of the peer."""
    worker = problem.worker
    chosen = numpy.random.default_rng(2).permutation(len(problem.windows))[:n_items]
    flat = numpy.concatenate([problem.windows[i] for i in chosen])
    offsets = numpy.concatenate([[0], numpy.cumsum(problem.windows.sizes()[chosen])])
    worker.write("tokens.u32", flat)
    worker.write("offsets.u32", offsets)
    worker("list", folder=str(worker.folder))
    texts, lists = ([form[i] for i in chosen] for form in (problem.texts(), problem.token_lists()))
    everything = [numpy.arange(len(texts))]
    theirs = expected.pairs(texts, everything, eta)
    worker("pair_similarity", eta=eta, threads=1, out=str(worker.folder))
    expected.same(worker.array("matches.u32").reshape(-1, 3).astype(numpy.int64), theirs, "pairs of the list (a, b, LCS)")
    if not is_timed:
        return
    for peer, items in (("rapidfuzz cdist, strings", texts), ("rapidfuzz cdist, lists of str", lists)):
        sampled = must_sample(items, everything, eta)
        times = in_turns(
            lambda: worker("pair_similarity", eta=eta, threads=1, out=None)["seconds"],
            lambda: cdist_seconds(items, everything, eta, sampled),
        )
        yield {
            "row": f"pair_similarity, {name}",
            "peer": peer + scaled(sampled),
            "shape": f"{len(texts)} lists of {len(flat) / len(texts):.0f} tokens",
            "hits": f"{len(theirs)} pairs",
            **times,
        }
