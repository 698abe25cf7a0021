/* words.h - words that <windows.h> and what it includes make macros of (minwindef.h,
   rpcndr.h, combaseapi.h, winnt.h, wingdi.h ...), and some of other systems.
   Include first: hcq.h and hcq_kernel.h may use none of them as a name. */
#define _GNU_SOURCE
#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#ifdef HCQ_VULKAN
#include <vulkan/vulkan.h>
#endif

#undef linux
#undef unix
#undef major
#undef minor
#pragma GCC poison small hyper interface near far huge pascal cdecl min max
#pragma GCC poison NEAR FAR IN OUT OPTIONAL CONST STRICT THIS PURE PASCAL CDECL UNALIGNED
#pragma GCC poison ERROR NO_ERROR DELETE IGNORE ABSOLUTE RELATIVE TRANSPARENT OPAQUE
#pragma GCC poison ALTERNATE WINDING DIFFERENCE PASSTHROUGH TECHNOLOGY SYNCHRONIZE
#pragma GCC poison READ_CONTROL MAXIMUM_ALLOWED GENERIC_READ GENERIC_WRITE GENERIC_ALL
#pragma GCC poison MEM_COMMIT MEM_RESERVE MEM_FREE PAGE_NOACCESS EXCEPTION_EXECUTE_HANDLER
#pragma GCC poison GetObject SendMessage PostMessage DrawText GetMessage CreateFile DeleteFile
#pragma GCC poison CreateEvent CreateMutex LoadImage GetCurrentTime Yield environ
#pragma GCC poison uuid_t major minor linux unix
