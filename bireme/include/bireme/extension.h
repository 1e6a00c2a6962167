// Operators in C++ for Bireme, in the form of Paddle's custom operators: tensors on the host, PD_BUILD_OP and its kin.
//
// A library of operators exports four functions of C: bireme_describe, bireme_infer, bireme_run, and bireme_ffi, which
// compiled programs call through XLA's foreign function interface. All of them may be called from several threads at once.
// Libraries with sources in CUDA are compiled with PADDLE_WITH_CUDA, and export bireme_ffi_cuda, too: programs for a GPU call
// it with tensors that lie there, and a kernel launches on x.stream().
#pragma once

#include <complex>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#ifdef PADDLE_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

#include "xla/ffi/api/c_api.h"

// Arithmetic of half precision is called in kernels on a GPU, too.
#ifdef __CUDACC__
#define BIREME_BOTH __host__ __device__
#else
#define BIREME_BOTH
#endif

// Hidden, so that two libraries in one process keep their registries apart.
#define BIREME_LOCAL __attribute__((visibility("hidden")))
#define BIREME_EXPORT extern "C" __attribute__((visibility("default"), weak, used))

namespace paddle BIREME_LOCAL {

template <typename T>
using optional = std::optional<T>;
inline constexpr std::nullopt_t none = std::nullopt;

// ---------------------------------------------------------------- data types

struct bfloat16 {
  uint16_t x = 0;
  bfloat16() = default;
  BIREME_BOTH bfloat16(float value) {  // NOLINT: arithmetic on it goes through float
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    x = nan ? static_cast<uint16_t>((bits >> 16) | 0x40u) : static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  }
  BIREME_BOTH operator float() const {
    uint32_t bits = static_cast<uint32_t>(x) << 16;
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
  }
};

struct float16 {
  uint16_t x = 0;
  float16() = default;
  BIREME_BOTH float16(float value) {  // NOLINT: the same
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    uint32_t sign = (bits >> 16) & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) {
      x = static_cast<uint16_t>(sign | 0x7e00u);
    } else if (rest >= 0x477ff000u) {  // what rounds to 65536 and more
      x = static_cast<uint16_t>(sign | 0x7c00u);
    } else if (rest < 0x38800000u) {  // subnormal: adding 0.5 leaves the rounded significand in the lowest bits
      float shifted;
      std::memcpy(&shifted, &rest, 4);
      shifted += 0.5f;
      uint32_t low;
      std::memcpy(&low, &shifted, 4);
      x = static_cast<uint16_t>(sign | (low - 0x3f000000u));
    } else {
      x = static_cast<uint16_t>(sign | ((rest - 0x38000000u + 0xfffu + ((rest >> 13) & 1u)) >> 13));
    }
  }
  BIREME_BOTH operator float() const {
    uint32_t sign = static_cast<uint32_t>(x & 0x8000u) << 16, rest = x & 0x7fffu;
    float value;
    if (rest < 0x400u) {
      value = static_cast<float>(rest) * 0x1p-24f;
    } else {
      uint32_t bits = rest >= 0x7c00u ? (0x7f800000u | ((rest & 0x3ffu) << 13)) : ((rest << 13) + 0x38000000u);
      std::memcpy(&value, &bits, 4);
    }
    return sign ? -value : value;
  }
};

using complex64 = std::complex<float>;
using complex128 = std::complex<double>;

enum class DataType { UNDEFINED, BOOL, UINT8, INT8, INT16, INT32, INT64, FLOAT16, BFLOAT16, FLOAT32, FLOAT64, COMPLEX64, COMPLEX128 };

