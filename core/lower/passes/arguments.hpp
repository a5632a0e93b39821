// What the formals of a layer's steps stand for. It is found from their names once for every step,
// because a step is put into the list for every microbatch of every layer of its kind.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/lower/draft/draft.hpp"

namespace lockstep {

struct Argument {
  enum What : std::uint8_t {
    Parameters,  // of unit `index` of the layer
    Gradient,    // of unit `index` of the layer
    Data,        // of the host: `data`
    Statistics,
    X,
    Dy,
    Y,
    Dx,
    Workspace,
    Loss,
    Kept,         // lives from one part of a layer to another; in table `index`
    Communicated  // by collectives; in table `index`
  };
  What what = Communicated;
  bool written = false;  // and not read: a run of the steps that writes it first has a new buffer
  BufferKind kind = BufferKind::Activation;  // of a new buffer; of kept and communicated tensors
  DType dtype = DType::F32;                  // likewise, of communicated ones
  HostData data = HostData::Tokens;
  int index = 0;
  Bytes bytes;              // of the buffer
  int part = 0, parts = 1;  // of a part of the buffer: which of how many equal ones
  std::string name;         // of the formal, or of the tensor of which it is a part
  std::int32_t label = -1;  // `name` in Program::names; -1 while no buffer has had it
};

/// Numbers for the tensors that layers keep and communicate, by their names, from 0 on.
using TensorTables = std::map<std::string, int, std::less<>>;

/// What a formal of a step of such a layer stands for. New names are added to `tables`.
Argument argument_of(const Formal& formal, const Layer& layer, const FunctionBuilder& functions,
                     TensorTables& tables);

}  // namespace lockstep
