// The models of the bench, and the shortest way to run them: libtorch alone, in a loop.
#include <ATen/Parallel.h>
#include <torch/script.h>

#include <string>

namespace {

void define_mlp(torch::jit::Module& module) {
  const int64_t widths[] = {30, 256, 256, 2};
  for (int i = 0; i < 3; ++i) {
    const auto name = std::to_string(i);
    module.register_parameter("w" + name, torch::randn({widths[i + 1], widths[i]}) / 16, false);
    module.register_parameter("b" + name, torch::randn({widths[i + 1]}), false);
  }
  module.define(R"(
    def forward(self, x):
        x = torch.relu(torch.linear(x, self.w0, self.b0))
        x = torch.relu(torch.linear(x, self.w1, self.b1))
        return torch.linear(x, self.w2, self.b2)
  )");
}

void define_conv(torch::jit::Module& module) {
  module.register_parameter("k0", torch::randn({16, 3, 3, 3}) / 5, false);
  module.register_parameter("k1", torch::randn({32, 16, 3, 3}) / 12, false);
  module.register_parameter("w", torch::randn({10, 32}) / 6, false);
  module.define(R"(
    def forward(self, x):
        x = torch.relu(torch.conv2d(x, self.k0))
        x = torch.relu(torch.conv2d(x, self.k1, stride=[2, 2]))
        return torch.linear(torch.mean(x, [2, 3]), self.w)
  )");
}

}  // namespace

extern "C" void bare_save(const char* name, const char* path) {
  torch::manual_seed(1);
  torch::jit::Module module("Model");
  module.register_attribute("training", c10::BoolType::get(), false);
  std::string(name) == "mlp" ? define_mlp(module) : define_conv(module);
  module.save(path);
}

extern "C" void* bare_load(const char* path) {
  torch::NoGradGuard no_grad;
  auto module = torch::jit::load(path);
  return new torch::jit::Module(torch::jit::optimize_for_inference(module));
}

/// Runs it so often on that input, and returns the first number of the last output.
extern "C" float bare_run(void* loaded, float* data, const int64_t* dims, size_t rank, size_t runs) {
  auto& module = *static_cast<torch::jit::Module*>(loaded);
  at::set_num_threads(1);
  float first = 0;
  for (size_t i = 0; i < runs; ++i) {
    c10::InferenceMode inference;
    auto input = at::from_blob(data, {dims, rank}, at::kFloat);
    first = *module.forward({input}).toTensor().const_data_ptr<float>();
  }
  return first;
}
