// EndNotes: when ops ended, written to the timeline in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/sim/engine.hpp"

namespace lockstep::sim {

/// The times of thousands of ranks lie in gigabytes, and writing those of one op at once would wait
/// for memory at every op. So the notes of neighbouring ranks are collected and written together.
class EndNotes {
 public:
  /// From here on, notes of `ranks` ranks are collected if these are many.
  void collect(std::size_t ranks) {
    if (ranks >= kMany) collected_.resize((ranks + kNeighbours - 1) / kNeighbours);
  }
  void note(std::uint32_t rank, OpTiming* place, OpTiming timing) {
    if (collected_.empty()) {
      *place = timing;
      return;
    }
    std::vector<Note>& notes = collected_[rank / kNeighbours];
    notes.push_back({place, timing});
    if (notes.size() >= kMost) write(notes);
  }
  void write_all() {
    for (std::vector<Note>& notes : collected_) write(notes);
    collected_.clear();
  }

 private:
  static constexpr std::size_t kMany = 1024, kNeighbours = 64, kMost = 8192;
  struct Note {
    OpTiming* place = nullptr;
    OpTiming timing;
  };
  static void write(std::vector<Note>& notes) {
    for (const Note& note : notes) *note.place = note.timing;
    notes.clear();
  }
  std::vector<std::vector<Note>> collected_;  // by the rank's number / kNeighbours
};

}  // namespace lockstep::sim
