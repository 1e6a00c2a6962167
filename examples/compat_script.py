"""A program written for PaddlePaddle, with the hundred names that such programs use most; it knows nothing of Bireme.

It prints the same under PaddlePaddle and, unchanged, under Bireme: `python -m bireme.compat examples/compat_script.py`.
"""

import os
import tempfile

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn

paddle.seed(2024)
paddle.set_device("cpu")
paddle.set_printoptions(precision=4)  # the last digits of exp and its kin are each library's own


def show(title, *values):
    print(f"--- {title}")
    for value in values:
        print(value)


# making tensors

x = paddle.to_tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])
y = paddle.to_tensor(np.arange(6, dtype="float32").reshape(2, 3), stop_gradient=False)
show("tensors", x, y, paddle.to_tensor(7), paddle.to_tensor([True, False]))
show("filled", paddle.zeros([2, 2]), paddle.ones([3], dtype="int64"), paddle.full([2, 2], 3.5), paddle.eye(2))
show("alike", paddle.zeros_like(x), paddle.ones_like(x), paddle.full_like(x, 9))
show("counted", paddle.arange(5), paddle.arange(1, 2, 0.25), paddle.linspace(0, 1, 5))
show(
    "random",
    paddle.randn([2, 3]).shape,
    paddle.rand([4]).shape,
    paddle.randint(0, 10, [5]).dtype,
    sorted(paddle.randperm(4).tolist()),
)
show(
    "random again",
    paddle.normal(0.0, 1.0, [3]).shape,
    paddle.uniform([2], min=-1.0, max=1.0).shape,
    paddle.empty([2, 2]).shape,
)
show(
    "what it is",
    x.shape,
    x.dtype,
    x.ndim,
    x.size,
    x.place,
    x.stop_gradient,
    x.dim(),
    x.numel().item(),
    x.element_size(),
    paddle.shape(x),
)
show(
    "questions",
    paddle.is_tensor(x),
    x.is_floating_point(),
    paddle.is_tensor(1),
    paddle.in_dynamic_mode(),
    paddle.get_device(),
    paddle.get_default_dtype(),
)
show("limits", paddle.finfo("float32").bits, paddle.finfo(paddle.float32).max > 1e38, paddle.iinfo("int8").max)

# shapes

show("reshape", paddle.reshape(x, [3, 2]), x.reshape([-1]), x.flatten(), paddle.flatten(x.unsqueeze(0), 1))
show("transpose", paddle.transpose(x, [1, 0]), x.T, x.t(), x.transpose(perm=[1, 0]).shape)
show(
    "axes",
    paddle.unsqueeze(x, axis=[0, 3]).shape,
    x.unsqueeze(1).squeeze(1).shape,
    paddle.squeeze(paddle.ones([1, 2, 1])).shape,
)
show(
    "join", paddle.concat([x, x], axis=0), paddle.concat(x=[x, y.detach()], axis=-1), paddle.stack([x[0], x[1]], axis=1)
)
show(
    "part",
    paddle.split(x, 3, axis=1),
    paddle.split(paddle.arange(6), [1, 2, -1]),
    paddle.chunk(paddle.arange(4), 2),
    x.unbind(0),
)
show("repeat", paddle.tile(paddle.arange(2), [2, 2]), paddle.expand(paddle.ones([1, 3]), [2, 3]), x[:1].expand([2, 3]))
show("turn", paddle.flip(x, axis=[1]), paddle.roll(paddle.arange(4), 1), paddle.broadcast_to(paddle.arange(2), [2, 2]))
show("triangles", paddle.tril(x), paddle.triu(x), paddle.diag(paddle.to_tensor([1.0, 2.0])))
show("grid", *paddle.meshgrid(paddle.arange(2), paddle.arange(3)))

# indexing

