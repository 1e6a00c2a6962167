"""Update rules in NumPy, from their formulas: what the optimizers are compared with."""

import numpy as np


class Reference:
    """One parameter under one rule; `step` takes the gradient and returns the new value, in float64."""

    def __init__(self, rule, value, lr, **settings):
        self.rule, self.lr, self.settings = rule, lr, settings
        self.w = np.asarray(value, np.float64)
        self.t = 0
        self.m, self.v, self.top = (np.zeros_like(self.w) for _ in range(3))

    def step(self, g, lr=None):
        self.t += 1
        rate = self.lr if lr is None else lr
        g = np.asarray(g, np.float64)
        decay = self.settings.get("decay", 0.0)
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


def clip_by_global_norm(grads, limit):
    norm = np.sqrt(sum((np.asarray(g, np.float64) ** 2).sum() for g in grads))
    return [g * limit / max(norm, limit) for g in grads]
