// What concerns the whole process: failures, versions, devices, switches.
#include <ATen/Parallel.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/jit/passes/tensorexpr_fuser.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include <dlfcn.h>
#include <unistd.h>

#include <cstring>

#include "module.h"

namespace muster {

Failure* fail(uint32_t kind, const char* text) noexcept {
  const size_t length = std::strlen(text);
  // One allocation: the text follows the struct.
  auto* memory = static_cast<char*>(std::malloc(sizeof(Failure) + length));
  if (memory == nullptr) {
    // Nothing that owns no memory can say more.
    static Failure none{OUT_OF_MEMORY, {nullptr, 0}};
    return &none;
  }
  std::memcpy(memory + sizeof(Failure), text, length);
  return new (memory) Failure{kind, {memory + sizeof(Failure), length}};
}

namespace {

/// Brings CUDA's half of libtorch into the process, where it registers itself. Returns what went wrong.
std::string open_cuda() {
  Dl_info library{};
  const auto* inside = reinterpret_cast<const void*>(&aoti_torch_abi_version);
  if (dladdr(inside, &library) == 0) return "libtorch_cpu.so is nowhere";
  std::string path = library.dli_fname;
  path = path.substr(0, path.rfind('/') + 1) + "libtorch_cuda.so";
  if (access(path.c_str(), F_OK) != 0) {
    return "there is no " + path + ": this libtorch is made for the CPU only";
  }
  return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr ? "" : dlerror();
}

/// The same, done the first time only.
const std::string& cuda_problem() {
  static const std::string problem = open_cuda();
  return problem;
}

}  // namespace
}  // namespace muster

using namespace muster;

uint64_t muster_torch_built_with() { return TORCH_ABI_VERSION; }

uint64_t muster_torch_running_with() { return aoti_torch_abi_version(); }

void muster_torch_free_failure(Failure* failure) {
  // The one that owns no memory has no text.
  if (failure->text.begin != nullptr) std::free(failure);
}

void muster_torch_open_cuda() { cuda_problem(); }

Failure* muster_torch_gpu_count(uint32_t* count) {
  return guarded([&] {
    TORCH_CHECK(cuda_problem().empty(), cuda_problem());
    TORCH_CHECK(torch::cuda::is_available(), "CUDA finds no usable driver or GPU");
    *count = static_cast<uint32_t>(torch::cuda::device_count());
  });
}

Failure* muster_torch_set_interop_threads(uint32_t threads) {
  return guarded([&] { at::set_num_interop_threads(static_cast<int>(threads)); });
}

Switches muster_torch_switch(Switches wanted) {
  Switches before{};
  auto& executor = torch::jit::getExecutorMode();
  auto& profiling = torch::jit::getProfilingMode();
  auto& context = at::globalContext();
  before.executor = executor;
  before.profiling = profiling;
  before.fuser = torch::jit::tensorExprFuserEnabled();
  before.cudnn = context.userEnabledCuDNN();
  if (wanted.executor >= 0) executor = wanted.executor != 0;
  if (wanted.profiling >= 0) profiling = wanted.profiling != 0;
  if (wanted.fuser >= 0) torch::jit::setTensorExprFuserEnabled(wanted.fuser != 0);
  if (wanted.cudnn >= 0) context.setUserEnabledCuDNN(wanted.cudnn != 0);
  return before;
}
