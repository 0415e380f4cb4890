# Refuses flags that let a compiler change results, from the environment (CXXFLAGS, LDFLAGS) or the
# command line. At the link they would also change the float mode of the process that loads the
# library. Runs alone too: cmake -D CMAKE_CXX_FLAGS=... -P cmake/refused_flags.cmake

set(
  refused
  "-Ofast"
  "-f(fast-math|unsafe-math-optimizations|finite-math-only|associative-math|reciprocal-math)"
  "-f(approx-func|cx-limited-range|cx-fortran-rules|single-precision-constant)"
  "-fno-(signed-zeros|honor-nans|honor-infinities)"
  "-f(excess-precision=(fast|16)|fp-eval-method=(double|extended))"
  "-fdenormal-fp-math(-f32)?=.*(zero|sign).*"
  "-ffp-model=(fast|aggressive)|[-/]fp:(fast|fast=[0-9])"
  "-fp-model[= ]?fast.*"
  "-m(daz-ftz|recip|recip=.*|unsafe-fp-math|enable-unsafe-fp-math)"
  "-mfpmath=.*387.*"
)
list(JOIN refused "|" refused)

set(flag_variables CMAKE_CXX_COMPILER_ARG1)
foreach(kind CXX_FLAGS EXE_LINKER_FLAGS MODULE_LINKER_FLAGS SHARED_LINKER_FLAGS)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
  list(APPEND flag_variables CMAKE_${kind} CMAKE_${kind}_${build_type})
endforeach()
foreach(variable ${flag_variables})
  separate_arguments(flags UNIX_COMMAND "${${variable}}")
  foreach(flag ${flags})
    string(REGEX REPLACE "^[-/]clang:|^-Xclang=" "" plain "${flag}")
    if(plain MATCHES "^(${refused})$")
      message(
        FATAL_ERROR
        "${variable}: expected flags that keep results, found ${flag}, which may change masks: remove it from CXXFLAGS, LDFLAGS or CMake's settings."
      )
    endif()
  endforeach()
endforeach()