namespace bireme {

struct Kind {
  DataType type;
  const char* name;
  size_t size;
  XLA_FFI_DataType xla;
};

inline constexpr Kind kKinds[] = {
    {DataType::BOOL, "bool", 1, XLA_FFI_DataType_PRED},         {DataType::UINT8, "uint8", 1, XLA_FFI_DataType_U8},
    {DataType::INT8, "int8", 1, XLA_FFI_DataType_S8},           {DataType::INT16, "int16", 2, XLA_FFI_DataType_S16},
    {DataType::INT32, "int32", 4, XLA_FFI_DataType_S32},        {DataType::INT64, "int64", 8, XLA_FFI_DataType_S64},
    {DataType::FLOAT16, "float16", 2, XLA_FFI_DataType_F16},    {DataType::BFLOAT16, "bfloat16", 2, XLA_FFI_DataType_BF16},
    {DataType::FLOAT32, "float32", 4, XLA_FFI_DataType_F32},    {DataType::FLOAT64, "float64", 8, XLA_FFI_DataType_F64},
    {DataType::COMPLEX64, "complex64", 8, XLA_FFI_DataType_C64}, {DataType::COMPLEX128, "complex128", 16, XLA_FFI_DataType_C128},
};

template <typename Test>
const Kind& KindWhere(Test test) {
  for (const Kind& kind : kKinds)
    if (test(kind)) return kind;
  throw std::runtime_error("a data type that operators in C++ do not take");
}
inline const Kind& KindOf(DataType type) {
  return KindWhere([&](const Kind& kind) { return kind.type == type; });
}

template <typename T>
struct TypeOf;
#define BIREME_TYPE(T, name) \
  template <>                \
  struct TypeOf<T> {         \
    static constexpr DataType value = DataType::name; \
  };
BIREME_TYPE(bool, BOOL)
BIREME_TYPE(uint8_t, UINT8)
BIREME_TYPE(int8_t, INT8)
BIREME_TYPE(int16_t, INT16)
BIREME_TYPE(int32_t, INT32)
BIREME_TYPE(int64_t, INT64)
BIREME_TYPE(float16, FLOAT16)
BIREME_TYPE(bfloat16, BFLOAT16)
BIREME_TYPE(float, FLOAT32)
BIREME_TYPE(double, FLOAT64)
BIREME_TYPE(complex64, COMPLEX64)
BIREME_TYPE(complex128, COMPLEX128)
#undef BIREME_TYPE

// A part of a message. Texts and numbers do without a stream: in a process that has a second copy of the C++ library, as XLA's
// for GPUs, the first use of one may end it.
template <typename Part>
std::string Told(const Part& part) {
  if constexpr (std::is_convertible_v<const Part&, std::string>) {
    return part;
  } else if constexpr (std::is_same_v<Part, char>) {
    return std::string(1, part);
  } else if constexpr (std::is_integral_v<Part>) {
    return std::to_string(part);
  } else if constexpr (std::is_floating_point_v<Part>) {
    char text[32];
    std::snprintf(text, sizeof(text), "%g", static_cast<double>(part));
    return text;
  } else {
    std::ostringstream text;
    text << part;
    return text.str();
  }
}
template <typename... Parts>
[[noreturn]] void Throw(const char* file, int line, const Parts&... parts) {
  throw std::runtime_error((std::string() + ... + Told(parts)) + " [" + file + ":" + std::to_string(line) + "]");
}

}  // namespace bireme

#define PD_THROW(...) ::paddle::bireme::Throw(__FILE__, __LINE__, ##__VA_ARGS__)
#define PD_CHECK(condition, ...)                                                             \
  do {                                                                                       \
    if (!(condition)) ::paddle::bireme::Throw(__FILE__, __LINE__, "expected " #condition ". ", ##__VA_ARGS__); \
  } while (0)

// ---------------------------------------------------------------- places: that of the tensors that a kernel is called with

enum class PlaceType { kUNK, kCPU, kGPU };

struct Place {
  PlaceType type = PlaceType::kCPU;
  Place() = default;
  Place(PlaceType given) : type(given) {}  // NOLINT: Paddle's older sources pass the type
  PlaceType GetType() const { return type; }
  bool operator==(const Place& other) const { return type == other.type; }
  bool operator!=(const Place& other) const { return type != other.type; }
};
struct CPUPlace : Place {};
struct GPUPlace : Place {
  GPUPlace() : Place(PlaceType::kGPU) {}
  explicit GPUPlace(int) : GPUPlace() {}
};

namespace bireme {

// The call on a GPU that this thread runs, if it runs one.
struct OnGpu {
  const XLA_FFI_Api* api = nullptr;
  XLA_FFI_ExecutionContext* context = nullptr;
  void* stream = nullptr;
};
inline OnGpu& Current() {
  static thread_local OnGpu current;
  return current;
}
// What an error says; the error is gone then.
inline std::string MessageOf(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
#if XLA_FFI_API_MAJOR == 0 && XLA_FFI_API_MINOR < 4
  XLA_FFI_Error_GetMessage_Args told{};
  told.struct_size = XLA_FFI_Error_GetMessage_Args_STRUCT_SIZE;
  told.error = error;
  api->XLA_FFI_Error_GetMessage(&told);
#else  // jax 0.11 asks for the code of the error as well, under another name
  XLA_FFI_Error_GetDetails_Args told{};
  told.struct_size = XLA_FFI_Error_GetDetails_Args_STRUCT_SIZE;
  told.error = error;
  api->XLA_FFI_Error_GetDetails(&told);
#endif
  std::string message = told.message;
  XLA_FFI_Error_Destroy_Args gone{};
  gone.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
  gone.error = error;
  api->XLA_FFI_Error_Destroy(&gone);
  return message;
}

// Memory of XLA's own allocator. It may be used again as soon as it is freed: by what the same stream runs later.
inline std::shared_ptr<void> OnDevice(size_t size) {
  OnGpu here = Current();
  if (here.api == nullptr) throw std::runtime_error("a tensor on the GPU is made in a call on the host");
  XLA_FFI_DeviceMemory_Allocate_Args args{};
  args.struct_size = XLA_FFI_DeviceMemory_Allocate_Args_STRUCT_SIZE;
  args.ctx = here.context;
  args.size = size;
  args.alignment = 1;
  if (XLA_FFI_Error* error = here.api->XLA_FFI_DeviceMemory_Allocate(&args)) throw std::runtime_error(MessageOf(here.api, error));
  return std::shared_ptr<void>(args.data, [here, size](void* data) {
    XLA_FFI_DeviceMemory_Free_Args freed{};
    freed.struct_size = XLA_FFI_DeviceMemory_Free_Args_STRUCT_SIZE;
    freed.ctx = here.context;
    freed.size = size;
    freed.data = data;
    if (XLA_FFI_Error* error = here.api->XLA_FFI_DeviceMemory_Free(&freed)) MessageOf(here.api, error);
  });
}

// Bytes from one place to another. What comes to the host is there when this returns.
inline void Copy(void* to, const Place& there, const void* from, const Place& here, size_t size) {
  if (to == from || size == 0) return;
#ifdef PADDLE_WITH_CUDA
  if (there.type == PlaceType::kGPU || here.type == PlaceType::kGPU) {
    auto stream = static_cast<cudaStream_t>(Current().stream);
    cudaError_t found = cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, stream);
    if (found == cudaSuccess && there.type != PlaceType::kGPU) found = cudaStreamSynchronize(stream);
    if (found != cudaSuccess) throw std::runtime_error(cudaGetErrorString(found));
    return;
  }
#endif
  std::memcpy(to, from, size);
}

}  // namespace bireme

