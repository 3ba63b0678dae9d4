/* SPDX-License-Identifier: MIT */

/* Arrays of strings, and the two string functions that allocate. */

#include "base/strv.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/buffer.h"

char** strv_free(char **l) {
        for (char **s = l; s && *s; s++)
                free(*s);
        free(l);
        return NULL;
}

size_t strv_length(char *const *l) {
        size_t n = 0;

        while (l && l[n])
                n++;
        return n;
}

bool strv_contains(char *const *l, const char *s) {
        assert(s);

        STRV_FOREACH(i, l)
                if (streq(*i, s))
                        return true;
        return false;
}

static int strv_push_take(char ***l, char *take) {
        size_t n = strv_length(*l);
        char **p;

        p = reallocarray(*l, n + 2, sizeof(char*));
        if (!p)
                return -ENOMEM;
        p[n] = take;
        p[n + 1] = NULL;
        *l = p;
        return 0;
}

int strv_extend(char ***l, const char *s) {
        _cleanup_free_ char *copy = NULL;
        int r;

        assert(l);
        assert(s);

        copy = strdup(s);
        if (!copy)
                return -ENOMEM;
        r = strv_push_take(l, copy);
        if (r < 0)
                return r;
        TAKE_PTR(copy);
        return 0;
}

_printf_(2, 0) static int str_vprintf(char **ret, const char *format, va_list ap) {
        char *s;

        /* vasprintf() leaves its argument undefined when it fails. */
        if (vasprintf(&s, format, ap) < 0)
                return -ENOMEM;
        *ret = s;
        return 0;
}

int strv_extendf(char ***l, const char *format, ...) {
        _cleanup_free_ char *s = NULL;
        va_list ap;
        int r;

        assert(l);
        assert(format);

        va_start(ap, format);
        r = str_vprintf(&s, format, ap);
        va_end(ap);
        if (r < 0)
                return r;
        r = strv_push_take(l, s);
        if (r < 0)
                return r;
        TAKE_PTR(s);
        return 0;
}

int strv_split(const char *s, char ***ret) {
        static const char white[] = " \t\n\r\v\f";
        _cleanup_strv_ char **l = NULL;
        int r;

        assert(s);
        assert(ret);

        for (s += strspn(s, white); *s; s += strspn(s, white)) {
                size_t n = strcspn(s, white);
                _cleanup_free_ char *word = strndup(s, n);

                if (!word)
                        return -ENOMEM;
                r = strv_push_take(&l, word);
                if (r < 0)
                        return r;
                TAKE_PTR(word);
                s += n;
        }
        *ret = TAKE_PTR(l);
        return 0;
}

int str_printf(char **ret, const char *format, ...) {
        va_list ap;
        int r;

        assert(ret);
        assert(format);

        va_start(ap, format);
        r = str_vprintf(ret, format, ap);
        va_end(ap);
        return r;
}

int str_copy(char **ret, const char *s) {
        char *copy = NULL;

        assert(ret);

        if (s) {
                copy = strdup(s);
                if (!copy)
                        return -ENOMEM;
        }
        free(*ret);
        *ret = copy;
        return 0;
}

int str_quote_for_shell(const char *s, char **ret) {
        static const char plain[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_";
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        bool is_plain;
        int r;

        assert(s);
        assert(ret);

        is_plain = *s && s[strspn(s, plain)] == 0;
        r = buffer_append_str(&b, is_plain ? s : "'");
        for (; !is_plain && *s && r >= 0; s++)
                r = *s == '\'' ? buffer_append_str(&b, "'\\''") : buffer_append(&b, s, 1);
        if (!is_plain && r >= 0)
                r = buffer_append_str(&b, "'");
        return r < 0 ? r : buffer_steal(&b, ret, NULL);
}
