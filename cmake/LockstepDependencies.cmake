# Everything that is not ours. Required parts fail here with their package's name.
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(fmt REQUIRED)

function(lockstep_header_library target header package)
  string(TOUPPER ${target} var)
  find_path(${var}_INCLUDE ${header})
  if(NOT ${var}_INCLUDE)
    message(FATAL_ERROR "${header} not found: install ${package}")
  endif()
  add_library(${target} INTERFACE)
  target_include_directories(${target} SYSTEM INTERFACE ${${var}_INCLUDE})
endfunction()
lockstep_header_library(lockstep_toml toml++/toml.h libtomlplusplus-dev)
lockstep_header_library(lockstep_json nlohmann/json.hpp nlohmann-json3-dev)
lockstep_header_library(lockstep_cli11 CLI/CLI.hpp libcli11-dev)
# Debian and Ubuntu ship toml++ as a header library; its compiled part is for Meson users.
target_compile_definitions(lockstep_toml INTERFACE TOML_HEADER_ONLY=1 TOML_EXCEPTIONS=0)

# Optional parts: found, reported, never required.
set(LOCKSTEP_SUMMARY "")
macro(lockstep_optional name found detail)
  if(${found})
    list(APPEND LOCKSTEP_SUMMARY "${name}: yes (${detail})")
  else()
    list(APPEND LOCKSTEP_SUMMARY "${name}: no (${detail})")
  endif()
endmacro()

find_package(benchmark QUIET)
lockstep_optional("Google Benchmark" "${benchmark_FOUND}" "bench/")
find_package(Eigen3 3.4 QUIET NO_MODULE)
lockstep_optional("Eigen" "${Eigen3_FOUND}" "bench/ compares our matrix products with it")

set(MPI_CXX_SKIP_MPICXX ON)  # the C interface only
find_package(MPI QUIET COMPONENTS CXX)
lockstep_optional("MPI" "${MPI_CXX_FOUND}" "ranks as processes under mpirun")
set(LOCKSTEP_MPI "")
if(MPI_CXX_FOUND)
  add_library(lockstep_mpi_library INTERFACE)
  target_link_libraries(lockstep_mpi_library INTERFACE MPI::MPI_CXX)
  target_compile_definitions(lockstep_mpi_library INTERFACE LOCKSTEP_HAVE_MPI)
  set(LOCKSTEP_MPI lockstep_mpi_library)
endif()

find_package(CUDAToolkit QUIET)
lockstep_optional("CUDA toolkit" "${CUDAToolkit_FOUND}" "not used yet")
find_package(Qt6 6.4 QUIET COMPONENTS Widgets Svg Test)
set(LOCKSTEP_HAVE_QT ${Qt6_FOUND})
lockstep_optional("Qt 6" "${Qt6_FOUND}" "gui/, the desktop application")

function(lockstep_summary)
  message(STATUS "lockstep ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} "
                 "${CMAKE_CXX_COMPILER_VERSION}")
  foreach(line IN LISTS LOCKSTEP_SUMMARY)
    message(STATUS "  ${line}")
  endforeach()
endfunction()
