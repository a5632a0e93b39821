# Cluster presets: hardware/*.toml become string literals, so that the binary works anywhere.
file(GLOB profiles CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/hardware
     ${CMAKE_SOURCE_DIR}/hardware/*.toml)
list(TRANSFORM profiles REPLACE "\\.toml$" "")
list(SORT profiles)
set(entries "")
foreach(name IN LISTS profiles)
  set(profile ${CMAKE_SOURCE_DIR}/hardware/${name}.toml)
  file(READ ${profile} text)
  string(APPEND entries "      {\"${name}\", R\"profile(${text})profile\"},\n")
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${profile})
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/embedded_profiles.cpp @ONLY CONTENT
"// Generated from hardware/*.toml by cmake/LockstepHardware.cmake.
#include \"core/scenario/presets.hpp\"

namespace lockstep {

const std::vector<EmbeddedProfile>& embedded_profiles() {
  static const std::vector<EmbeddedProfile> list = {
@entries@  };
  return list;
}

}  // namespace lockstep
")
target_sources(lockstep_core_scenario PRIVATE ${CMAKE_BINARY_DIR}/generated/embedded_profiles.cpp)
