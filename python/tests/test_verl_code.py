"""difflib itself against ours, and the authors' numbers: as recorded, and live where their code is at hand."""

import difflib
import json
import os
import random
import sys
from pathlib import Path

import numpy as np
import pytest
from verl_code_batches import CASES, LINES, batch

from hunkwise import _hunkwise, verl_code

RECORDED = Path(__file__).parent / "data/verl_code.json"
COMMIT = "74d09ed6f79299b07f932c49ac24abe96f837cb4"


def both(a, b, autojunk):
    theirs = difflib.SequenceMatcher(None, a, b, autojunk)
    assert verl_code.opcodes(a, b, autojunk) == theirs.get_opcodes(), (a, b, autojunk)
    assert verl_code.ratio(a, b, autojunk) == theirs.ratio()


def listed(found):
    return [(verl_code.TAGS[tag], *span) for tag, *span in found.tolist()]


def sequence(source, longest, alphabet):
    return [source.choice(alphabet) for _ in range(source.randrange(longest + 1))]


def edited(source, one, alphabet):
    made = list(one)
    for _ in range(source.randrange(8)):
        at = source.randrange(len(made) + 1)
        made[at : at + source.randrange(6)] = sequence(source, 6, alphabet)
    return made


@pytest.mark.parametrize("seed", range(6))
def test_opcodes_are_those_of_difflib_on_random_sequences(seed):
    source = random.Random(seed)
    for _ in range(150):
        alphabet = [1, 2, 3, "a", "bc", (1, 2), None, 2.5, "é", *range(100, 140)][: source.choice([1, 2, 4, 45])]
        # 200 is where autojunk begins.
        b = sequence(source, source.choice([5, 30, 199, 210, 320]), alphabet)
        a = edited(source, b, alphabet) if source.random() < 0.6 else sequence(source, 120, alphabet)
        for autojunk in (True, False):
            both(a, b, autojunk)


@pytest.mark.parametrize(
    "a, b",
    [
        ("", ""), ("", "abc"), ("abc", ""), ("abc", "abc"), ("abc", "xyz"), ("ab" * 50, "ba" * 50),
        # Every symbol is frequent: nothing starts a block, and the first ones of both are compared all the same.
        ("a" * 300, "a" * 300), ("a" * 300 + "b", "b" + "a" * 300), ("xa" * 150, "ya" * 150),
        # Exactly 200 symbols, and one less; counts of 1 % + 1 and one more.
        ("q" + "ab" * 100, "ab" * 100), ("q" + "ab" * 100, "ab" * 99 + "a"),
        ("xyzt" * 10, "".join(map(chr, range(1000, 1197))) + "xyz"),
        ("xx", "xxx" + "".join(map(chr, range(1000, 1197)))),
        ("xx", "xxxx" + "".join(map(chr, range(1000, 1196)))),
        # Blocks of equal length in several places, crossing each other.
        ("abcabcabc", "cbacbaabc"), ("private Thread currentThread;", "private volatile Thread currentThread;"),
        ("qabxcd", "abycdf"), ("😀é\u0301a", "a\u0301é😀"), (" abcd", "abcd abcd"),
    ],
)  # fmt: skip
def test_opcodes_are_those_of_difflib_where_it_is_odd(a, b):
    for autojunk in (True, False):
        both(a, b, autojunk)
        both(b, a, autojunk)


def test_opcodes_of_real_source_are_those_of_difflib():
    text = Path(difflib.__file__).read_text()
    lines = text.splitlines()
    other = lines[40:400] + ["x = 1"] + lines[410:900] + lines[:30]
    both(lines, other, True)
    both(lines[:300], other[:250], False)
    both(text[:6000], text[2000:9000], True)
    pieces = [lines[at : at + 230] for at in range(0, 600, 90)] + [[]]
    pairs = [(a, b) for i, a in enumerate(pieces) for b in pieces[i + 1 :]]
    for autojunk in (True, False):
        wanted = [difflib.SequenceMatcher(None, a, b, autojunk).get_opcodes() for a, b in pairs]
        offsets, found = verl_code.opcodes_of_pairs(pieces, autojunk)
        assert [listed(found[offsets[k] : offsets[k + 1]]) for k in range(len(pairs))] == wanted
    offsets, found = verl_code.opcodes_of_pairs([["a"]])
    assert offsets.tolist() == [0] and found.shape == (0, 5)


def test_what_is_not_hashable_is_refused():
    with pytest.raises(TypeError, match="unhashable"):
        verl_code.opcodes([[1]], [[1]])


@pytest.mark.parametrize("threshold", [0.3, 0.6, 0.8, 0.95, 1.0, 0.0])
def test_clusters_are_those_of_difflib(threshold):
    source = random.Random(17)
    texts = []
    for _ in range(120):
        text = "\n".join(source.choice(LINES) for _ in range(source.randrange(1, 14)))
        texts.append(text)
        texts.append("".join(edited(source, text, "abé\n (")) or "x")
    firsts, expected = [], []
    for text in texts:
        for number, first in enumerate(firsts):
            equal = text == first if threshold >= 1 else False
            if equal or (threshold < 1 and difflib.SequenceMatcher(None, text, first).ratio() >= threshold):
                expected.append(number)
                break
        else:
            expected.append(len(firsts))
            firsts.append(text)
    assert _hunkwise.refine(texts, threshold) == expected
    assert len(firsts) == 1 if threshold == 0.0 else len(firsts) > 1