// ---------------------------------------------------------------- tensors

class Tensor {
 public:
  Tensor() = default;
  // Without a type: the first mutable_data<T>() gives it one.
  Tensor(const Place& place, const std::vector<int64_t>& shape) : shape_(shape), place_(Known(place)) {}
  Tensor(const std::vector<int64_t>& shape, DataType type, const Place& place = CPUPlace())
      : shape_(shape), type_(type), place_(Known(place)) {
    Allocate();
  }
  // Of memory that somebody else owns.
  Tensor(void* data, std::vector<int64_t> shape, DataType type, const Place& place = CPUPlace())
      : shape_(std::move(shape)), type_(type), place_(place), data_(data, [](void*) {}) {}

  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t numel() const {
    int64_t count = 1;
    for (int64_t n : shape_) count *= n;
    return count;
  }
  int64_t size() const { return numel(); }
  DataType type() const { return type_; }
  DataType dtype() const { return type_; }
  Place place() const { return place_; }
  bool is_cpu() const { return place_.type == PlaceType::kCPU; }
  bool is_gpu() const { return place_.type == PlaceType::kGPU; }
#ifdef PADDLE_WITH_CUDA
  // That of the program which calls the kernel.
  cudaStream_t stream() const { return static_cast<cudaStream_t>(bireme::Current().stream); }
#endif
  bool defined() const { return data_ != nullptr; }
  bool initialized() const { return data_ != nullptr; }
  bool is_initialized() const { return data_ != nullptr; }
  explicit operator bool() const { return data_ != nullptr; }

  template <typename T>
  T* data() const {
    using Plain = std::remove_const_t<T>;
    if (type_ != bireme::TypeOf<Plain>::value) {
      const char* have = data_ == nullptr ? "no type yet" : bireme::KindOf(type_).name;
      throw std::runtime_error(std::string("data<") + bireme::KindOf(bireme::TypeOf<Plain>::value).name + ">() of a tensor of " + have);
    }
    return static_cast<T*>(data_.get());
  }
  void* data() const { return data_.get(); }
  template <typename T>
  T* mutable_data() {
    if (data_ == nullptr) {
      type_ = bireme::TypeOf<T>::value;
      Allocate();
    }
    return data<T>();
  }
  template <typename T>
  T* mutable_data(const Place& place) {
    if (data_ == nullptr) place_ = Known(place);
    return mutable_data<T>();
  }
  void reshape(const std::vector<int64_t>& shape) {
    int64_t before = numel();
    shape_ = shape;
    PD_CHECK(data_ == nullptr || numel() == before, "reshape to another number of elements");
  }
  Tensor copy_to(const Place& place, bool = false) const {
    Tensor made(shape_, type_, place);
    bireme::Copy(made.data(), made.place(), data(), place_, nbytes());
    return made;
  }
  template <typename T>
  Tensor copy_to(const Place& place) const {
    return copy_to(place);
  }
  size_t nbytes() const { return static_cast<size_t>(numel()) * bireme::KindOf(type_).size; }

 private:
  // A place that is not said is the host.
  static Place Known(const Place& place) { return place.type == PlaceType::kGPU ? place : CPUPlace(); }
  void Allocate() {
    // one byte at least: a pointer says that there is data, even of no element
    if (is_gpu()) {
      data_ = bireme::OnDevice(nbytes() + 1);
      return;
    }
    data_ = std::shared_ptr<void>(::operator new(nbytes() + 1), [](void* p) { ::operator delete(p); });
  }

