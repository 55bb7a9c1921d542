"""Both sides in turns: ours, theirs, ours, theirs."""

import statistics
import time

# Our side is short; in each turn it runs until it has this much time, or this often.
OUR_SECONDS = 0.3
OUR_RUNS = 15
# Turns, by how long the peer takes.
TURNS = [(1.0, 7), (10.0, 3)]


def clock(run):
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def ours_for_a_turn(run):
    """Seconds of each run."""
    times = []
    while len(times) < OUR_RUNS and (sum(times) < OUR_SECONDS or not times):
        times.append(run())
    return times


def in_turns(ours, theirs):
    """Medians of both, the ratio of the medians, its range over turns, and how many turns there were.

    `ours()` and `theirs()` run once and give seconds. Each turn is ours, then theirs. One run of ours beforehand warms up;
    the peer's first use was the check.
    """
    ours()
    all_ours, all_theirs, ratios = [], [], []
    while True:
        of_turn = ours_for_a_turn(ours)
        all_ours += of_turn
        all_theirs.append(theirs())
        ratios.append(all_theirs[-1] / statistics.median(of_turn))
        peer = statistics.median(all_theirs)
        wanted = next((turns for most, turns in TURNS if peer < most), 1)
        if len(ratios) >= wanted:
            break
    us, them = statistics.median(all_ours), statistics.median(all_theirs)
    return {
        "ours_seconds": us,
        "peer_seconds": them,
        "ratio": them / us,
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
        "turns": len(ratios),
        "our_runs": len(all_ours),
    }
