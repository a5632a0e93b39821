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
      COMPILE_OPTIONS "${cpu_kernel_flags};-march=x86-64-v4;-mamx-tile;-mamx-bf16;-mavx512bf16")
  endif()
endif()
