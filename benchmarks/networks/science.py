"""Networks of the sciences: message passing on graphs of changing size, and a physics-informed network."""

import numpy as np


def graph(paddle, source, graphs, nodes, width):
    """Batches of graphs, each with its own number of nodes and edges; a graph's target is the mean of its degrees."""
    nn, F, rng, features = paddle.nn, paddle.nn.functional, source.rng, 8

    class Model(nn.Layer):
        def __init__(self):
            super().__init__()
            self.begin = nn.Linear(features, width)
            self.messages = nn.LayerList([nn.Linear(2 * width, width) for _ in range(3)])
            self.updates = nn.LayerList([nn.Linear(2 * width, width) for _ in range(3)])
            self.head = nn.Linear(width, 1)

        def forward(self, x, senders, receivers, owners):
            h = F.relu(self.begin(x))
            for message, update in zip(self.messages, self.updates):
                pair = paddle.concat([paddle.gather(h, senders), paddle.gather(h, receivers)], axis=1)
                got = paddle.index_add(paddle.zeros_like(h), receivers, 0, F.relu(message(pair)))
                h = h + F.relu(update(paddle.concat([h, got], axis=1)))
            return self.head(paddle.incubate.segment_mean(h, owners)).squeeze(1)

    def drawn():
        n = int(rng.integers(nodes // 2, nodes + 1))
        edges = rng.integers(0, n, (2, int(rng.integers(n, 3 * n))))
        return rng.standard_normal((n, features), np.float32), edges, np.float32(edges.shape[1] / n)

    known = [drawn() for _ in range(10 * graphs)]
    model = Model()
    opt = paddle.optimizer.Adam(1e-3, parameters=model.parameters())

    def step(i):
        chosen = [known[j] for j in rng.choice(len(known), graphs, replace=False)]
        counts = [len(x) for x, _, _ in chosen]
        offsets = np.cumsum([0, *counts[:-1]])
        edges = np.concatenate([e + offset for (_, e, _), offset in zip(chosen, offsets)], axis=1)
        guess = model(
            paddle.to_tensor(np.concatenate([x for x, _, _ in chosen])),
            paddle.to_tensor(edges[0]),
            paddle.to_tensor(edges[1]),
            paddle.to_tensor(np.repeat(np.arange(graphs), counts)),
        )
        loss = F.mse_loss(guess, paddle.to_tensor(np.array([y for _, _, y in chosen])))
        loss.backward()
        opt.step()
        opt.clear_grad()
        return float(loss)

    return [model], step


def pinn(paddle, source, points, width, layers):
    """Burgers' equation: derivatives of the network by its inputs, once and twice, are in the loss."""
    nn, F, rng = paddle.nn, paddle.nn.functional, source.rng
    inner = [layer for _ in range(layers - 1) for layer in (nn.Linear(width, width), nn.Tanh())]
    model = nn.Sequential(nn.Linear(2, width), nn.Tanh(), *inner, nn.Linear(width, 1))
    opt = paddle.optimizer.Adam(1e-3, parameters=model.parameters())
    start = np.linspace(-1, 1, points // 4, dtype=np.float32)[:, None]
    start_x = paddle.to_tensor(start)
    start_u = paddle.to_tensor(-np.sin(np.pi * start))

    def step(i):
        x = paddle.to_tensor(rng.uniform(-1, 1, (points, 1)).astype(np.float32), stop_gradient=False)
        t = paddle.to_tensor(rng.uniform(0, 1, (points, 1)).astype(np.float32), stop_gradient=False)
        u = model(paddle.concat([x, t], axis=1))
        u_x, u_t = paddle.grad(u.sum(), [x, t], create_graph=True)
        (u_xx,) = paddle.grad(u_x.sum(), x, create_graph=True)
        residual = u_t + u * u_x - (0.01 / np.pi) * u_xx
        begin = model(paddle.concat([start_x, paddle.zeros_like(start_x)], axis=1))
        loss = residual.pow(2).mean() + F.mse_loss(begin, start_u)
        loss.backward()
        opt.step()
        opt.clear_grad()
        return float(loss)

    return [model], step
