# pages.cmake - writes a C file with the pages of documentation, for launcher/command/pages.h.
#
#     cmake -DOUT=pages.c "-DPAGES=docs/a.md;docs/b.md" -P pages.cmake
set(texts "#include \"command/pages.h\"\n\n#include <stddef.h>\n\n")
set(table "const cl_page cl_pages[] = {\n")
set(number 0)
foreach(page ${PAGES})
  get_filename_component(name ${page} NAME)
  string(REGEX REPLACE "\\.md$" "" name ${name})
  file(READ ${page} bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(APPEND texts "static const unsigned char text_${number}[] = { ${bytes}0 };\n")
  string(APPEND table "    { \"${name}\", (const char *)text_${number} },\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUT} "${texts}\n${table}    { NULL, NULL },\n};\n")
