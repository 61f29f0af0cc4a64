# Installs into a prefix that may be moved as a whole: for Python that is the package's own folder.
include(CMakePackageConfigHelpers)

set(MSCT_CMAKE_DIR lib/cmake/ms_convtanh)
install(TARGETS ms_convtanh EXPORT ms_convtanh LIBRARY DESTINATION lib)
install(DIRECTORY aclnn/include/ DESTINATION include FILES_MATCHING PATTERN "*.h")

install(EXPORT ms_convtanh NAMESPACE ms_convtanh:: FILE ms_convtanh-config.cmake DESTINATION ${MSCT_CMAKE_DIR})
write_basic_package_version_file(ms_convtanh-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ms_convtanh-config-version.cmake DESTINATION ${MSCT_CMAKE_DIR})

configure_file(cmake/ms_convtanh.pc.in ms_convtanh.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ms_convtanh.pc DESTINATION lib/pkgconfig)
