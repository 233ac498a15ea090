# The Debian package, which CPack makes. packaging/deb runs all steps; `cpack -G DEB` in a build folder that was configured
# with the prefix /usr makes the package from what is built there.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME cspeed)
# A Maintainer field needs an address. The domain .invalid is reserved for addresses without a mailbox (RFC 2606).
set(CPACK_PACKAGE_CONTACT "the cspeed authors <authors@cspeed.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "sharded training of language models on CPUs and GPUs")
set(CPACK_PACKAGE_DESCRIPTION "cspeed trains language models (GPT-2, Llama, Qwen, Gemma, Phi,
Mixtral and others) on one machine or on many, without Python. It shards
parameters, gradients and optimizer state over the ranks (ZeRO stages 0 to 3,
FSDP), reads the JSON configuration of DeepSpeed, and has its own launcher.

This package contains the command cspeed, the library libcspeed with its
headers, the manual pages, and example configurations. It does not contain
the modules for CUDA devices, for MPI, and for Parquet and Arrow files.")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON) # dependencies, with versions, from the libraries that the programs load
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON) # for packages whose programs are linked to libcspeed.so
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/debian/triggers) # ldconfig, for libcspeed.so
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/debian_files.cmake)
include(CPack)
