"""Training that goes on when machines come and go, with the same losses.

    python -m bireme.distributed.launch --nnodes 2:3 --master 127.0.0.1:6170 --rank 0 examples/elastic.py saved
    python -m bireme.distributed.launch --nnodes 2:3 --master 127.0.0.1:6170 --rank 1 examples/elastic.py saved    # and so on

Each process that the launchers start trains on its share of the same batches, goes on from the newest checkpoint in the
folder, and saves before it ends where it is asked to (SIGTERM). The first one appends `step processes loss` to
`saved/losses.txt`. `python -m tools.elastic_curve` kills and adds machines meanwhile, and compares the losses.
"""

import sys
from pathlib import Path

import numpy as np

import bireme
from bireme import distributed as dist
from bireme import io, nn

STEPS, EVERY, BATCH = 40, 5, 12  # a checkpoint every five steps; twelve samples of all processes together


def main(folder):
    dist.init_parallel_env()
    bireme.seed(1)
    net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    model = bireme.DataParallel(net) if dist.get_world_size() > 1 else net
    rate = bireme.optimizer.lr.CosineAnnealingDecay(0.02, STEPS)
    optimizer = bireme.optimizer.AdamW(rate, parameters=net.parameters())
    x = np.random.default_rng(0).standard_normal((96, 8)).astype("float32")
    data = io.TensorDataset([bireme.to_tensor(x), bireme.to_tensor(np.sin(x).sum(1, keepdims=True))])
    batches = dist.elastic.GlobalBatchSampler(data, BATCH, shuffle=True)
    loader = io.DataLoader(data, batch_sampler=batches)
    saved = dist.checkpoint.Checkpoint(folder, net, optimizer, loader=loader)
    done = saved.resume() or 0
    with dist.elastic.Preemption() as preemption:
        while done < STEPS:
            for inputs, targets in loader:
                loss = nn.functional.mse_loss(model(inputs), targets)
                loss.backward()
                optimizer.step()
                optimizer.clear_grad()
                rate.step()
                done += 1
                tell(folder, done, loss)
                asked = preemption.asked()  # the same answer in all processes
                if asked or done % EVERY == 0 or done == STEPS:
                    saved.save(done)
                if asked:
                    saved.wait()
                    preemption.leave()
                if done == STEPS:
                    break
    saved.wait()


def tell(folder, step, loss):
    """Append the mean loss of all processes to a file."""
    mean = loss.detach()
    if dist.get_world_size() > 1:
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    if dist.get_rank() == 0:
        with open(Path(folder, "losses.txt"), "a") as file:
            file.write(f"{step} {dist.get_world_size()} {mean.item():.9g}\n")


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    main(sys.argv[1])
