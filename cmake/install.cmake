# What `cmake --install` puts where: headers, both libraries, a CMake package and a pkg-config file.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set_target_properties(sab PROPERTIES EXPORT_NAME sab)
install(TARGETS sab sab_static EXPORT sabTargets
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT libsab
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libsab NAMELINK_COMPONENT dev
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES include/sab.h include/sab.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
set(not_installed PATTERN features.h EXCLUDE)
foreach(room ${left_out})
  list(APPEND not_installed PATTERN "${room}*.h*" EXCLUDE)
endforeach()
install(DIRECTORY include/sab DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" ${not_installed})
features_of_this_build(include/sab/features.h ${PROJECT_BINARY_DIR}/features.h)
install(FILES ${PROJECT_BINARY_DIR}/features.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sab COMPONENT dev)
if(EXISTS ${PROJECT_SOURCE_DIR}/LICENSE)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT dev)
endif()
# What other languages read in place of the headers.
declarations_of_this_build(include/sab_cdef.h ${PROJECT_BINARY_DIR}/sab_cdef.h)
description_of_this_build(include/sab_abi.json ${PROJECT_BINARY_DIR}/sab_abi.json)
install(FILES ${PROJECT_BINARY_DIR}/sab_cdef.h ${PROJECT_BINARY_DIR}/sab_abi.json DESTINATION share/libsab COMPONENT dev)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sab)
install(EXPORT sabTargets NAMESPACE sab:: DESTINATION ${config_dir} COMPONENT dev)
export(EXPORT sabTargets NAMESPACE sab:: FILE sabTargets.cmake) # so that sab_DIR may be a build folder
configure_package_config_file(cmake/sabConfig.cmake.in sabConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(sabConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/sabConfig.cmake ${PROJECT_BINARY_DIR}/sabConfigVersion.cmake DESTINATION ${config_dir} COMPONENT dev)

# Relative to the .pc file itself, so that the tree may be moved and DESTDIR needs no care; but for folders that are given from the root.
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  set(pc_prefix ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  string(PREPEND pc_prefix "\${pcfiledir}/")
endif()
foreach(folder LIBDIR INCLUDEDIR)
  string(TOLOWER pc_${folder} variable)
  cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_${folder} BASE_DIRECTORY "\${prefix}" OUTPUT_VARIABLE ${variable})
endforeach()
list(TRANSFORM static_needs PREPEND -l OUTPUT_VARIABLE static_flags)
list(JOIN static_flags " " static_flags)
list(JOIN embedding_options " " embedding_flags)
configure_file(cmake/sab.pc.in sab.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/sab.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
