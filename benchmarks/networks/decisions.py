"""Reinforcement learning: DQN with a replay buffer, and a policy gradient over episodes of changing length."""

import numpy as np

ACTIONS, FEATURES, GAMMA = 3, 4, 0.95


class Corridor:
    """A point that is to reach the middle: it goes left, stays or goes right, and starts somewhere else every time."""

    def __init__(self, rng, limit):
        self._rng, self._limit = rng, limit

    def reset(self):
        self._place = self._rng.integers(2, self._limit // 2) * self._rng.choice([-1, 1])
        self._steps = 0
        return self._state()

    def _state(self):
        place = self._place / self._limit
        return np.array([place, abs(place), np.sign(place), self._steps / self._limit], np.float32)

    def step(self, action):
        """The next state, the reward, and whether the episode is over."""
        before, self._steps = abs(self._place), self._steps + 1
        self._place += action - 1 if self._rng.random() > 0.1 else self._rng.integers(-1, 2)
        over = self._place == 0 or self._steps == self._limit
        return self._state(), float(before - abs(self._place)) + float(self._place == 0), over


def mlp(nn, width):
    return nn.Sequential(
        nn.Linear(FEATURES, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, ACTIONS)
    )


def dqn(paddle, source, batch, width):
    """One move in the world by the network's own choice, one batch of earlier moves to learn from."""
    nn, F, rng = paddle.nn, paddle.nn.functional, source.rng
    online, target = mlp(nn, width), mlp(nn, width)
    target.set_state_dict(online.state_dict())
    opt = paddle.optimizer.Adam(1e-3, parameters=online.parameters())
    world, buffer = Corridor(rng, 40), []
    state = world.reset()

    def move(action):
        nonlocal state
        following, reward, over = world.step(action)
        buffer.append((state, action, reward, following, over))
        state = world.reset() if over else following

    for _ in range(batch):
        move(rng.integers(0, ACTIONS))

    def step(i):
        if rng.random() < max(0.05, 0.5 - i / 1000):
            move(rng.integers(0, ACTIONS))
        else:
            with paddle.no_grad():
                move(int(online(paddle.to_tensor(state[None])).argmax(axis=1)[0]))
        chosen = [buffer[j] for j in rng.integers(0, len(buffer), batch)]
        states, actions, rewards, following, over = (np.stack(column) for column in zip(*chosen))
        values = paddle.take_along_axis(online(paddle.to_tensor(states)), paddle.to_tensor(actions[:, None]), axis=1)
        with paddle.no_grad():
            best = target(paddle.to_tensor(following)).max(axis=1)
            going = paddle.to_tensor(1 - over.astype(np.float32))
            wanted = paddle.to_tensor(rewards.astype(np.float32)) + GAMMA * going * best
        loss = F.smooth_l1_loss(values.squeeze(1), wanted)
        loss.backward()
        opt.step()
        opt.clear_grad()
        if i % 50 == 49:
            target.set_state_dict(online.state_dict())
        return float(loss)

    return [online, target], step


def policy_gradient(paddle, source, limit, width):
    """A step is one episode: a list of log-probabilities as long as it took, weighed by the returns that followed."""
    nn, F, rng = paddle.nn, paddle.nn.functional, source.rng
    policy, world = mlp(nn, width), Corridor(rng, limit)
    opt = paddle.optimizer.Adam(1e-3, parameters=policy.parameters())

    def step(i):
        state, over, log_probs, rewards = world.reset(), False, [], []
        while not over:
            logs = F.log_softmax(policy(paddle.to_tensor(state[None])), axis=1)
            probs = np.exp(logs.numpy()[0].astype(np.float64))
            action = int(rng.choice(ACTIONS, p=probs / probs.sum()))
            log_probs.append(logs[0, action])
            state, reward, over = world.step(action)
            rewards.append(reward)
        returns, total = [], 0.0
        for reward in reversed(rewards):
            total = reward + GAMMA * total
            returns.append(total)
        returns = paddle.to_tensor(np.array(returns[::-1], np.float32))
        loss = -(paddle.stack(log_probs) * (returns - returns.mean())).sum()
        loss.backward()
        opt.step()
        opt.clear_grad()
        return float(loss)

    return [policy], step
