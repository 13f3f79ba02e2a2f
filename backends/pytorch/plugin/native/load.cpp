// Loading, describing and optimising modules.
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/alias_analysis.h>
#include <torch/csrc/jit/passes/inliner.h>

#include <algorithm>

#include "module.h"

namespace muster {
namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;

/// Does any node fit, in this block or the ones inside it?
template <typename Fits>
bool any_node(const Block* block, const Fits& fits) {
  for (const Node* node : block->nodes()) {
    if (fits(node)) return true;
    for (const Block* inner : node->blocks()) {
      if (any_node(inner, fits)) return true;
    }
    // What a fork runs is a graph of its own.
    if (node->hasAttribute(torch::jit::attr::Subgraph) &&
        any_node(node->g(torch::jit::attr::Subgraph)->block(), fits)) {
      return true;
    }
  }
  return false;
}

/// The graph of `forward`, with what it calls written out.
std::shared_ptr<Graph> inlined(const torch::jit::Module& module) {
  auto graph = torch::jit::toGraphFunction(module.get_method("forward").function()).graph()->copy();
  torch::jit::Inline(*graph);
  return graph;
}

/// What is still an attribute of a frozen module is one that `forward` changes, and what it calls without
/// being written out may change anything.
bool keeps_state(const Graph& graph) {
  return any_node(graph.block(), [](const Node* node) {
    switch (node->kind()) {
      case torch::jit::prim::GetAttr:
      case torch::jit::prim::SetAttr:
      case torch::jit::prim::CallMethod:
      case torch::jit::prim::CallFunction:
        return true;
      default:
        return false;
    }
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
  std::vector<const torch::jit::Value*> constants;
  bool in_containers = false;
  std::vector<std::shared_ptr<Graph>> forked;
  any_node(graph->block(), [&](const Node* node) {
    if (node->hasAttribute(torch::jit::attr::Subgraph)) {
      forked.push_back(node->g(torch::jit::attr::Subgraph));
    }
    if (node->kind() != torch::jit::prim::Constant || node->owningGraph() != graph.get()) return false;
    const auto& type = node->output()->type();
    const auto kind = type->kind();
    const bool container = kind == c10::TypeKind::ListType || kind == c10::TypeKind::DictType;
    if (!container && !holds_tensors(type)) return false;
    constants.push_back(node->output());
    in_containers |= (container || kind == c10::TypeKind::TupleType) && holds_tensors(type);
    return false;
  });
  for (const auto& it : forked) {
    if (writes_constants(it)) return true;
  }
  if (constants.empty()) return false;
  torch::jit::AliasDb aliases(graph);
  for (const auto* constant : constants) {
    if (aliases.hasWriters(constant)) return true;
  }
  // What is inside a container is not followed: any writer counts.
  return in_containers &&
      any_node(graph->block(), [&](const Node* node) { return aliases.hasWriters(node); });
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
      const auto value = torch::jit::toIValue(node->input(*index));
      return value && value->isBool() ? value->toBool() : unknown;
    }
  }
  return unknown;
}

/// Can a run leave something behind for the next one? The graph as it was written is looked at too: from the
/// frozen one, writes that come after the last use in the same run are gone.
bool can_change(const torch::jit::Module& module, const std::shared_ptr<Graph>& frozen) {
  const auto updates = [](bool unknown) {
    return [unknown](const Node* node) { return updates_statistics(node, unknown); };
  };
  if (keeps_state(*frozen) || writes_constants(frozen)) return true;
  if (any_node(frozen->block(), updates(true))) return true;
  const auto written = inlined(module);
  return writes_constants(written) || any_node(written->block(), updates(false));
}

/// May a run write to an input? The analysis takes operators that it does not know for writers. A fork may
/// outlive the run.
bool writes_inputs(const std::shared_ptr<Graph>& graph) {
  torch::jit::AliasDb aliases(graph);
  bool holds_containers = false;
  for (const auto* input : graph->inputs()) {
    if (aliases.hasWriters(input)) return true;
    const auto kind = input->type()->kind();
    holds_containers |= kind == c10::TypeKind::DictType || kind == c10::TypeKind::ListType;
  }
  return any_node(graph->block(), [&](const Node* node) {
    if (node->kind() == torch::jit::prim::fork) return true;
    // What is inside a container is not followed: any writer counts.
    return holds_containers && aliases.hasWriters(node);
  });
}

bool is_tensor(const c10::TypePtr& type) { return type->kind() == c10::TypeKind::TensorType; }
bool is_string(const c10::TypePtr& type) { return type->kind() == c10::TypeKind::StringType; }

uint32_t kind_of(const c10::TypePtr& type) {
  if (is_tensor(type)) return kind::TENSOR;
  if (auto optional = type->cast<c10::OptionalType>()) {
    return is_tensor(optional->getElementType()) ? kind::OPTIONAL_TENSOR : kind::OTHER;
  }
  switch (type->kind()) {
    case c10::TypeKind::IntType: return kind::INT;
    case c10::TypeKind::FloatType: return kind::FLOAT;
    case c10::TypeKind::BoolType: return kind::BOOL;
    default: break;
  }
  if (auto list = type->cast<c10::ListType>()) {
    return is_string(list->getElementType()) ? kind::STRINGS : kind::OTHER;
  }
  if (auto dict = type->cast<c10::DictType>()) {
    const bool known = is_string(dict->getKeyType()) && is_tensor(dict->getValueType());
    return known ? kind::DICT : kind::OTHER;
  }
  return kind::OTHER;
}

/// Number of values in a result of that type; -1 where it is not known.
int32_t count_of(const c10::TypePtr& type) {
  if (auto tuple = type->cast<c10::TupleType>()) {
    int32_t sum = 0;
    for (const auto& element : tuple->elements()) {
      const int32_t count = count_of(element);
      if (count < 0) return -1;
      sum += count;
    }
    return sum;
  }
  switch (type->kind()) {
    case c10::TypeKind::DictType:
      return -1;
    case c10::TypeKind::ListType:
      return kind_of(type) == kind::STRINGS ? 1 : -1;
    case c10::TypeKind::AnyType:
    case c10::TypeKind::UnionType:
      return -1;
    default:
      return 1;
  }
}

void describe_weights(About& about, const torch::jit::Module& module) {
  const auto add = [&](const auto& it) {
    if (!it.value.defined()) return;
    const size_t dot = it.name.rfind('.');
    const bool nested = dot != std::string::npos;
    auto owner = module;
    for (size_t begin = 0; nested && begin < dot;) {
      const size_t end = std::min(it.name.find('.', begin), dot);
      owner = owner.attr(it.name.substr(begin, end - begin)).toModule();
      begin = end + 1;
    }
    about.dims.push_back(it.value.sizes().vec());
    const auto& dims = about.dims.back();
    const auto type_name = owner.type()->name();
    about.weights.push_back({about.keep(nested ? it.name.substr(dot + 1) : it.name),
                             about.keep(type_name ? type_name->name() : std::string()),
                             element_of(it.value.scalar_type()), static_cast<uint32_t>(dims.size()),
                             dims.data()});
  };
  for (const auto& it : module.named_parameters()) add(it);
  for (const auto& it : module.named_buffers()) add(it);
}

void describe(Module& it) {
  About& about = it.about;
  const auto& schema = it.forward->getSchema();
  for (size_t i = 1; i < schema.arguments().size(); ++i) {
    const auto& argument = schema.arguments()[i];
    about.parameters.push_back({about.keep(argument.name()),
                                about.keep(argument.type()->annotation_str()),
                                kind_of(argument.type()), argument.default_value().has_value()});
  }
  it.takes_dict = about.parameters.size() == 1 && about.parameters[0].kind == kind::DICT;
  describe_weights(about, it.module);

  auto& view = about.view;
  TORCH_CHECK(schema.returns().size() == 1, "forward returns ", schema.returns().size(), " values");
  const auto returns = schema.returns()[0].type();
  view.returns = about.keep(returns->annotation_str());
  view.returns_dict = kind_of(returns) == kind::DICT;
  view.returns_count = count_of(returns);
  if (auto tuple = returns->cast<c10::TupleType>(); tuple && tuple->schema()) {
    const auto& fields = tuple->schema()->arguments();
    if (static_cast<int64_t>(fields.size()) == view.returns_count) {
      for (const auto& field : fields) about.fields.push_back(about.keep(field.name()));
    }
  }
  view.parameters = about.parameters.data();
  view.parameters_length = about.parameters.size();
  view.weights = about.weights.data();
  view.weights_length = about.weights.size();
  view.fields = about.fields.data();
  view.fields_length = about.fields.size();
  view.training = it.module.hasattr("training") && it.module.is_training();
  view.stateful = it.stateful;
}

/// Finds out what a run does to the module and its inputs. Where that cannot be told, the worst is assumed.
void analyse(Module& it) {
  try {
    auto frozen = torch::jit::freeze(it.module);
    const auto graph = inlined(frozen);
    it.stateful = can_change(it.module, graph);
    it.copies_inputs = it.stateful || writes_inputs(graph);
    if (!it.stateful) it.frozen = std::move(frozen);
  } catch (const std::exception&) {
    // A module in training mode cannot be frozen, for one.
    it.stateful = it.copies_inputs = true;
  }
}

}  // namespace

