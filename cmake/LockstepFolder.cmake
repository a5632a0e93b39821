# lockstep_folder(core/ir core/base [EXTERNAL lib…]): one static library of the folder's *.cpp, and
# of its *.cu where there is a CUDA compiler.
# main.cpp is left to its executable; subfolders are folders of their own.
function(lockstep_folder folder)
  cmake_parse_arguments(ARG "" "" "EXTERNAL" ${ARGN})
  string(REPLACE "/" "_" name ${folder})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  if(CMAKE_CUDA_COMPILER)
    file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cu)
    list(APPEND sources ${cuda_sources})
  endif()
  set(scope PUBLIC)
  if(sources)
    add_library(lockstep_${name} STATIC ${sources})
  else()
    add_library(lockstep_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(lockstep_${name} ${scope} ${CMAKE_SOURCE_DIR})
  foreach(dependency IN LISTS ARG_UNPARSED_ARGUMENTS)
    string(REPLACE "/" "_" dependency ${dependency})
    target_link_libraries(lockstep_${name} ${scope} lockstep_${dependency})
  endforeach()
  target_link_libraries(lockstep_${name} ${scope} ${ARG_EXTERNAL})
  if(sources)
    # Position-independent and hidden, so that the same objects make the executables and the shared
    # library of api/, which exports its own names only; hidden, they are as fast as others.
    set_target_properties(lockstep_${name} PROPERTIES UNITY_BUILD ${LOCKSTEP_QUICK_BUILD}
      POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  endif()
  # The standard library's headers, read once for all folders. GCC 12 forgets that they are system
  # headers, and then sees copies out of bounds in std::string that are not there (GCC PR 105329,
  # 105651); the preset dev, which reads them as they are, warns of those in ours.
  if(sources AND LOCKSTEP_QUICK_BUILD)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(lockstep_${name} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:\
-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>")
    endif()
    if(folder STREQUAL "core/base")
      target_precompile_headers(lockstep_core_base PRIVATE <algorithm> <array> <cmath> <cstdint>
        <filesystem> <fstream> <functional> <limits> <map> <memory> <optional> <set> <span>
        <sstream> <string> <string_view> <tuple> <utility> <variant> <vector>)
    elseif(NOT folder MATCHES "^gui" AND NOT folder IN_LIST LOCKSTEP_OWN_FLAGS)
      target_precompile_headers(lockstep_${name} REUSE_FROM lockstep_core_base)
    endif()
  endif()
  if(sources AND folder IN_LIST LOCKSTEP_COLD AND CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(lockstep_${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O1>)
  endif()
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_FOLDERS lockstep_${name})
endfunction()
