# commit.cmake - writes a C file with the git commit of the sources and its date, for `cspeed version`. The file changes
# only if this text changes. The text is empty if the sources are not in a git repository of their own.
#
#     cmake -DOUT=commit.c -DSOURCES=FOLDER -P commit.cmake
set(commit "")
if(EXISTS ${SOURCES}/.git)
  foreach(command "describe --always --abbrev=12 --exclude=* --dirty" "log -1 --format=%cs")
    separate_arguments(command)
    execute_process(COMMAND git -C ${SOURCES} ${command} OUTPUT_VARIABLE words OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    list(APPEND commit ${words})
  endforeach()
  list(JOIN commit " of " commit)
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#include \"ground/command.h\"\n\nconst char cl_commit[] = \"${commit}\";\n")