  std::vector<int64_t> shape_;
  DataType type_ = DataType::UNDEFINED;
  Place place_;
  std::shared_ptr<void> data_;
};

// ---------------------------------------------------------------- dispatch

#define BIREME_CASE(name, T, ...) \
  case ::paddle::DataType::name: { \
    using data_t = T;              \
    __VA_ARGS__();                 \
    break;                         \
  }
#define BIREME_FLOATING(...) BIREME_CASE(FLOAT32, float, __VA_ARGS__) BIREME_CASE(FLOAT64, double, __VA_ARGS__)
#define BIREME_HALF(...) \
  BIREME_CASE(FLOAT16, ::paddle::float16, __VA_ARGS__) BIREME_CASE(BFLOAT16, ::paddle::bfloat16, __VA_ARGS__)
#define BIREME_INTEGRAL(...)                                                        \
  BIREME_CASE(INT32, int32_t, __VA_ARGS__) BIREME_CASE(INT64, int64_t, __VA_ARGS__) \
  BIREME_CASE(INT8, int8_t, __VA_ARGS__) BIREME_CASE(UINT8, uint8_t, __VA_ARGS__) BIREME_CASE(INT16, int16_t, __VA_ARGS__)
#define BIREME_COMPLEX(...) \
  BIREME_CASE(COMPLEX64, ::paddle::complex64, __VA_ARGS__) BIREME_CASE(COMPLEX128, ::paddle::complex128, __VA_ARGS__)
#define BIREME_DISPATCH(TYPE, NAME, CASES)                                                       \
  [&] {                                                                                          \
    const ::paddle::DataType bireme_type = TYPE;                                                 \
    switch (bireme_type) {                                                                       \
      CASES                                                                                      \
      default:                                                                                   \
        PD_THROW(NAME, " is not there for ", ::paddle::bireme::KindOf(bireme_type).name);        \
    }                                                                                            \
  }()
#define PD_DISPATCH_FLOATING_TYPES(TYPE, NAME, ...) BIREME_DISPATCH(TYPE, NAME, BIREME_FLOATING(__VA_ARGS__))
#define PD_DISPATCH_FLOATING_AND_HALF_TYPES(TYPE, NAME, ...) \
  BIREME_DISPATCH(TYPE, NAME, BIREME_FLOATING(__VA_ARGS__) BIREME_HALF(__VA_ARGS__))
#define PD_DISPATCH_INTEGRAL_TYPES(TYPE, NAME, ...) BIREME_DISPATCH(TYPE, NAME, BIREME_INTEGRAL(__VA_ARGS__))
#define PD_DISPATCH_COMPLEX_TYPES(TYPE, NAME, ...) BIREME_DISPATCH(TYPE, NAME, BIREME_COMPLEX(__VA_ARGS__))
#define PD_DISPATCH_FLOATING_AND_INTEGRAL_TYPES(TYPE, NAME, ...) \
  BIREME_DISPATCH(TYPE, NAME, BIREME_FLOATING(__VA_ARGS__) BIREME_INTEGRAL(__VA_ARGS__))
#define PD_DISPATCH_FLOATING_AND_COMPLEX_TYPES(TYPE, NAME, ...) \
  BIREME_DISPATCH(TYPE, NAME, BIREME_FLOATING(__VA_ARGS__) BIREME_COMPLEX(__VA_ARGS__))
#define PD_DISPATCH_FLOATING_AND_INTEGRAL_AND_COMPLEX_TYPES(TYPE, NAME, ...) \
  BIREME_DISPATCH(TYPE, NAME, BIREME_FLOATING(__VA_ARGS__) BIREME_INTEGRAL(__VA_ARGS__) BIREME_COMPLEX(__VA_ARGS__))

// ---------------------------------------------------------------- making tensors

