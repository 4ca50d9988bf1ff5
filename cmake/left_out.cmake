# What a build without the rooms in `left_out` does not have: their headers, functions and declarations.

set(left_out_functions "")
foreach(room ${left_out})
  file(READ include/sab/${room}.h header)
  string(REGEX MATCHALL "SAB_API[A-Z_]*[^(;/]* \\*?sab_[a-z0-9_]+\\(" declared "${header}")
  list(TRANSFORM declared REPLACE "^.*(sab_[a-z0-9_]+)\\($" "\\1")
  list(APPEND left_out_functions ${declared})
endforeach()

# A version map without their functions.
function(without_left_out_functions from to)
  file(READ ${from} map)
  foreach(function ${left_out_functions})
    string(REGEX REPLACE "\n *${function};" "" map "${map}")
  endforeach()
  string(REGEX REPLACE "\n[A-Z_0-9.]+ {\n  global:\n};" "" map "${map}") # nothing is left of a node
  file(CONFIGURE OUTPUT ${to} CONTENT "${map}" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${from})
endfunction()

# sab/features.h as it is installed.
function(features_of_this_build from to)
  file(READ ${from} features)
  foreach(room ${left_out})
    string(TOUPPER ${room} name)
    string(REPLACE "define SAB_WITH_${name} 1" "define SAB_WITH_${name} 0" features "${features}")
  endforeach()
  file(CONFIGURE OUTPUT ${to} CONTENT "${features}" @ONLY)
endfunction()

# sab_cdef.h, which has the headers one after the other, each behind a comment with its name.
function(declarations_of_this_build from to)
  file(READ ${from} declarations)
  foreach(room ${left_out})
    string(FIND "${declarations}" "/* sab/${room}.h */" begin)
    if(begin EQUAL -1)
      message(FATAL_ERROR "${from} does not name sab/${room}.h")
    endif()
    string(SUBSTRING "${declarations}" 0 ${begin} before)
    string(SUBSTRING "${declarations}" ${begin} -1 rest)
    string(SUBSTRING "${rest}" 1 -1 rest)
    string(FIND "${rest}" "/* sab/" end)
    if(end EQUAL -1) # it is the last
      set(rest "")
    else()
      string(SUBSTRING "${rest}" ${end} -1 rest)
    endif()
    set(declarations "${before}${rest}")
  endforeach()
  file(CONFIGURE OUTPUT ${to} CONTENT "${declarations}" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${from})
endfunction()
