/* SPDX-License-Identifier: MIT */
#pragma once

/* Allocators that fail on demand, for the whole process: the libraries' calls come here too. Not under a
 * sanitizer, which has allocators of its own. */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define IS_SANITIZED
#endif

#if !defined(IS_SANITIZED)

static struct {
        bool is_armed, is_for_good, has_failed;
        unsigned n_left;
        long n_live;
} fault;

/* The allocation after n others fails, and all after that one where is_for_good. */
static void fault_begin(unsigned n, bool is_for_good) {
        fault.has_failed = false;
        fault.n_left = n;
        fault.is_for_good = is_for_good;
        fault.is_armed = true;
}

/* Whether there were that many. */
static bool fault_end(void) {
        fault.is_armed = false;
        return fault.has_failed;
}

static bool must_fail(void) {
        if (!fault.is_armed)
                return false;
        if (fault.n_left > 0) {
                fault.n_left--;
                return false;
        }
        if (!fault.is_for_good)
                fault.is_armed = false;
        fault.has_failed = true;
        errno = ENOMEM;
        return true;
}

/* The libraries shall find them too. */
#define OURS __attribute__((__visibility__("default")))

void* __libc_malloc(size_t n_bytes);
void* __libc_calloc(size_t n, size_t n_bytes);
void* __libc_realloc(void *p, size_t n_bytes);
void __libc_free(void *p);

OURS void* malloc(size_t n_bytes) {
        void *p = must_fail() ? NULL : __libc_malloc(n_bytes);

        fault.n_live += p != NULL;
        return p;
}

OURS void* calloc(size_t n, size_t n_bytes) {
        void *p = must_fail() ? NULL : __libc_calloc(n, n_bytes);

        fault.n_live += p != NULL;
        return p;
}

OURS void* realloc(void *p, size_t n_bytes) {
        void *q = must_fail() ? NULL : __libc_realloc(p, n_bytes);

        fault.n_live += !p && q;
        return q;
}

OURS void free(void *p) {
        fault.n_live -= p != NULL;
        __libc_free(p);
}

/* Where the HTTP library's memory for a connection comes from, by its real name: ours may stand for
 * mmap64(). */
void* map(void *address, size_t n_bytes, int protection, int flags, int fd, long offset) __asm__("mmap");

OURS void* map(void *address, size_t n_bytes, int protection, int flags, int fd, long offset) {
        if (must_fail())
                return MAP_FAILED;
        return (void*) syscall(SYS_mmap, address, n_bytes, protection, flags, fd, offset);
}

#endif
