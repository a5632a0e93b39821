// Tests when the stages of a rank are gathered, and the second level of a schedule's file.
#include "core/schedule/communication.hpp"

#include "core/schedule/schedules.hpp"
#include "tests/catch.hpp"
#include "tests/core/schedule/unshard_counts.hpp"

using namespace lockstep;

using test::Counts;
using test::counts;

TEST_CASE("stages are gathered as often as PyTorch's look-ahead does", "[core][schedule]") {
  // Counts per rank for 1, 2, 3, 4 and any number of active stages.
  const auto check = [](RankSchedule schedule, const PipelineShape& shape,
                        const std::vector<Counts>& expected) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const int most_active = i < 4 ? static_cast<int>(i) + 1 : 0;
      INFO("p " << shape.p << " m " << shape.m << " v " << shape.v << ", " << most_active
                << " active");
      CHECK(counts(schedule, shape, most_active) == expected[i]);
    }
  };
  const auto each = [](int n) { return Counts(4, n); };
  check(interleaved_1f1b, {4, 2, 8, 4}, {{11, 19, 13, 5}, each(2), each(2), each(2), each(2)});
  check(interleaved_1f1b, {4, 3, 8, 4}, {{23, 23, 21, 21}, each(8), each(3), each(3), each(3)});
  check(interleaved_1f1b, {4, 4, 8, 4},
        {{31, 39, 33, 25}, each(12), {11, 11, 9, 9}, each(4), each(4)});
  check(interleaved_1f1b, {4, 4, 16, 4},
        {{75, 99, 85, 61}, each(20), {15, 15, 13, 13}, each(4), each(4)});
  check(interleaved_1f1b, {4, 8, 8, 4},
        {{71, 79, 73, 65}, each(28), {27, 27, 25, 25}, each(24), each(8)});
  check(looped_bfs, {4, 4, 8, 4}, {each(7), each(6), each(5), each(4), each(4)});
  check(zbv_zero_bubble, {4, 2, 8, 4}, {{11, 17, 21, 25}, each(2), each(2), each(2), each(2)});
}

TEST_CASE("the second level of a schedule is PyTorch's", "[core][schedule]") {
  PipelineShape shape{2, 4, 4, 2};
  Schedule schedule{place_stages(Placement::Loop, 2, 4),
                    {interleaved_1f1b(shape, 0), interleaved_1f1b(shape, 1)}};
  const auto without_messages = [](const std::vector<std::string>& cells, std::size_t count) {
    std::string text;
    for (const std::string& cell : cells) {
      if (cell.find('_') != std::string::npos || count == 0) continue;
      text += (text.empty() ? "" : " ") + cell;
      --count;
    }
    return text;
  };
  const auto cells = with_communication(schedule, 3);
  CHECK(without_messages(cells[0], 19) ==
        "0UNSHARD 2UNSHARD 4UNSHARD 0F0 0F1 0RESHARD 6UNSHARD 2F0 2F1 2RESHARD 0UNSHARD 4F0 4F1 "
        "4RESHARD 2UNSHARD 6F0 6F1 0F2 6B0");
  // Two ranks, two microbatches, by hand. Ranks take turns, one cell each; the receive goes to the
  // end of the receiver's list at the moment of the send.
  Schedule small{{0, 1}, {gpipe({2, 1, 2, 2}, 0), gpipe({2, 1, 2, 2}, 1)}};
  using Cells = std::vector<std::string>;
  CHECK(with_communication(small, 3) ==
        std::vector<Cells>{{"0UNSHARD", "0F0", "0SEND_F0", "0F1", "0SEND_F1", "0RECV_B0", "0B0",
                            "0RECV_B1", "0B1", "0REDUCE_GRAD", "0RESHARD"},
                           {"1UNSHARD", "1RECV_F0", "1F0", "1RECV_F1", "1F1", "1B0", "1SEND_B0",
                            "1B1", "1SEND_B1", "1REDUCE_GRAD", "1RESHARD"}});
}
