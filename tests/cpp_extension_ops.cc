// Operators of tests/test_cpp_extension.py, in the form of Paddle's custom operators.
#include <vector>

#include "paddle/extension.h"

#define CHECK_INPUT(x) PD_CHECK(x.is_cpu(), #x " must be a CPU Tensor.")

// leaky relu: one attribute, a gradient that reads operand and result

template <typename data_t>
void leaky_kernel(const data_t* x, data_t* out, int64_t n, float slope) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] > static_cast<data_t>(0.) ? x[i] : static_cast<data_t>(slope) * x[i];
}

std::vector<paddle::Tensor> LeakyForward(const paddle::Tensor& x, float slope) {
  CHECK_INPUT(x);
  auto out = paddle::empty(x.shape(), x.dtype(), x.place());
  PD_DISPATCH_FLOATING_TYPES(x.type(), "leaky_kernel", ([&] {
                               leaky_kernel<data_t>(x.data<data_t>(), out.data<data_t>(), x.size(), slope);
                             }));
  return {out};
}

std::vector<paddle::Tensor> LeakyBackward(const paddle::Tensor& x, const paddle::Tensor& out, const paddle::Tensor& grad_out,
                                          float slope) {
  auto grad_x = paddle::full(x.shape(), slope, x.dtype(), x.place());
  PD_DISPATCH_FLOATING_TYPES(x.type(), "leaky_backward", ([&] {
                               for (int64_t i = 0; i < x.numel(); ++i) {
                                 data_t factor = out.data<data_t>()[i] > 0 ? data_t(1) : grad_x.data<data_t>()[i];
                                 grad_x.data<data_t>()[i] = factor * grad_out.data<data_t>()[i];
                               }
                             }));
  return {grad_x};
}

std::vector<std::vector<int64_t>> LeakyShape(std::vector<int64_t> x_shape, float) { return {x_shape}; }
std::vector<paddle::DataType> LeakyType(paddle::DataType x_dtype) { return {x_dtype}; }

PD_BUILD_OP(leaky)
    .Inputs({"X"})
    .Outputs({"Out"})
    .Attrs({"slope: float"})
    .SetKernelFn(PD_KERNEL(LeakyForward))
    .SetInferShapeFn(PD_INFER_SHAPE(LeakyShape))
    .SetInferDtypeFn(PD_INFER_DTYPE(LeakyType));

PD_BUILD_GRAD_OP(leaky)
    .Inputs({"X", "Out", paddle::Grad("Out")})
    .Outputs({paddle::Grad("X")})
    .Attrs({"slope: float"})
    .SetKernelFn(PD_KERNEL(LeakyBackward));

// cube: nothing is inferred by hand, and there is a second derivative

std::vector<paddle::Tensor> CubeForward(const paddle::Tensor& x) {
  auto out = paddle::empty_like(x);
  PD_DISPATCH_FLOATING_AND_HALF_TYPES(x.type(), "cube", ([&] {
                                        for (int64_t i = 0; i < x.numel(); ++i) {
                                          float v = static_cast<float>(x.data<data_t>()[i]);
                                          out.data<data_t>()[i] = static_cast<data_t>(v * v * v);
                                        }
                                      }));
  return {out};
}

std::vector<paddle::Tensor> CubeBackward(const paddle::Tensor& x, const paddle::Tensor& g) {
  auto made = paddle::empty_like(x);
  for (int64_t i = 0; i < x.numel(); ++i) {
    float v = x.data<float>()[i];
    made.data<float>()[i] = 3 * v * v * g.data<float>()[i];
  }
  return {made};
}

std::vector<paddle::Tensor> CubeDoubleBackward(const paddle::Tensor& x, const paddle::Tensor& g, const paddle::Tensor& gg) {
  auto of_x = paddle::empty_like(x), of_g = paddle::empty_like(x);
  for (int64_t i = 0; i < x.numel(); ++i) {
    float v = x.data<float>()[i], h = gg.data<float>()[i];
    of_x.data<float>()[i] = 6 * v * g.data<float>()[i] * h;
    of_g.data<float>()[i] = 3 * v * v * h;
  }
  return {of_x, of_g};
}

PD_BUILD_OP(cube).Inputs({"X"}).Outputs({"Out"}).SetKernelFn(PD_KERNEL(CubeForward));
PD_BUILD_GRAD_OP(cube)
    .Inputs({"X", paddle::Grad("Out")})
    .Outputs({paddle::Grad("X")})
    .SetKernelFn(PD_KERNEL(CubeBackward));
