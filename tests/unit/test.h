/* SPDX-License-Identifier: MIT */
#pragma once

/* A test program is one file: TEST(what_must_hold) { … } as often as needed, and nothing else. Cases
 * register themselves, run in the order of the file, and print TAP. A failed ASSERT_… ends its case only.
 * Nothing here depends on assert(), so the tests also mean something with NDEBUG. */

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct TestCase {
        const char *name;
        void (*run)(void);
        struct TestCase *next;
} TestCase;

static struct {
        TestCase *first, **tail;
        jmp_buf leave;
        const char *skip_reason;
} test_state;

#define TEST(case_name)                                                                         \
        static void test_##case_name(void);                                                     \
        __attribute__((__constructor__)) static void test_register_##case_name(void) {          \
                static TestCase c = { .name = #case_name, .run = test_##case_name };            \
                if (!test_state.tail)                                                           \
                        test_state.tail = &test_state.first;                                    \
                *test_state.tail = &c;                                                          \
                test_state.tail = &c.next;                                                      \
        }                                                                                       \
        static void test_##case_name(void)

/* A value may hold anything; what TAP or a terminal would take for its own is shown as \xNN. */
__attribute__((__unused__)) static void test_print(const char *text) {
        for (; *text; text++)
                if ((unsigned char) *text < 0x20 || *text == 0x7f)
                        printf("\\x%02x", (unsigned char) *text);
                else
                        (void) putchar(*text);
}

__attribute__((__format__(__printf__, 3, 4), __noreturn__, __noinline__, __unused__))
static void test_fail(const char *file, int line, const char *format, ...) {
        char *text = NULL;
        va_list ap;

        va_start(ap, format);
        if (vasprintf(&text, format, ap) < 0)
                text = NULL;
        va_end(ap);
        printf("# %s:%d: ", file, line);
        test_print(text ? text : format);
        printf("\n");
        free(text);
        longjmp(test_state.leave, 1);
}

/* Leaves the case as skipped; the reason is printed. */
#define SKIP(reason) (test_state.skip_reason = (reason), longjmp(test_state.leave, 2))

#define FAIL(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)

#define ASSERT_TRUE(expression)                                                                 \
        do {                                                                                    \
                if (!(expression))                                                              \
                        FAIL("false: %s", #expression);                                         \
        } while (0)
#define ASSERT_FALSE(expression) ASSERT_TRUE(!(expression))

#define ASSERT_EQ_INT(actual, expected)                                                         \
        do {                                                                                    \
                intmax_t a_ = (intmax_t) (actual), e_ = (intmax_t) (expected);                  \
                if (a_ != e_)                                                                   \
                        FAIL("%s is %jd, expected %jd", #actual, a_, e_);                       \
        } while (0)

#define ASSERT_EQ_UINT(actual, expected)                                                        \
        do {                                                                                    \
                uintmax_t a_ = (uintmax_t) (actual), e_ = (uintmax_t) (expected);               \
                if (a_ != e_)                                                                   \
                        FAIL("%s is %ju, expected %ju", #actual, a_, e_);                       \
        } while (0)

/* NULL equals NULL only. */
#define ASSERT_EQ_STR(actual, expected) test_eq_str(__FILE__, __LINE__, #actual, actual, expected)

#define ASSERT_EQ_MEM(actual, n_actual, expected, n_expected)                                   \
        test_eq_mem(__FILE__, __LINE__, #actual, actual, n_actual, expected, n_expected)

/* For strings that say something: the text must contain the part. */
#define ASSERT_CONTAINS(text, part) test_contains(__FILE__, __LINE__, #text, text, part)

__attribute__((__noinline__, __unused__)) static void test_eq_str(const char *file, int line,
                                                                  const char *what, const char *actual,
                                                                  const char *expected) {
        if (actual && expected ? strcmp(actual, expected) != 0 : actual != expected)
                test_fail(file, line, "%s is \"%s\", expected \"%s\"", what, actual ? actual : "(NULL)",
                          expected ? expected : "(NULL)");
}

__attribute__((__noinline__, __unused__)) static void test_contains(const char *file, int line,
                                                                    const char *what, const char *text,
                                                                    const char *part) {
        if (!text || !strstr(text, part))
                test_fail(file, line, "%s is \"%s\", expected it to contain \"%s\"", what,
                          text ? text : "(NULL)", part);
}

__attribute__((__noinline__, __unused__)) static void test_eq_mem(const char *file, int line,
                                                                  const char *what, const void *actual,
                                                                  size_t n_actual, const void *expected,
                                                                  size_t n_expected) {
        const unsigned char *a = actual, *e = expected;
        size_t i = 0;

        while (i < n_actual && i < n_expected && a[i] == e[i])
                i++;
        if (n_actual != n_expected || i < n_actual)
                test_fail(file, line, "%s has %zu bytes, expected %zu; the first %zu agree", what, n_actual,
                          n_expected, i);
}

/* Numbers that look random and are the same in each run. */
__attribute__((__unused__)) static uint64_t test_random(uint64_t *state) {
        uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        return z ^ (z >> 31);
}

int main(void) {
        static unsigned n, n_failed; /* longjmp() may lose automatic ones */
        static const TestCase *c;

        setvbuf(stdout, NULL, _IOLBF, 0);
        for (c = test_state.first; c; c = c->next)
                n++;
        printf("1..%u\n", n);
        n = 0;
        for (c = test_state.first; c; c = c->next) {
                int how = setjmp(test_state.leave);

                if (how == 0) {
                        n++;
                        c->run();
                        printf("ok %u - %s\n", n, c->name);
                } else if (how == 1) {
                        n_failed++;
                        printf("not ok %u - %s\n", n, c->name);
                } else
                        printf("ok %u - %s # SKIP %s\n", n, c->name, test_state.skip_reason);
        }
        return n_failed > 0; /* of skips TAP tells */
}
