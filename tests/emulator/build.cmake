# libcspeed_cuda_emulated.so: the CUDA device and the NCCL transport with an emulated CUDA runtime, for tests without a GPU.
# A C++17 compiler compiles the same sources as nvcc. CSPEED_EMULATOR=OFF leaves it out.
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
  set(emulator_found ON)
else()
  set(emulator_found OFF)
endif()
option(CSPEED_EMULATOR "build the emulated CUDA module, and run tests on it" ${emulator_found})
# ThreadSanitizer does not support the emulator's fibers.
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
target_include_directories(cspeed_cuda_emulated PRIVATE ${emulator}/include ${emulator} ${PROJECT_SOURCE_DIR}/engine
                           ${PROJECT_SOURCE_DIR}/include ${JANSSON_INCLUDE_DIRS})
target_compile_definitions(cspeed_cuda_emulated PRIVATE CE_EMULATOR CE_CUDA_BUILT="the emulator"
                           CE_CUDNN_LIBRARY="libcudnn_emulated.so")
# Multiply-adds may be fused, as nvcc does, and an unaligned access is a fatal error, as on a GPU.
set(emulator_options -Wall -Wextra -Wno-unknown-pragmas -Wno-attributes -ffp-contract=fast -fno-math-errno)
if(CSPEED_SANITIZE) # with sanitizers -O3 compiles for minutes, and the code is hardly faster
  list(APPEND emulator_options -O1)
