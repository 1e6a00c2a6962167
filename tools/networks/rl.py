"""Algorithms of PARL on networks of two layers: what a call of `learn` returns, and how it moves the weights."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tools.networks import Network

SEEN, ACTIONS, BATCH, STEPS, AGENTS, STATE = 6, 3, 8, 4, 2, 5
RATES = {"gamma": 0.9, "tau": 0.1, "actor_lr": 0.01, "critic_lr": 0.01}


def load() -> Any:
    if "parl" not in sys.modules:
        os.environ["PARL_BACKEND"] = "paddle"  # whatever else is installed
        before = sys.modules.pop("pyarrow", None)
        sys.modules["pyarrow"] = None  # type: ignore[assignment]  # the package wants a version older than Python 3.10
        importlib.import_module("parl")
        del sys.modules["pyarrow"]
        sys.modules.update({} if before is None else {"pyarrow": before})
    return sys.modules["parl"]


def layers(parl: Any) -> dict[str, type]:
    """Networks with the methods that the algorithms ask for."""
    paddle = importlib.import_module("paddle")
    nn = paddle.nn

    def dense(inputs: int, outputs: int) -> Any:
        return nn.Sequential(nn.Linear(inputs, 16), nn.Tanh(), nn.Linear(16, outputs))

    class Values(parl.Model):
        def __init__(self, last: Any = None):
            super().__init__()
            self.dense = dense(SEEN, ACTIONS)
            self.last = last or nn.Identity()

        def forward(self, seen: Any) -> Any:
            return self.last(self.dense(seen))

    class Policy(parl.Model):
        def __init__(self, spread: bool = False):
            super().__init__()
            self.actor, self.critic = dense(SEEN, ACTIONS), dense(SEEN, 1)
            if spread:
                self.spread = self.create_parameter([ACTIONS])

        def policy(self, seen: Any) -> Any:
            mean = self.actor(seen)
            return (mean, paddle.exp(self.spread).expand_as(mean)) if hasattr(self, "spread") else mean

        def value(self, seen: Any) -> Any:
            return self.critic(seen).squeeze(-1)

        def policy_and_value(self, seen: Any) -> Any:
            return self.policy(seen), self.value(seen)

    class Critics(parl.Model):
        def __init__(self, n: int):
            super().__init__()
            self.actor = nn.Sequential(dense(SEEN, ACTIONS), nn.Tanh())
            self.critics = nn.LayerList([dense(SEEN + ACTIONS, 1) for _ in range(n)])

        def policy(self, seen: Any) -> Any:
            return self.actor(seen)

        def value(self, seen: Any, action: Any) -> Any:
            found = [critic(paddle.concat([seen, action], 1)) for critic in self.critics]
            return found if len(found) > 1 else found[0]

        def Q1(self, seen: Any, action: Any) -> Any:
            return self.value(seen, action)[0]

        def get_actor_params(self) -> Any:
            return self.actor.parameters()

        def get_critic_params(self) -> Any:
            return self.critics.parameters()

    class Recurrent(parl.Model):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.last = nn.GRUCell(SEEN, 8), nn.Linear(8, ACTIONS)

        def init_hidden(self) -> Any:
            return paddle.zeros([1, 8])

        def forward(self, seen: Any, state: Any) -> Any:
            state = self.cell(seen, state.reshape([-1, 8]))[0]
            return self.last(state), state

    class Mixer(parl.Model):
        def __init__(self) -> None:
            super().__init__()
            self.n_agents = AGENTS
            self.weights, self.bias = nn.Linear(STATE, AGENTS), nn.Linear(STATE, 1)

        def forward(self, values: Any, states: Any) -> Any:
            return (values * paddle.abs(self.weights(states))).sum(-1, keepdim=True) + self.bias(states)

    return {c.__name__: c for c in (Values, Policy, Critics, Recurrent, Mixer)}


def build(name: str, models: Callable[[dict[str, type], Any], list[Any]], options: dict[str, Any]) -> Any:
    parl, paddle = load(), importlib.import_module("paddle")
    made = models(layers(parl), paddle.nn)

    class Learner(paddle.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.models = paddle.nn.LayerList(made)

        def forward(self, *args: Any) -> Any:
            if not hasattr(self, "algorithm"):  # it copies the weights, which are filled by now
                self.algorithm = getattr(parl.algorithms, name.partition("-")[0])(*made, **options)
            return self.algorithm.learn(*args)

    return Learner()


def arguments(kind: str) -> tuple[tuple, dict[str, Any]]:
    rng = np.random.RandomState(0)

    def floats(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype("float32")

    def actions(*shape: int) -> np.ndarray:
        return rng.randint(0, ACTIONS, shape).astype("int64")

    seen, then, ends = floats(BATCH, SEEN), floats(BATCH, SEEN), (np.arange(BATCH)[:, None] % 4 == 3).astype("float32")
    if kind == "values":
        return (seen, actions(BATCH, 1), floats(BATCH, 1), then, ends), {}
    if kind == "policy":
        return (seen, actions(BATCH), floats(BATCH)), {}
    if kind == "critics":
        return (seen, np.tanh(floats(BATCH, ACTIONS)), floats(BATCH, 1), then, ends), {}
    if kind == "advantages":
        return (seen, actions(BATCH), floats(BATCH), floats(BATCH), 0.01, -0.01), {}
    if kind == "traces":
        return (seen, actions(BATCH), floats(BATCH, ACTIONS), floats(BATCH), ends[:, 0] > 0, 0.01, -0.01), {}
    if kind == "ratios":
        return (seen, actions(BATCH), *[floats(BATCH) for _ in range(4)]), {}
    if kind == "continuous":
        return (seen, floats(BATCH, ACTIONS), *[floats(BATCH) for _ in range(4)]), {}
    allowed = np.ones((2, STEPS, AGENTS, ACTIONS), "float32")
    allowed[..., -1] = 0
    nothing = np.zeros((2, STEPS, 1), "float32")
    return (
        floats(2, STEPS, STATE), actions(2, STEPS, AGENTS), floats(2, STEPS, 1), nothing,
        floats(2, STEPS, AGENTS, SEEN), allowed, nothing,
    ), {}  # fmt: skip


# family and name: networks, options of the algorithm, kind of its arguments. Those that draw random numbers
# while they learn (SAC, CQL, OAC, MADDPG) cannot be compared; TD3 can without its noise.
ROWS: list[tuple[str, str, Callable[[dict[str, type], Any], list[Any]], dict[str, Any], str]] = [
    ("dqn", "DQN", lambda c, _: [c["Values"]()], {"gamma": 0.9, "lr": 0.01}, "values"),
    ("dqn", "DDQN", lambda c, _: [c["Values"]()], {"gamma": 0.9, "lr": 0.01}, "values"),
    ("policy_gradient", "PolicyGradient", lambda c, nn: [c["Values"](nn.Softmax())], {"lr": 0.01}, "policy"),
    ("a2c", "A2C", lambda c, _: [c["Policy"]()], {"vf_loss_coeff": 0.5}, "advantages"),
    ("ppo", "PPO", lambda c, _: [c["Policy"]()], {"initial_lr": 0.01}, "ratios"),
    ("ppo", "PPO-continuous", lambda c, _: [c["Policy"](True)], {"initial_lr": 0.01, "continuous_action": True}, "continuous"),
    ("impala", "IMPALA", lambda c, _: [c["Policy"]()], {"sample_batch_steps": 4, "gamma": 0.9, "vf_loss_coeff": 0.5,
                                                       "clip_rho_threshold": 1.0, "clip_pg_rho_threshold": 1.0}, "traces"),
    ("ddpg", "DDPG", lambda c, _: [c["Critics"](1)], RATES, "critics"),
    ("td3", "TD3", lambda c, _: [c["Critics"](2)], {**RATES, "policy_noise": 0.0, "policy_freq": 1}, "critics"),
    ("qmix", "QMIX", lambda c, _: [c["Recurrent"](), c["Mixer"]()], {"clip_grad_norm": 10.0}, "episodes"),
]  # fmt: skip


def networks() -> Iterator[Network]:
    for family, name, models, options, kind in ROWS:
        made, given = functools.partial(build, name, models, options), functools.partial(arguments, kind)
        yield Network("rl", family, name, made, given, learns=True)
