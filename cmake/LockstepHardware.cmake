# Cluster and framework presets: hardware/*.toml and frameworks/*.toml become string literals, so
# that the binary works anywhere.
function(lockstep_embed folder function)
  file(GLOB profiles CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/${folder}
       ${CMAKE_SOURCE_DIR}/${folder}/*.toml)
  list(TRANSFORM profiles REPLACE "\\.toml$" "")
  list(SORT profiles)
  set(entries "")
  foreach(name IN LISTS profiles)
    set(profile ${CMAKE_SOURCE_DIR}/${folder}/${name}.toml)
    file(READ ${profile} text)
    string(APPEND entries "      {\"${name}\", R\"profile(${text})profile\"},\n")
    set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${profile})
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/${function}.cpp @ONLY CONTENT
"// Generated from ${folder}/*.toml by cmake/LockstepHardware.cmake.
#include \"core/scenario/presets.hpp\"

namespace lockstep {

const std::vector<EmbeddedProfile>& ${function}() {
  static const std::vector<EmbeddedProfile> list = {
${entries}  };
  return list;
}

}  // namespace lockstep
")
  target_sources(lockstep_core_scenario PRIVATE ${CMAKE_BINARY_DIR}/generated/${function}.cpp)
endfunction()

lockstep_embed(hardware embedded_profiles)
lockstep_embed(frameworks embedded_frameworks)
