// Running modules: inputs in place, outputs as handles that own their memory.
#include <ATen/Parallel.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <optional>

#include "module.h"

// libgomp's. Changes the calling thread only, where `at::set_num_threads` also sets what other threads will
// begin with, and rebuilds a pool that they may be using.
extern "C" void omp_set_num_threads(int) __attribute__((weak));

namespace muster {
namespace {

using torch::jit::IValue;
using torch::jit::Stack;

c10::ScalarType type_of(uint32_t element) {
  switch (element) {
    case element::BOOL: return c10::kBool;
    case element::UINT8: return c10::kByte;
    case element::INT8: return c10::kChar;
    case element::INT16: return c10::kShort;
    case element::INT32: return c10::kInt;
    case element::INT64: return c10::kLong;
    case element::FP16: return c10::kHalf;
    case element::BF16: return c10::kBFloat16;
    case element::FP32: return c10::kFloat;
    case element::FP64: return c10::kDouble;
    default: TORCH_CHECK(false, "element type ", element, " is unknown");
  }
}

void use_threads(int threads) {
  // The look comes first for another reason too: it sets a new thread's number, and would undo ours later.
  if (at::get_num_threads() == threads) return;
  if (omp_set_num_threads != nullptr) {
    omp_set_num_threads(threads);
  } else {
    at::set_num_threads(threads);
  }
}

IValue strings(const Input& input) {
  TORCH_CHECK(input.rank == 1, "a list of strings has one dimension");
  const auto* texts = static_cast<const Text*>(input.data);
  c10::List<std::string> list;
  list.reserve(input.dims[0]);
  for (int64_t i = 0; i < input.dims[0]; ++i) list.emplace_back(texts[i].begin, texts[i].length);
  return list;
}

IValue argument(const Module& module, const Input& input) {
  if (input.element == element::STRINGS) return strings(input);
  const auto options = c10::TensorOptions().dtype(type_of(input.element));
  // Nothing writes through the pointer: where the module might, it gets a copy.
  auto tensor = at::from_blob(const_cast<void*>(input.data), {input.dims, input.rank}, options);
  if (!module.device.is_cpu()) return tensor.to(module.device);
  return module.copies_inputs ? tensor.clone() : tensor;
}

bool is_number(const c10::TypePtr& type) {
  const auto kind = type->kind();
  return kind == c10::TypeKind::IntType || kind == c10::TypeKind::FloatType || kind == c10::TypeKind::BoolType;
}

/// The only element of a tensor, as a value of that type.
IValue number(const c10::TypePtr& type, const Input& input) {
  TORCH_CHECK(input.element != element::STRINGS, "a number cannot be made of strings");
  const auto options = c10::TensorOptions().dtype(type_of(input.element));
  const auto tensor = at::from_blob(const_cast<void*>(input.data), {input.dims, input.rank}, options);
  TORCH_CHECK(tensor.numel() == 1, "a number has one element, and not ", tensor.numel());
  const auto value = tensor.item();
  switch (type->kind()) {
    case c10::TypeKind::IntType: return value.toLong();
    case c10::TypeKind::FloatType: return value.toDouble();
    default: return value.toBool();
  }
}

Stack arguments(const Module& module, const Run& run) {
  Stack stack;
  stack.reserve(run.inputs_length + 2);
  stack.emplace_back(module.module._ivalue());
  if (module.takes_dict) {
    c10::Dict<std::string, at::Tensor> dict;
    for (size_t i = 0; i < run.inputs_length; ++i) {
      const Input& input = run.inputs[i];
      dict.insert(std::string(input.key.begin, input.key.length),
                  argument(module, input).toTensor());
    }
    stack.emplace_back(std::move(dict));
    return stack;
  }
  const auto& expected = module.forward->getSchema().arguments();
  TORCH_CHECK(run.inputs_length + 1 == expected.size(), "forward takes ", expected.size() - 1,
              " arguments, given ", run.inputs_length);
  for (size_t i = 0; i < run.inputs_length; ++i) {
    const auto& type = expected[i + 1].type();
    if (run.inputs[i].element != element::OTHER) {
      stack.emplace_back(is_number(type) ? number(type, run.inputs[i]) : argument(module, run.inputs[i]));
    } else {
      const auto& fallback = expected[i + 1].default_value();
      TORCH_CHECK(fallback, "argument '", expected[i + 1].name(), "' has no default");
      stack.emplace_back(*fallback);
    }
  }
  return stack;
}

/// Gives the parts of a result to the host, one by one.
class Giver {
 public:
  Giver(const Module& module, const Run& run) : module_(module), run_(run) {}

  void value(const IValue& value, bool outermost) {
    if (value.isTensor()) {
      tensor(value.toTensor(), {});
    } else if (value.isTuple()) {
      for (const auto& element : value.toTupleRef().elements()) this->value(element, false);
    } else if (value.isTensorList()) {
      for (const at::Tensor& element : value.toTensorVector()) tensor(element, {});
    } else if (outermost && is_dict(value)) {
      for (const auto& entry : value.toGenericDict()) {
        const std::string& key = entry.key().toStringRef();
        tensor(entry.value().toTensor(), {key.data(), key.size()});
      }
    } else if (value.isList() && is_string_list(value)) {
      string_list(value.toListRef());
    } else if (value.isList()) {
      for (const auto& element : value.toListRef()) this->value(element, false);
    } else if (value.isString()) {
      bytes({value.toStringRef()}, {});
    } else if (value.isBool() || value.isInt() || value.isDouble()) {
      tensor(at::scalar_tensor(value.toScalar(), number_type(value)), {});
    } else {
      other(value.isNone() ? "None" : value.type()->annotation_str(), {});
    }
  }

