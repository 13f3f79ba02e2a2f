// The C interface between the plugin and its host. `abi/src/lib.rs` says the same in Rust, and explains it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster {

struct Module;

struct Text {
  const char* begin;
  size_t length;
};

struct Failure {
  uint32_t kind;
  Text text;
};
constexpr uint32_t FAILED = 1, OUT_OF_MEMORY = 2;

namespace element {
constexpr uint32_t OTHER = 0, BOOL = 1, UINT8 = 2, INT8 = 3, INT16 = 4, INT32 = 5, INT64 = 6,
                   FP16 = 7, BF16 = 8, FP32 = 9, FP64 = 10, STRINGS = 11;
}

namespace kind {
constexpr uint32_t OTHER = 0, TENSOR = 1, OPTIONAL_TENSOR = 2, STRINGS = 3, DICT = 4, INT = 5, FLOAT = 6,
                   BOOL = 7;
}

struct Parameter {
  Text name;
  Text type_name;
  uint32_t kind;
  uint32_t has_default;
};

struct Weight {
  Text name;
  Text class_name;
  uint32_t element;
  uint32_t rank;
  const int64_t* dims;
};

struct Description {
  const Parameter* parameters;
  size_t parameters_length;
  const Weight* weights;
  size_t weights_length;
  Text returns;
  uint32_t returns_dict;
  int32_t returns_count;
  const Text* fields;
  size_t fields_length;
  uint32_t training;
  uint32_t stateful;
};

struct Input {
  uint32_t element;
  uint32_t rank;
  const int64_t* dims;
  const void* data;
  size_t bytes;
  Text key;
};

struct Output {
  uint32_t element;
  uint32_t rank;
  const int64_t* dims;
  const void* data;
  size_t bytes;
  Text key;
  Text type_name;
  void* handle;
};

struct Run {
  const Input* inputs;
  size_t inputs_length;
  uint32_t threads;
  uint32_t flags;
  void (*give)(void* receiver, const Output* output);
  void* receiver;
};

namespace run_flags {
constexpr uint32_t INFERENCE_MODE = 1, UNOPTIMIZED = 2, CLEAN_CACHE = 4;
}

namespace level {
constexpr uint32_t FREEZE = 1, INFERENCE = 2;
}

struct Switches {
  int32_t executor;
  int32_t profiling;
  int32_t fuser;
  int32_t cudnn;
};

static_assert(sizeof(size_t) == 8);
static_assert(sizeof(Text) == 16);
static_assert(sizeof(Failure) == 24);
static_assert(sizeof(Parameter) == 40);
static_assert(sizeof(Weight) == 48);
static_assert(sizeof(Description) == 80);
static_assert(sizeof(Input) == 48);
static_assert(sizeof(Output) == 72);
static_assert(sizeof(Run) == 40);
static_assert(sizeof(Switches) == 16);

}  // namespace muster

// The functions of the table, which Rust fills in.
extern "C" {
uint64_t muster_torch_built_with();
uint64_t muster_torch_running_with();
void muster_torch_free_failure(muster::Failure*);
void muster_torch_open_cuda();
muster::Failure* muster_torch_gpu_count(uint32_t*);
muster::Failure* muster_torch_set_interop_threads(uint32_t);
muster::Switches muster_torch_switch(muster::Switches);
muster::Failure* muster_torch_load(muster::Text path, int32_t device, muster::Module**);
const muster::Description* muster_torch_describe(const muster::Module*);
muster::Failure* muster_torch_optimize(const muster::Module*, uint32_t level, muster::Module**);
muster::Failure* muster_torch_run(const muster::Module*, const muster::Run*);
void muster_torch_release(void* handle);
void muster_torch_unload(muster::Module*);
}
