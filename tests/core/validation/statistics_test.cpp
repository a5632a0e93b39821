#include "core/validation/statistics.hpp"

#include "tests/catch.hpp"

using namespace lockstep;

TEST_CASE("percentiles lie between the sorted values", "[validation]") {
  CHECK(percentile({7}, 0.9) == 7);
  CHECK(percentile({4, 1, 3, 2}, 0.5) == 2.5);  // between the second and the third
  CHECK(percentile({3, 1, 2}, 0.5) == 2);
  CHECK(percentile({0, 10, 20, 30, 40}, 0.9) == Approx(36));  // at 3.6 of 0 … 4
  CHECK(percentile({5, 1}, 0) == 1);
  CHECK(percentile({5, 1}, 1) == 5);
}

TEST_CASE("error figures take sizes for distance and signs for bias", "[validation]") {
  const ErrorFigures f = figures_of(std::vector<double>{-0.3, 0.1, -0.1, 0.02, -0.05});
  CHECK(f.count == 5);
  CHECK(f.median == Approx(0.1));  // of 0.02 0.05 0.1 0.1 0.3
  CHECK(f.percentile90 == Approx(0.1 + 0.6 * 0.2));
  CHECK(f.bias == Approx(-0.05));
  CHECK(f.within_10 == Approx(0.8));
  CHECK(figures_of(std::vector<double>{}).count == 0);
}

TEST_CASE("Kendall's tau counts pairs by definition", "[validation]") {
  // Measured 1 2 3 4, predicted 1 3 2 4: of six pairs one, (2, 3), is turned round: (5 - 1) / 6.
  const RankAgreement one = rank_agreement({{1, 1, "a"}, {2, 3, "b"}, {3, 2, "c"}, {4, 4, "d"}});
  CHECK(one.pairs == 6);
  CHECK(one.discordant == 1);
  CHECK(one.tau() == Approx(4.0 / 6));
  CHECK(rank_agreement({{1, 9, "a"}, {2, 5, "b"}, {3, 1, "c"}}).tau() == -1);

  // Equal predictions count as a pair and as neither; equal measurements and repetitions of a
  // layout do not count.
  const RankAgreement ties = rank_agreement({{1, 5, "a"}, {2, 5, "b"}, {2, 6, "c"}, {3, 7, "c"}});
  CHECK(ties.pairs == 4);  // not (b, c) of equal times, not (c, c)
  CHECK(ties.concordant == 3);
  CHECK(ties.discordant == 0);

  // Within what a repetition differs by.
  CHECK(rank_agreement({{100, 2, "a"}, {100.9, 1, "b"}}).pairs == 0);
  CHECK(rank_agreement({{100, 2, "a"}, {101.1, 1, "b"}}).discordant == 1);

  RankAgreement sum = one;
  sum += ties;
  CHECK(sum.tau() == Approx((5.0 - 1 + 3) / 10));
}

TEST_CASE("the loss of a first choice is what was measured of it beyond the best", "[validation]") {
  // b is predicted to be fastest, and a was.
  const FirstChoice wrong = first_choice({{10, 2, "a"}, {11, 1, "b"}, {30, 3, "c"}});
  CHECK(wrong.chosen == 1);
  CHECK(wrong.best == 0);
  CHECK(wrong.loss == Approx(0.1));
  CHECK(first_choice({{10, 1, "a"}, {11, 2, "b"}}).loss == 0);
  // A repetition of the first choice was the fastest run.
  CHECK(first_choice({{12, 1, "a"}, {11, 2, "b"}, {10, 1, "a"}}).loss == 0);
}
