// Chakra files: Chakra's traces with times, as the files of their ranks.
#pragma once

#include <string>

#include "core/trace/kineto/file.hpp"

namespace lockstep::kineto {

/// Reads PREFIX.0.et, PREFIX.1.et, … (core/chakra). Nodes of the host and of the device are tracks
/// of their own, and so are collectives, messages and copies of memory. Errors: those of
/// read_chakra(); InvalidSpec if no node says when it began: such files are programs, which
/// `lockstep run` simulates.
Result<Files> parse_chakra_files(const std::string& path, NameTable& names);

}  // namespace lockstep::kineto
