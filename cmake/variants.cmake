# Decides which kernel variants the library gets. kernels/cpu/k1_conv_<isa>.cc and k2_tanh_<isa>.cc switch their ISA on for
# their own functions only, so no file is compiled with -m flags; here the compiler is asked whether it knows the ISA.
include(CheckCXXSourceCompiles)

# msct_variant(<isa> <target> <expression>): compiles an expression of an intrinsic with the GCC/Clang target string.
# Sets MSCT_BUILD_<ISA> for kernels.inc where that works; drops the variant's files where it does not.
function(msct_variant isa target expression)
  string(TOUPPER ${isa} upper)
  check_cxx_source_compiles("
    #include <immintrin.h>
    __attribute__((target(\"${target}\"))) double probe(const float* p) { return ${expression}; }
    int main() { return 0; }" MSCT_COMPILES_${upper})
  if(MSCT_COMPILES_${upper})
    target_compile_definitions(ms_convtanh_objects PUBLIC MSCT_BUILD_${upper})
    message(STATUS "ms_convtanh: variant ${isa}: built")
  else()
    list(FILTER MSCT_SOURCES EXCLUDE REGEX "/k[12]_[a-z_]+_${isa}\\.cc$")
    set(MSCT_SOURCES ${MSCT_SOURCES} PARENT_SCOPE)
    message(STATUS "ms_convtanh: variant ${isa}: skipped, ${CMAKE_CXX_COMPILER} cannot build it for ${CMAKE_SYSTEM_PROCESSOR}")
  endif()
endfunction()

message(STATUS "ms_convtanh: variant portable: built")
msct_variant(avx2 "avx2,fma,f16c" "_mm256_cvtss_f32(_mm256_fmadd_ps(_mm256_loadu_ps(p), _mm256_loadu_ps(p), _mm256_cvtph_ps(_mm_set1_epi16(0))))")
msct_variant(avx512 "avx512f,avx512bw,avx512dq,avx512vl" "_mm512_reduce_add_ps(_mm512_and_ps(_mm512_loadu_ps(p), _mm512_loadu_ps(p)))")
msct_variant(amx "amx-tile,amx-bf16,avx512f" [[({ __asm__ volatile("tdpbf16ps %%tmm2, %%tmm1, %%tmm0" ::"m"(*p)); 0.0; })]])
