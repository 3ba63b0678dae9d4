/* SPDX-License-Identifier: MIT */

#include "base/settings-words.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define WORD_BYTES_MAX 255 /* host names (RFC 1035), user names (login.defs), the interpreter in a HELLO */
#define URL_BYTES_MAX 1000

int settings_refuse(char **reterr_reason, const char *format, ...) {
        va_list ap;
        int r;

        assert(reterr_reason);
        assert(format);

        va_start(ap, format);
        r = vasprintf(reterr_reason, format, ap);
        va_end(ap);
        if (r < 0) {
                *reterr_reason = NULL;
                return -ENOMEM;
        }
        return -EINVAL;
}

static bool is_made_of(const char *s, const char *characters) {
        size_t n = strlen(s);

        return n > 0 && n <= WORD_BYTES_MAX && strspn(s, characters) == n;
}

#define DIGITS "0123456789"
#define ALPHANUMERIC "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS

/* Absolute, one spelling only, and what every part of the system takes for one word. */
static bool is_plain_path(const char *s) {
        if (s[0] != '/' || s[1] == 0 || strlen(s) > WORD_BYTES_MAX || strpbrk(s, ": \t\"'\\%$"))
                return false;
        for (const char *p = s; *p == '/';) {
                size_t n = strcspn(++p, "/");

                if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
                        return false;
                p += n;
        }
        return true;
}

static bool is_below(const char *path, const char *directory) {
        size_t n = strlen(directory);

        return strncmp(path, directory, n) == 0 && (path[n] == 0 || path[n] == '/');
}

static int check_path(const char *word, char **reterr_reason) {
        /* Host's sockets, devices, kernel interfaces, others' scratch: what the sandbox is there to keep
         * out. */
        static const char *const closed[] = {
                "/proc", "/sys", "/dev", "/run", "/var/run", "/tmp", "/var/tmp"
        };

        if (!is_plain_path(word))
                return settings_refuse(reterr_reason, "\"%s\" is not an absolute path without . and ..",
                                       word);
        for (size_t i = 0; i < ELEMENTSOF(closed); i++)
                if (is_below(word, closed[i]))
                        return settings_refuse(reterr_reason, "%s may not be shown to runs", closed[i]);
        return 0;
}

static int check_url(const char *word, char **reterr_reason) {
        static const char *const schemes[] = { "https://", "http://" };
        const char *host = NULL;
        size_t n_authority;

        for (size_t i = 0; i < ELEMENTSOF(schemes); i++)
                if (strncmp(word, schemes[i], strlen(schemes[i])) == 0)
                        host = word + strlen(schemes[i]);
        if (!host || strlen(word) > URL_BYTES_MAX ||
            strspn(host, ALPHANUMERIC "-._~:/?[]@!&'()*+,;=%") != strlen(host) ||
            strspn(host, ALPHANUMERIC "[") == 0)
                return settings_refuse(reterr_reason, "\"%.40s\" is not an http:// or https:// URL", word);
        /* This file is for everybody to read, and its values are shown by "check". */
        n_authority = strcspn(host, "/?");
        if (memchr(host, '@', n_authority))
                return settings_refuse(reterr_reason, "a user name or password does not belong into a URL "
                                                      "here: use IndexCredentials=");
        return 0;
}

/* A proxy that speaks TLS itself is not spoken to. */
static int check_proxy(const char *word, char **reterr_reason) {
        static const char scheme[] = "http://";
        size_t n;
        int r;

        r = check_url(word, reterr_reason);
        if (r < 0)
                return r;
        n = strlen(scheme);
        if (strncmp(word, scheme, n) == 0) {
                n += strcspn(word + n, "/?");
                if (streq(word + n, "") || streq(word + n, "/"))
                        return 0;
        }
        return settings_refuse(reterr_reason, "\"%.40s\" is not of the form http://HOST:PORT", word);
}

/* A trailing "*" stands for the rest of the name. */
static bool is_distribution(const char *word) {
        size_t n = strlen(word);

        if (streq(word, "*"))
                return true;
        if (!is_made_of(word, ALPHANUMERIC "-._*") || strspn(word, ALPHANUMERIC) == 0)
                return false;
        return strchr(word, '*') == NULL || strchr(word, '*') == word + n - 1;
}

static bool is_moment(const char *word) {
        size_t n = word[0] == 'P' ? strspn(word + 1, DIGITS) : 0;

        if (word[0] == 'P')
                return n > 0 && n <= 5 && (streq(word + 1 + n, "D") || streq(word + 1 + n, "W"));
        return strlen(word) >= strlen("2026-01-01") && strspn(word, DIGITS) == 4 && word[4] == '-' &&
               is_made_of(word, DIGITS "-:.+TZ");
}

int settings_check_word(Kind kind, const char *word, char **reterr_reason) {
        assert(word);
        assert(reterr_reason);

        if (kind == KIND_NAMES) { /* a directory service's names may hold more than ASCII */
                if (strlen(word) > WORD_BYTES_MAX || word[0] == '-' || strpbrk(word, ":,/"))
                        return settings_refuse(reterr_reason, "\"%s\" is not a name", word);
        } else if (kind == KIND_HOSTS) {
                if (!is_made_of(word, ALPHANUMERIC "-._:[]"))
                        return settings_refuse(reterr_reason,
                                               "\"%s\" is not a host name (without http:// and path)", word);
        } else if (kind == KIND_PROGRAM || kind == KIND_PROGRAMS) {
                if (!is_plain_path(word) &&
                    !(is_made_of(word, ALPHANUMERIC "-._+") && !strchr("-.", word[0])))
                        return settings_refuse(reterr_reason,
                                               "\"%s\" is neither a program's name nor its absolute path",
                                               word);
        } else if (kind == KIND_FILE) {
                if (*word && !is_plain_path(word))
                        return settings_refuse(reterr_reason, "\"%s\" is not an absolute path without . "
                                                              "and ..", word);
        } else if (kind == KIND_URL || kind == KIND_URLS) {
                if (*word)
                        return check_url(word, reterr_reason);
        } else if (kind == KIND_PROXY) {
                return *word ? check_proxy(word, reterr_reason) : 0;
        } else if (kind == KIND_DESTINATIONS) {
                const char *slash = strchr(word, '/');

                if (!is_made_of(word, ALPHANUMERIC "-._:[]/*") ||
                    (slash && (slash == word || slash[1] == 0 || !is_made_of(slash + 1, DIGITS ":"))))
                        return settings_refuse(reterr_reason,
                                               "\"%s\" is neither the name of a host (without http://) nor "
                                               "an address or a network",
                                               word);
        } else if (kind == KIND_DISTRIBUTIONS) {
                if (!is_distribution(word))
                        return settings_refuse(reterr_reason, "\"%s\" is not the name of a Python package",
                                               word);
        } else if (kind == KIND_MOMENT) {
                if (*word && !is_moment(word))
                        return settings_refuse(reterr_reason, "\"%s\" is neither a date such as 2026-01-31 "
                                                              "or 2026-01-31T12:00:00Z nor a span such as "
                                                              "P7D", word);
        } else
                return check_path(word, reterr_reason);
        return 0;
}