inline Tensor empty(const std::vector<int64_t>& shape, DataType type = DataType::FLOAT32, const Place& place = CPUPlace()) {
  return Tensor(shape, type, place);
}
inline Tensor full(const std::vector<int64_t>& shape, double value, DataType type = DataType::FLOAT32, const Place& place = CPUPlace()) {
  if (place.type == PlaceType::kGPU) return full(shape, value, type).copy_to(place);
  Tensor made(shape, type);
  int64_t count = made.numel();
  auto fill = [&](auto* data) {
    using T = std::remove_pointer_t<decltype(data)>;
    T one;
    if constexpr (std::is_arithmetic_v<T>) {
      one = static_cast<T>(value);
    } else if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
      one = T(static_cast<float>(value));
    } else {
      one = T(static_cast<typename T::value_type>(value));
    }
    for (int64_t i = 0; i < count; ++i) data[i] = one;
  };
  if (type == DataType::BOOL) {
    fill(made.data<bool>());
    return made;
  }
  BIREME_DISPATCH(type, "full", BIREME_FLOATING([&] { fill(made.data<data_t>()); }) BIREME_HALF([&] { fill(made.data<data_t>()); })
                                    BIREME_INTEGRAL([&] { fill(made.data<data_t>()); }) BIREME_COMPLEX([&] { fill(made.data<data_t>()); }));
  return made;
}
inline Tensor zeros(const std::vector<int64_t>& shape, DataType type = DataType::FLOAT32, const Place& place = CPUPlace()) {
  return full(shape, 0, type, place);
}
inline Tensor ones(const std::vector<int64_t>& shape, DataType type = DataType::FLOAT32, const Place& place = CPUPlace()) {
  return full(shape, 1, type, place);
}
// Where no place is said, that of the tensor.
inline Tensor empty_like(const Tensor& x, DataType type = DataType::UNDEFINED, const Place& place = PlaceType::kUNK) {
  return Tensor(x.shape(), type == DataType::UNDEFINED ? x.type() : type, place.type == PlaceType::kUNK ? x.place() : place);
}
inline Tensor full_like(const Tensor& x, double value, DataType type = DataType::UNDEFINED, const Place& place = PlaceType::kUNK) {
  return full(x.shape(), value, type == DataType::UNDEFINED ? x.type() : type, place.type == PlaceType::kUNK ? x.place() : place);
}
inline Tensor zeros_like(const Tensor& x, DataType type = DataType::UNDEFINED, const Place& place = PlaceType::kUNK) {
  return full_like(x, 0, type, place);
}
inline Tensor ones_like(const Tensor& x, DataType type = DataType::UNDEFINED, const Place& place = PlaceType::kUNK) {
  return full_like(x, 1, type, place);
}

// ---------------------------------------------------------------- names of inputs and outputs

inline std::string Grad(const std::string& name) { return name + "@GRAD"; }
inline std::string Vec(const std::string& name) { return name + "@VECTOR"; }
inline std::string Optional(const std::string& name) { return name + "@OPTIONAL"; }

namespace bireme {

// ---------------------------------------------------------------- one call: operands, and attributes as text

// Items of "length:bytes", read from front to back: see `packed` in the Python module that writes them.
class Items {
 public:
  Items(const char* text, size_t size) : at_(text), end_(text + size) {}
  std::string Next() {
    size_t size = 0;
    while (at_ < end_ && *at_ != ':') size = size * 10 + static_cast<size_t>(*at_++ - '0');
    if (at_ >= end_ || size > static_cast<size_t>(end_ - at_ - 1)) throw std::runtime_error("a call that ends too early");
    std::string item(at_ + 1, size);
    at_ += size + 1;
    return item;
  }
  int64_t Integer() { return std::stoll(Next()); }

