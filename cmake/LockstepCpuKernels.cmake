# backends/cpu/kernels is compiled once per instruction set and chooses at run time.
# -ffp-contract=fast: fused multiply-adds where the machine has them. The two -fno- flags let square
# roots and selects become single instructions; they change no result. Another level of optimization
# may round differently (it reorders sums), so it is part of what published results rest on.
include(CheckCXXCompilerFlag)
set(cpu_kernel_flags -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math)
set(LOCKSTEP_CPU_DIR ${CMAKE_SOURCE_DIR}/backends/cpu/kernels)
set_source_files_properties(${LOCKSTEP_CPU_DIR}/isa_baseline.cpp PROPERTIES
  COMPILE_OPTIONS "${cpu_kernel_flags}")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(${LOCKSTEP_CPU_DIR}/isa_v3.cpp PROPERTIES
    COMPILE_OPTIONS "${cpu_kernel_flags};-march=x86-64-v3")
  set_source_files_properties(${LOCKSTEP_CPU_DIR}/isa_v4.cpp PROPERTIES
    COMPILE_OPTIONS "${cpu_kernel_flags};-march=x86-64-v4")
  check_cxx_compiler_flag("-mamx-bf16 -mavx512bf16" LOCKSTEP_COMPILER_HAS_AMX)
  if(LOCKSTEP_COMPILER_HAS_AMX)
    set_source_files_properties(${LOCKSTEP_CPU_DIR}/isa_amx.cpp PROPERTIES
      COMPILE_OPTIONS "${cpu_kernel_flags};-march=x86-64-v4;-mamx-tile;-mamx-bf16;-mavx512bf16"
      SKIP_PRECOMPILE_HEADERS ON)
  endif()
endif()

# The instruction set that this machine runs best, by the conditions of isa_tables.cpp.
set(LOCKSTEP_CPU_ISAS baseline)
set(LOCKSTEP_CPU_NATIVE baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(LOCKSTEP_CPU_ISAS baseline v3 v4)
  if(NOT CMAKE_CROSSCOMPILING)
    include(CheckCXXSourceRuns)
    function(lockstep_cpu_runs isa)
      list(TRANSFORM ARGN REPLACE "(.+)" "__builtin_cpu_supports(\"\\1\")")
      list(JOIN ARGN " && " conditions)
      check_cxx_source_runs("int main() { return ${conditions} ? 0 : 1; }" LOCKSTEP_CPU_RUNS_${isa})
      if(LOCKSTEP_CPU_RUNS_${isa})
        set(LOCKSTEP_CPU_NATIVE ${isa} PARENT_SCOPE)
      endif()
    endfunction()
    lockstep_cpu_runs(v3 avx2 fma bmi2)
    lockstep_cpu_runs(v4 avx512f avx512bw avx512cd avx512dq avx512vl)
  endif()
endif()

# One instruction set takes as long to compile as a tenth of all the rest. So each is a library of
# its own, and a program whose property LOCKSTEP_CPU_SET is "native" has this machine's alone.
function(lockstep_cpu_sets)
  set(kernels lockstep_backends_cpu_kernels)
  get_target_property(sources ${kernels} SOURCES)
  list(FILTER sources EXCLUDE REGEX "/isa_(baseline|v3|v4|tables)\\.cpp$")
  set_property(TARGET ${kernels} PROPERTY SOURCES ${sources})
  function(lockstep_cpu_library name)
    add_library(${kernels}_${name} STATIC ${ARGN})
    target_include_directories(${kernels}_${name} PRIVATE ${CMAKE_SOURCE_DIR})
    set_target_properties(${kernels}_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON
      CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  endfunction()
  foreach(isa IN LISTS LOCKSTEP_CPU_ISAS)
    lockstep_cpu_library(${isa} ${LOCKSTEP_CPU_DIR}/isa_${isa}.cpp)
    target_link_libraries(${kernels}_${isa} PUBLIC ${kernels})
  endforeach()
  foreach(set all native)
    set(isas ${LOCKSTEP_CPU_ISAS})
    if(set STREQUAL "native")
      set(isas ${LOCKSTEP_CPU_NATIVE})
    endif()
    lockstep_cpu_library(${set} ${LOCKSTEP_CPU_DIR}/isa_tables.cpp)
    foreach(isa IN LISTS isas)
      string(TOUPPER ${isa} upper)
      target_compile_definitions(${kernels}_${set} PRIVATE LOCKSTEP_ISA_${upper})
      target_link_libraries(${kernels}_${set} PUBLIC ${kernels}_${isa})
    endforeach()
  endforeach()
  target_link_libraries(${kernels} INTERFACE
    $<IF:$<STREQUAL:$<TARGET_PROPERTY:LOCKSTEP_CPU_SET>,native>,${kernels}_native,${kernels}_all>)
endfunction()
