#include "core/run/flight_record.hpp"

#include "tests/catch.hpp"

namespace lockstep {

TEST_CASE("a flight record keeps the last ops and says which of them have not ended",
          "[core][run]") {
  FlightRecord record;
  CHECK_FALSE(record.running());
  CHECK(record.entries().empty());
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t number = record.begin(1, OpId{i}, 7, SimTime{i});
    if (i != 900) record.end(number, SimTime{i + 1});
  }
  CHECK(record.running());
  CHECK(record.ended() == 999);
  const auto entries = record.entries();
  REQUIRE(entries.size() == FlightRecord::kKept);
  CHECK(entries.back().op.v == 999);
  CHECK(entries.back().end == SimTime{1000});
  for (const FlightRecord::Entry& entry : entries) CHECK(entry.ended == (entry.op.v != 900));
  // An op that ends after its place was taken leaves the others alone.
  FlightRecord late;
  const std::uint64_t first = late.begin(0, OpId{0}, 0, {});
  for (int i = 1; i <= 512; ++i) late.begin(0, OpId{i}, 0, {});
  late.end(first, SimTime{5});
  for (const FlightRecord::Entry& entry : late.entries()) CHECK_FALSE(entry.ended);
}

}  // namespace lockstep
