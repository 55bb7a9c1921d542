"""Greedy facility location on a weighted sparse graph against apricot."""

import numpy
import scipy.sparse
from apricot import FacilityLocationSelection

import expected
from timing import clock, in_turns

N_PICKS = 64


def graph(n, neighbours, seed):
    """A symmetric graph in CSR with 1 on the diagonal: items in clusters of many sizes, near ones joined by weights from 0.8
    to 1, about `neighbours` of them each. Weights are floats in f64, so that sums tie by chance alone."""
    random = numpy.random.default_rng(seed)
    # Items on a line, denser in some places than in others; each is joined to those beside it.
    place = numpy.sort(numpy.concatenate([random.normal(c, random.uniform(0.2, 2.0), n // 50) for c in random.uniform(0, 400, 50)]))
    n = len(place)
    reach = neighbours // 2
    rows, columns = [], []
    for step in range(1, 2 * reach + 1):
        i = numpy.flatnonzero(random.random(n - step) < 0.5)
        rows.append(i)
        columns.append(i + step)
    rows, columns = numpy.concatenate(rows), numpy.concatenate(columns)
    weights = 1.0 - 0.2 * random.random(len(rows)) ** (1 + 3 * random.random(n)[rows])
    half = scipy.sparse.coo_matrix((weights, (rows, columns)), shape=(n, n))
    whole = (half + half.T + scipy.sparse.identity(n)).tocsr()
    whole.sort_indices()
    return whole


def apricot_picks(csr, n_picks=N_PICKS):
    return FacilityLocationSelection(n_picks, metric="precomputed", optimizer="lazy", verbose=False).fit(csr).ranking


def row(worker, neighbours):
    csr = graph(20_000, neighbours, 3)
    worker.write("indptr.u64", csr.indptr, "<u8")
    worker.write("indices.u32", csr.indices)
    worker.write("weights.f64", csr.data, "<f8")
    shape = worker("graph", folder=str(worker.folder))
    assert shape["edges"] == csr.nnz
    # A small graph first: apricot compiles its code then.
    apricot_picks(graph(1_000, 20, 4), 4)
    theirs = numpy.asarray(apricot_picks(csr), dtype=numpy.int64)
    worker("facility_location", picks=N_PICKS, threads=1, out=str(worker.folder))
    expected.same(worker.array("picks.u32").astype(numpy.int64), theirs, "picks")
    times = in_turns(
        lambda: worker("facility_location", picks=N_PICKS, threads=1, out=None)["seconds"],
        lambda: clock(lambda: apricot_picks(csr)),
    )
    return {
        "row": "greedy selection",
        "peer": "apricot lazy",
        "shape": f"{csr.shape[0]} items, {csr.nnz / 1e6:.3g} M weights, {N_PICKS} picks",
        "hits": f"{len(theirs)} picks",
        **times,
    }
