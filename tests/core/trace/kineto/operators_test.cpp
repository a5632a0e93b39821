#include "core/trace/kineto/operators.hpp"

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace lockstep;

namespace {

std::string trace(const std::string& events) {
  return R"({"schemaVersion":1,"deviceProperties":[{"id":0}],"traceEvents":[)" + events + "]}";
}

/// An operator, its launch and its kernel; the launch is inside the operator.
std::string op(const char* name, const char* arguments, int at, int correlation, int begin,
               int length) {
  const std::string n = std::to_string(correlation), begins = std::to_string(at);
  return R"({"ph":"X","cat":"cpu_op","name":")" + std::string(name) + R"(","pid":1,"tid":1,"ts":)" +
         begins + R"(,"dur":10,"args":{)" + arguments +
         R"(}},{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":)" +
         std::to_string(at + 5) + R"(,"dur":2,"args":{"correlation":)" + n +
         R"(}},{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":)" + std::to_string(begin) +
         R"(,"dur":)" + std::to_string(length) + R"(,"args":{"correlation":)" + n + "}}";
}

std::vector<TracedKernel> read(const std::string& text) {
  const TemporaryFolder folder;
  write_bytes(folder / "t.json", text);
  const auto kernels = read_traced_kernels(folder / "t.json");
  REQUIRE(kernels.ok());
  return *kernels;
}

const char* const kShapes =
    R"("External id":3,"Input Dims":[[128],[5,64],[64,128],[],[[2,2],[3]]],)"
    R"("Input Strides":[[1],[64,1],[1,64],[],[]],"Input type":["float","float","float","Scalar",""])";

}  // namespace

TEST_CASE("a kernel has the shapes of the innermost operator around its launch", "[kineto]") {
  const std::string outer =
      R"({"ph":"X","cat":"cpu_op","name":"aten::linear","pid":1,"tid":1,"ts":90,"dur":100,)"
      R"("args":{"Input Dims":[[9,9]]}},)";
  const auto kernels = read(trace(outer + op("aten::addmm", kShapes, 100, 11, 200, 30)));
  REQUIRE(kernels.size() == 1);
  CHECK(kernels[0].op == "aten::addmm");
  CHECK(kernels[0].time.v == Approx(30e-6));
  const std::vector<TracedTensor> expected = {{{128}, {1}, "float"},
                                              {{5, 64}, {64, 1}, "float"},
                                              {{64, 128}, {1, 64}, "float"},
                                              {{}, {}, "Scalar"},
                                              {{}, {}, ""}};
  CHECK(kernels[0].inputs == expected);
}

TEST_CASE("files of 2021 spell categories and shapes differently", "[kineto]") {
  std::string text = trace(op("aten::mm", R"("Input dims":[[2,3],[3,4]])", 100, 11, 200, 30));
  for (const auto& [now, then] : {std::pair{"cpu_op", "Operator"},
                                  {"\"kernel\"", "\"Kernel\""},
                                  {"cuda_runtime", "Runtime"}}) {
    text.replace(text.find(now), std::string(now).size(), then);
  }
  const auto kernels = read(text);
  REQUIRE(kernels.size() == 1);
  CHECK(kernels[0].inputs[1].dims == std::vector<std::int64_t>{3, 4});
}

TEST_CASE("a gap counts where the kernel had been launched before the one in front ended",
          "[kineto]") {
  const auto kernels = read(trace(op("aten::mm", kShapes, 0, 1, 20, 80) + "," +
                                  op("aten::mm", kShapes, 10, 2, 103, 40) + "," +
                                  op("aten::mm", kShapes, 200, 3, 220, 40)));
  REQUIRE(kernels.size() == 3);
  CHECK(!kernels[0].gap);
  REQUIRE(kernels[1].gap);
  CHECK(kernels[1].gap->v == Approx(3e-6));
  CHECK(!kernels[2].gap);  // its launch came later
  CHECK(kernels[0].call != kernels[1].call);
}

TEST_CASE("a kernel without a launch or an operator is left out", "[kineto]") {
  CHECK(read(trace(R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1,)"
                   R"("args":{"correlation":5}})"))
            .empty());
  CHECK(read("[]").empty());
}

TEST_CASE("what is no trace is refused with its place", "[kineto]") {
  const TemporaryFolder folder;
  for (const char* text : {"{\"a\": 1}", "{\"traceEvents\": [", "hello"}) {
    write_bytes(folder / "t.json", text);
    const auto kernels = read_traced_kernels(folder / "t.json");
    REQUIRE(!kernels.ok());
    CHECK(kernels.error().where->file == folder / "t.json");
    CHECK_THAT(kernels.error().message, ContainsSubstring("not a trace"));
  }
  CHECK(!read_traced_kernels(folder / "none.json").ok());
}
