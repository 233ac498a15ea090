# libcspeed_cuda_emulated.so: the CUDA device and the NCCL transport on a fake CUDA runtime, for tests without a GPU. A
# C++17 compiler compiles the very same sources. CSPEED_EMULATOR=OFF leaves it out.
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
  set(emulator_found ON)
else()
  set(emulator_found OFF)
endif()
option(CSPEED_EMULATOR "build the emulated CUDA module, and run tests on it" ${emulator_found})
# ThreadSanitizer does not know its fibers.
if(NOT CSPEED_EMULATOR OR CSPEED_SANITIZE MATCHES "thread")
  message(STATUS "CUDA emulator: not built (CSPEED_EMULATOR is OFF, no C++ compiler was found, or ThreadSanitizer is on)")
  return()
endif()
enable_language(CXX)

set(emulator ${CMAKE_CURRENT_SOURCE_DIR}/emulator)
file(GLOB emulator_sources CONFIGURE_DEPENDS ${emulator}/*.cc)
set(emulated ${cuda_sources})
list(FILTER emulated INCLUDE REGEX "\\.cu$")
set_source_files_properties(${emulated} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-xc++")
list(FILTER emulator_sources EXCLUDE REGEX "/trials_races\\.cc$")
add_library(cspeed_cuda_emulated MODULE ${cuda_sources} ${emulator_sources})
target_include_directories(cspeed_cuda_emulated PRIVATE ${emulator}/include ${emulator} ${CMAKE_SOURCE_DIR}/engine
                           ${CMAKE_SOURCE_DIR}/include ${JANSSON_INCLUDE_DIRS})
target_compile_definitions(cspeed_cuda_emulated PRIVATE CS_EMULATOR CS_CUDA_BUILT="the emulator"
                           CS_CUDNN_LIBRARY="libcudnn_emulated.so")
# Sums and products may be fused, as nvcc does, and a load that is not aligned ends the program, as it does on a GPU.
set(emulator_options -Wall -Wextra -Wno-unknown-pragmas -Wno-attributes -ffp-contract=fast -fno-math-errno)
if(CSPEED_SANITIZE) # what it adds makes -O3 compile for minutes, and run hardly faster
  list(APPEND emulator_options -O1)
elseif(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  list(APPEND emulator_options -O3)
endif()
if(CSPEED_NATIVE)
  list(APPEND emulator_options -march=native)
endif()
if(NOT CSPEED_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND emulator_options -fsanitize=alignment -fno-sanitize-recover=alignment)
  target_link_options(cspeed_cuda_emulated PRIVATE -fsanitize=alignment)
endif()
target_compile_options(cspeed_cuda_emulated PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${emulator_options}>")
target_link_libraries(cspeed_cuda_emulated PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
set_target_properties(cspeed_cuda_emulated PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})

# libcspeed_cuda_emulated_instrumented.so: the same, where every load and store of a kernel calls a hook of races.cc.
# Nothing is vectorised: a thread's accesses are the kernel's own. Read by
# tests/device/cuda/test_emulator.c, test_traffic.c, and the tests that follow.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CSPEED_SANITIZE)
  set(instrumented cspeed_cuda_emulated_instrumented)
  file(GLOB trials CONFIGURE_DEPENDS ${emulator}/trials*.cc)
  set(module_sources ${cuda_sources} ${emulator_sources})
  list(REMOVE_ITEM module_sources ${emulated} ${trials})
  add_library(instrumented_kernels OBJECT ${emulated} ${trials})
  add_library(${instrumented} MODULE ${module_sources})
  target_sources(${instrumented} PRIVATE $<TARGET_OBJECTS:instrumented_kernels>)
  foreach(target instrumented_kernels ${instrumented})
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON
                          LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
    target_include_directories(${target} PRIVATE ${emulator}/include ${emulator} ${CMAKE_SOURCE_DIR}/engine
                               ${CMAKE_SOURCE_DIR}/include ${JANSSON_INCLUDE_DIRS})
    target_compile_definitions(${target} PRIVATE CS_EMULATOR CS_EMULATOR_INSTRUMENTED CS_CUDA_BUILT="the emulator"
                               CS_CUDNN_LIBRARY="libcudnn_emulated.so")
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${emulator_options}>")
  endforeach()
  target_compile_options(instrumented_kernels PRIVATE -O2 -fno-tree-vectorize -fno-tree-slp-vectorize
    -fno-tree-loop-distribute-patterns -fno-gnu-unique -fno-sanitize=alignment -fsanitize=thread)
  target_link_libraries(${instrumented} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  target_link_options(${instrumented} PRIVATE -fsanitize=alignment)
endif()

# libcudnn_emulated.so: a fake cuDNN, which the emulated module opens where CSPEED_CUDNN names it. It works in the module's
# streams, so it is linked to it.
file(GLOB cudnn_sources CONFIGURE_DEPENDS ${emulator}/cudnn/*.cc)
add_library(cudnn_emulated MODULE ${cudnn_sources})
target_include_directories(cudnn_emulated PRIVATE ${emulator}/include ${emulator} ${CMAKE_SOURCE_DIR}/engine
                           ${CMAKE_SOURCE_DIR}/include)
target_compile_definitions(cudnn_emulated PRIVATE CS_EMULATOR)
target_compile_options(cudnn_emulated PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${emulator_options}>")
target_link_libraries(cudnn_emulated PRIVATE $<TARGET_FILE:cspeed_cuda_emulated>)
add_dependencies(cudnn_emulated cspeed_cuda_emulated)
set_target_properties(cudnn_emulated PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})

# Tests that run on any device, on this one. tests/support/near.h says how.
set(on_emulator test_ops test_heads test_rope test_state test_verdict test_flash test_gpt2 test_llama test_gradients
    test_documents test_masked test_parity test_overflow test_reduction test_stages test_amp test_optimizers
    test_generate)
foreach(name ${on_emulator})
  add_test(NAME cuda_${name} COMMAND ${name})
  set_tests_properties(cuda_${name} PROPERTIES TIMEOUT 1800 LABELS slow ENVIRONMENT
    "CK_FORK=no;CSPEED_TEST_DEVICE=cuda;CSPEED_CUDA_MODULE=$<TARGET_FILE:cspeed_cuda_emulated>")
  add_dependencies(${name} cspeed_cuda_emulated)
endforeach()
set(quick test_rope test_state test_verdict)
if(NOT CSPEED_SANITIZE) # which makes a kernel's every access slower
  list(APPEND quick test_flash test_documents)
endif()
foreach(name ${quick})
  set_property(TEST cuda_${name} PROPERTY LABELS)
endforeach()
# The same attention with that cuDNN.
add_test(NAME cudnn_test_flash COMMAND test_flash)
set_tests_properties(cudnn_test_flash PROPERTIES TIMEOUT 1800 LABELS slow ENVIRONMENT
  "CK_FORK=no;CSPEED_TEST_DEVICE=cuda;CSPEED_CUDA_MODULE=$<TARGET_FILE:cspeed_cuda_emulated>;CSPEED_CUDNN=$<TARGET_FILE:cudnn_emulated>")
add_dependencies(test_flash cudnn_emulated)
add_dependencies(test_cudnn cudnn_emulated)
add_dependencies(test_together cudnn_emulated)
if(instrumented)
  add_dependencies(test_emulator ${instrumented})
  add_dependencies(test_traffic ${instrumented})
  add_dependencies(test_races ${instrumented})
endif()
foreach(name test_emulator test_nccl test_cuda test_kernels test_devices test_graph test_graphs test_together) # which open it themselves
  add_dependencies(${name} cspeed_cuda_emulated)
endforeach()
set_tests_properties(test_devices test_graphs test_together PROPERTIES LABELS slow)
# Grids as a real GPU's processors make them.
foreach(name test_kernels test_state)
  add_test(NAME processors_${name} COMMAND ${name})
  set_tests_properties(processors_${name} PROPERTIES TIMEOUT 900 ENVIRONMENT
    "CK_FORK=no;CSPEED_EMULATOR_PROCESSORS=132;CSPEED_TEST_DEVICE=cuda;CSPEED_CUDA_MODULE=$<TARGET_FILE:cspeed_cuda_emulated>")
endforeach()
# Tests in which the instrumented module must find nothing; test_races.c is one of a training.
if(instrumented)
  foreach(name test_state test_kernels test_rope test_ops test_flash test_graph)
    add_test(NAME races_${name} COMMAND ${name})
    set_tests_properties(races_${name} PROPERTIES TIMEOUT 3600 LABELS slow ENVIRONMENT
      "CK_FORK=no;CSPEED_TEST_DEVICE=cuda;CSPEED_CUDA_MODULE=$<TARGET_FILE:${instrumented}>")
    add_dependencies(${name} ${instrumented})
  endforeach()
  set_tests_properties(test_races PROPERTIES LABELS slow)
  foreach(name test_state test_kernels test_graph) # seconds
    set_property(TEST races_${name} PROPERTY LABELS)
  endforeach()
endif()
# Registers and shared memory of every kernel; it compiles them all three times.
if(NOT CSPEED_SANITIZE)
  add_test(NAME test_resources COMMAND ${CMAKE_SOURCE_DIR}/.ci/kernels check ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  set_tests_properties(test_resources PROPERTIES TIMEOUT 1800 LABELS slow SKIP_RETURN_CODE 77)
endif()
# test_gpu rehearses the proof on a GPU, for which it starts the programs of the tests above.
set_tests_properties(test_gpu PROPERTIES LABELS slow TIMEOUT 3600)
add_dependencies(test_gpu cspeed_cuda_emulated)
