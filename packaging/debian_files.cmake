# CPack runs this between the installation into its own folder and the making of the package. It does what the Debian policy
# asks of files: copyright and changelog in the package's folder of documents, compressed manual pages, archives without
# symbols for debuggers.
set(usr ${CPACK_TEMPORARY_DIRECTORY}/usr)
set(documents ${usr}/share/doc/cspeed)

file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/debian/changelog newest LIMIT_COUNT 1)
if(NOT newest MATCHES "^cspeed \\(${CPACK_PACKAGE_VERSION}\\) ")
  message(FATAL_ERROR "packaging/debian/changelog has no entry for version ${CPACK_PACKAGE_VERSION} at its top")
endif()

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(MAKE_DIRECTORY ${documents})
configure_file(${CMAKE_CURRENT_LIST_DIR}/debian/copyright ${documents}/copyright COPYONLY)
configure_file(${CMAKE_CURRENT_LIST_DIR}/debian/changelog ${documents}/changelog COPYONLY)
file(REMOVE ${documents}/LICENSE) # its text is in copyright

file(GLOB manuals ${usr}/share/man/man*/*.[1-9])
run(gzip -9n ${manuals} ${documents}/changelog)
file(GLOB_RECURSE archives ${usr}/lib/*.a)
run(strip --strip-debug --enable-deterministic-archives ${archives})
