// Lowers and simulates the whole space of lockstep search on small models.
#include "backends/sim/engine.hpp"
#include "core/lower/lower.hpp"
#include "core/plan/found_layout.hpp"
#include "core/plan/space.hpp"
#include "tests/catch.hpp"
#include "tests/core/lower/fixtures.hpp"

using namespace lockstep;

TEST_CASE("every layout that a search tries lowers and runs to its end", "[integration]") {
  // Sizes do not divide evenly, so that units are padded and stages uneven. They are in mixed
  // precision, as most searches are.
  struct Case {
    Architecture architecture;
    int experts, nodes, devices, batch;
  };
  int tried = 0;
  for (const Case& c :
       {Case{Architecture::Gpt2, 0, 1, 8, 24}, Case{Architecture::Llama, 0, 2, 3, 36},
        Case{Architecture::Llama, 4, 1, 8, 16}, Case{Architecture::Llama, 6, 3, 2, 12}}) {
    Scenario s = test::tiny_scenario(c.architecture, {});
    s.model.layers = 9;
    s.model.experts = c.experts;
    s.model.ffn_hidden = 48;
    s.training.global_batch_size = c.batch;
    s.training.mixed_precision_param = PartDType::BF16;
    s.cluster.ranks_per_device = 1;
    s.cluster.nodes = c.nodes;
    s.cluster.devices_per_node = c.devices;
    const std::vector<LayoutPoint> points = layout_space(s, {});
    for (std::size_t i = 0; i < points.size(); i += 5) {
      const std::optional<Scenario> layout = layout_of(s, points[i]);
      if (!layout) continue;
      INFO(layout_name(*layout) << ", " << c.experts << " experts");
      const auto program = lower(*layout);
      if (!program) FAIL_CHECK(to_string(program.error()));
      if (program) CHECK(sim::simulate(*program, layout->cluster).ok());
      ++tried;
    }
  }
  CHECK(tried > 400);
}
