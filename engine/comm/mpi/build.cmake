# libcspeed_mpi.so: the transport mpi, if an MPI for C is found. CSPEED_MPI=OFF leaves it out, and -DMPI_C_COMPILER=mpicc.mpich
# takes another MPI than the system's first.
option(CSPEED_MPI "build libcspeed_mpi.so where MPI is found" ON)
if(CSPEED_MPI AND NOT CSPEED_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  find_package(MPI COMPONENTS C)
endif()
if(NOT CSPEED_MPI OR CSPEED_SANITIZE OR CMAKE_CROSSCOMPILING OR NOT MPI_C_FOUND)
  message(STATUS "MPI: libcspeed_mpi.so is not built (CSPEED_MPI is OFF, no MPI for C was found, this is a cross build, or a sanitizer is on)")
  return()
endif()
message(STATUS "MPI: ${MPI_C_LIBRARIES}")
add_library(cspeed_mpi MODULE ${mpi_sources})
target_include_directories(cspeed_mpi PRIVATE ${PROJECT_SOURCE_DIR}/engine ${PROJECT_SOURCE_DIR}/include)
target_compile_options(cspeed_mpi PRIVATE -fvisibility=hidden)
target_link_libraries(cspeed_mpi PRIVATE MPI::MPI_C)
# The module calls functions of the engine in the program that loads it, at their first call.
target_link_options(cspeed_mpi PRIVATE -Wl,-z,lazy)
set_target_properties(cspeed_mpi PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
