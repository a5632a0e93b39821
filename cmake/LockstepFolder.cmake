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
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_FOLDERS lockstep_${name})
endfunction()