 private:
  static bool is_dict(const IValue& value) {
    if (!value.isGenericDict()) return false;
    const auto dict = value.toGenericDict();
    return dict.keyType()->kind() == c10::TypeKind::StringType &&
        dict.valueType()->kind() == c10::TypeKind::TensorType;
  }

  static bool is_string_list(const IValue& value) {
    return value.type()->expectRef<c10::ListType>().getElementType()->kind() ==
        c10::TypeKind::StringType;
  }

  static c10::ScalarType number_type(const IValue& value) {
    return value.isBool() ? c10::kBool : value.isInt() ? c10::kLong : c10::kDouble;
  }

  void other(const std::string& type_name, Text key) {
    Output output{};
    output.key = key;
    output.type_name = {type_name.data(), type_name.size()};
    run_.give(run_.receiver, &output);
  }

  void tensor(at::Tensor it, Text key) {
    if (!it.defined()) return other("an undefined tensor", key);
    const uint32_t element = element_of(it.scalar_type());
    if (element == element::OTHER) return other(c10::toString(it.scalar_type()), key);
    if (it.layout() != c10::kStrided) it = it.to_dense();
    if (!it.is_cpu()) it = it.cpu();
    it = it.resolve_conj().resolve_neg().contiguous();
    const auto data = reinterpret_cast<uintptr_t>(it.const_data_ptr());
    // What a stateless module gives may be a weight of it, which nobody writes to.
    if (module_.stateful || is_borrowed(data) || holds_much_more(it)) it = it.clone();
    own(element, it, it.sizes(), key);
  }

  /// A view of an input, whose memory is ours for the run only?
  bool is_borrowed(uintptr_t data) const {
    if (module_.copies_inputs || !module_.device.is_cpu()) return false;
    for (size_t i = 0; i < run_.inputs_length; ++i) {
      const auto begin = reinterpret_cast<uintptr_t>(run_.inputs[i].data);
      if (data >= begin && data < begin + run_.inputs[i].bytes) return true;
    }
    return false;
  }

  /// A small part of a large piece of memory, which it would keep?
  static bool holds_much_more(const at::Tensor& it) {
    const size_t held = it.storage().nbytes();
    return held > (1 << 20) && held / 4 > it.nbytes();
  }

  void string_list(c10::ArrayRef<IValue> list) {
    std::vector<std::string> values;
    values.reserve(list.size());
    for (const auto& element : list) values.push_back(element.toStringRef());
    const int64_t length = static_cast<int64_t>(list.size());
    bytes(values, {&length, 1});
  }

  void bytes(const std::vector<std::string>& values, c10::IntArrayRef dims) {
    size_t sum = 0;
    for (const auto& value : values) sum += 4 + value.size();
    auto memory = at::empty({static_cast<int64_t>(sum)}, c10::kByte);
    auto* at = memory.mutable_data_ptr<uint8_t>();
    for (const auto& value : values) {
      const auto length = static_cast<uint32_t>(value.size());
      TORCH_CHECK(length == value.size(), "a string of 4 GiB or more");
      for (int shift = 0; shift < 32; shift += 8) *at++ = static_cast<uint8_t>(length >> shift);
      at = std::copy(value.begin(), value.end(), at);
    }
    own(element::STRINGS, memory, dims, {});
  }

  void own(uint32_t element, const at::Tensor& it, c10::IntArrayRef dims, Text key) {
    Output output{};
    output.element = element;
    output.rank = static_cast<uint32_t>(dims.size());
    output.dims = dims.data();
    output.data = it.const_data_ptr();
    output.bytes = it.nbytes();
    output.key = key;
    at::Tensor held = it;
    output.handle = held.unsafeReleaseIntrusivePtr().release();
    run_.give(run_.receiver, &output);
  }

  const Module& module_;
  const Run& run_;
};

}  // namespace

uint32_t element_of(c10::ScalarType type) {
  switch (type) {
    case c10::kBool: return element::BOOL;
    case c10::kByte: return element::UINT8;
    case c10::kChar: return element::INT8;
    case c10::kShort: return element::INT16;
    case c10::kInt: return element::INT32;
    case c10::kLong: return element::INT64;
    case c10::kHalf: return element::FP16;
    case c10::kBFloat16: return element::BF16;
    case c10::kFloat: return element::FP32;
    case c10::kDouble: return element::FP64;
    default: return element::OTHER;
  }
}

}  // namespace muster

using namespace muster;

Failure* muster_torch_run(const muster::Module* module, const Run* run) {
  return guarded([&] {
    torch::NoGradGuard no_grad;
    c10::InferenceMode inference((run->flags & run_flags::INFERENCE_MODE) != 0);
    std::optional<torch::jit::GraphOptimizerEnabledGuard> unoptimized;
    if ((run->flags & run_flags::UNOPTIMIZED) != 0) unoptimized.emplace(false);
    use_threads(static_cast<int>(run->threads));
    {
      Stack stack = arguments(*module, *run);
      module->forward->run(stack);
      Giver(*module, *run).value(stack.back(), true);
    }
    if ((run->flags & run_flags::CLEAN_CACHE) != 0 && !module->device.is_cpu()) {
      c10::getDeviceAllocator(module->device.type())->emptyCache();
    }
  });
}

void muster_torch_release(void* handle) {
  // The reference is this temporary's, and goes with it.
  c10::intrusive_ptr<c10::TensorImpl>::reclaim(static_cast<c10::TensorImpl*>(handle));
}
