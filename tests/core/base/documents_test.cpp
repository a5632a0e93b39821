#include "core/base/documents.hpp"

#include <cmath>
#include <vector>

#include "tests/catch.hpp"

namespace lockstep {
namespace {

TEST_CASE("a document begins behind the token that ends the one before", "[core][base]") {
  const auto starts_of = [](const std::vector<std::int32_t>& tokens) {
    std::vector<std::int32_t> starts(tokens.size());
    document_starts(tokens, 9, starts);
    return starts;
  };
  CHECK(starts_of({1, 2, 9, 3, 9, 9, 4}) == std::vector<std::int32_t>{0, 0, 0, 3, 3, 5, 6});
  CHECK(starts_of({1, 2, 3}) == std::vector<std::int32_t>{0, 0, 0});
  CHECK(starts_of({9, 1}) == std::vector<std::int32_t>{0, 1});
  CHECK(starts_of({}).empty());
}

TEST_CASE("a document ends behind its last token, or with the sequence", "[core][base]") {
  const auto ends_of = [](const std::vector<std::int32_t>& tokens) {
    std::vector<std::int32_t> ends(tokens.size());
    document_ends(tokens, 9, ends);
    return ends;
  };
  CHECK(ends_of({1, 2, 9, 3, 9, 9, 4}) == std::vector<std::int32_t>{3, 3, 3, 5, 5, 6, 7});
  CHECK(ends_of({1, 2, 3}) == std::vector<std::int32_t>{3, 3, 3});
  CHECK(ends_of({9, 1}) == std::vector<std::int32_t>{1, 2});
  CHECK(ends_of({}).empty());
}

TEST_CASE("expected scores of queries that see later keys, too, are those of both directions",
          "[core][base]") {
  for (const double mean : {1.0, 3.0, 40.0}) {
    const double stay = 1 - 1 / mean;
    for (const std::int64_t n : {1, 2, 7, 50}) {
      for (const std::int64_t ahead : {std::int64_t{0}, n, -n, -3 * n}) {
        INFO("mean " << mean << ", " << n << " tokens, " << ahead << " ahead");
        double sum = 0;
        for (std::int64_t i = 0; i < n; ++i) {
          for (std::int64_t j = 0; j < n; ++j) {
            sum += std::pow(stay, std::abs(static_cast<double>(ahead + i - j)));
          }
        }
        CHECK(expected_whole_scores(mean, n, ahead) == Approx(sum).epsilon(1e-8));
      }
    }
  }
}

TEST_CASE("expected scores are the sum over pairs of the probability that no document ends between",
          "[core][base]") {
  for (const double mean : {1.0, 1.5, 3.0, 40.0, 1e4, 1e12}) {
    const double stay = 1 - 1 / mean;
    for (const std::int64_t n : {1, 2, 7, 50}) {
      for (const std::int64_t ahead : {std::int64_t{0}, n, 3 * n}) {
        INFO("mean " << mean << ", " << n << " tokens, " << ahead << " ahead");
        double sum = 0;
        for (std::int64_t i = 0; i < n; ++i) {
          for (std::int64_t j = 0; j < n; ++j) {
            const std::int64_t distance = ahead + i - j;
            if (distance >= 0) sum += std::pow(stay, static_cast<double>(distance));
          }
        }
        CHECK(expected_scores(mean, n, ahead) == Approx(sum).epsilon(mean < 1e6 ? 1e-8 : 1e-5));
      }
      CHECK(expected_scores(mean, n, -n) == 0);
    }
  }
  // Long documents: the triangle with its diagonal. Documents of one token: the diagonal.
  CHECK(expected_scores(1e12, 1 << 20) ==
        Approx(0.5 * (1 << 20) * ((1 << 20) + 1.0)).epsilon(1e-6));
  CHECK(expected_scores(1, 1 << 20) == 1 << 20);
}

TEST_CASE("pairs of a query and a key in its window are counted", "[core][base]") {
  for (const std::int64_t window : {1, 3, 8, 20}) {
    for (const std::int64_t count : {1, 4, 9}) {
      for (const std::int64_t ahead : {0L, 4L, 9L, 18L, -9L}) {
        std::int64_t pairs = 0;
        for (std::int64_t query = ahead; query < ahead + count; ++query) {
          for (std::int64_t key = 0; key < count; ++key) {
            pairs += key <= query && query - key < window ? 1 : 0;
          }
        }
        CAPTURE(window, count, ahead);
        CHECK(window_scores(window, count, ahead) == Approx(static_cast<double>(pairs)));
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
