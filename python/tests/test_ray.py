"""A Ray cluster of two nodes on this machine."""

import os
import signal

import numpy as np
import pytest

ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")
pytest.importorskip("pyarrow")

from ray.cluster_utils import Cluster  # noqa: E402
from test_distributed import rollouts  # noqa: E402

import hunkwise  # noqa: E402
import hunkwise.ray  # noqa: E402


@pytest.fixture(scope="module")
def cluster():
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    made.add_node(num_cpus=2)
    folder = os.path.dirname(__file__)
    ray.init(address=made.address, log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": folder}})
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()


def numbered(rows):
    """Rows with a place of their own, which the credit gives back."""
    return [row | {"place": at} for at, row in enumerate(rows)]


def check(dataset, rows):
    found = dataset.take_all()
    assert sorted(row["place"] for row in found) == list(range(len(rows)))
    wanted = hunkwise.credit(rows)
    for row in found:
        advantages, of_row = wanted.advantages[row["place"]], wanted.rows[row["place"]]
        np.testing.assert_array_equal(np.array(row["advantages"], np.float32), advantages)
        assert row["episode"] == of_row.episode
        assert row["flagged"] is None
        assert row["text"] == rows[row["place"]]["text"]
    assert wanted.groups


def test_the_dataset_gets_what_one_process_computes(cluster):
    rows = [row for row in rollouts() if row["text"] != 5]
    check(hunkwise.ray.credit(ray.data.from_items(numbered(rows)).repartition(7)), rows)
    check(hunkwise.ray.credit(numbered(rows), num_partitions=3), rows)


def test_a_worker_that_is_killed_midway_loses_nothing(cluster, tmp_path):
    rows = [row for row in rollouts(seed=3, n_tasks=8) if row["text"] != 5]
    marker = str(tmp_path / "killed")

    class Deadly(hunkwise.Config):
        """Parameters that kill the first worker which asks for them in the midst of a task."""

        def to_json(self):
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return super().to_json()
            os.kill(os.getpid(), signal.SIGKILL)

    check(hunkwise.ray.credit(numbered(rows), Deadly(), num_partitions=4), rows)
    assert os.path.exists(marker), "no worker was killed"


def test_a_row_that_cannot_be_used_says_why(cluster):
    rows = [row for row in rollouts(n_tasks=1) if row["text"] != 5]
    rows[2] = rows[2] | {"token_ends": [1, 2]}
    found = {row["place"]: row for row in hunkwise.ray.credit(numbered(rows)).take_all()}
    assert (
        found[2]["advantages"] is None
        and found[2]["flagged"] == "ends at byte 2; the text has 104 bytes, and they must agree"
    )
    assert found[0]["flagged"] is None and len(found[0]["advantages"]) == len(rows[0]["token_ends"])


def test_errors(cluster):
    with pytest.raises(ValueError, match="no column `task`; it has text"):
        hunkwise.ray.credit([{"text": "x"}])
    with pytest.raises(ValueError, match="a column `advantages` already"):
        hunkwise.ray.credit([{"task": "t", "advantages": [1.0]}])
    with pytest.raises(ValueError, match="no rollouts"):
        hunkwise.ray.credit([])
    with pytest.raises(ValueError, match="config.lamda"):
        hunkwise.ray.credit([{"task": "t"}], {"lamda": 1})
