# What every target of ours gets and no dependency does: all warnings, as errors.
function(shoal_target target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC 12 at -O3 warns inside std::string for `"a" + s + "b"` (GCC bug 105651).
    target_compile_options(${target} PRIVATE -Wno-restrict)
    if(SHOAL_SANITIZE)
      # The instrumentation hides initialisations from the optimizer; the other builds keep this warning.
      target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
    endif()
  endif()
endfunction()