 private:
  const char *at_, *end_;
};

// What an input is given as: itself, or -1 for none, or the length of a list.
struct Group {
  bool single;
  int64_t count;
};

struct Call {
  std::vector<Group> layout;
  std::vector<Tensor> tensors;  // all inputs one after another; to infer, tensors without data
  Items attrs;
  size_t group = 0, tensor = 0;  // what was taken already
  bool HasInput() const { return group < layout.size(); }
};

template <typename T>
struct Attribute;
template <typename T>
T ReadOne(Items& items) {
  if constexpr (std::is_same_v<T, std::string>) {
    return items.Next();
  } else if constexpr (std::is_floating_point_v<T>) {  // the bits of a double: digits would depend on the locale
    uint64_t bits = std::stoull(items.Next());
    double value;
    std::memcpy(&value, &bits, 8);
    return static_cast<T>(value);
  } else {
    return static_cast<T>(items.Integer());
  }
}
template <typename T>
struct Attribute {
  static T Read(Items& items) {
    items.Integer();
    return ReadOne<T>(items);
  }
};
template <typename T>
struct Attribute<std::vector<T>> {
  static std::vector<T> Read(Items& items) {
    int64_t count = items.Integer();
    std::vector<T> made;
    for (int64_t i = 0; i < count; ++i) made.push_back(ReadOne<T>(items));
    return made;
  }
};

// What a function is given for an input is `Of(tensor)`: the tensor, its shape or its type.
template <typename T>
struct Input {
  static constexpr bool is = false;
};
template <>
struct Input<Tensor> {
  static constexpr bool is = true;
  static Tensor Of(const Tensor& x) { return x; }
};
template <>
struct Input<std::vector<int64_t>> {
  static constexpr bool is = true;
  static std::vector<int64_t> Of(const Tensor& x) { return x.shape(); }
};
template <>
struct Input<DataType> {
  static constexpr bool is = true;
  static DataType Of(const Tensor& x) { return x.type(); }
};

inline Group TakeGroup(Call& call) {
  if (!call.HasInput()) throw std::runtime_error("the kernel takes more tensors than Inputs() lists");
  return call.layout[call.group++];
}

template <typename T>
struct Take {
  static T From(Call& call) {
    if constexpr (Input<T>::is) {
      // a list of integers behind all inputs is an attribute
      if constexpr (std::is_same_v<T, std::vector<int64_t>>)
        if (!call.HasInput()) return Attribute<T>::Read(call.attrs);
      if (TakeGroup(call).count != 1) throw std::runtime_error("an input is given that the kernel takes as one tensor");
      return Input<T>::Of(call.tensors[call.tensor++]);
    } else {
      return Attribute<T>::Read(call.attrs);
    }
  }
};
template <typename T>
struct Take<std::optional<T>> {
  static std::optional<T> From(Call& call) {
    if (TakeGroup(call).count < 0) return std::nullopt;
    return Input<T>::Of(call.tensors[call.tensor++]);
  }
};
template <typename T>
struct Take<std::vector<T>> {
  static std::vector<T> From(Call& call) {
    if constexpr (Input<std::vector<T>>::is) {
      if (!call.HasInput()) return Attribute<std::vector<T>>::Read(call.attrs);
      if (TakeGroup(call).count != 1) throw std::runtime_error("an input is given that the function takes as one tensor");
      return Input<std::vector<T>>::Of(call.tensors[call.tensor++]);
    } else if constexpr (Input<T>::is) {
      std::vector<T> made;
      int64_t count = TakeGroup(call).count;
      for (int64_t i = 0; i < count; ++i) made.push_back(Input<T>::Of(call.tensors[call.tensor++]));
      return made;
    } else {
      return Attribute<std::vector<T>>::Read(call.attrs);
    }
  }
};

template <typename Result, typename... Args>
std::function<Result(Call&)> Wrapped(Result (*function)(Args...)) {
  static_assert((!(std::is_lvalue_reference_v<Args> && !std::is_const_v<std::remove_reference_t<Args>>) && ...),
                "operators cannot change their inputs: take const paddle::Tensor& and return what is new");
  return [function](Call& call) {
    // braces: the arguments are taken from left to right
    std::tuple<std::decay_t<Args>...> args{Take<std::decay_t<Args>>::From(call)...};
    return std::apply(function, args);
  };
}

struct Operator {
  std::string name;
  int order = 0;  // 0 the operator, 1 its gradient, 2 the gradient of that
  std::vector<std::string> inputs, outputs, attrs;
  bool writes = false;
  std::function<std::vector<Tensor>(Call&)> kernel;
  std::function<std::vector<std::vector<int64_t>>(Call&)> shape;
  std::function<std::vector<DataType>(Call&)> type;
};

BIREME_LOCAL inline std::vector<Operator>& Registry() {
  static std::vector<Operator> made;
  return made;
}

}  // namespace bireme

// ---------------------------------------------------------------- declaring

class OpMetaInfoBuilder {
 public:
  OpMetaInfoBuilder(std::string name, int order) : at_(bireme::Registry().size()) {
    bireme::Registry().emplace_back();
    op().name = std::move(name);
    op().order = order;
  }
  OpMetaInfoBuilder& Inputs(std::vector<std::string> names) {
    op().inputs = std::move(names);
    return *this;
  }
  OpMetaInfoBuilder& Outputs(std::vector<std::string> names) {
    op().outputs = std::move(names);
    return *this;
  }
  OpMetaInfoBuilder& Attrs(std::vector<std::string> attrs) {
    op().attrs = std::move(attrs);
    return *this;
  }
  template <typename Map>
  OpMetaInfoBuilder& SetInplaceMap(Map&&) {
    op().writes = true;
    return *this;
  }
  OpMetaInfoBuilder& SetInplaceMap(std::initializer_list<std::pair<const char*, const char*>>) {
    op().writes = true;
    return *this;
  }
  OpMetaInfoBuilder& SetKernelFn(std::function<std::vector<Tensor>(bireme::Call&)> function) {
    op().kernel = std::move(function);
    return *this;
  }
  OpMetaInfoBuilder& SetInferShapeFn(std::function<std::vector<std::vector<int64_t>>(bireme::Call&)> function) {
    op().shape = std::move(function);
    return *this;
  }
  OpMetaInfoBuilder& SetInferDtypeFn(std::function<std::vector<DataType>(bireme::Call&)> function) {
    op().type = std::move(function);
    return *this;
  }

 private:
  bireme::Operator& op() { return bireme::Registry()[at_]; }
  size_t at_;
};

#define PD_KERNEL(...) ::paddle::bireme::Wrapped(__VA_ARGS__)
#define PD_INFER_SHAPE(...) ::paddle::bireme::Wrapped(__VA_ARGS__)
#define PD_INFER_DTYPE(...) ::paddle::bireme::Wrapped(__VA_ARGS__)
#define PD_BUILD_OP(name) static ::paddle::OpMetaInfoBuilder bireme_op_##name = ::paddle::OpMetaInfoBuilder(#name, 0)
#define PD_BUILD_GRAD_OP(name) static ::paddle::OpMetaInfoBuilder bireme_grad_##name = ::paddle::OpMetaInfoBuilder(#name, 1)
#define PD_BUILD_DOUBLE_GRAD_OP(name) \
  static ::paddle::OpMetaInfoBuilder bireme_double_grad_##name = ::paddle::OpMetaInfoBuilder(#name, 2)

