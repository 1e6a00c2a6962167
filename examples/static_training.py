"""A training script in the style of Paddle's documentation of static mode; it prints what real Paddle prints."""

import numpy as np
import paddle

paddle.enable_static()

main_program = paddle.static.Program()
startup_program = paddle.static.Program()
rng = np.random.RandomState(0)
weights = {name: rng.uniform(-0.5, 0.5, size).astype("float32") for name, size in (("w1", [4, 8]), ("w2", [8, 3]))}


def attr(name):
    return paddle.ParamAttr(initializer=paddle.nn.initializer.Assign(weights[name]))


with paddle.static.program_guard(main_program, startup_program):
    x = paddle.static.data(name="x", shape=[None, 4], dtype="float32")
    label = paddle.static.data(name="label", shape=[None, 1], dtype="int64")
    print(list(x.shape), list(label.shape), x.dtype == paddle.float32)
    hidden = paddle.static.nn.fc(x, 8, weight_attr=attr("w1"), activation="relu")
    logits = paddle.static.nn.fc(hidden, 3, weight_attr=attr("w2"))
    print(list(hidden.shape), list(logits.shape))
    loss = paddle.nn.functional.cross_entropy(logits, label)
    accuracy = paddle.static.accuracy(paddle.nn.functional.softmax(logits), label)
    test_program = main_program.clone(for_test=True)
    optimizer = paddle.optimizer.Adam(learning_rate=0.05)
    optimizer.minimize(loss)

exe = paddle.static.Executor(paddle.CPUPlace())
exe.run(startup_program)

data = rng.uniform(-1, 1, [48, 4]).astype("float32")
classes = data[:, :3].argmax(1).reshape(-1, 1).astype("int64")
for epoch in range(5):
    for start in range(0, 48, 16):
        feed = {"x": data[start : start + 16], "label": classes[start : start + 16]}
        loss_value, accuracy_value = exe.run(main_program, feed=feed, fetch_list=[loss, accuracy])
    print(f"epoch {epoch}, loss {float(loss_value):.4f}, accuracy {float(accuracy_value):.4f}")

loss_value, accuracy_value, predicted = exe.run(
    test_program, feed={"x": data, "label": classes}, fetch_list=[loss, accuracy, logits]
)
print(f"test loss {float(loss_value):.4f}, accuracy {float(accuracy_value):.4f}")
print(predicted.shape, predicted.dtype, predicted.argmax(1)[:10].tolist())
