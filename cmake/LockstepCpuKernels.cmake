# backends/cpu/kernels is compiled once per instruction set and chooses at run time.
# -ffp-contract=fast: fused multiply-adds where the machine has them. The two -fno- flags let square
# roots and selects become single instructions; they change no result. -O2 with a vectorizer as free
# as that of -O3: the kernels are written in vectors, and all that -O3 adds is four times as long a
# compilation, for copies of loops for each outcome of their conditions.
set(cpu_kernel_flags -O2 -ftree-vectorize -fvect-cost-model=dynamic -ffp-contract=fast -fno-math-errno -fno-trapping-math)
set(LOCKSTEP_CPU_DIR ${CMAKE_SOURCE_DIR}/backends/cpu/kernels)
set_source_files_properties(${LOCKSTEP_CPU_DIR}/isa_baseline.cpp PROPERTIES
  COMPILE_OPTIONS "${cpu_kernel_flags}")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(${LOCKSTEP_CPU_DIR}/isa_v3.cpp PROPERTIES
    COMPILE_OPTIONS "${cpu_kernel_flags};-march=x86-64-v3")
  set_source_files_properties(${LOCKSTEP_CPU_DIR}/isa_v4.cpp PROPERTIES
    COMPILE_OPTIONS "${cpu_kernel_flags};-march=x86-64-v4")
endif()
