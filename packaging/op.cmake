# The operators as libraries of their own: rooms base, kernel, device and op without the engine and without what only the
# engine needs (base's digests, files, random numbers, traces). What the public headers declare is visible, all else is
# hidden.
set(op_objects)
foreach(room base kernel device op)
    list(APPEND op_objects $<FILTER:$<TARGET_OBJECTS:zoe_${room}>,EXCLUDE,/base/\(digest|file|random|trace\)\\.c>)
endforeach()
add_library(zoetrope-op SHARED ${op_objects})
add_library(zoetrope-op-static STATIC ${op_objects})
set_target_properties(zoetrope-op PROPERTIES EXPORT_NAME op VERSION ${PROJECT_VERSION} SOVERSION 0)
set_target_properties(zoetrope-op-static PROPERTIES EXPORT_NAME op-static OUTPUT_NAME zoetrope-op)
set_target_properties(zoetrope-op zoetrope-op-static PROPERTIES LINKER_LANGUAGE C)
target_link_libraries(zoetrope-op PRIVATE OpenMP::OpenMP_C m)
target_link_libraries(zoetrope-op-static INTERFACE m)
target_link_options(zoetrope-op-static INTERFACE ${OpenMP_C_FLAGS})
if(NOT ZOE_SANITIZE)
    target_link_options(zoetrope-op PRIVATE -Wl,--no-undefined)
endif()

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(op_package ${CMAKE_INSTALL_LIBDIR}/cmake/zoetrope)
install(TARGETS zoetrope-op zoetrope-op-static EXPORT zoetrope
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT op NAMELINK_COMPONENT op
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT op
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES include/zoetrope/op.h include/zoetrope/status.h include/zoetrope/tensor.h
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/zoetrope COMPONENT op)
install(DIRECTORY include/zoetrope/op DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/zoetrope COMPONENT op
    FILES_MATCHING PATTERN "*.h")

# find_package(zoetrope): targets zoetrope::op and zoetrope::op-static.
install(EXPORT zoetrope NAMESPACE zoetrope:: FILE zoetrope-config.cmake DESTINATION ${op_package} COMPONENT op)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/packaging/zoetrope-config-version.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/packaging/zoetrope-config-version.cmake DESTINATION ${op_package} COMPONENT op)

# pkg-config zoetrope-op; found from where the file lies, so that the prefix may be chosen at installation.
file(RELATIVE_PATH op_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(packaging/zoetrope-op.pc.in packaging/zoetrope-op.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/packaging/zoetrope-op.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT op)