Text About::keep(std::string text) {
  texts.push_back(std::move(text));
  return {texts.back().data(), texts.back().size()};
}

Module::Module(torch::jit::Module loaded, c10::Device where)
    : module(std::move(loaded)), forward(nullptr), device(where), takes_dict(false), stateful(false),
      copies_inputs(false) {
  TORCH_CHECK(module.find_method("forward"), "the module has no method forward");
  forward = &module.get_method("forward").function();
}

}  // namespace muster

using namespace muster;

Failure* muster_torch_load(Text path, int32_t device, muster::Module** module) {
  return guarded([&] {
    torch::NoGradGuard no_grad;
    const c10::Device where = device < 0
        ? c10::Device(c10::kCPU)
        : c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device));
    auto loaded = std::make_unique<muster::Module>(
        torch::jit::load(std::string(path.begin, path.length), where), where);
    analyse(*loaded);
    describe(*loaded);
    *module = loaded.release();
  });
}

const Description* muster_torch_describe(const muster::Module* module) {
  return &module->about.view;
}

Failure* muster_torch_optimize(const muster::Module* module, uint32_t level, muster::Module** result) {
  return guarded([&] {
    torch::NoGradGuard no_grad;
    TORCH_CHECK(module->frozen, "a module with state is not optimised");
    // A second freezing copies the graph, not the weights: the analysed one stays as it is.
    auto better = module->frozen->clone();
    if (level >= level::INFERENCE) better = torch::jit::optimize_for_inference(better);
    auto optimized = std::make_unique<muster::Module>(std::move(better), module->device);
    optimized->takes_dict = module->takes_dict;
    optimized->copies_inputs = module->copies_inputs;
    *result = optimized.release();
  });
}

void muster_torch_unload(muster::Module* module) { delete module; }
