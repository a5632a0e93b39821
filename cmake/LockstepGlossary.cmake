# docs/glossary.md becomes a string literal, so that the application shows it wherever it is.
set(glossary ${CMAKE_SOURCE_DIR}/docs/glossary.md)
file(READ ${glossary} text)
set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${glossary})
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/glossary.cpp @ONLY CONTENT
"// Generated from docs/glossary.md by cmake/LockstepGlossary.cmake.
#include \"gui/model/glossary.hpp\"

namespace lockstep::gui {

std::string_view glossary_text() { return R\"glossary(@text@)glossary\"; }

}  // namespace lockstep::gui
")
target_sources(lockstep_gui_model PRIVATE ${CMAKE_BINARY_DIR}/generated/glossary.cpp)
