// RankMemory: a rank's tiers of memory, for who reads and writes them beside the ops of a step.
#pragma once

#include <cstring>
#include <span>

#include "core/run/device.hpp"
#include "core/run/drive.hpp"

namespace lockstep {

/// `drive` is null unless the rank keeps something there. What is said of Device::write() and
/// read() holds for the device's tier; on a drive, offsets are multiples of kDriveBlock.
struct RankMemory {
  Device& device;
  Drive* drive = nullptr;

  Result<void> write(Tier tier, std::int64_t offset, std::span<const std::byte> from) const {
    if (tier == Tier::Drive) return drive->write(offset, from);
    if (tier == Tier::Device) return device.write(offset, from);
    std::memcpy(device.host_arena() + offset, from.data(), from.size());
    return {};
  }
  Result<void> read(Tier tier, std::int64_t offset, std::span<std::byte> to) const {
    if (tier == Tier::Drive) return drive->read(offset, to);
    if (tier == Tier::Device) return device.read(offset, to);
    std::memcpy(to.data(), device.host_arena() + offset, to.size());
    return {};
  }
};

}  // namespace lockstep