elseif(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  list(APPEND emulator_options -O3)
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64") # fused multiply-adds and conversions of fp16 in hardware
  list(APPEND emulator_options -mavx2 -mfma -mf16c)
endif()
if(NOT CSPEED_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND emulator_options -fsanitize=alignment -fno-sanitize-recover=alignment)
  target_link_options(cspeed_cuda_emulated PRIVATE -fsanitize=alignment)
endif()
target_compile_options(cspeed_cuda_emulated PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${emulator_options}>")
target_link_libraries(cspeed_cuda_emulated PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
set_target_properties(cspeed_cuda_emulated PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})

# libcspeed_cuda_emulated_instrumented.so: the same, but every load and store of a kernel calls a hook of races.cc.
# Vectorisation is off, so that the accesses of a thread are those of the kernel's source. Used by test_emulator.c and
# test_traffic.c in tests/device/cuda, and by the tests below.
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
    target_include_directories(${target} PRIVATE ${emulator}/include ${emulator} ${PROJECT_SOURCE_DIR}/engine
                               ${PROJECT_SOURCE_DIR}/include ${JANSSON_INCLUDE_DIRS})
    target_compile_definitions(${target} PRIVATE CE_EMULATOR CS_EMULATOR_INSTRUMENTED CE_CUDA_BUILT="the emulator"
                               CE_CUDNN_LIBRARY="libcudnn_emulated.so")
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${emulator_options}>")
  endforeach()
  target_compile_options(instrumented_kernels PRIVATE -O2 -fno-tree-vectorize -fno-tree-slp-vectorize
    -fno-tree-loop-distribute-patterns -fno-gnu-unique -fno-sanitize=alignment -fsanitize=thread)
  target_link_libraries(${instrumented} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  target_link_options(${instrumented} PRIVATE -fsanitize=alignment)
endif()

# libcudnn_emulated.so: a fake cuDNN, which the emulated module loads if CSPEED_CUDNN names it. It works in the module's
# streams, so it is linked to the module.
file(GLOB cudnn_sources CONFIGURE_DEPENDS ${emulator}/cudnn/*.cc)
add_library(cudnn_emulated MODULE ${cudnn_sources})
target_include_directories(cudnn_emulated PRIVATE ${emulator}/include ${emulator} ${PROJECT_SOURCE_DIR}/engine
                           ${PROJECT_SOURCE_DIR}/include)
target_compile_definitions(cudnn_emulated PRIVATE CE_EMULATOR)
target_compile_options(cudnn_emulated PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${emulator_options}>")
target_link_libraries(cudnn_emulated PRIVATE $<TARGET_FILE:cspeed_cuda_emulated>)
add_dependencies(cudnn_emulated cspeed_cuda_emulated)
set_target_properties(cudnn_emulated PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})

# Tests that run on any device, here on the emulated one (tests/support/near.h).
set(on_emulator test_ops test_cut_ops test_cut_random test_cut_rms test_heads test_rope test_state test_blocks test_verdict
    test_preference_pairs test_functions test_general test_routing test_slots test_expert_products test_dora test_flash test_gpt2
    test_llama test_gradients test_documents test_masked test_parity test_overflow test_reduction test_stages test_amp
    test_optimizers test_eight_bit test_generate test_families test_experts test_lora test_peft test_frozen)
foreach(name ${on_emulator})
  add_test(NAME cuda_${name} COMMAND ${name})
  set_tests_properties(cuda_${name} PROPERTIES TIMEOUT 1800 LABELS slow ENVIRONMENT
    "${environment};CSPEED_TEST_DEVICE=cuda;CSPEED_CUDA_MODULE=$<TARGET_FILE:cspeed_cuda_emulated>")
  add_dependencies(${name} cspeed_cuda_emulated)
endforeach()
set(quick test_cut_ops test_cut_random test_cut_rms test_lora test_functions test_general test_routing test_slots test_dora test_rope
    test_state test_blocks test_verdict)
if(NOT CSPEED_SANITIZE) # sanitizers make every access of a kernel slower
  list(APPEND quick test_flash test_documents)
endif()
foreach(name ${quick})
  set_property(TEST cuda_${name} PROPERTY LABELS)
endforeach()
# The attention test again, with the fake cuDNN.
add_test(NAME cudnn_test_flash COMMAND test_flash)
set_tests_properties(cudnn_test_flash PROPERTIES TIMEOUT 1800 LABELS slow ENVIRONMENT
  "${environment};CSPEED_TEST_DEVICE=cuda;CSPEED_CUDA_MODULE=$<TARGET_FILE:cspeed_cuda_emulated>;CSPEED_CUDNN=$<TARGET_FILE:cudnn_emulated>")
add_dependencies(test_flash cudnn_emulated)
add_dependencies(test_cudnn cudnn_emulated)
add_dependencies(test_together cudnn_emulated)
if(instrumented)
  add_dependencies(test_emulator ${instrumented})
  add_dependencies(test_traffic ${instrumented})
  add_dependencies(test_races ${instrumented})
endif()
if(TARGET test_install)
  add_dependencies(test_install cspeed_cuda_emulated)
endif()
foreach(name test_emulator test_nccl test_nccl_lost test_cuda test_kernels test_devices test_offload test_graph test_graphs test_together) # these tests open the device themselves
  add_dependencies(${name} cspeed_cuda_emulated)
endforeach()
set_tests_properties(test_devices test_graphs test_together PROPERTIES LABELS slow)
# Grids of the size that they have on a GPU's number of multiprocessors.
foreach(name test_kernels test_state test_functions test_general test_slots test_routing test_ops)
  add_test(NAME processors_${name} COMMAND ${name})
  set_tests_properties(processors_${name} PROPERTIES TIMEOUT 900 ENVIRONMENT
    "${environment};CSPEED_EMULATOR_PROCESSORS=132;CSPEED_TEST_DEVICE=cuda;CSPEED_CUDA_MODULE=$<TARGET_FILE:cspeed_cuda_emulated>")
endforeach()
set_tests_properties(processors_test_ops PROPERTIES LABELS slow)
# Tests in which the instrumented module must report nothing; test_races.c is a training run.
if(instrumented)
  foreach(name test_state test_kernels test_rope test_ops test_flash test_graph test_routing test_slots test_expert_products test_dora
               test_functions test_general)
    add_test(NAME races_${name} COMMAND ${name})
    set_tests_properties(races_${name} PROPERTIES TIMEOUT 3600 LABELS slow ENVIRONMENT
      "${environment};CSPEED_TEST_DEVICE=cuda;CSPEED_CUDA_MODULE=$<TARGET_FILE:${instrumented}>")
    add_dependencies(${name} ${instrumented})
  endforeach()
  set_tests_properties(test_races PROPERTIES LABELS slow)
  foreach(name test_state test_kernels test_graph test_functions test_general test_routing test_slots test_dora) # seconds
    set_property(TEST races_${name} PROPERTY LABELS)
  endforeach()
endif()
# Checks registers and shared memory of every kernel; compiles all kernels for three architectures.
if(NOT CSPEED_SANITIZE)
  add_test(NAME test_resources COMMAND ${PROJECT_SOURCE_DIR}/.ci/kernels check ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  set_tests_properties(test_resources PROPERTIES TIMEOUT 1800 LABELS slow SKIP_RETURN_CODE 77)
endif()
# test_gpu runs .ci/gpu on the emulated module, which starts the programs of the tests above.
set_tests_properties(test_gpu PROPERTIES LABELS slow TIMEOUT 3600)
add_dependencies(test_gpu cspeed_cuda_emulated)
