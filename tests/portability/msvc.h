/* msvc.h - makes mingw compile what hcq.h has for MSVC; include first.

   No MSVC is at hand: its language and warnings stay untried, but its atomics,
   its thread-local words and its functions are compiled, and run under wine. */
#include <assert.h>
#include <errno.h>
#include <intrin.h>
#include <malloc.h>
#include <share.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>

#undef __GNUC__
#undef __clang__
#undef __declspec
#define _MSC_VER 1930
#define __declspec(thread) __thread /* of all that hcq uses only this is new */
#pragma GCC poison fopen freopen sprintf vsprintf sscanf strcpy strncpy strcat strncat
#pragma GCC poison strerror getenv
