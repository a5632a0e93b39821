# Standard, warnings, sanitizers, optional parts.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Assertions stay on in every build: they guard our own invariants and cost nothing measurable.
string(REPLACE "-DNDEBUG" "" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")

# In a build for a debugger, containers of the standard library check their indices, too.
if(CMAKE_BUILD_TYPE STREQUAL "Debug")
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()

# An archive waits for no other archive; and what a program does not link is not built for it, although
# another program with the same archives links it (LockstepCpuKernels.cmake).
set(CMAKE_OPTIMIZE_DEPENDENCIES ON)

option(LOCKSTEP_BUILD_TESTS "build the test suite" ON)
option(LOCKSTEP_BUILD_BENCH "build bench/" OFF)
option(LOCKSTEP_BUILD_FUZZ "build tests/fuzz with clang's libFuzzer" OFF)
option(LOCKSTEP_QUICK_BUILD
       "half the time from nothing: a folder's sources as one, tests' headers precompiled" OFF)
option(LOCKSTEP_WERROR "warnings are errors" OFF)
set(LOCKSTEP_SANITIZE "" CACHE STRING "sanitizers for -fsanitize=, for example address,undefined")

# A folder's headers are then read, and its templates instantiated, once for several sources. Two
# sources of one folder must not define the same name, in unnamed namespaces neither. A target's
# sources share the flags; those with flags of their own (backends/cpu/kernels/isa_*.cpp) and CUDA's
# stay apart.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)

# A precompiled header is kept by ccache only with this.
if(LOCKSTEP_QUICK_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
endif()

# For C++ alone: nvcc has options of its own.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 sees overlapping copies in std::string concatenation that are not there (GCC PR 105329).
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>")
endif()
if(LOCKSTEP_WERROR)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Werror>")
endif()
if(LOCKSTEP_SANITIZE)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${LOCKSTEP_SANITIZE};\
-fno-omit-frame-pointer;-fno-sanitize-recover=all>")
  add_link_options(-fsanitize=${LOCKSTEP_SANITIZE})
endif()
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # What ccache asks for before it keeps anything that was compiled with a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()