// ---------------------------------------------------------------- what Python and XLA call

namespace bireme {

inline std::string Quoted(const std::string& text) {
  std::string made = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') made += '\\';
    made += c;
  }
  return made + "\"";
}
inline std::string Quoted(const std::vector<std::string>& texts) {
  std::string made = "[";
  for (const std::string& text : texts) made += (made.size() > 1 ? ", " : "") + Quoted(text);
  return made + "]";
}

// The head of each request: the operator and the layout of its inputs. Attributes follow.
inline std::pair<Operator*, Call> Begin(const char* text, size_t size) {
  Items items(text, size);
  Operator& op = Registry().at(static_cast<size_t>(items.Integer()));
  std::vector<Group> layout;
  int64_t groups = items.Integer();
  for (int64_t i = 0; i < groups; ++i) {
    std::string given = items.Next();
    layout.push_back(given == "one" ? Group{true, 1} : Group{false, std::stoll(given)});
  }
  return {&op, Call{std::move(layout), {}, items}};
}

// Tensors without data, as the text tells them.
inline std::vector<Tensor> Described(Items& items) {
  int64_t count = items.Integer();
  std::vector<Tensor> made;
  for (int64_t i = 0; i < count; ++i) {
    std::string name = items.Next();
    const Kind& kind = KindWhere([&](const Kind& k) { return name == k.name; });
    std::vector<int64_t> shape(static_cast<size_t>(items.Integer()));
    for (int64_t& n : shape) n = items.Integer();
    made.emplace_back(nullptr, shape, kind.type);
  }
  return made;
}

inline std::string Shown(const Tensor& x) {
  std::string made = std::string(KindOf(x.type()).name) + " [";
  for (size_t i = 0; i < x.shape().size(); ++i) made += (i ? ", " : "") + std::to_string(x.shape()[i]);
  return made + "]";
}

// Run a kernel and copy what it returns to where it is expected.
inline void Run(Operator& op, Call& call, const std::vector<Tensor>& outs) {
  std::vector<Tensor> made = op.kernel(call);
  if (made.size() != outs.size())
    throw std::runtime_error("the kernel returns " + std::to_string(made.size()) + " tensors, not " + std::to_string(outs.size()));
  for (size_t i = 0; i < outs.size(); ++i) {
    if (!made[i].defined() || made[i].type() != outs[i].type() || made[i].shape() != outs[i].shape())
      throw std::runtime_error("the kernel returns " + (made[i].defined() ? Shown(made[i]) : std::string("an empty tensor")) +
                               " where " + Shown(outs[i]) + " was inferred");
    Copy(outs[i].data(), outs[i].place(), made[i].data(), made[i].place(), outs[i].nbytes());
  }
}

template <typename Body>
const char* Answer(Body body) {
  static thread_local std::string answer;
  try {
    answer = "+" + body();
  } catch (const std::exception& e) {
    answer = std::string("-") + e.what();
  } catch (...) {
    answer = "-an exception that is no std::exception";
  }
  return answer.c_str();
}

inline XLA_FFI_Error* Failed(XLA_FFI_CallFrame* frame, const std::string& message) {
  XLA_FFI_Error_Create_Args args{};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = message.c_str();
  args.errc = XLA_FFI_Error_Code_INVALID_ARGUMENT;
  return frame->api->XLA_FFI_Error_Create(&args);
}

inline std::vector<Tensor> Buffers(int64_t count, void** buffers, const Place& place) {
  std::vector<Tensor> made;
  for (int64_t i = 0; i < count; ++i) {
    auto* buffer = static_cast<XLA_FFI_Buffer*>(buffers[i]);
    const Kind& kind = KindWhere([&](const Kind& k) { return k.xla == buffer->dtype; });
    // the pointer of an empty buffer may be null, which would mean that there is no tensor
    static char nothing[16];
    void* data = buffer->data == nullptr ? nothing : buffer->data;
    made.emplace_back(data, std::vector<int64_t>(buffer->dims, buffer->dims + buffer->rank), kind.type, place);
  }
  return made;
}

