"""Update rules in NumPy, from their formulas: what the optimizers are compared with."""

import numpy as np


class Reference:
    """One parameter under one rule; `step` takes the gradient and returns the new value, in float64."""

    def __init__(self, rule, value, lr, **settings):
        self.rule, self.lr, self.settings = rule, lr, settings
        self.w = np.asarray(value, np.float64)
        self.t = 0
        self.m, self.v, self.top = (np.zeros_like(self.w) for _ in range(3))
        self.past, self.product = [], 1.0

    def step(self, g, lr=None):
        self.t += 1
        rate = self.lr if lr is None else lr
        g = np.asarray(g, np.float64)
        decay = 0.0 if self.rule == "lamb" else self.settings.get("decay", 0.0)
        if self.rule == "adamw":
            self.w = self.w * (1 - rate * decay)
        elif self.settings.get("l1"):
            g = g + decay * np.sign(self.w)
        else:
            g = g + decay * self.w
        self.w = self.w - rate * getattr(self, f"_{self.rule.removesuffix('w')}")(g)
        return self.w

    def _sgd(self, g):
        return g

    def _momentum(self, g):
        mu = self.settings.get("momentum", 0.9)
        self.v = mu * self.v + g
        return g + mu * self.v if self.settings.get("nesterov") else self.v

    def _adam(self, g):
        b1, b2 = self.settings.get("beta1", 0.9), self.settings.get("beta2", 0.999)
        self.m = b1 * self.m + (1 - b1) * g
        self.v = b2 * self.v + (1 - b2) * g * g
        self.top = np.maximum(self.top, self.v)
        square = self.top if self.settings.get("amsgrad") else self.v
        root = np.sqrt(square / (1 - b2**self.t))
        return self.m / (1 - b1**self.t) / (root + self.settings.get("epsilon", 1e-8))

    def _adagrad(self, g):
        self.v = self.v + g * g
        return g / (np.sqrt(self.v + self.settings.get("start", 0.0)) + self.settings.get("epsilon", 1e-6))

    def _adadelta(self, g):
        rho, epsilon = self.settings.get("rho", 0.95), self.settings.get("epsilon", 1e-6)
        self.v = rho * self.v + (1 - rho) * g * g
        step = np.sqrt((self.m + epsilon) / (self.v + epsilon)) * g
        self.m = rho * self.m + (1 - rho) * step**2
        return step

    def _adamax(self, g):
        b1, b2 = self.settings.get("beta1", 0.9), self.settings.get("beta2", 0.999)
        self.m = b1 * self.m + (1 - b1) * g
        self.top = np.maximum(np.abs(g), b2 * self.top + self.settings.get("epsilon", 1e-8))
        return self.m / (1 - b1**self.t) / self.top

    def _rmsprop(self, g):
        rho, centred = self.settings.get("rho", 0.95), self.settings.get("centered", False)
        self.v = rho * self.v + (1 - rho) * g * g
        self.m = rho * self.m + (1 - rho) * g
        spread = self.v - (self.m**2 if centred else 0) + self.settings.get("epsilon", 1e-6)
        self.top = self.settings.get("momentum", 0.0) * self.top + g / np.sqrt(spread)
        return self.top

    def _moments(self, g):
        b1, b2 = self.settings.get("beta1", 0.9), self.settings.get("beta2", 0.999)
        self.m = b1 * self.m + (1 - b1) * g
        self.v = b2 * self.v + (1 - b2) * g * g
        return b1, b2, self.v / (1 - b2**self.t)

    def _nadam(self, g):
        b1, _, square = self._moments(g)
        now, then = (
            b1 * (1 - 0.5 * 0.96 ** (t * self.settings.get("momentum_decay", 0.004))) for t in (self.t, self.t + 1)
        )
        self.product *= now
        mean = then * self.m / (1 - self.product * then) + (1 - now) * g / (1 - self.product)
        return mean / (np.sqrt(square) + self.settings.get("epsilon", 1e-8))

    def _radam(self, g):
        b1, b2, _ = self._moments(g)
        full = 2 / (1 - b2) - 1
        known = full - 2 * self.t * b2**self.t / (1 - b2**self.t)
        mean = self.m / (1 - b1**self.t)
        if known <= 5:
            return mean
        trust = np.sqrt((known - 4) * (known - 2) * full / ((full - 4) * (full - 2) * known))
        return mean * trust * np.sqrt(1 - b2**self.t) / (np.sqrt(self.v) + self.settings.get("epsilon", 1e-8))

    def _lamb(self, g):
        b1, _, square = self._moments(g)
        decay = self.settings.get("decay", 0.01)
        step = self.m / (1 - b1**self.t) / (np.sqrt(square) + 1e-6) + decay * self.w
        if not decay and not self.settings.get("always"):
            return step
        size, length = np.linalg.norm(self.w), np.linalg.norm(step)
        return step * (size / length if size and length else 1.0)

    def _rprop(self, g):
        if self.t == 1:
            self.v = np.full_like(self.w, self.lr)
        turn = g * self.m
        self.v = np.clip(self.v * np.where(turn > 0, 1.2, np.where(turn < 0, 0.5, 1.0)), 1e-5, 50)
        self.m = np.where(turn < 0, 0.0, g)
        return np.sign(self.m) * self.v / self.lr

    def _asgd(self, g):
        self.past = [*self.past, g][-self.settings.get("batch_num", 1) :]
        return sum(self.past) / len(self.past)


def clip_by_global_norm(grads, limit):
    norm = np.sqrt(sum((np.asarray(g, np.float64) ** 2).sum() for g in grads))
    return [g * limit / max(norm, limit) for g in grads]
