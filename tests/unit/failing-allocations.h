/* SPDX-License-Identifier: MIT */
#pragma once

/* Allocations that fail on demand, one at a time. The linker puts the functions below in the place of libc's
 * for our own code (--wrap: `wrapped` in meson.build); what libraries allocate does not fail. Leaks and the
 * use of half-made objects are for the sanitizers to find. For one .c file of each program. */

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"

static unsigned failing_allocation; /* the next one is 1; 0: none fails, as afterwards */
static bool has_failed;

void* __real_malloc(size_t size);
void* __real_calloc(size_t n, size_t size);
void* __real_realloc(void *p, size_t size);
void* __real_reallocarray(void *p, size_t n, size_t size);
char* __real_strdup(const char *s);
char* __real_strndup(const char *s, size_t n);
_printf_(2, 0) int __real_vasprintf(char **ret, const char *format, va_list ap);
void* __wrap_malloc(size_t size);
void* __wrap_calloc(size_t n, size_t size);
void* __wrap_realloc(void *p, size_t size);
void* __wrap_reallocarray(void *p, size_t n, size_t size);
char* __wrap_strdup(const char *s);
char* __wrap_strndup(const char *s, size_t n);
_printf_(2, 0) int __wrap_vasprintf(char **ret, const char *format, va_list ap);
_printf_(3, 0) int __wrap___vasprintf_chk(char **ret, int flag, const char *format, va_list ap);

static bool must_fail(void) {
        if (failing_allocation == 0 || --failing_allocation > 0)
                return false;
        has_failed = true;
        errno = ENOMEM;
        return true;
}

void* __wrap_malloc(size_t size) {
        return must_fail() ? NULL : __real_malloc(size);
}

void* __wrap_calloc(size_t n, size_t size) {
        return must_fail() ? NULL : __real_calloc(n, size);
}

void* __wrap_realloc(void *p, size_t size) {
        return must_fail() ? NULL : __real_realloc(p, size);
}

void* __wrap_reallocarray(void *p, size_t n, size_t size) {
        return must_fail() ? NULL : __real_reallocarray(p, n, size);
}

char* __wrap_strdup(const char *s) {
        return must_fail() ? NULL : __real_strdup(s);
}

char* __wrap_strndup(const char *s, size_t n) {
        return must_fail() ? NULL : __real_strndup(s, n);
}

int __wrap_vasprintf(char **ret, const char *format, va_list ap) {
        return must_fail() ? -1 : __real_vasprintf(ret, format, ap);
}

/* The name it has in a build with _FORTIFY_SOURCE=, as packages are. */
int __wrap___vasprintf_chk(char **ret, int flag, const char *format, va_list ap) {
        (void) flag;
        return __wrap_vasprintf(ret, format, ap);
}
