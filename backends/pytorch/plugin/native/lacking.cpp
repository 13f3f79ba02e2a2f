// What libtorch can do and `tch` has no function for: modules, what a run writes to, modes of the thread, values, the
// process. `src/lacking.rs` declares the same for Rust, and is the only caller. Modules and values are torch-sys's.
#include <ATen/Parallel.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Logging.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/alias_analysis.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>
#include <torch/version.h>

#include <algorithm>
#include <cstring>

using c10::Type;
using namespace torch::jit;

// libgomp's. Changes the calling thread only, where `at::set_num_threads` also sets what other threads will
// begin with, and rebuilds a pool that they may be using.
extern "C" void omp_set_num_threads(int) __attribute__((weak));

namespace {

/// What is said where there is no memory for a text.
char no_memory[] = "out of memory";

/// A copy for `muster_free`.
char* copied(const char* text) noexcept {
  char* copy = strdup(text);
  return copy != nullptr ? copy : no_memory;
}

/// Runs `work`. Returns the text of what it threw, for `muster_free`, else null: no exception reaches Rust.
template <typename Work>
char* caught(const Work& work) noexcept {
  try {
    work();
    return nullptr;
  } catch (const c10::Error& error) {
    return copied(error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return no_memory;
  } catch (const std::exception& error) {
    return copied(error.what());
  } catch (...) {
    return copied("an exception of unknown type");
  }
}

/// Takes libtorch's warnings, which it would write to the standard error among the lines of the log.
struct Silent final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

/// The class of the module inside `module` that holds the attribute of that name, for example `0.weight`.
std::string class_of_owner(const Module& module, const std::string& name) {
  auto owner = module;
  for (size_t begin = 0, end; (end = name.find('.', begin)) != std::string::npos; begin = end + 1) {
    owner = owner.attr(name.substr(begin, end - begin)).toModule();
  }
  const auto type_name = owner.type()->name();
  return type_name ? type_name->name() : std::string();
}

/// Does any node fit, in this block or the ones inside it?
template <typename Fits>
bool any_node(const Block* block, const Fits& fits) {
  for (const Node* node : block->nodes()) {
    if (fits(node)) return true;
    const auto inside = node->blocks();
    if (std::any_of(inside.begin(), inside.end(), [&](const Block* it) { return any_node(it, fits); })) return true;
    // What a fork runs is a graph of its own.
    if (node->hasAttribute(attr::Subgraph) && any_node(node->g(attr::Subgraph)->block(), fits)) return true;
  }
  return false;
}

/// The graph of `forward`, with what it calls written out.
std::shared_ptr<Graph> inlined(const Module& module) {
  auto graph = toGraphFunction(module.get_method("forward").function()).graph()->copy();
  Inline(*graph);
  return graph;
}

/// What is still an attribute of a frozen module is one that `forward` changes, and what it calls without
/// being written out may change anything.
bool keeps_state(const Graph& graph) {
  return any_node(graph.block(), [](const Node* node) {
    const auto kind = node->kind();
    return kind == prim::GetAttr || kind == prim::SetAttr || kind == prim::CallMethod || kind == prim::CallFunction;
  });
}

/// Is a tensor in values of that type, or an object, which may hold some?
bool holds_tensors(const c10::TypePtr& type) {
  if (type->kind() == c10::TypeKind::TensorType || type->kind() == c10::TypeKind::ClassType) return true;
  const auto inside = type->containedTypes();
  return std::any_of(inside.begin(), inside.end(), holds_tensors);
}

/// May a run write to a constant of the graph? `torch.jit.trace` makes one of every tensor that is neither a
/// parameter nor a buffer, and all runs share it.
bool writes_constants(const std::shared_ptr<Graph>& graph) {
  std::vector<const Value*> constants;
  bool in_containers = false;
  std::vector<std::shared_ptr<Graph>> forked;
  any_node(graph->block(), [&](const Node* node) {
    if (node->hasAttribute(attr::Subgraph)) forked.push_back(node->g(attr::Subgraph));
    if (node->kind() != prim::Constant || node->owningGraph() != graph.get()) return false;
    const auto& type = node->output()->type();
    const auto kind = type->kind();
    const bool container = kind == c10::TypeKind::ListType || kind == c10::TypeKind::DictType;
    if (!container && !holds_tensors(type)) return false;
    constants.push_back(node->output());
    in_containers |= (container || kind == c10::TypeKind::TupleType) && holds_tensors(type);
    return false;
  });
  if (std::any_of(forked.begin(), forked.end(), writes_constants)) return true;
  if (constants.empty()) return false;
  AliasDb aliases(graph);
  const auto is_written = [&](const auto* it) { return aliases.hasWriters(it); };
  if (std::any_of(constants.begin(), constants.end(), is_written)) return true;
  // What is inside a container is not followed: any writer counts.
  return in_containers && any_node(graph->block(), is_written);
}

/// Does a node update the running statistics of a normalisation? The schemas of those operators do not say
/// that they write. `unknown` is the answer where only the run tells whether it is in training mode.
bool updates_statistics(const Node* node, bool unknown) {
  const auto* schema = node->maybeSchema();
  if (schema == nullptr) return false;
  const auto statistics = schema->argumentIndexWithName("running_mean");
  if (!statistics || node->input(*statistics)->type()->kind() == c10::TypeKind::NoneType) return false;
  for (const char* name : {"training", "train", "use_input_stats"}) {
    if (const auto index = schema->argumentIndexWithName(name)) {
      const auto value = toIValue(node->input(*index));
      return value && value->isBool() ? value->toBool() : unknown;
    }
  }
  return unknown;
}

/// Can a run leave something behind for the next one? The graph as it was written is looked at too: from the
/// frozen one, writes that come after the last use in the same run are gone.
bool can_change(const Module& module, const std::shared_ptr<Graph>& frozen) {
  const auto updates = [](bool unknown) {
    return [unknown](const Node* node) { return updates_statistics(node, unknown); };
  };
  if (keeps_state(*frozen) || writes_constants(frozen) || any_node(frozen->block(), updates(true))) return true;
  const auto written = inlined(module);
  return writes_constants(written) || any_node(written->block(), updates(false));
}

/// May a run write to an input? The analysis takes operators that it does not know for writers. A fork may outlive it.
bool writes_inputs(const std::shared_ptr<Graph>& graph) {
  AliasDb aliases(graph);
  bool holds_containers = false;
  for (const auto* input : graph->inputs()) {
    if (aliases.hasWriters(input)) return true;
    const auto kind = input->type()->kind();
    holds_containers |= kind == c10::TypeKind::DictType || kind == c10::TypeKind::ListType;
  }
  return any_node(graph->block(), [&](const Node* node) {
    if (node->kind() == prim::fork) return true;
    // What is inside a container is not followed: any writer counts.
    return holds_containers && aliases.hasWriters(node);
  });
}

}  // namespace

extern "C" {

/// Frees the text of what was thrown, here or in torch-sys.
void muster_free(char* text) noexcept {
  if (text != no_memory) free(text);
}

/// Can a run of that module change it, and its inputs, and does it hold loops? `frozen` is what freezing made of it.
char* muster_effects(const Module* module, const Module* frozen, bool* on_module, bool* on_inputs, bool* loops) {
  return caught([&] {
    const auto graph = inlined(*frozen);
    *on_module = can_change(*module, graph);
    *on_inputs = *on_module || writes_inputs(graph);
    *loops = any_node(graph->block(), [](const Node* node) {
      // What is called without being written out may hold any.
      const auto kind = node->kind();
      return kind == prim::Loop || kind == prim::CallMethod || kind == prim::CallFunction;
    });
  });
}

/// Functions of Rust, which take one thing each. `fallback` is an argument's default, or null.
struct Visitor {
  void* receiver;
  void (*argument)(void* receiver, const char* name, const Type* type, const IValue* fallback);
  void (*returned)(void* receiver, const Type* type);
  void (*weight)(void* receiver, const char* name, const char* class_name, const at::Tensor* value);
};

/// Arguments and results of `forward`, and the weights with their classes: `tch` has names and values of
/// parameters only. The types and `forward` itself, which torch-sys looks for at each run, live as long as the module.
char* muster_describe(const Module* module, const Visitor* visitor, bool* training, Function** forward) {
  return caught([&] {
    TORCH_CHECK(module->find_method("forward"), "the module has no method forward");
    *forward = &module->get_method("forward").function();
    const auto& schema = (*forward)->getSchema();
    for (const auto& it : c10::ArrayRef<c10::Argument>(schema.arguments()).slice(1)) {
      const auto& fallback = it.default_value();
      visitor->argument(visitor->receiver, it.name().c_str(), it.type().get(), fallback ? &*fallback : nullptr);
    }
    for (const auto& it : schema.returns()) visitor->returned(visitor->receiver, it.type().get());
    const auto weight = [&](const auto& it) {
      if (!it.value.defined()) return;
      visitor->weight(visitor->receiver, it.name.c_str(), class_of_owner(*module, it.name).c_str(), &it.value);
    };
    for (const auto& it : module->named_parameters()) weight(it);
    for (const auto& it : module->named_buffers()) weight(it);
    *training = module->hasattr("training") && module->is_training();
  });
}

/// The kind of a type, for example `ListType`.
const char* muster_type_kind(const Type* type) noexcept { return c10::typeKindToString(type->kind()); }

/// What a type is made of: a list's elements, a dictionary's keys and values. Null after the last.
const Type* muster_type_part(const Type* type, size_t index) noexcept {
  const auto parts = type->containedTypes();
  return index < parts.size() ? parts[index].get() : nullptr;
}

/// A type as TorchScript writes it, and then the names of a NamedTuple's fields.
char* muster_type_texts(const Type* type, void* receiver, void (*text)(void*, const char*)) {
  return caught([&] {
    text(receiver, type->annotation_str().c_str());
    const auto* tuple = type->castRaw<c10::TupleType>();
    if (tuple == nullptr || !tuple->schema()) return;
    for (const auto& it : tuple->schema()->arguments()) text(receiver, it.name().c_str());
  });
}

/// `torch.jit.freeze`.
char* muster_freeze(const Module* module, Module** frozen) {
  return caught([&] { *frozen = new Module(freeze(*module)); });
}

/// A copy of a frozen module, which shares its weights, and is rewritten by `torch.jit.optimize_for_inference`
/// where that is wished. The frozen one stays as it is.
char* muster_copy(const Module* frozen, bool for_inference, Module** copy) {
  return caught([&] {
    auto module = frozen->clone();
    if (for_inference) module = optimize_for_inference(module);
    *copy = new Module(std::move(module));
  });
}

/// The bytes of a string; `pytorch_abi::Text`.
struct Text {
  const char* begin;
  size_t length;
};

/// Calls `work`, which does not throw, in inference mode, or out of it and with gradients, and without warnings: these
/// are guards of C++ that end with a scope.
void muster_guarded(bool inference_mode, void (*work)(void*), void* data) {
  Silent silent;
  c10::WarningUtils::WarningHandlerGuard quiet(&silent);
  c10::InferenceMode inference(inference_mode);
  work(data);
}

/// Runs `forward`, and empties the arguments. torch-sys would make a type of each argument to compare it at each run,
/// which takes as long as all else that the plugin does.
char* muster_forward(
    const Module* module, Function* forward, IValue* const* arguments, size_t length, IValue** result) {
  return caught([&] {
    Stack stack;
    stack.reserve(length + 2);
    stack.emplace_back(module->_ivalue());
    for (size_t i = 0; i < length; ++i) stack.push_back(std::move(*arguments[i]));
    forward->run(stack);
    *result = new IValue(std::move(stack.back()));
  });
}

/// Threads within an operator, on this thread. `tch::set_num_threads` changes those of other threads too.
char* muster_use_threads(int32_t threads) {
  return caught([&] {
    // The look comes first for another reason too: it sets a new thread's number, and would undo ours later.
    if (at::get_num_threads() == threads) return;
    omp_set_num_threads != nullptr ? omp_set_num_threads(threads) : at::set_num_threads(threads);
  });
}

/// A list of strings. torch-sys takes strings that end with a zero, and these may hold some.
char* muster_strings(const Text* texts, size_t length, IValue** value) {
  return caught([&] {
    c10::List<std::string> list;
    for (size_t i = 0; i < length; ++i) list.emplace_back(texts[i].begin, texts[i].length);
    *value = new IValue(std::move(list));
  });
}

/// All bytes of a value, in its memory, if it is a string.
bool muster_string(const IValue* value, Text* text) noexcept {
  if (value->isString()) *text = {value->toStringRef().data(), value->toStringRef().size()};
  return value->isString();
}

/// The type of a value as TorchScript writes it; torch-sys knows no types of empty lists, nor of objects.
char* muster_value_type(const IValue* value, void* receiver, void (*text)(void*, const char*)) {
  return caught([&] { text(receiver, value->type()->annotation_str().c_str()); });
}

/// The name of a tensor's element type: `tch::Kind` does not have all of them.
const char* muster_element_name(const at::Tensor* tensor) noexcept { return c10::toString(tensor->scalar_type()); }

/// Elements of a tensor, and of how much memory it is a view; `tch` does not show the latter.
struct Elements {
  const void* data;
  size_t bytes;
  size_t held;
};

/// Are the elements in the host's memory, in one piece, as they are? Then where: one call instead of ten of `tch`.
char* muster_elements(const at::Tensor* tensor, Elements* elements, bool* is_plain) {
  return caught([&] {
    *is_plain = tensor->layout() == c10::kStrided && tensor->is_cpu() && tensor->is_contiguous() &&
        !tensor->is_conj() && !tensor->is_neg();
    if (*is_plain) *elements = {tensor->const_data_ptr(), tensor->nbytes(), tensor->storage().nbytes()};
  });
}

/// Gives back what the allocator of CUDA keeps; torch-sys does not reach allocators.
char* muster_empty_cuda_cache() {
  return caught([] { c10::getDeviceAllocator(c10::kCUDA)->emptyCache(); });
}

/// Sets whether graphs are optimised by profile, unless `wanted` is negative, and returns what it was; `tch` has the
/// switch of profiling alone.
int32_t muster_switch_executor(int32_t wanted) noexcept {
  auto& executor = getExecutorMode();
  return wanted < 0 ? executor.load() : executor.exchange(wanted != 0);
}

/// Failures come without frames of C++: torch-sys hands them over with all frames, and finding their names takes longer
/// than most runs.
void muster_no_frames() { c10::SetStackTraceFetcher([] { return std::string(); }); }

/// The version of libtorch's headers.
uint64_t muster_built_with() { return TORCH_ABI_VERSION; }

}  // extern "C"
