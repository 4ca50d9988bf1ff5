#----------------------------------------------------------------
# Generated CMake target import file for configuration "Release".
#----------------------------------------------------------------

# Commands may need to know the format version.
set(CMAKE_IMPORT_FILE_VERSION 1)

# Import target "sab::sab" for configuration "Release"
set_property(TARGET sab::sab APPEND PROPERTY IMPORTED_CONFIGURATIONS RELEASE)
set_target_properties(sab::sab PROPERTIES
  IMPORTED_LOCATION_RELEASE "${_IMPORT_PREFIX}/lib/libsab.so.0.1.0"
  IMPORTED_SONAME_RELEASE "libsab.so.0"
  )

list(APPEND _cmake_import_check_targets sab::sab )
list(APPEND _cmake_import_check_files_for_sab::sab "${_IMPORT_PREFIX}/lib/libsab.so.0.1.0" )

# Import target "sab::sab_static" for configuration "Release"
set_property(TARGET sab::sab_static APPEND PROPERTY IMPORTED_CONFIGURATIONS RELEASE)
set_target_properties(sab::sab_static PROPERTIES
  IMPORTED_LINK_INTERFACE_LANGUAGES_RELEASE "CXX"
  IMPORTED_LOCATION_RELEASE "${_IMPORT_PREFIX}/lib/libsab.a"
  )

list(APPEND _cmake_import_check_targets sab::sab_static )
list(APPEND _cmake_import_check_files_for_sab::sab_static "${_IMPORT_PREFIX}/lib/libsab.a" )

# Commands beyond this point should not need to know the version.
set(CMAKE_IMPORT_FILE_VERSION)
