"""An inference script in the style of Paddle's documentation of static mode; it prints what real Paddle prints."""

import os
import tempfile

import numpy as np
import paddle

paddle.enable_static()
folder = tempfile.mkdtemp()
path_prefix = os.path.join(folder, "infer_model")

startup_prog = paddle.static.default_startup_program()
image = paddle.static.data(name="img", shape=[None, 64, 4])
w = paddle.create_parameter(shape=[256, 10], dtype="float32", default_initializer=paddle.nn.initializer.Constant(0.01))
b = paddle.create_parameter(
    shape=[10], dtype="float32", default_initializer=paddle.nn.initializer.Assign(np.arange(10.0))
)
hidden_w = paddle.matmul(x=paddle.flatten(image, start_axis=1), y=w)
hidden_b = paddle.nn.functional.dropout(paddle.add(hidden_w, b), 0.5)
exe = paddle.static.Executor(paddle.CPUPlace())
exe.run(startup_prog)

paddle.static.save_inference_model(path_prefix, [image], [hidden_b], exe)
print(os.path.exists(path_prefix + ".json"))

paddle.disable_static()
print(paddle.in_dynamic_mode())
paddle.enable_static()

inference_program, feed_target_names, fetch_targets = paddle.static.load_inference_model(path_prefix, exe)
print(feed_target_names, [list(target.shape) for target in fetch_targets])
for batch in (1, 3):
    tensor_img = (np.arange(batch * 256).reshape(batch, 64, 4) / 256).astype("float32")
    results = exe.run(inference_program, feed={feed_target_names[0]: tensor_img}, fetch_list=fetch_targets)
    print(len(results), results[0].shape, results[0].dtype)
    print([f"{value:.3f}" for value in results[0][-1]])

scope = paddle.static.Scope()
with paddle.static.scope_guard(scope):
    program, names, targets = paddle.static.load_inference_model(path_prefix, exe)
    (again,) = exe.run(program, feed={names[0]: tensor_img}, fetch_list=targets)
    print(np.array_equal(again, results[0]))

try:
    exe.run(inference_program, feed={"img": np.ones([1, 64, 5], "float32")}, fetch_list=fetch_targets)
except ValueError:
    print("a wrong shape is refused")


def fib(limit):
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        n = paddle.static.data(name="n", shape=[1], dtype="int64")
        a, b, i = paddle.zeros([1], "int64"), paddle.ones([1], "int64"), paddle.zeros([1], "int64")
        out = paddle.static.nn.while_loop(lambda i, a, b: i < n, lambda i, a, b: [i + 1, b, a + b], [i, a, b])
        even = paddle.static.nn.cond(out[1] % 2 == 0, lambda: paddle.full([1], 1.0), lambda: paddle.full([1], 0.0))
        return exe.run(feed={"n": np.array([limit], "int64")}, fetch_list=[out[1], even])


for limit in (5, 9, 10):
    print(limit, [value.tolist() for value in fib(limit)])
