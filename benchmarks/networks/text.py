"""Networks over sequences and tokens: LSTM, a tagger with a CRF, seq2seq with attention, a mixture of experts."""

import numpy as np

WORDS, CLASSES = 200, 8  # the class of a word is its id modulo the number of classes


def lstm(paddle, source, batch, length, width):
    nn, F = paddle.nn, paddle.nn.functional

    class Model(nn.Layer):
        def __init__(self):
            super().__init__()
            self.token = nn.Embedding(WORDS, width)
            self.lstm = nn.LSTM(width, width)
            self.head = nn.Linear(width, CLASSES)

        def forward(self, ids):
            _, (h, _) = self.lstm(self.token(ids))
            return self.head(h[-1])

    model = Model()
    opt = paddle.optimizer.Adam(2e-3, parameters=model.parameters(), grad_clip=nn.ClipGradByGlobalNorm(5.0))

    def step(i):
        ids = source.rng.integers(0, WORDS, (batch, length))
        loss = F.cross_entropy(model(paddle.to_tensor(ids)), paddle.to_tensor(ids[:, -1] % CLASSES))
        loss.backward()
        opt.step()
        opt.clear_grad()
        return float(loss)

    return [model], step


def bigru_crf(paddle, source, batch, length, width):
    """A tagger: the normaliser of the CRF comes from a Python loop over time."""
    nn, F = paddle.nn, paddle.nn.functional

    class Model(nn.Layer):
        def __init__(self):
            super().__init__()
            self.token = nn.Embedding(WORDS, width)
            self.gru = nn.GRU(width, width, direction="bidirect")
            self.head = nn.Linear(2 * width, CLASSES)
            self.transitions = self.create_parameter([CLASSES, CLASSES])

        def forward(self, ids, tags):
            scores = self.head(self.gru(self.token(ids))[0])
            alpha = scores[:, 0]
            for t in range(1, ids.shape[1]):
                alpha = paddle.logsumexp(alpha.unsqueeze(2) + self.transitions, axis=1) + scores[:, t]
            chosen = (scores * F.one_hot(tags, CLASSES)).sum([1, 2])
            pairs = tags[:, :-1] * CLASSES + tags[:, 1:]
            moves = paddle.gather(self.transitions.flatten(), pairs.flatten()).reshape(pairs.shape).sum(1)
            return (paddle.logsumexp(alpha, axis=1) - chosen - moves).mean()

    model = Model()
    opt = paddle.optimizer.Adam(2e-3, parameters=model.parameters())

    def step(i):
        ids = source.rng.integers(0, WORDS, (batch, length))
        loss = model(paddle.to_tensor(ids), paddle.to_tensor(ids % CLASSES))
        loss.backward()
        opt.step()
        opt.clear_grad()
        return float(loss)

    return [model], step


def seq2seq(paddle, source, batch, length, width):
    """A sentence is given back in reverse; the decoder looks at the encoder's states, one Python step a word."""
    nn, F = paddle.nn, paddle.nn.functional

    class Model(nn.Layer):
        def __init__(self):
            super().__init__()
            self.source, self.target = nn.Embedding(WORDS, width), nn.Embedding(WORDS, width)
            self.encoder, self.cell = nn.GRU(width, width), nn.GRUCell(2 * width, width)
            self.query, self.head = nn.Linear(width, width), nn.Linear(2 * width, WORDS)

        def forward(self, ids, targets):
            memory, h = self.encoder(self.source(ids))
            state, losses = h[0], []
            word = paddle.zeros([ids.shape[0]], "int64")
            for t in range(targets.shape[1]):
                weights = F.softmax(paddle.bmm(memory, self.query(state).unsqueeze(2)).squeeze(2) / width**0.5)
                seen = paddle.bmm(weights.unsqueeze(1), memory).squeeze(1)
                out, state = self.cell(paddle.concat([self.target(word), seen], axis=1), state)
                logits = self.head(paddle.concat([out, seen], axis=1))
                word = targets[:, t]
                losses.append(F.cross_entropy(logits, word))
            return paddle.stack(losses).mean()

    model = Model()
    opt = paddle.optimizer.Adam(2e-3, parameters=model.parameters(), grad_clip=nn.ClipGradByGlobalNorm(1.0))

    def step(i):
        ids = source.rng.integers(0, WORDS, (batch, length))
        loss = model(paddle.to_tensor(ids), paddle.to_tensor(np.ascontiguousarray(ids[:, ::-1])))
        loss.backward()
        opt.step()
        opt.clear_grad()
        return float(loss)

    return [model], step


def experts(paddle, source, tokens, width, count):
    """A mixture of experts: each sees the tokens that chose it, another number of them in every step."""
    nn, F = paddle.nn, paddle.nn.functional

    class Model(nn.Layer):
        def __init__(self):
            super().__init__()
            self.token, self.gate = nn.Embedding(WORDS, width), nn.Linear(width, count)
            self.experts = nn.LayerList(
                [nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
                 for _ in range(count)]
            )  # fmt: skip
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, CLASSES)

        def forward(self, ids):
            x = self.token(ids)
            gates = F.softmax(self.gate(x))
            choice = gates.argmax(axis=-1)
            out = paddle.zeros_like(x)
            for e, expert in enumerate(self.experts):
                mask = choice == e
                chosen = paddle.nonzero(mask).flatten()
                if chosen.shape[0] == 0:
                    continue
                y = expert(paddle.index_select(x, chosen)) * gates[:, e][mask].unsqueeze(1)
                out = paddle.scatter(out, chosen, y, overwrite=False)
            load = F.one_hot(choice, count).mean(0)
            return self.head(self.norm(x + out)), count * (load * gates.mean(0)).sum()

    model = Model()
    opt = paddle.optimizer.AdamW(1e-3, parameters=model.parameters())

    def step(i):
        ids = source.rng.integers(0, WORDS, tokens)
        logits, balance = model(paddle.to_tensor(ids))
        loss = F.cross_entropy(logits, paddle.to_tensor(ids % CLASSES)) + 0.01 * balance
        loss.backward()
        opt.step()
        opt.clear_grad()
        return float(loss)

    return [model], step
