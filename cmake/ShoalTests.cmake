# shoal_discover_tests(target [SLOW suite...] [ALONE suite...]): each gtest test of the target is a ctest test.
#
# Every test gets the label of its target; those of the SLOW suites (plain names; a parameterized suite's name stands
# without its instance) also get `slow`, so that `ctest -LE slow` is the quick run, and more time. Temporary files go
# to TEST_TMPDIR in the build tree, because /tmp is often a tmpfs, which has no O_DIRECT.
#
# Tests of the ALONE suites start several processes, or want to meet a running one at a certain moment: ctest counts each
# as two processors' work, so on a machine with two it runs by itself.
include(GoogleTest)

function(shoal_discover_tests target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SLOW;ALONE")
  set(temporary ${PROJECT_BINARY_DIR}/test-tmp)
  file(MAKE_DIRECTORY ${temporary})
  # Plain parameter values, because a printed GetParam() makes unstable test names.
  gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120 NO_PRETTY_VALUES)

  # gtest_discover_tests can't pass a property that is a list; ctest includes this file after the discovered tests.
  foreach(kind SLOW ALONE)
    list(JOIN arg_${kind} "|" suites)
    if(NOT suites)
      set(suites "-")  # matches no test
    endif()
    string(TOLOWER ${kind} kind)
    set(${kind} ${suites})
  endforeach()
  set(environment TEST_TMPDIR=${temporary} TMPDIR=${temporary} ${shoal_sanitizer_environment})
  set(properties_file ${CMAKE_CURRENT_BINARY_DIR}/${target}_properties.cmake)
  file(CONFIGURE OUTPUT ${properties_file} @ONLY CONTENT [[
foreach(test IN LISTS @target@_TESTS)
  set_tests_properties(${test} PROPERTIES ENVIRONMENT "@environment@" LABELS "@target@" TIMEOUT 600)
  if(test MATCHES "^([^/]*/)?(@slow@)[./]")
    set_tests_properties(${test} PROPERTIES LABELS "@target@;slow" TIMEOUT 2400)
  endif()
  if(test MATCHES "^([^/]*/)?(@alone@)[./]")
    set_tests_properties(${test} PROPERTIES PROCESSORS 2)
  endif()
endforeach()
]])
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${properties_file})
endfunction()
