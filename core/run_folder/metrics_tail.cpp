#include "core/run_folder/metrics_tail.hpp"

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/json_depth.hpp"
#include "core/base/read_file.hpp"

namespace lockstep {
namespace {

double number(const nlohmann::json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number()) return std::numeric_limits<double>::quiet_NaN();
  return found->get<double>();
}

}  // namespace

std::vector<StepMetrics> MetricsTail::poll(bool& restarted) {
  restarted = false;
  std::ifstream file = open_file(path_);
  file.seekg(0, std::ios::end);
  if (!file) return {};
  const auto size = static_cast<std::int64_t>(file.tellg());
  if (size < read_) {
    read_ = 0;
    restarted = true;
  }
  file.seekg(read_);
  std::string text(static_cast<std::size_t>(size - read_), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  std::vector<StepMetrics> steps;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string whole = text.substr(begin, end - begin);
    if (nests_too_deep(whole)) continue;
    const auto line = nlohmann::json::parse(whole, nullptr, false);
    if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer()) continue;
    StepMetrics step;
    step.step = line["step"].get<int>();
    step.loss = number(line, "loss");
    step.grad_norm = number(line, "grad_norm");
    step.lr = number(line, "lr");
    step.seconds = number(line, "time");
    step.tokens_per_s = number(line, "throughput(tps)");
    steps.push_back(step);
  }
  read_ += static_cast<std::int64_t>(begin);
  return steps;
}

}  // namespace lockstep