// A call by a program that XLA compiled: the attribute `call` is the text.
inline XLA_FFI_Error* Handled(XLA_FFI_CallFrame* frame, const Place& place) {
  for (auto* extension = frame->extension_start; extension != nullptr; extension = extension->next)
    if (extension->type == XLA_FFI_Extension_Metadata) {  // asked once, when the handler is registered
      auto* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(extension)->metadata;
      metadata->api_version.major_version = XLA_FFI_API_MAJOR;
      metadata->api_version.minor_version = XLA_FFI_API_MINOR;
      metadata->traits = 0;
      return nullptr;
    }
  try {
    if (frame->attrs.size != 1 || frame->attrs.types[0] != XLA_FFI_AttrType_STRING)
      return Failed(frame, "a call of an operator in C++ without its text");
    auto* text = static_cast<XLA_FFI_ByteSpan*>(frame->attrs.attrs[0]);
    auto [op, call] = Begin(text->ptr, text->len);
    call.tensors = Buffers(frame->args.size, frame->args.args, place);
    Run(*op, call, Buffers(frame->rets.size, frame->rets.rets, place));
    return nullptr;
  } catch (const std::exception& e) {
    return Failed(frame, e.what());
  } catch (...) {
    return Failed(frame, "an exception that is no std::exception");
  }
}

#ifdef PADDLE_WITH_CUDA
inline XLA_FFI_Error* HandledOnGpu(XLA_FFI_CallFrame* frame) {
  for (auto* extension = frame->extension_start; extension != nullptr; extension = extension->next)
    if (extension->type == XLA_FFI_Extension_Metadata) return Handled(frame, GPUPlace());
  XLA_FFI_Stream_Get_Args args{};
  args.struct_size = XLA_FFI_Stream_Get_Args_STRUCT_SIZE;
  args.ctx = frame->ctx;
  if (XLA_FFI_Error* error = frame->api->XLA_FFI_Stream_Get(&args)) return error;
  Current() = {frame->api, frame->ctx, args.stream};
  XLA_FFI_Error* error = Handled(frame, GPUPlace());
  Current() = {};
  // a launch that failed says so here, not by what it returns
  cudaError_t launched = cudaGetLastError();
  return error != nullptr || launched == cudaSuccess ? error : Failed(frame, cudaGetErrorString(launched));
}
#endif

}  // namespace bireme
}  // namespace paddle

// The operators of the library, as JSON.
BIREME_EXPORT const char* bireme_describe() {
  return paddle::bireme::Answer([] {
    std::string made = "[";
    for (const auto& op : paddle::bireme::Registry()) {
      using paddle::bireme::Quoted;
      made += (made.size() > 1 ? ", " : "") + std::string("{\"name\": ") + Quoted(op.name) + ", \"order\": " + std::to_string(op.order) +
              ", \"inputs\": " + Quoted(op.inputs) + ", \"outputs\": " + Quoted(op.outputs) + ", \"attrs\": " + Quoted(op.attrs) +
              ", \"kernel\": " + (op.kernel ? "true" : "false") + ", \"shape\": " + (op.shape ? "true" : "false") +
              ", \"type\": " + (op.type ? "true" : "false") + ", \"writes\": " + (op.writes ? "true" : "false") + "}";
    }
    return made + "]";
  });
}

// Shapes and types of the results, from those of the inputs: one per line, the type and the sizes; "?" where nothing says so.
BIREME_EXPORT const char* bireme_infer(const char* text, size_t size, const char* inputs, size_t inputs_size) {
  return paddle::bireme::Answer([&] {
    auto [op, call] = paddle::bireme::Begin(text, size);
    paddle::bireme::Items described(inputs, inputs_size);
    call.tensors = paddle::bireme::Described(described);
    auto again = call;
    std::string made;
    for (paddle::DataType type : op->type ? op->type(call) : std::vector<paddle::DataType>())
      made += std::string(paddle::bireme::KindOf(type).name) + " ";
    made += "\n";
    for (const auto& shape : op->shape ? op->shape(again) : std::vector<std::vector<int64_t>>()) {
      made += "[";
      for (size_t i = 0; i < shape.size(); ++i) made += (i ? "," : "") + std::to_string(shape[i]);
      made += "] ";
    }
    return made;
  });
}

// The call on arrays of the host: `data` points to those of the inputs, then to those of the results.
BIREME_EXPORT const char* bireme_run(const char* text, size_t size, const char* arrays, size_t arrays_size, void** data) {
  return paddle::bireme::Answer([&] {
    auto [op, call] = paddle::bireme::Begin(text, size);
    paddle::bireme::Items described(arrays, arrays_size);
    auto given = [&] {
      std::vector<paddle::Tensor> made = paddle::bireme::Described(described);
      for (auto& x : made) x = paddle::Tensor(*data++, x.shape(), x.type());
      return made;
    };
    call.tensors = given();
    std::vector<paddle::Tensor> outs = given();
    paddle::bireme::Run(*op, call, outs);
    return std::string();
  });
}

// The same for programs that XLA compiled.
BIREME_EXPORT XLA_FFI_Error* bireme_ffi(XLA_FFI_CallFrame* frame) {
  return paddle::bireme::Handled(frame, paddle::CPUPlace());
}
#ifdef PADDLE_WITH_CUDA
BIREME_EXPORT XLA_FFI_Error* bireme_ffi_cuda(XLA_FFI_CallFrame* frame) { return paddle::bireme::HandledOnGpu(frame); }
#endif
