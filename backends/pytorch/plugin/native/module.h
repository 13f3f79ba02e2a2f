// A loaded module, and what every function of the table needs: failures as values.
#pragma once

#include <torch/script.h>

#include <deque>
#include <string>
#include <vector>

#include "abi.h"

namespace muster {

/// The parts of a description that own memory. Filled once, before `view` points into them.
struct About {
  std::deque<std::string> texts;
  std::deque<std::vector<int64_t>> dims;
  std::vector<Parameter> parameters;
  std::vector<Weight> weights;
  std::vector<Text> fields;
  Description view{};

  Text keep(std::string text);
};

struct Module {
  torch::jit::Module module;
  /// `forward`, looked up once.
  torch::jit::Function* forward;
  c10::Device device;
  /// The only argument is a dictionary, and inputs are its entries.
  bool takes_dict;
  /// A run can change the module.
  bool stateful;
  /// A run may write to an input or keep it, so that it must have a copy of its own.
  bool copies_inputs;
  /// What `torch::jit::freeze` made of it while it was looked at; stateless modules only.
  std::optional<torch::jit::Module> frozen;
  About about;

  Module(torch::jit::Module module, c10::Device device);
};

/// Does not throw.
Failure* fail(uint32_t kind, const char* text) noexcept;

/// Our number of a type of elements.
uint32_t element_of(c10::ScalarType type);

/// Takes libtorch's warnings, which it would write to the standard error among the lines of the log.
struct Silent final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

/// Runs `work`, and returns what it threw.
template <typename Work>
Failure* guarded(const Work& work) noexcept {
  Silent silent;
  c10::WarningUtils::WarningHandlerGuard guard(&silent);
  try {
    work();
    return nullptr;
  } catch (const c10::OutOfMemoryError& error) {
    return fail(OUT_OF_MEMORY, error.what_without_backtrace());
  } catch (const c10::Error& error) {
    return fail(FAILED, error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return fail(OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return fail(FAILED, error.what());
  } catch (...) {
    return fail(FAILED, "an exception of unknown type");
  }
}

}  // namespace muster
