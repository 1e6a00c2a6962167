// Operators of tests/test_cpp_extension.py and tests/test_gpu.py with kernels in CUDA, in the form of Paddle's custom operators.
#include <vector>

#include "paddle/extension.h"

#ifdef __CUDACC__
template <typename data_t>
__global__ void ScaledKernel(const data_t* x, data_t* out, int64_t n, float factor) {
  int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = static_cast<data_t>(static_cast<float>(x[i]) * factor);
}
#endif

// out = factor * x, on the place of x
paddle::Tensor Scaled(const paddle::Tensor& x, float factor) {
  auto out = paddle::empty_like(x);
  PD_DISPATCH_FLOATING_AND_HALF_TYPES(x.type(), "scaled", ([&] {
    if (x.is_cpu()) {
      for (int64_t i = 0; i < x.numel(); ++i)
        out.data<data_t>()[i] = static_cast<data_t>(static_cast<float>(x.data<data_t>()[i]) * factor);
      return;
    }
#ifdef __CUDACC__
    if (x.numel() > 0)
      ScaledKernel<data_t><<<(x.numel() + 255) / 256, 256, 0, x.stream()>>>(x.data<data_t>(), out.data<data_t>(), x.numel(), factor);
#else
    PD_THROW("no kernel for tensors on ", x.stream());
#endif
  }));
  return out;
}

std::vector<paddle::Tensor> ScaledForward(const paddle::Tensor& x, float factor) { return {Scaled(x, factor)}; }
std::vector<paddle::Tensor> ScaledBackward(const paddle::Tensor& grad_out, float factor) { return {Scaled(grad_out, factor)}; }

PD_BUILD_OP(scaled_on_gpu).Inputs({"X"}).Outputs({"Out"}).Attrs({"factor: float"}).SetKernelFn(PD_KERNEL(ScaledForward));
PD_BUILD_GRAD_OP(scaled_on_gpu)
    .Inputs({paddle::Grad("Out")})
    .Outputs({paddle::Grad("X")})
    .Attrs({"factor: float"})
    .SetKernelFn(PD_KERNEL(ScaledBackward));

// on which place a kernel was called, and tensors that it makes there: 1 on a GPU, else 0
std::vector<paddle::Tensor> OnGpu(const paddle::Tensor& x) {
  auto made = paddle::full(x.shape(), x.is_gpu() ? 1 : 0, x.type(), x.place());
  auto host = made.copy_to(paddle::CPUPlace());
  PD_CHECK(host.is_cpu() && made.is_gpu() == x.is_gpu(), "a copy lies where it was asked for");
  return {host.copy_to(x.place())};
}
PD_BUILD_OP(on_gpu).Inputs({"X"}).Outputs({"Out"}).SetKernelFn(PD_KERNEL(OnGpu));
