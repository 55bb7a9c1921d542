"""Compares a list of matching windows with rapidfuzz, pair by pair.

    pip install rapidfuzz numpy
    cargo run --release --example window_pairs -- task.json 0.8 > pairs.json
    python dev/peers/rapidfuzz_pairs.py pairs.json 0.8

pairs.json holds {"windows": [[token numbers]...], "pairs": [[a, b]...]}, a < b. Exit status 1 if the lists differ.
"""

import json
import sys
import time

import numpy as np
from rapidfuzz.distance import Indel
from rapidfuzz.process import cdist


def main():
    path, eta = sys.argv[1], float(sys.argv[2])
    with open(path) as file:
        dump = json.load(file)
    # rapidfuzz takes strings faster than lists; one character a token says the same.
    windows = ["".join(chr(0x100 + token + (0x800 if token >= 0xD700 else 0)) for token in w) for w in dump["windows"]]
    given = np.array(dump["pairs"], dtype=np.int64).reshape(-1, 2)
    given = given[:, 0] * len(windows) + given[:, 1]

    begun = time.time()
    found = []
    rows = 512
    for first in range(0, len(windows), rows):
        block = cdist(
            windows[first : first + rows],
            windows[first:],
            scorer=Indel.normalized_similarity,
            # A cutoff of eta itself drops pairs of exactly eta: it is turned into a distance, and rounds.
            score_cutoff=eta - 1e-6,
            dtype=np.float64,
        )
        a, b = np.nonzero(block >= eta)
        a, b = a + first, b + first
        found.append((a * len(windows) + b)[a < b])
    found = np.concatenate(found) if found else given[:0]
    seconds = time.time() - begun

    missing = np.setdiff1d(found, given)
    extra = np.setdiff1d(given, found)
    n_pairs = len(windows) * (len(windows) - 1) // 2
    print(
        f"{path} eta {eta}: {len(windows)} windows, {n_pairs} pairs, {len(given)} given, {len(found)} by rapidfuzz, "
        f"{len(missing)} missing, {len(extra)} extra; rapidfuzz {n_pairs / max(seconds, 1e-9) / 1e6:.2f} M pairs/s"
    )
    for name, codes in (("missing", missing), ("extra", extra)):
        for code in codes[:5]:
            a, b = divmod(int(code), len(windows))
            print(name, a, b, Indel.normalized_similarity(windows[a], windows[b]))
    return 1 if len(missing) or len(extra) else 0


if __name__ == "__main__":
    sys.exit(main())
