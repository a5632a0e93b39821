#include "core/validation/training_row.hpp"

#include <cctype>
#include <charconv>

namespace lockstep {

std::string TrainingRow::group() const {
  const std::size_t dash = id.find_last_of("-_");
  return dash == std::string::npos ? id : id.substr(0, dash);
}

std::string TrainingRow::noted(std::string_view key) const {
  std::size_t at = notes.find(key);
  while (at != std::string::npos && at > 0 && notes[at - 1] != ' ' && notes[at - 1] != ';' &&
         notes[at - 1] != '(') {
    at = notes.find(key, at + 1);  // this was the end of a longer word
  }
  if (at == std::string::npos) return "";
  const std::size_t begin = at + key.size();
  const std::size_t end = notes.find_first_of("; ,)", begin);
  return notes.substr(begin, end == std::string::npos ? end : end - begin);
}

long TrainingRow::noted_count(std::string_view key, long otherwise) const {
  const std::string text = noted(key);
  long value = 0;
  const auto [stop, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  return fault == std::errc() && value > 0 ? value : otherwise;
}

bool TrainingRow::ran_out_of_memory() const {
  return notes.find("OOM") != std::string::npos && !iter_time_s && !tflops_per_gpu &&
         !tokens_per_s_per_gpu;
}

bool TrainingRow::max_allocated() const {
  return mem_gb && notes.find("max allocated") != std::string::npos;
}

bool is_llama(const TrainingRow& row) {
  for (std::size_t i = 0; i + 5 <= row.model.size(); ++i) {
    std::string word = row.model.substr(i, 5);
    for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (word == "llama") return true;
  }
  return false;
}

TrainingRows read_training_rows(const CsvTable& table) {
  TrainingRows result;
  require_columns(
      table,
      {"id", "source", "model", "hidden", "layers", "heads", "seq", "hw", "gpus", "tp", "pp", "dp",
       "micro_batch", "global_batch_seqs", "precision", "iter_time_s", "notes"},
      result.errors);
  if (!result.errors.empty()) return result;
  for (const std::vector<CsvField>& fields : table.rows) {
    CsvRowReader read(table, fields, result.errors);
    TrainingRow row;
    row.line = fields.front().line;
    row.id = read.needed("id");
    row.source = read.text("source");
    row.model = read.text("model");
    row.params_b = read.number("params_b");
    row.hidden = read.count("hidden");
    row.layers = read.count("layers");
    row.heads = read.count("heads");
    row.kv_heads = read.count("kv_heads");
    row.ffn_hidden = read.count("ffn_hidden");
    row.vocab = read.count("vocab");
    row.seq = read.count("seq");
    row.hw = read.needed("hw");
    row.gpus = read.count("gpus");
    row.gpus_per_node = read.count("gpus_per_node");
    row.interconnect = read.text("interconnect");
    row.tp = read.count("tp");
    row.pp = read.count("pp");
    row.vpp = read.count("vpp");
    row.dp = read.count("dp");
    row.fsdp_or_zero = read.text("fsdp_or_zero");
    row.sp = read.text("sp");
    row.recompute = read.text("recompute");
    row.micro_batch = read.count("micro_batch");
    row.global_batch_seqs = read.count("global_batch_seqs");
    row.precision = read.text("precision");
    row.iter_time_s = read.number("iter_time_s");
    row.tflops_per_gpu = read.number("tflops_per_gpu");
    row.tokens_per_s_per_gpu = read.number("tokens_per_s_per_gpu");
    row.mem_gb = read.number("mem_gb");
    row.notes = read.text("notes");
    result.rows.push_back(std::move(row));
  }
  return result;
}

}  // namespace lockstep
