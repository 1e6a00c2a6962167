"""Networks that generate: a VAE, a WGAN with gradient penalty, a small diffusion U-Net."""

import numpy as np


def vae(paddle, source, batch, width, latent):
    nn, F = paddle.nn, paddle.nn.functional

    class Model(nn.Layer):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(784, width), nn.ReLU(), nn.Linear(width, 2 * latent))
            self.decoder = nn.Sequential(nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, 784))

        def forward(self, x):
            mean, log_variance = paddle.split(self.encoder(x), 2, axis=1)
            z = mean + source.normal(mean.shape) * paddle.exp(0.5 * log_variance)
            return self.decoder(z), mean, log_variance

    patterns = source.rng.random((10, 784), np.float32) < 0.3
    data = [patterns[source.rng.integers(0, 10, batch)].astype(np.float32) for _ in range(8)]
    model = Model()
    opt = paddle.optimizer.Adam(1e-3, parameters=model.parameters())

    def step(i):
        x = paddle.to_tensor(data[i % len(data)])
        logits, mean, log_variance = model(x)
        match = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        divergence = -0.5 * paddle.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
        loss = (match + divergence) / batch
        loss.backward()
        opt.step()
        opt.clear_grad()
        return float(loss)

    return [model], step


def wgan_gp(paddle, source, batch, width, latent):
    """The critic's loss has the norm of its own gradient in it; the generator moves in every fifth step."""
    nn, features = paddle.nn, 64
    generator = nn.Sequential(
        nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, features)
    )
    critic = nn.Sequential(
        nn.Linear(features, width), nn.LeakyReLU(0.2), nn.Linear(width, width), nn.LeakyReLU(0.2), nn.Linear(width, 1)
    )
    opt_g = paddle.optimizer.Adam(1e-4, beta1=0.5, beta2=0.9, parameters=generator.parameters())
    opt_c = paddle.optimizer.Adam(1e-4, beta1=0.5, beta2=0.9, parameters=critic.parameters())
    mixing = source.rng.standard_normal((4, features), np.float32)

    def step(i):
        real = paddle.to_tensor(source.rng.standard_normal((batch, 4), np.float32) @ mixing)
        fake = generator(source.normal([batch, latent])).detach()
        share = source.uniform([batch, 1])
        between = share * real + (1 - share) * fake
        between.stop_gradient = False
        (slope,) = paddle.grad(critic(between).sum(), between, create_graph=True)
        penalty = ((slope.pow(2).sum(1) + 1e-12).sqrt() - 1).pow(2).mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        loss.backward()
        opt_c.step()
        opt_c.clear_grad()
        if i % 5 == 4:
            (-critic(generator(source.normal([batch, latent]))).mean()).backward()
            opt_g.step()
            opt_g.clear_grad()
            opt_c.clear_grad()
        return float(loss)

    return [generator, critic], step


def diffusion(paddle, source, batch, size, width):
    """A U-Net of two resolutions that guesses the noise in an image at a random time."""
    nn, F, times = paddle.nn, paddle.nn.functional, 200

    class Block(nn.Layer):
        def __init__(self, inside, outside):
            super().__init__()
            self.norm1, self.conv1 = nn.GroupNorm(4, inside), nn.Conv2D(inside, outside, 3, padding=1)
            self.norm2, self.conv2 = nn.GroupNorm(4, outside), nn.Conv2D(outside, outside, 3, padding=1)
            self.time = nn.Linear(4 * width, outside)
            self.short = nn.Conv2D(inside, outside, 1) if inside != outside else nn.Identity()

        def forward(self, x, t):
            h = self.conv1(F.silu(self.norm1(x))) + self.time(t).unsqueeze([2, 3])
            return self.conv2(F.silu(self.norm2(h))) + self.short(x)

    class Model(nn.Layer):
        def __init__(self):
            super().__init__()
            self.time = nn.Sequential(nn.Linear(width, 4 * width), nn.Silu(), nn.Linear(4 * width, 4 * width))
            self.begin, self.down1 = nn.Conv2D(3, width, 3, padding=1), Block(width, width)
            self.shrink, self.down2 = nn.Conv2D(width, width, 3, 2, 1), Block(width, 2 * width)
            self.middle = Block(2 * width, 2 * width)
            self.up2, self.up1 = Block(4 * width, width), Block(2 * width, width)
            self.norm, self.end = nn.GroupNorm(4, width), nn.Conv2D(width, 3, 3, padding=1)

        def forward(self, x, t):
            rates = paddle.exp(paddle.arange(0, width // 2, dtype="float32") * (-np.log(1e4) / (width // 2)))
            angles = t.astype("float32").unsqueeze(1) * rates
            t = self.time(paddle.concat([angles.sin(), angles.cos()], axis=1))
            one = self.down1(self.begin(x), t)
            two = self.down2(self.shrink(one), t)
            x = self.up2(paddle.concat([self.middle(two, t), two], axis=1), t)
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            return self.end(F.silu(self.norm(self.up1(paddle.concat([x, one], axis=1), t))))

    patterns = source.rng.standard_normal((4, 3, size, size), np.float32)
    kept = paddle.to_tensor(np.cumprod(1 - np.linspace(1e-4, 0.02, times, dtype=np.float32)))
    model = Model()
    opt = paddle.optimizer.AdamW(1e-3, parameters=model.parameters())

    def step(i):
        image = paddle.to_tensor(patterns[source.rng.integers(0, 4, batch)])
        t = paddle.to_tensor(source.rng.integers(0, times, batch))
        noise = source.normal(image.shape)
        share = paddle.gather(kept, t).reshape([-1, 1, 1, 1])
        loss = F.mse_loss(model(share.sqrt() * image + (1 - share).sqrt() * noise, t), noise)
        loss.backward()
        opt.step()
        opt.clear_grad()
        return float(loss)

    return [model], step
