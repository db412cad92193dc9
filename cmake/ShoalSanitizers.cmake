# SHOAL_SANITIZE: "", "address", "undefined", "address,undefined" or "thread"; for everything that is compiled here.
# Sets shoal_sanitizer_flags (also for the consumer test) and shoal_sanitizer_environment (for ctest).
set(SHOAL_SANITIZE "" CACHE STRING "Sanitizers, as in -fsanitize=")

add_compile_definitions($<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS>)

set(shoal_sanitizer_flags "")
set(shoal_sanitizer_environment "")
if(SHOAL_SANITIZE)
  set(shoal_sanitizer_flags -fsanitize=${SHOAL_SANITIZE} -fno-omit-frame-pointer)
  # -O1 as the sanitizers' manuals advise: bearable speed, and stack traces still read like the source.
  add_compile_options(${shoal_sanitizer_flags} -fno-sanitize-recover=all -O1)
  add_link_options(${shoal_sanitizer_flags})
endif()
if(SHOAL_SANITIZE MATCHES "address")
  list(APPEND shoal_sanitizer_environment
       "ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1:abort_on_error=0")
endif()
if(SHOAL_SANITIZE MATCHES "undefined")
  # TBB's headers cast to a type before the object is one.
  add_compile_options(-fno-sanitize=vptr)
  list(APPEND shoal_sanitizer_environment "UBSAN_OPTIONS=print_stacktrace=1")
endif()
if(SHOAL_SANITIZE MATCHES "thread")
  set(exports -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/tsan_exports.map)
  add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:${exports}>)
  list(APPEND shoal_sanitizer_environment
       "TSAN_OPTIONS=halt_on_error=1:history_size=4:suppressions=${PROJECT_SOURCE_DIR}/cmake/tsan.supp")
endif()
