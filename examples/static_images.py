"""Images through layers of static mode, with statistics: training, a program for tests, files; it prints what real Paddle
prints, with FLAGS_enable_pir_api=0.
"""

import os
import tempfile

import numpy as np
import paddle

static = paddle.static
paddle.enable_static()
rng = np.random.RandomState(0)


def attr(name, *shape):
    values = (rng.randn(*shape) * 0.3).astype("float32")
    return paddle.ParamAttr(name, initializer=paddle.nn.initializer.Assign(values))


def value_of(name):
    return np.array(static.global_scope().find_var(name).get_tensor())


def rounded(array):
    return [f"{x:.3f}" for x in np.asarray(array).ravel()[:4]]


main, startup = static.Program(), static.Program()
with static.program_guard(main, startup):
    image = static.data("image", [-1, 3, -1, -1])
    target = static.data("target", [-1, 1])
    c = static.nn.conv2d(image, 4, 3, stride=2, padding=1, param_attr=attr("conv", 4, 3, 3, 3), bias_attr=False)
    b = static.nn.batch_norm(
        c, momentum=0.8, act="relu", param_attr=paddle.ParamAttr("scale"), bias_attr=paddle.ParamAttr("shift"),
        moving_mean_name="mean", moving_variance_name="variance",
    )  # fmt: skip
    g = static.nn.group_norm(b, 2, param_attr=paddle.ParamAttr("group"), bias_attr=False)
    t = static.nn.conv2d_transpose(g, 2, filter_size=2, stride=2, param_attr=attr("up", 4, 2, 2, 2), bias_attr=False)
    p = static.nn.prelu(t, "channel", param_attr=attr("slope", 1, 2, 1, 1))
    flat = paddle.flatten(paddle.nn.functional.adaptive_avg_pool2d(p, 2), 1)
    flat = paddle.nn.functional.dropout(flat, 0.0)
    out = static.nn.fc(flat, 1, weight_attr=attr("last", 8, 1), bias_attr=False)
    print([list(v.shape) for v in (c, b, t, p, flat, out)])
    loss = paddle.mean(paddle.square(out - target))
    test = main.clone(for_test=True)
    paddle.optimizer.Momentum(0.02, 0.9, grad_clip=paddle.nn.ClipGradByValue(0.2)).minimize(loss)

exe = static.Executor(paddle.CPUPlace())
exe.run(startup)
fixed = {"image": rng.rand(2, 3, 8, 8).astype("float32"), "target": np.ones((2, 1), "float32")}
for n, h, w in ((3, 8, 8), (2, 10, 6), (4, 4, 12)):
    feed = {"image": rng.rand(n, 3, h, w).astype("float32"), "target": rng.rand(n, 1).astype("float32")}
    trained = exe.run(main, feed, [loss])[0]
    tested, shown = exe.run(test, fixed, [loss.name, out.name])
    print(
        f"{float(trained):.4f} {float(tested):.4f}",
        rounded(shown),
        rounded(value_of("mean")),
        rounded(value_of("variance")),
    )

folder = tempfile.mkdtemp()
static.save_inference_model(os.path.join(folder, "model"), [image], [out], exe, program=main)
loaded, inputs, outputs = static.load_inference_model(os.path.join(folder, "model"), exe)
print(
    inputs, [list(v.shape) for v in outputs], np.allclose(exe.run(loaded, {"image": fixed["image"]}, outputs)[0], shown)
)
# one scope has one variable of a name: what is set in it, both programs see
static.global_scope().find_var("last").get_tensor().set(np.zeros((8, 1), "float32"), paddle.CPUPlace())
print([rounded(exe.run(program, fixed, fetched)[0]) for program, fetched in ((test, [out]), (loaded, outputs))])
