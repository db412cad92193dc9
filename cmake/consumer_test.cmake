# Installs Shoal into an empty directory and lets examples/consumer find, build and run with what is there.
# Needs: SHOAL_BUILD, CONSUMER (its source), WORK (a directory that this script may empty), FLAGS, GENERATOR.
file(REMOVE_RECURSE ${WORK})
set(run COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --install ${SHOAL_BUILD} --prefix ${WORK}/prefix ${run})
execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/build -G ${GENERATOR} -DCMAKE_BUILD_TYPE=Release
          -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_CXX_COMPILER=${COMPILER} "-DCMAKE_CXX_FLAGS=${FLAGS}" ${run})
execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK}/build ${run})
execute_process(COMMAND ${WORK}/build/consumer ${run})
