# Cluster presets: hardware/*.toml become string literals, so that the binary works anywhere.
file(GLOB profiles CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/hardware/*.toml)
list(SORT profiles)
set(entries "")
foreach(profile IN LISTS profiles)
  get_filename_component(name ${profile} NAME)
  string(REGEX REPLACE "\\.toml$" "" name ${name})
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
