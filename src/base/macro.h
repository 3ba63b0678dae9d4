/* SPDX-License-Identifier: MIT */
#pragma once

/* Small macros that every room uses: cleanup attributes, taking ownership, array sizes. */

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define _cleanup_(f) __attribute__((__cleanup__(f)))
#define _cleanup_free_ _cleanup_(freep)
#define _printf_(fmt, args) __attribute__((__format__(__printf__, fmt, args)))
#define _unused_ __attribute__((__unused__))

#define ELEMENTSOF(a) (sizeof(a) / sizeof((a)[0]))

#define MIN_OF(a, b) ({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); _a < _b ? _a : _b; })
#define MAX_OF(a, b) ({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); _a > _b ? _a : _b; })

/* Gives the value away and leaves an empty variable behind, so that its cleanup does nothing. */
#define TAKE_PTR(p) ({ __typeof__(p) _t = (p); (p) = NULL; _t; })
#define TAKE_FD(fd) ({ int _t = (fd); (fd) = -EBADF; _t; })

/* Defines func##p, the cleanup for a variable of this pointer type. func must accept NULL. */
#define DEFINE_CLEANUP(type, func)                      \
        static inline void func##p(type *p) {           \
                if (*p)                                 \
                        (void) func(*p);                \
        }

static inline void freep(void *p) {
        free(*(void**) p);
}

static inline int streq(const char *a, const char *b) {
        return strcmp(a, b) == 0;
}

/* NULL-safe: two NULLs are equal. */
static inline int streq_ptr(const char *a, const char *b) {
        return a && b ? streq(a, b) : a == b;
}

#define USEC_PER_SEC ((uint64_t) 1000000)
#define USEC_PER_MSEC ((uint64_t) 1000)
#define NSEC_PER_USEC ((uint64_t) 1000)
#define KIB ((uint64_t) 1024)
#define MIB (KIB * 1024)
