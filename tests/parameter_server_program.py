"""What servers and workers of tests/test_parameter_server.py run: training in step, beside the same in one process."""

import sys

import numpy as np

import bireme
from bireme.distributed import fleet

STEPS, BATCH, WIDTH = 4, 6, 3


def data(step):
    rng = np.random.default_rng(step)
    return rng.integers(0, 20, (2 * BATCH, 2)) * 2**40, rng.standard_normal((2 * BATCH, 1)).astype(np.float32)


def table():
    return bireme.ParamAttr("rows", bireme.nn.initializer.Constant(0.5))


def static_training():
    """The program of a worker: look-up, a linear layer, loss; both workers read their halves of the batches."""
    bireme.enable_static()
    ids = bireme.static.data("ids", [None, 2], "int64")
    y = bireme.static.data("y", [None, 1])
    rows = bireme.static.nn.sparse_embedding(ids, [100, WIDTH], param_attr=table())
    weight = bireme.ParamAttr(initializer=bireme.nn.initializer.Constant(0.1))
    out = bireme.static.nn.fc(rows.flatten(1), 1, weight_attr=weight)
    loss = ((out - y) ** 2).mean()
    fleet.distributed_optimizer(bireme.optimizer.Adagrad(0.1)).minimize(loss)
    return loss, rows


def alone():
    """The same in one process, on whole batches."""
    embedding = bireme.nn.Embedding(20, WIDTH, sparse=True, weight_attr=bireme.nn.initializer.Constant(0.5))
    linear = bireme.nn.Linear(2 * WIDTH, 1, weight_attr=bireme.nn.initializer.Constant(0.1))
    optimizer = bireme.optimizer.Adagrad(0.1, parameters=[*embedding.parameters(), *linear.parameters()])
    for step in range(STEPS):
        ids, y = data(step)
        out = linear(embedding(bireme.to_tensor(ids // 2**40)).flatten(1))
        ((out - bireme.to_tensor(y)) ** 2).mean().backward()
        optimizer.step()
        optimizer.clear_grad()
    return embedding.weight.numpy()


def main():
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = False
    fleet.init(is_collective=False, strategy=strategy)
    expected = None
    if fleet.is_first_worker():
        expected = alone()
    loss, rows = static_training()
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    exe = bireme.static.Executor()
    exe.run(bireme.static.default_startup_program())
    fleet.init_worker()
    own = slice(fleet.worker_index() * BATCH, (fleet.worker_index() + 1) * BATCH)
    for step in range(STEPS):
        ids, y = data(step)
        exe.run(feed={"ids": ids[own], "y": y[own]}, fetch_list=[loss])
    assert fleet.util.all_gather(fleet.worker_index()) == [0, 1]
    assert fleet.util.all_reduce([1.0, 2.0]).tolist() == [2.0, 4.0]
    if expected is not None:
        everything = np.arange(20, dtype=np.int64).reshape(10, 2) * 2**40
        test = bireme.static.default_main_program().clone(for_test=True)
        (found,) = exe.run(test, feed={"ids": everything, "y": np.zeros((10, 1), np.float32)}, fetch_list=[rows])
        sys.stdout.write(f"difference {float(np.abs(found.reshape(20, WIDTH) - expected).max())}\n")
        fleet.save_persistables(exe, sys.argv[1])
    fleet.barrier_worker()
    fleet.stop_worker()


if __name__ == "__main__":
    main()
