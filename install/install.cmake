# What `cmake --install` copies, and the shared library, which is made of the objects of the archive.
# docs/install.md lists the installed tree.
include(CMakePackageConfigHelpers)

add_library(cspeed_shared SHARED ${kernel_objects})
add_dependencies(cspeed_shared cspeed) # whose build makes the kernels' objects
add_library(cspeed::cspeed ALIAS cspeed_shared)
foreach(room ${rooms})
  target_sources(cspeed_shared PRIVATE $<TARGET_OBJECTS:${room}>)
endforeach()
target_include_directories(cspeed_shared INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(cspeed_shared PRIVATE ${cspeed_libraries} INTERFACE m)
configure_file(${PROJECT_SOURCE_DIR}/install/libcspeed.map.in ${PROJECT_BINARY_DIR}/libcspeed.map @ONLY)
target_link_options(cspeed_shared PRIVATE -Wl,-z,defs,--version-script=${PROJECT_BINARY_DIR}/libcspeed.map)
set_target_properties(cspeed_shared PROPERTIES OUTPUT_NAME cspeed EXPORT_NAME cspeed
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  LINK_DEPENDS ${PROJECT_BINARY_DIR}/libcspeed.map LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})

if(NOT PROJECT_IS_TOP_LEVEL) # a project that contains this one installs what it needs of it
  return()
endif()

# Programs and libraries.
install(TARGETS cspeed_command RUNTIME)
install(TARGETS train generate eval pack bench RUNTIME DESTINATION ${programs_folder})
install(TARGETS cspeed_shared EXPORT cspeed LIBRARY)
install(TARGETS cspeed cspeed_extras ARCHIVE)
if(TARGET cspeed_cuda)
  install(TARGETS cspeed_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET cspeed_mpi)
  install(TARGETS cspeed_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET cspeed_arrow)
  install(TARGETS cspeed_arrow LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/cspeed TYPE INCLUDE FILES_MATCHING PATTERN "*.h")

# How others find the library: pkg-config and find_package.
set(pkgconfig_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(libdir ${CMAKE_INSTALL_LIBDIR})
set(includedir ${CMAKE_INSTALL_INCLUDEDIR})
file(RELATIVE_PATH from_pkgconfig ${CMAKE_INSTALL_PREFIX}/${pkgconfig_folder} ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" from_pkgconfig "${from_pkgconfig}")
set(static_libraries)
foreach(library JANSSON CRYPTO PCRE2 UTF8PROC ZLIB ZSTD)
  string(APPEND static_libraries "${${library}_LDFLAGS} ")
endforeach()
string(REPLACE ";" " " static_libraries "${static_libraries}")
string(APPEND static_libraries "${DNNL_LIBRARY} -pthread -ldl")
set(rpath)
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr") # where the loader finds libraries by itself
  set(rpath " -Wl,-rpath,\${libdir}")
endif()
configure_file(${PROJECT_SOURCE_DIR}/install/cspeed.pc.in ${PROJECT_BINARY_DIR}/cspeed.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/cspeed.pc DESTINATION ${pkgconfig_folder})
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/cspeed)
install(EXPORT cspeed NAMESPACE cspeed:: FILE cspeed-config.cmake DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cspeed-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cspeed-config-version.cmake DESTINATION ${package_folder})

# Manual pages and completions, which the programs write themselves.
add_executable(manual ${PROJECT_SOURCE_DIR}/launcher/manual/main.c)
target_link_libraries(manual PRIVATE -Wl,--as-needed launcher)
set(written ${PROJECT_BINARY_DIR}/written)
file(MAKE_DIRECTORY ${written}/man1 ${written}/help)
set(writing)
foreach(program train generate eval pack bench)
  list(APPEND writing COMMAND ${program} --help > ${written}/help/${program})
endforeach()
add_custom_command(OUTPUT ${written}/man1/cspeed.1 ${written}/cspeed ${written}/_cspeed ${written}/cspeed.fish VERBATIM
  DEPENDS manual cspeed_command train generate eval pack bench ${PROJECT_SOURCE_DIR}/launcher/cspeed.1
  ${writing}
  COMMAND cspeed_command help flags > ${written}/help/flags
  COMMAND manual ${PROJECT_SOURCE_DIR}/launcher/cspeed.1 ${written}/man1 ${written}/help
  COMMAND cspeed_command completion bash > ${written}/cspeed
  COMMAND cspeed_command completion zsh > ${written}/_cspeed
  COMMAND cspeed_command completion fish > ${written}/cspeed.fish)
add_custom_target(written ALL DEPENDS ${written}/man1/cspeed.1)
install(DIRECTORY ${written}/man1 TYPE MAN)
install(FILES ${written}/cspeed DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${written}/_cspeed DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${written}/cspeed.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

# Documents, configurations, examples, and what a user of DeepSpeed runs with their own Python.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DATADIR}/cspeed)
install(FILES ${PROJECT_SOURCE_DIR}/tools/from_deepspeed.py ${PROJECT_SOURCE_DIR}/tools/deepspeed_state.py
        DESTINATION ${CMAKE_INSTALL_DATADIR}/cspeed/tools)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs TYPE DOC FILES_MATCHING PATTERN "*.md" PATTERN "*.svg")
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/LICENSE TYPE DOC)

add_custom_target(uninstall VERBATIM
  COMMAND ${CMAKE_COMMAND} -DFOLDER=${PROJECT_BINARY_DIR} -P ${PROJECT_SOURCE_DIR}/install/uninstall.cmake)
