// FabricDevice: the device of a program's only rank, with the fabric that it reports to.
#pragma once

#include <memory>
#include <utility>

#include "backends/local/fabric.hpp"
#include "core/run/backend.hpp"

namespace lockstep::local {

template <class Made>
struct FabricDevice final : OwnDevice {
  Device& device() override { return *made; }
  Fabric fabric;
  std::unique_ptr<Made> made;  // is gone before the fabric
};

/// Makes the device by create(fabric), whose result is that of Made::create.
template <class Made, class Create>
Result<std::unique_ptr<OwnDevice>> open_on_fabric(Create&& create) {
  auto own = std::make_unique<FabricDevice<Made>>();
  auto made = create(own->fabric);
  if (!made) return made.error();
  own->made = std::move(*made);
  return std::unique_ptr<OwnDevice>(std::move(own));
}

}  // namespace lockstep::local
