# The operators for Python: the folder zoetrope/ of a wheel, made in the build folder so that tests run on it as it
# is. No header or library of Python or PyTorch is needed: the functions that torch gives are in a library without
# content that bears the name of torch's own, so that the one that the process has loaded is found.
set(python_folder ${CMAKE_BINARY_DIR}/python/zoetrope)
file(GLOB python_files CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/python/zoetrope
    python/zoetrope/*.py python/zoetrope/patch/*.py)
file(GLOB torch_sources CONFIGURE_DEPENDS python/csrc/*.c)
file(MAKE_DIRECTORY ${python_folder}/patch)
foreach(file ${python_files})
    file(CREATE_LINK ${CMAKE_SOURCE_DIR}/python/zoetrope/${file} ${python_folder}/${file} SYMBOLIC)
endforeach()

# Without a version in its name: a wheel has no links.
add_library(zoetrope-python SHARED ${op_objects})
set_target_properties(zoetrope-python PROPERTIES OUTPUT_NAME zoetrope-op LINKER_LANGUAGE C
    LIBRARY_OUTPUT_DIRECTORY ${python_folder})
target_link_libraries(zoetrope-python PRIVATE OpenMP::OpenMP_C m)

# What torch_stable.h declares, empty.
set(stub ${CMAKE_BINARY_DIR}/packaging/torch_stub.c)
file(STRINGS python/csrc/torch_stable.h declarations REGEX "aoti_torch_[a-z0-9_]+\\(")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS python/csrc/torch_stable.h)
set(stub_text "")
foreach(declaration ${declarations})
    string(REGEX REPLACE ".*(aoti_torch_[a-z0-9_]+)\\(.*" "\\1" name "${declaration}")
    string(APPEND stub_text "void ${name}(void);\nvoid ${name}(void) {}\n")
endforeach()
file(CONFIGURE OUTPUT ${stub} CONTENT "${stub_text}" @ONLY)
add_library(torch_stub SHARED ${stub})
set_target_properties(torch_stub PROPERTIES OUTPUT_NAME torch_cpu
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/packaging)

# An error leaves an operator as a C++ exception, which must find its way through these functions.
add_library(zoetrope-torch MODULE ${torch_sources})
target_include_directories(zoetrope-torch PRIVATE include python/csrc)
target_compile_options(zoetrope-torch PRIVATE -fexceptions)
target_link_libraries(zoetrope-torch PRIVATE zoetrope-python torch_stub zoe_warnings ${CMAKE_DL_LIBS})
set_target_properties(zoetrope-torch PROPERTIES C_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY ${python_folder}
    BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN" LINK_DEPENDS_NO_SHARED ON)

# The wheel takes this component and nothing else; the Python files it takes from python/ itself.
install(TARGETS zoetrope-python zoetrope-torch LIBRARY DESTINATION . COMPONENT python EXCLUDE_FROM_ALL)