def test_baselines_are_numpys_bit_for_bit():
    random_values = np.random.default_rng(3)
    for n in (1, 2, 7, 8, 9, 16, 31, 128, 129, 137, 300, 1025):
        values = random_values.normal(size=n) * 10.0 ** random_values.integers(-3, 4, n)
        ours = _hunkwise.baselined(values.tolist(), 1e-6, True)
        assert ours == (values - values.mean()).tolist()
        std = values.std() if n > 1 else 1.0
        assert _hunkwise.baselined(values.tolist(), 1e-6, False) == ((values - values.mean()) / (std + 1e-6)).tolist()


def arguments(seed):
    torch = pytest.importorskip("torch")
    made = batch(seed)
    n_rows = len(made["index"])
    snippets, index, traj_index = (np.empty(n_rows, dtype=object) for _ in range(3))
    snippets[:] = made["snippets"]
    index[:] = made["index"]
    traj_index[:] = made["traj_index"]
    return {
        "token_level_rewards": torch.tensor(made["rewards"]), "step_rewards": torch.tensor(made["returns"]),
        "response_mask": torch.tensor(made["mask"]), "snippets": snippets, "index": index, "traj_index": traj_index,
    }  # fmt: skip


def plain(diagnostics):
    """Without what is random or a time."""
    if isinstance(diagnostics, dict):
        return {k: plain(v) for k, v in diagnostics.items() if k not in ("group_id", "align_time_ms")}
    return [plain(one) for one in diagnostics] if isinstance(diagnostics, list) else diagnostics


@pytest.mark.parametrize("name, seed, parameters", CASES, ids=[case[0] for case in CASES])
def test_advantages_are_those_that_were_recorded_of_the_authors_code(name, seed, parameters):
    recorded = json.loads(RECORDED.read_text())
    assert recorded["commit"] == COMMIT
    advantages, returns, diagnostics = verl_code.compute_didpo_outcome_advantage(**arguments(seed), **parameters)
    wanted = recorded["cases"][name]
    assert advantages is returns and str(advantages.dtype) == "torch.float32"
    # Runs of equal numbers, as JSON: a float32 is written exactly.
    assert runs(advantages) == wanted["advantages"]
    assert json.loads(json.dumps(plain(diagnostics))) == wanted["diagnostics"]
    assert diagnostics["n_groups"] > 1


def runs(advantages):
    made = []
    for row in advantages.tolist():
        made.append([])
        for value in row:
            if made[-1] and made[-1][-1][0] == value:
                made[-1][-1][1] += 1
            else:
                made[-1].append([value, 1])
    return made


@pytest.fixture(scope="module")
def theirs():
    """The authors' code, where a checkout of it is named."""
    folder = os.environ.get("HUNKWISE_VERL_CODE")
    if not folder:
        pytest.skip("HUNKWISE_VERL_CODE does not name a checkout of verl-code 74d09ed")
    sys.path.insert(0, folder)
    try:
        from didpo import core_didpo
    finally:
        sys.path.remove(folder)
    return core_didpo


@pytest.mark.parametrize("name, seed, parameters", CASES, ids=[case[0] for case in CASES])
def test_advantages_are_those_of_the_authors_code_itself(theirs, name, seed, parameters, capsys):
    compute = vars(theirs).get("_original", theirs.compute_didpo_outcome_advantage)
    n_groups = 0
    for more in range(12):
        given = arguments(1000 + 31 * seed + more)
        wanted, _, of_theirs = compute(**given, **parameters)
        found, _, of_ours = verl_code.compute_didpo_outcome_advantage(**given, **parameters)
        np.testing.assert_array_equal(found.numpy(), wanted.numpy())
        assert plain(of_ours) == plain(of_theirs)
        n_groups += of_ours["n_groups"]
    assert n_groups > 12


def test_installed_in_the_place_of_theirs(theirs):
    theirs._original = theirs.compute_didpo_outcome_advantage
    try:
        verl_code.install()
        assert theirs.compute_didpo_outcome_advantage is verl_code.compute_didpo_outcome_advantage
    finally:
        theirs.compute_didpo_outcome_advantage = theirs._original


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"mode": "mean"}, "Unknown mode: mean"),
        ({"phi_form": "exp"}, "phi_form is \"exp\""),
        ({"index": ["a"]}, "index has 1 entries"),
        ({"sim_thresh": float("nan")}, "sim_thresh"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        verl_code.compute_didpo_outcome_advantage(**arguments(1) | changes)


def test_threads_change_nothing():
    found = [verl_code.compute_didpo_outcome_advantage(**arguments(1), threads=n)[0] for n in (1, 3)]
    np.testing.assert_array_equal(found[0].numpy(), found[1].numpy())