show("index", x[0], x[:, 1], x[..., -1], x[1, 2], x[:, ::2], x[[1, 0]], x[x > 0], x[None].shape)
z = x.clone()
z[0] = 0.0
z[:, 2] = paddle.to_tensor([7.0, 8.0])
show("assigned", z, x)
index = paddle.to_tensor([1, 0])
show(
    "gather",
    paddle.gather(x, index),
    paddle.index_select(x, index, axis=1),
    paddle.gather_nd(x, paddle.to_tensor([[0, 1], [1, 2]])),
)
show(
    "choose",
    paddle.where(x > 0, x, paddle.zeros_like(x)),
    paddle.masked_select(x, x < 0),
    paddle.nonzero(x > 3),
    x.masked_fill(x < 0, 0.0),
)
show(
    "scatter", paddle.scatter(paddle.ones([3, 2]), paddle.to_tensor([2, 0]), paddle.to_tensor([[5.0, 5.0], [6.0, 6.0]]))
)
show("along", paddle.take_along_axis(x, paddle.to_tensor([[0], [2]]), 1), paddle.assign(index), F.one_hot(index, 3))

# arithmetic

show(
    "operators", x + 1, 2 * x, x - y.detach(), x / 2, x**2, x // 2, x % 4, -x, abs(x), x @ x.T, x > 1, x == x, ~(x > 1)
)
show("integers", paddle.arange(4) + 1, paddle.arange(4) / 2, paddle.arange(4) * 1.5, paddle.arange(1, 4) // 2)
show(
    "named",
    paddle.add(x, x),
    paddle.subtract(x, x),
    paddle.multiply(x, x),
    paddle.divide(x, x),
    paddle.pow(x, 2),
    paddle.scale(x, 2.0, 1.0),
)
positive = paddle.abs(x)
show(
    "elementwise",
    paddle.exp(x / 4),
    paddle.log(positive),
    paddle.sqrt(positive),
    paddle.rsqrt(positive),
    paddle.square(x),
    paddle.sin(x),
    paddle.cos(x),
)
show(
    "rounded",
    paddle.floor(x / 4),
    paddle.ceil(x / 4),
    paddle.round(x / 4),
    paddle.sign(x),
    paddle.clip(x, -1.0, 2.0),
    paddle.tanh(x),
)
show(
    "compared",
    paddle.maximum(x, y.detach()),
    paddle.minimum(x, y.detach()),
    paddle.equal(x, x),
    paddle.not_equal(x, y),
    paddle.less_than(x, y),
)
show(
    "agree",
    paddle.allclose(x, x + 1e-9),
    paddle.equal_all(x, x),
    paddle.isnan(x / 0 * 0),
    paddle.isinf(x / 0),
    paddle.isfinite(x),
)
show(
    "logic",
    paddle.logical_and(x > 0, x < 4),
    paddle.logical_or(x > 4, x < 0),
    paddle.logical_not(x > 0),
    paddle.any(x > 4),
    paddle.all(x > 4),
)
show(
    "types",
    x.astype("int32"),
    paddle.cast(x, "float64"),
    x.cast(paddle.bool),
    paddle.to_tensor(2.5).astype(paddle.int64),
    x.astype("float16").dtype,
)

# reductions, searching, products

show(
    "sums",
    paddle.sum(x),
    x.sum(axis=1),
    paddle.sum(x, axis=0, keepdim=True),
    paddle.mean(x, axis=-1),
    x.mean(),
    paddle.cumsum(x, axis=1),
)
show(
    "spread",
    paddle.max(x, axis=1),
    paddle.min(x),
    paddle.var(x),
    x.std(axis=0),
    paddle.prod(x),
    paddle.norm(x),
    x.norm(p=1, axis=1),
)
values, places = paddle.topk(x, k=2)
show(
    "search",
    paddle.argmax(x, axis=1),
    paddle.argmin(x),
    values,
    places,
    paddle.argsort(x, axis=1),
    paddle.sort(x, descending=True),
)
show(
    "unique",
    paddle.unique(paddle.to_tensor([3, 1, 3, 2])),
    paddle.repeat_interleave(paddle.arange(2), 2),
    paddle.cumprod(x, dim=1),
)
show(
    "products",
    paddle.matmul(x, x, transpose_y=True),
    paddle.bmm(x.unsqueeze(0), x.T.unsqueeze(0)),
    paddle.mm(x, x.T),
    paddle.einsum("ij,kj->ik", x, x),
)
show(
    "linear algebra",
    paddle.linalg.norm(x),
    paddle.inverse(paddle.to_tensor([[2.0, 0.0], [0.0, 4.0]])),
    paddle.outer(x[0], x[1]),
    paddle.add_n([x, x]),
)

# changes in place

w = paddle.zeros([2, 2])
w.fill_(3.0)
w.set_value(np.array([[1.0, 2.0], [3.0, 4.0]], dtype="float32"))
w.add_(paddle.ones([2, 2]))
w.scale_(2.0)
show("in place", w, w.zero_(), w.reshape_([4]), w.unsqueeze_(0).shape, w.tolist(), w.numpy().dtype)

# gradients

loss = (y * y).sum() + paddle.exp(y).mean()
loss.backward()
show("backward", loss, y.grad.numpy().round(3), y.is_leaf, loss.stop_gradient)
y.clear_grad()
(g,) = paddle.grad((y**3).sum(), [y])
show("grad", g.numpy(), y.grad.numpy() if y.grad is not None else None)
with paddle.no_grad():
    show("no_grad", (y * 2).stop_gradient)


class Double(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a * 2

    @staticmethod
    def backward(ctx, g):
        (a,) = ctx.saved_tensor()
        return g * 2 + a * 0


y.clear_grad()
Double.apply(y).sum().backward()
show("PyLayer", y.grad.numpy(), y.detach().stop_gradient)

# functions of networks

show(
    "activations",
    F.relu(x),
    F.sigmoid(x),
    F.softmax(x, axis=-1),
    F.log_softmax(x, axis=1),
    F.gelu(x),
    F.silu(x),
    F.leaky_relu(x),
)
label = paddle.to_tensor([0, 2])
show("losses", F.cross_entropy(x, label), F.mse_loss(x, paddle.zeros_like(x)), F.linear(x, paddle.ones([3, 2])))
show(
    "pad",
    F.pad(x.reshape([1, 1, 2, 3]), [1, 1, 0, 0]),
    F.dropout(x, 0.5, training=False),
    F.layer_norm(x, [3]),
    F.embedding(label, paddle.eye(3)),
)
kernel = paddle.ones([1, 1, 2, 2])
image = paddle.arange(16, dtype="float32").reshape([1, 1, 4, 4])
show("images", F.conv2d(image, kernel, stride=2), F.max_pool2d(image, 2), F.avg_pool2d(image, 2))

# a network that learns


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        attr = paddle.ParamAttr(initializer=nn.initializer.Constant(0.1))
        self.body = nn.Sequential(nn.Linear(3, 4, weight_attr=attr), nn.ReLU(), nn.Dropout(0.0))
        self.head = nn.Linear(4, 1, weight_attr=attr, bias_attr=False)

    def forward(self, x):
        return self.head(self.body(x))


net = Net()
show("layers", net, [name for name, _ in net.named_parameters()], sum(p.size for p in net.parameters()))
optimizer = paddle.optimizer.Adam(learning_rate=0.1, parameters=net.parameters())
for _step in range(20):
    loss = F.mse_loss(net(x), paddle.to_tensor([[1.0], [2.0]]))
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
net.eval()
show("learned", loss.item() < 2.0, net(x).shape, net.head.weight.shape, net.head.weight.stop_gradient)
path = os.path.join(tempfile.mkdtemp(), "net.pdparams")
paddle.save(net.state_dict(), path)
other = Net()
other.set_state_dict(paddle.load(path))
other.eval()
show(
    "loaded",
    paddle.equal_all(net(x), other(x)),
    type(paddle.CPUPlace()).__name__,
    paddle.is_compiled_with_cuda() in (True, False),
)
