# cmake --install: the program with what it ships, and api/ as a shared library with its headers and
# a package for find_package(Lockstep). cpack -G DEB makes a Debian package of the same files.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The library exports what api/ marks, and nothing of the archives behind it.
add_library(lockstep_library SHARED $<TARGET_OBJECTS:lockstep_api_lockstep>)
target_link_libraries(lockstep_library PRIVATE lockstep_api_lockstep)
target_link_options(lockstep_library PRIVATE -Wl,--exclude-libs,ALL -Wl,--as-needed)
target_include_directories(lockstep_library INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/api> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(lockstep_library INTERFACE cxx_std_20)
set_target_properties(lockstep_library PROPERTIES OUTPUT_NAME lockstep EXPORT_NAME lockstep
  LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})

# What the program says of itself.
set(said ${CMAKE_BINARY_DIR}/generated/share)
add_custom_command(OUTPUT ${said}/lockstep.1 DEPENDS lockstep VERBATIM
  COMMAND ${CMAKE_COMMAND} -E make_directory ${said}
  COMMAND lockstep completion bash > ${said}/lockstep.bash
  COMMAND lockstep completion zsh > ${said}/lockstep.zsh
  COMMAND lockstep completion fish > ${said}/lockstep.fish
  COMMAND lockstep man > ${said}/lockstep.1)
add_custom_target(lockstep_shell_files ALL DEPENDS ${said}/lockstep.1)

set(share ${CMAKE_INSTALL_DATADIR})
install(TARGETS lockstep RUNTIME COMPONENT program)
install(DIRECTORY scenarios DESTINATION ${share}/lockstep COMPONENT program)
install(FILES ${said}/lockstep.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
install(FILES ${said}/lockstep.bash DESTINATION ${share}/bash-completion/completions
        RENAME lockstep COMPONENT program)
install(FILES ${said}/lockstep.zsh DESTINATION ${share}/zsh/vendor-completions
        RENAME _lockstep COMPONENT program)
install(FILES ${said}/lockstep.fish DESTINATION ${share}/fish/vendor_completions.d
        COMPONENT program)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program
        FILES_MATCHING PATTERN *.md PATTERN *.svg)
if(LOCKSTEP_HAVE_QT)
  install(TARGETS lockstep-gui RUNTIME COMPONENT application)
endif()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Lockstep)
install(TARGETS lockstep_library EXPORT LockstepTargets
        LIBRARY COMPONENT library NAMELINK_COMPONENT library)
install(DIRECTORY api/lockstep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library
        FILES_MATCHING PATTERN *.hpp PATTERN data.hpp EXCLUDE)
install(EXPORT LockstepTargets NAMESPACE Lockstep:: DESTINATION ${package} COMPONENT library)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/LockstepConfig.cmake @ONLY CONTENT
"# find_package(Lockstep): the target Lockstep::lockstep.
include(\"\${CMAKE_CURRENT_LIST_DIR}/LockstepTargets.cmake\")
")
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/LockstepConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/generated/LockstepConfig.cmake
              ${CMAKE_BINARY_DIR}/generated/LockstepConfigVersion.cmake
        DESTINATION ${package} COMPONENT library)

# The Python package, where pybind11, Python's headers and numpy are. Its module needs the public
# headers only, and has the library in it, so that it works wherever it is copied (setup.py makes a
# wheel of it). A sanitized module would need the sanitizer's library before Python's.
set(LOCKSTEP_PYTHON_FOLDER lib/python3/dist-packages CACHE STRING "where the package is installed")
set(python_found OFF)
if(NOT LOCKSTEP_SANITIZE AND NOT LOCKSTEP_PORTABLE)
  if(NOT DEFINED Python3_EXECUTABLE AND EXISTS /usr/bin/python3)
    set(Python3_EXECUTABLE /usr/bin/python3)  # whose packages pybind11 and numpy usually are
  endif()
  set(PYBIND11_FINDPYTHON ON)
  find_package(Python3 QUIET COMPONENTS Interpreter Development.Module)
  if(Python3_FOUND)
    find_package(pybind11 QUIET CONFIG)
    execute_process(COMMAND ${Python3_EXECUTABLE} -c "import numpy"
                    RESULT_VARIABLE numpy_missing OUTPUT_QUIET ERROR_QUIET)
    if(pybind11_FOUND AND NOT numpy_missing)
      set(python_found ON)
    endif()
  endif()
endif()
lockstep_optional("Python module" "${python_found}" "pybind11 and numpy")
if(python_found)
  pybind11_add_module(lockstep_python MODULE NO_EXTRAS python/module.cpp)
  target_link_libraries(lockstep_python PRIVATE lockstep_api_lockstep)
  target_link_options(lockstep_python PRIVATE -Wl,--exclude-libs,ALL -Wl,--as-needed)
  set_target_properties(lockstep_python PROPERTIES OUTPUT_NAME _lockstep
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python/lockstep)
  file(GLOB python_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/lockstep/*.py
       ${CMAKE_SOURCE_DIR}/python/lockstep/*.pyi ${CMAKE_SOURCE_DIR}/python/lockstep/py.typed)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/python/lockstep)
  foreach(file IN LISTS python_files)  # so that PYTHONPATH=BUILD/python imports the package
    get_filename_component(name ${file} NAME)
    file(CREATE_LINK ${file} ${CMAKE_BINARY_DIR}/python/lockstep/${name} SYMBOLIC)
  endforeach()
  install(TARGETS lockstep_python LIBRARY DESTINATION ${LOCKSTEP_PYTHON_FOLDER}/lockstep
          COMPONENT python)
  install(FILES ${python_files} DESTINATION ${LOCKSTEP_PYTHON_FOLDER}/lockstep COMPONENT python)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME lockstep)
set(CPACK_PACKAGE_CONTACT "the authors of Lockstep")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "distributed training, simulated and run from one program")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3-numpy")
include(CPack)
