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

# The Ascend operator project, for `ms-convtanh opp`: its own sources and those that it shares with this library.
set(MSCT_ASCEND_DIR share/ascend)
install(DIRECTORY aclnn/ascend DESTINATION ${MSCT_ASCEND_DIR}/aclnn)
install(DIRECTORY aclnn/include/aclnnop DESTINATION ${MSCT_ASCEND_DIR}/aclnn/include)
install(
  FILES aclnn/src/arguments.cc aclnn/src/arguments.h aclnn/src/error.cc aclnn/src/error.h aclnn/src/tensor_info.cc aclnn/src/tensor_info.h
        aclnn/src/view.cc aclnn/src/view.h
  DESTINATION ${MSCT_ASCEND_DIR}/aclnn/src
)
install(FILES kernels/output_size.h kernels/problem.h kernels/rounding.h DESTINATION ${MSCT_ASCEND_DIR}/kernels)
file(GLOB MSCT_ASCEND_KERNELS CONFIGURE_DEPENDS kernels/ascend/*.py kernels/ascend/*.cc kernels/ascend/*.h)
install(FILES ${MSCT_ASCEND_KERNELS} DESTINATION ${MSCT_ASCEND_DIR}/kernels/ascend)
