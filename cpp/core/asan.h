#pragma once

// Marks memory that must not be touched, for AddressSanitizer; nothing in other builds. GCC before
// 14 defines a macro, later ones and Clang have a feature.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SAM_RLX_ASAN
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define SAM_RLX_ASAN
#endif

#ifdef SAM_RLX_ASAN
#include <sanitizer/asan_interface.h>
#define SAM_RLX_POISON(pointer, bytes) ASAN_POISON_MEMORY_REGION(pointer, bytes)
#define SAM_RLX_UNPOISON(pointer, bytes) ASAN_UNPOISON_MEMORY_REGION(pointer, bytes)
#else
#define SAM_RLX_POISON(pointer, bytes) ((void)0)
#define SAM_RLX_UNPOISON(pointer, bytes) ((void)0)
#endif
