#include "tests/integration/kernel_conformance.hpp"

#include <deque>
#include <future>
#include <memory>
#include <thread>

#include "tests/integration/conformance_cases.hpp"

namespace lockstep::test {

Numbers ConformanceCases::random(std::int64_t n, double scale, double offset) {
  Numbers v(static_cast<std::size_t>(n));
  for (double& x : v) {
    x = static_cast<float>(scale * (static_cast<double>(engine_()) / 2147483648.0 - 1.0) + offset);
  }
  return v;
}

Numbers ConformanceCases::ids(std::int64_t n, std::int64_t below) {
  Numbers v(static_cast<std::size_t>(n));
  for (double& x : v) x = static_cast<double>(engine_() % static_cast<unsigned>(below));
  return v;
}

std::vector<Numbers> ConformanceCases::outputs(const ConformanceCase& c) {
  return ConformanceRun(c, DType::F64).reference();
}

std::vector<ConformanceCase> conformance_cases(bool large) {
  ConformanceCases cases;
  cases.gemm(1, 1, 1);
  cases.gemm(5, 7, 3);
  cases.gemm(17, 33, 40);
  cases.gemm(48, 32, 64);
  cases.attention(1, 1, 1, 1, 1);
  cases.attention(2, 3, 2, 2, 5);
  cases.attention(1, 33, 3, 1, 8);
  cases.attention(1, 65, 4, 2, 20);
  cases.attention(1, 40, 1, 1, 100);
  cases.attention(1, 7, 2, 1, 64);
  cases.attention(2, 64, 2, 1, 64);
  cases.attention(1, 130, 2, 2, 64);
  cases.attention(1, 150, 2, 1, 128);
  cases.gathered_attention(1, 2, 1, 1, 3, 1);
  cases.gathered_attention(2, 10, 2, 1, 5, 3);
  cases.gathered_attention(1, 70, 2, 2, 20, 2);
  cases.gathered_attention(1, 14, 2, 1, 64, 2);
  cases.gathered_attention(1, 256, 2, 1, 64, 2);
  cases.gathered_attention(2, 150, 1, 1, 128, 2);
  for (const bool centered : {true, false}) {
    cases.norm(centered, 1, 1);
    cases.norm(centered, 3, 5);
    cases.norm(centered, 9, 33);
    cases.norm(centered, 20, 64);
    cases.norm(centered, 300, 48);
    cases.norm(centered, 5, 520);
  }
  cases.head_norm(1, 1, 1, 2);
  cases.head_norm(5, 4, 2, 8);
  cases.head_norm(40, 6, 1, 33);
  cases.rows_and_columns(1, 1);
  cases.rows_and_columns(3, 7);
  cases.rows_and_columns(11, 64);
  cases.rows_and_columns(270, 40);
  cases.rows_and_columns(2, 2100);
  cases.rows_and_columns(1, 999);
  cases.cross_entropy_parts(5, 12, 1);
  cases.cross_entropy_parts(7, 64, 4);
  cases.cross_entropy_parts(3, 61, 2);
  cases.cross_entropy_parts(4, 5, 4);
  cases.cross_entropy_parts(2, 2400, 2);
  for (const std::int64_t n : {1, 7, 64, 1000, 2048}) cases.line(n);
  cases.line(40000);  // more than one part of a sum
  cases.clip(1, 0.5);
  cases.clip(7, 0.0);
  cases.clip(300, 1000.0);
  cases.embedding(1, 1, 1, 1);
  cases.embedding(12, 5, 4, 3);
  cases.embedding(600, 16, 100, 11);
  cases.rope(1, 1, 1, 2, 1);
  cases.rope(2, 9, 3, 8, 5);
  cases.rope(2, 10, 2, 8, 3);
  cases.regroup(1, 1, 1, 0);
  cases.regroup(9, 3, 5, 2);
  cases.regroup(17, 2, 32, 8);
  cases.grouped_gemm(1, 1, 1, 1, 1);
  cases.grouped_gemm(3, 2, 5, 7, 4);
  cases.grouped_gemm(2, 1, 24, 16, 32);
  cases.grouped_gemm(2, 3, 24, 16, 32);
  cases.route(1, 2, 1, 1, 3);
  cases.route(30, 4, 2, 16, 8);
  cases.route(40, 8, 2, 5, 5);
  cases.route(600, 3, 1, 150, 16);
  cases.beside([&] {
    cases.route(1, 2, 1, 0, 3);
    cases.route(40, 8, 2, 0, 5);
    cases.route(300, 3, 3, 0, 16);
    cases.ragged(1, 2, 1, 1);
    cases.ragged(3, 2, 20, 7);
    cases.ragged(2, 3, 16, 32);
  });
  cases.gate(1, 1);
  cases.gate(9, 33);
  cases.gate(130, 64);
  // Products (1x1), strides that do and do not divide, one position, many channels, many images.
  cases.convolution(1, 1, 1, 1, 1, 1, 1);
  cases.convolution(2, 5, 4, 3, 2, 3, 1);
  cases.convolution(2, 7, 7, 5, 4, 3, 2);
  cases.convolution(1, 9, 6, 3, 8, 7, 2);
  cases.convolution(3, 4, 4, 33, 5, 1, 1);
  cases.convolution(2, 5, 6, 4, 9, 1, 2);
  cases.convolution(5, 12, 10, 8, 7, 3, 1);
  cases.batch_norm(3, 5);
  cases.batch_norm(16, 16);
  cases.batch_norm(50, 33);
  cases.batch_norm(1300, 24);
  cases.pooling(2, 5, 6, 3, 2);
  cases.pooling(1, 4, 4, 40, 1);
  cases.pooling(1, 1, 1, 2, 2);
  for (int i = 0; i < 6; ++i) cases.random_shapes();
  cases.columns(1, 1, 1);
  cases.columns(5, 3, 7);
  cases.columns(9, 24, 16);
  cases.columns(130, 1, 33);
  // Documents, of which a tile of 32 or 64 keys or queries holds several, or which begin in
  // another.
  cases.attention(2, 9, 2, 1, 5, 3);
  cases.attention(1, 200, 2, 1, 20, 40);
  cases.attention(2, 150, 2, 1, 64, 50);
  cases.attention(1, 260, 1, 1, 128, 90);
  cases.gathered_attention(2, 10, 2, 1, 5, 3, 4);
  cases.gathered_attention(1, 140, 2, 1, 20, 2, 30);
  cases.gathered_attention(2, 150, 2, 1, 64, 2, 60);
  cases.gathered_attention(1, 256, 1, 1, 128, 3, 100);
  cases.beside([&] {
    cases.dropping(0.3, [&] {
      cases.attention(2, 9, 2, 1, 5);
      cases.attention(1, 70, 3, 3, 20, 12);
      cases.attention(2, 130, 2, 1, 64);
      cases.attention(1, 150, 2, 2, 128, 40);
      cases.attention(1, 70, 2, 1, 64, 0, 1);
      cases.gathered_attention(2, 10, 2, 1, 5, 3);
      cases.gathered_attention(2, 150, 2, 1, 64, 2);
      cases.gathered_attention(1, 140, 2, 2, 128, 2, 30);
    });
  });
  cases.cross_entropy_parts(7, 64, 4, true);
  cases.cross_entropy_parts(5, 61, 2, true);
  cases.adamw_8bit(1, 256);
  cases.adamw_8bit(600, 256);
  cases.adamw_8bit(101, 4);
  cases.adamw_8bit(2048, 1000);
  for (const std::int64_t n : {1, 7, 1000}) cases.scale(n);
  cases.block_codes(1, 1, 2);
  cases.block_codes(9, 6, 4);
  cases.block_codes(1024, 4, 256);
  cases.block_codes(1023, 2, 300);
  cases.basis(1, 1);
  cases.basis(5, 3);
  cases.basis(300, 4);
  cases.dropout(1, 1);
  cases.dropout(9, 7);
  cases.dropout(37, 128);
  cases.dropout(4, 1003);
  // Patches, whose windows lie side by side and may reach beyond the image; positions that are
  // added to images; and attention to later keys, too, of a whole sequence or of a document.
  cases.beside([&] {
    cases.convolution(2, 8, 12, 3, 5, 4, 4);
    cases.convolution(3, 9, 6, 4, 8, 3, 3);
    cases.convolution(2, 5, 7, 8, 16, 2, 2);
    cases.bias(1, 1);
    cases.bias(3, 7);
    cases.bias(270, 40);
    cases.attention(1, 1, 1, 1, 1, 0, 1);
    cases.attention(2, 9, 2, 1, 5, 0, 1);
    cases.attention(1, 65, 4, 2, 20, 0, 1);
    cases.attention(2, 64, 2, 1, 64, 0, 1);
    cases.attention(1, 150, 2, 2, 64, 0, 1);
    cases.attention(1, 197, 2, 1, 128, 0, 1);
    cases.gathered_attention(2, 10, 2, 1, 5, 3, 0, 1);
    cases.gathered_attention(1, 140, 2, 1, 64, 2, 0, 1);
    cases.attention(2, 9, 2, 1, 5, 3, 1);
    cases.attention(1, 200, 2, 1, 20, 40, 1);
    cases.attention(2, 150, 2, 1, 64, 50, 1);
    cases.attention(1, 260, 1, 1, 128, 90, 1);
    cases.gathered_attention(2, 10, 2, 1, 5, 3, 4, 1);
    cases.gathered_attention(1, 140, 2, 1, 20, 2, 30, 1);
    cases.gathered_attention(2, 150, 2, 1, 64, 2, 60, 1);
    cases.gathered_attention(1, 256, 1, 1, 128, 3, 100, 1);
    cases.dropping(0.3, [&] {
      cases.attention(1, 70, 2, 1, 64, 12, 1);
      cases.gathered_attention(1, 140, 2, 2, 128, 2, 30, 1);
    });
  });
  cases.beside([&] {
    cases.scoring(0.3, 0, [&] {
      cases.attention(2, 9, 2, 1, 5);
      cases.attention(1, 70, 2, 1, 64);
      cases.gathered_attention(2, 10, 2, 1, 5, 3);
    });
    cases.scoring(0, 1.5, [&] {
      cases.attention(1, 65, 4, 2, 20);
      cases.attention(1, 130, 2, 1, 64);
      cases.attention(1, 40, 1, 1, 100);
      cases.attention(1, 150, 2, 2, 128, 40);
      cases.attention(1, 70, 2, 1, 64, 12, 1);
      cases.gathered_attention(1, 70, 2, 2, 20, 2);
      cases.gathered_attention(1, 140, 2, 1, 64, 2);
    });
    cases.scoring(0.2, 4, [&] {
      cases.attention(2, 9, 2, 1, 5, 3);
      cases.gathered_attention(2, 10, 2, 1, 5, 3, 4);
      cases.gathered_attention(1, 140, 2, 1, 128, 2, 30);
      cases.dropping(0.3, [&] {
        cases.attention(1, 70, 3, 3, 20, 12);
        cases.attention(1, 70, 2, 1, 64);
        cases.gathered_attention(1, 70, 2, 1, 64, 2, 30, 1);
      });
    });
  });
  cases.latent(1, 1, 1, 2, 1);
  cases.latent(7, 3, 5, 2, 4);
  cases.latent(40, 4, 16, 8, 24);
  cases.latent(9, 2, 32, 16, 32);
  cases.scaled_groups(1, 1, 4, 4, 4, 4);
  cases.scaled_groups(3, 2, 8, 8, 12, 4);
  cases.scaled_groups(2, 3, 32, 32, 64, 16);
  cases.ragged_float8(1, 1, 4, 4, 4, 1);
  cases.ragged_float8(3, 2, 8, 12, 4, 1);
  cases.ragged_float8(3, 2, 8, 12, 4, 2);
  cases.ragged_float8(2, 3, 32, 64, 16, 3);
  cases.ragged_float8(2, 1, 130, 32, 1, 1);
  cases.delayed_scales(1, 1);
  cases.delayed_scales(5, 3);
  cases.delayed_scales(2, 300);
  cases.quantize(1, 1, 1, 1);
  cases.quantize(7, 10, 1, 4);
  cases.quantize(40, 36, 4, 4);
  cases.quantize(33, 130, 1, 32);
  cases.quantize(130, 260, 128, 128);
  cases.quantize(5, 9, 100, 100);  // one block
  cases.quantize(190, 180, 190, 190);
  cases.scaled_gemm(1, 1, 1, 1, 1, 1);
  cases.scaled_gemm(5, 7, 10, 1, 4, 4);
  cases.scaled_gemm(33, 40, 70, 1, 1, 32);
  cases.scaled_gemm(17, 130, 260, 1, 128, 128);
  cases.scaled_gemm(9, 5, 12, 100, 100, 100);
  if (!large) return cases.take();
  cases.convolution(32, 56, 56, 64, 64, 3, 1);
  cases.convolution(16, 224, 224, 3, 64, 7, 2);
  cases.batch_norm(32 * 56 * 56, 64);
  cases.pooling(32, 112, 112, 64, 2);
  cases.gemm(1024, 768, 3072);
  cases.gemm(1000, 2304, 768);
  cases.attention(2, 1024, 12, 12, 64);
  cases.attention(1, 1000, 8, 2, 128);
  cases.gathered_attention(1, 1024, 8, 2, 128, 2);
  cases.norm(true, 4096, 768);
  cases.norm(false, 1024, 4096);
  cases.rows_and_columns(128, 50304);
  cases.cross_entropy_parts(128, 50257, 2);
  cases.line(1 << 22);
  cases.embedding(4096, 768, 1024, 8192);
  cases.rope(2, 2048, 16, 128, 32);
  cases.regroup(4096, 8, 512, 128);
  cases.latent(4096, 16, 128, 64, 128);
  return cases.take();
}

std::vector<Numbers> ConformanceRun::run(const MakeDevice& make, std::int64_t shift) const {
  Program program;
  program.mesh.dims = {{"dp", 1}};
  program.role_of_rank = {RoleId{0}};
  program.functions.push_back({"kernel", {}, {kernel_}});
  program.roles.emplace_back();
  Role& role = program.roles.front();
  role.ranks = {0};
  for (std::size_t b = 0; b < values_.size(); ++b) {
    Buffer buffer;
    buffer.bytes = {std::ssize(values_[b]) * size_of(types_[b])};
    buffer.dtype = types_[b];
    buffer.offset = role.arena.v + kGuard + shift * alignment(types_[b]);
    role.arena.v = round_up(buffer.offset + buffer.bytes.v + kGuard, kGuard);
    role.args.push_back({static_cast<std::int32_t>(b)});
    role.buffers.push_back(buffer);
    program.functions[0].formals.push_back({std::to_string(b), Access::ReadWrite, buffer.bytes});
  }
  Op op;
  op.target = 0;
  op.args_count = static_cast<std::uint16_t>(role.args.size());
  role.ops = {op};
  const std::unique_ptr<Device> device = make(program);
  std::vector<std::byte> image(static_cast<std::size_t>(role.arena.v), std::byte{0xa5});
  std::vector<std::byte*> args;
  const auto place = [&](std::size_t b) { return image.begin() + role.buffers[b].offset; };
  for (std::size_t b = 0; b < values_.size(); ++b) {
    const std::vector<std::byte> bytes = encoded(values_[b], types_[b]);
    std::copy(bytes.begin(), bytes.end(), place(b));
    args.push_back(device->arena() + role.buffers[b].offset);
  }
  done(device->write(0, image));
  device->begin_step(case_.context);
  done(device->enqueue_call({0}, role.ops[0], args));
  static_cast<void>(take(device->synchronize()));
  done(device->read(0, image));
  std::vector<Numbers> results;
  for (const Operand& operand : kernel_.out) {
    if (!operand.present()) {
      results.emplace_back();
      continue;
    }
    const auto b = static_cast<std::size_t>(operand.formal);
    results.push_back(output_values({place(b), place(b) + role.buffers[b].bytes.v}, operand));
  }
  for (std::size_t b = 0; b < values_.size(); ++b) {
    std::fill_n(place(b), role.buffers[b].bytes.v, std::byte{0xa5});
  }
  CHECK(std::count(image.begin(), image.end(), std::byte{0xa5}) == std::ssize(image));
  return results;
}

std::string text(const ConformanceCase& c, DType dtype) {
  std::string out = std::string(info(c.kind).name) + " " + std::string(to_string(dtype));
  for (const std::int64_t d : c.dims) out += " " + std::to_string(d);
  return out + (c.accumulate ? " accumulating" : "");
}

void for_each_run(const std::vector<ConformanceCase>& cases, const std::vector<DType>& types,
                  const ConformanceBody& body) {
  struct Ahead {
    const ConformanceCase* c;
    std::unique_ptr<ConformanceRun> run;
    std::future<std::vector<Numbers>> expected;
  };
  std::deque<Ahead> queue;
  const auto finish_first = [&] {
    const std::vector<Numbers> expected = queue.front().expected.get();
    body(*queue.front().c, *queue.front().run, expected);
    queue.pop_front();
  };
  for (const ConformanceCase& c : cases) {
    for (const DType dtype : types) {
      auto run = std::make_unique<ConformanceRun>(c, dtype);
      auto expected = std::async(std::launch::async, [r = run.get()] { return r->reference(); });
      queue.push_back({&c, std::move(run), std::move(expected)});
      if (queue.size() > std::thread::hardware_concurrency()) finish_first();
    }
  }
  while (!queue.empty()) finish_first();
}

}  // namespace lockstep::test
