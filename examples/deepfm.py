"""DeepFM on generated clicks, with parameter servers: first-order weights, products of pairs, and a deep network.

    python -m bireme.distributed.launch --server_num 2 --worker_num 2 examples/deepfm.py

starts two servers and two workers on this machine. Each click has eight fields; whether it comes is decided by hidden
numbers of its ids, of which there are as many as the fields have values. `--mode` is sync, async or geo.
"""

import argparse
import tempfile

import numpy as np

import bireme
from bireme.distributed import fleet

FIELDS, VALUES, WIDTH = 8, 5000, 8


def clicks(count, seed):
    """Ids of each field, different between fields, and whether there was a click."""
    rng = np.random.default_rng(seed)
    ids = (rng.zipf(1.3, (count, FIELDS)) % VALUES).astype(np.int64) + np.arange(FIELDS) * 10**12
    hidden = np.sin(ids.astype(np.float64) * 0.7310).sum(axis=1)
    return ids, (hidden > 0).astype(np.float32).reshape(-1, 1)


class DeepFM(bireme.nn.Layer):
    def __init__(self):
        super().__init__()
        self.deep = bireme.nn.Sequential(
            bireme.nn.Linear(FIELDS * WIDTH, 32), bireme.nn.ReLU(), bireme.nn.Linear(32, 1)
        )

    def forward(self, ids):
        table = {
            "param_attr": bireme.ParamAttr("fm", bireme.nn.initializer.Normal(0.0, 0.05)),
            "is_test": not self.training,
        }
        rows = bireme.static.nn.sparse_embedding(ids, [FIELDS * VALUES, 1 + WIDTH], **table)
        first, factors = rows[:, :, 0], rows[:, :, 1:]
        pairs = 0.5 * (factors.sum(axis=1) ** 2 - (factors**2).sum(axis=1)).sum(axis=1, keepdim=True)
        return first.sum(axis=1, keepdim=True) + pairs + self.deep(factors.flatten(1))


def area(scores, labels):
    """Area under the receiver operating characteristic."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores)] = np.arange(1, len(scores) + 1)
    clicked = labels > 0
    n = clicked.sum()
    return (ranks[clicked].sum() - n * (n + 1) / 2) / (n * (len(labels) - n))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", choices=("sync", "async", "geo"), default="async")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=256)
    options = parser.parse_args()

    bireme.seed(0)
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = options.mode != "sync"
    strategy.a_sync_configs = {"k_steps": 10 if options.mode == "geo" else -1}
    fleet.init(is_collective=False, strategy=strategy)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return

    model = DeepFM()
    optimizer = fleet.distributed_optimizer(bireme.optimizer.Adagrad(0.1, parameters=model.parameters()))
    fleet.init_worker()
    loss_of = bireme.nn.BCEWithLogitsLoss()
    for step in range(options.steps):
        ids, labels = clicks(options.batch, 1000 * step + fleet.worker_index())
        loss = loss_of(model(bireme.to_tensor(ids)), bireme.to_tensor(labels))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if step % 50 == 0 and fleet.is_first_worker():
            print(f"step {step}: loss {float(loss):.3f}")

    fleet.barrier_worker()
    if fleet.is_first_worker():
        model.eval()
        ids, labels = clicks(4000, 999_999)
        with bireme.no_grad():
            scores = model(bireme.to_tensor(ids)).numpy()
        print(f"area under the curve: {area(scores.ravel(), labels.ravel()):.3f}")
        with tempfile.TemporaryDirectory() as folder:
            fleet.save_persistables(None, folder)
            fleet.print_table_stat(0, 0, 0)
    fleet.barrier_worker()
    fleet.stop_worker()


if __name__ == "__main__":
    main()