PD_BUILD_DOUBLE_GRAD_OP(cube)
    .Inputs({"X", paddle::Grad("Out"), paddle::Grad(paddle::Grad("X"))})
    .Outputs({paddle::Grad("X"), paddle::Grad(paddle::Grad("Out"))})
    .SetKernelFn(PD_KERNEL(CubeDoubleBackward));

// weighted: a list of tensors, one that may be left out, every kind of attribute, two results of other shapes and types

std::vector<paddle::Tensor> WeightedForward(const std::vector<paddle::Tensor>& xs, const paddle::optional<paddle::Tensor>& bias,
                                            const std::vector<float>& weights, const std::vector<int64_t>& more, bool twice,
                                            const std::string& label, int n) {
  auto sum = paddle::zeros(xs[0].shape(), xs[0].type());
  for (size_t k = 0; k < xs.size(); ++k)
    for (int64_t i = 0; i < sum.numel(); ++i) sum.data<float>()[i] += weights[k] * xs[k].data<float>()[i] * (twice ? 2 : 1);
  if (bias)
    for (int64_t i = 0; i < sum.numel(); ++i) sum.data<float>()[i] += bias->data<float>()[0];
  auto told = paddle::full({static_cast<int64_t>(more.size()) + 1}, n, paddle::DataType::INT64);
  for (size_t i = 0; i < more.size(); ++i) told.data<int64_t>()[i] = more[i];
  told.data<int64_t>()[more.size()] += static_cast<int64_t>(label.size());
  return {sum, told};
}

std::vector<paddle::Tensor> WeightedBackward(const std::vector<paddle::Tensor>& xs, const paddle::Tensor& g,
                                             const std::vector<float>& weights, bool twice) {
  std::vector<paddle::Tensor> made;
  for (size_t k = 0; k < xs.size(); ++k) {
    auto one = paddle::empty_like(xs[k]);
    for (int64_t i = 0; i < one.numel(); ++i) one.data<float>()[i] = weights[k] * (twice ? 2 : 1) * g.data<float>()[i];
    made.push_back(one);
  }
  return made;
}

std::vector<std::vector<int64_t>> WeightedShape(const std::vector<std::vector<int64_t>>& xs,
                                                const paddle::optional<std::vector<int64_t>>&, const std::vector<float>& weights,
                                                const std::vector<int64_t>& more) {
  PD_CHECK(weights.size() == xs.size(), "a weight for each tensor");
  return {xs[0], {static_cast<int64_t>(more.size()) + 1}};
}

std::vector<paddle::DataType> WeightedType(const std::vector<paddle::DataType>& xs, const paddle::optional<paddle::DataType>&) {
  return {xs[0], paddle::DataType::INT64};
}

PD_BUILD_OP(weighted)
    .Inputs({paddle::Vec("Xs"), paddle::Optional("Bias")})
    .Outputs({"Sum", "Told"})
    .Attrs({"weights: std::vector<float>", "more: std::vector<int64_t>", "twice: bool", "label: std::string", "n: int"})
    .SetKernelFn(PD_KERNEL(WeightedForward))
    .SetInferShapeFn(PD_INFER_SHAPE(WeightedShape))
    .SetInferDtypeFn(PD_INFER_DTYPE(WeightedType));

PD_BUILD_GRAD_OP(weighted)
    .Inputs({paddle::Vec("Xs"), paddle::Grad("Sum")})
    .Outputs({paddle::Grad(paddle::Vec("Xs"))})
    .Attrs({"weights: std::vector<float>", "twice: bool"})
    .SetKernelFn(PD_KERNEL(WeightedBackward));

// identity in all types, without a gradient

std::vector<paddle::Tensor> Same(const paddle::Tensor& x) { return {x.copy_to(paddle::CPUPlace())}; }
PD_BUILD_OP(same).Inputs({"X"}).Outputs({"Out"}).SetKernelFn(PD_KERNEL(Same));

// what it returns is not what it infers

std::vector<paddle::Tensor> Wrong(const paddle::Tensor&) { return {paddle::ones({7})}; }
PD_BUILD_OP(wrong).Inputs({"X"}).Outputs({"Out"}).SetKernelFn(PD_KERNEL(Wrong));
