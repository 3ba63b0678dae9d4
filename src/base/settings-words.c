/* SPDX-License-Identifier: MIT */

#include "base/settings-words.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/parse.h"

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

/* ---- Hosts ---- */

#define LABEL_CHARS_MAX 63 /* RFC 1035 */
#define PORT_MAX 65535

enum {
        HOST_PATTERNS = 1 << 0, /* "*", "*.NAME", ".NAME" */
        HOST_NETWORKS = 1 << 1, /* ADDRESS/BITS */
        HOST_BARE_V6 = 1 << 2,  /* without brackets, where no port follows */
};

/* Only digits, and in one spelling: runner/prepare/gate.py reads these words as well. */
static bool is_number(const char *s, unsigned min, unsigned max) {
        uint64_t n;

        return is_made_of(s, DIGITS) && (s[0] != '0' || s[1] == 0) && parse_uint64(s, &n) == 0 &&
               n >= min && n <= max;
}

static bool is_host_name(const char *s, unsigned flags) {
        size_t n;

        if (flags & HOST_PATTERNS) {
                if (streq(s, "*"))
                        return true;
                if (s[0] == '*' && s[1] == '.')
                        s++;
                if (s[0] == '.')
                        s++;
        }
        for (;; s += n + 1) {
                n = strspn(s, ALPHANUMERIC "-_");
                if (n == 0 || n > LABEL_CHARS_MAX || s[0] == '-' || s[n - 1] == '-')
                        return false;
                if (s[n] == 0)
                        break;
                if (s[n] != '.')
                        return false;
        }
        /* What ends like this is an address with a mistake in it, and would match no host. */
        return strspn(s, DIGITS) < n && strncasecmp(s, "0x", 2) != 0;
}

/* The family of an address, or network where that may be; 0: it is neither. */
static int address_family(const char *s, unsigned flags) {
        const char *slash = flags & HOST_NETWORKS ? strchr(s, '/') : NULL;
        char address[INET6_ADDRSTRLEN];
        unsigned char bytes[16];
        int family;

        if ((size_t) snprintf(address, sizeof(address), "%.*s", (int) (slash ? slash - s : WORD_BYTES_MAX),
                              s) >= sizeof(address))
                return 0;
        family = inet_pton(AF_INET, address, bytes) == 1  ? AF_INET :
                 inet_pton(AF_INET6, address, bytes) == 1 ? AF_INET6 :
                                                            0;
        return !slash || is_number(slash + 1, 0, family == AF_INET ? 32 : 128) ? family : 0;
}

/* HOST, HOST:PORT, [V6], [V6]:PORT, and what the flags say. */
static bool is_host(const char *word, unsigned flags) {
        bool is_bracketed = word[0] == '[';
        char host[WORD_BYTES_MAX + 1];
        const char *rest = word + strcspn(word, is_bracketed ? "]" : ":");
        int family;

        if (strlen(word) > WORD_BYTES_MAX || (is_bracketed && !*rest))
                return false;
        if (!is_bracketed && *rest && strchr(rest + 1, ':')) {
                if (!(flags & HOST_BARE_V6))
                        return false;
                rest += strlen(rest);
        }
        (void) snprintf(host, sizeof(host), "%.*s", (int) (rest - word - is_bracketed), word + is_bracketed);
        rest += is_bracketed;
        if (*rest && (*rest != ':' || !is_number(rest + 1, 1, PORT_MAX)))
                return false;
        family = address_family(host, flags);
        return is_bracketed ? family == AF_INET6 : family != 0 || is_host_name(host, flags);
}

static int check_url(const char *word, char **reterr_reason) {
        static const char *const schemes[] = { "https://", "http://" };
        char authority[WORD_BYTES_MAX + 1];
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
        if (n_authority <= WORD_BYTES_MAX) {
                (void) snprintf(authority, sizeof(authority), "%.*s", (int) n_authority, host);
                if (is_host(authority, 0))
                        return 0;
        }
        return settings_refuse(reterr_reason, "\"%.40s\" is no URL: no host has this name and port",
                               word);
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
        if (strchr(word, '*'))
                return strchr(word, '*') == word + n - 1;
        return !strchr("-._", word[n - 1]); /* no package's name ends like this */
}

/* ---- Times ---- */

static bool take_two(const char **s, unsigned min, unsigned max, unsigned *ret) {
        if (strspn(*s, DIGITS) < 2)
                return false;
        *ret = (unsigned) ((*s)[0] - '0') * 10 + (unsigned) ((*s)[1] - '0');
        *s += 2;
        return *ret >= min && *ret <= max;
}

static bool take_char(const char **s, const char *characters) {
        if (!**s || !strchr(characters, **s))
                return false;
        (*s)++;
        return true;
}

/* "2026-01-31" */
static bool take_date(const char **s) {
        static const unsigned days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
        unsigned century, year, month, day;
        bool is_leap;

        if (!take_two(s, 0, 99, &century) || !take_two(s, 0, 99, &year) || !take_char(s, "-") ||
            !take_two(s, 1, 12, &month) || !take_char(s, "-") || !take_two(s, 1, 31, &day))
                return false;
        year += century * 100;
        is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        return year > 0 && day <= days[month - 1] + (month == 2 && is_leap);
}

/* "12:00:00Z", "12:00:00.5+01:00" */
static bool take_time(const char **s) {
        unsigned n;

        if (!take_two(s, 0, 23, &n) || !take_char(s, ":") || !take_two(s, 0, 59, &n) || !take_char(s, ":") ||
            !take_two(s, 0, 59, &n))
                return false;
        if (take_char(s, ".")) {
                n = (unsigned) strspn(*s, DIGITS);
                if (n == 0 || n > 9)
                        return false;
                *s += n;
        }
        return take_char(s, "Z") || (take_char(s, "+-") && take_two(s, 0, 23, &n) && take_char(s, ":") &&
                                     take_two(s, 0, 59, &n));
}

static bool is_moment(const char *word) {
        size_t n = word[0] == 'P' ? strspn(word + 1, DIGITS) : 0;

        if (word[0] == 'P')
                return n > 0 && n <= 5 && (streq(word + 1 + n, "D") || streq(word + 1 + n, "W"));
        return take_date(&word) && (!*word || (take_char(&word, "T") && take_time(&word) && !*word));
}

int settings_check_word(Kind kind, const char *word, char **reterr_reason) {
        assert(word);
        assert(reterr_reason);

        if (kind == KIND_NAMES) { /* a directory service's names may hold more than ASCII */
                if (strlen(word) > WORD_BYTES_MAX || word[0] == '-' || strpbrk(word, ":,/"))
                        return settings_refuse(reterr_reason, "\"%s\" is not a name", word);
        } else if (kind == KIND_HOSTS) {
                if (!is_host(word, HOST_BARE_V6))
                        return settings_refuse(reterr_reason,
                                               "\"%s\" is not a host name (without http:// and path) or "
                                               "address, with or without :PORT",
                                               word);
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
                if (!is_host(word, HOST_PATTERNS | HOST_NETWORKS | HOST_BARE_V6))
                        return settings_refuse(reterr_reason,
                                               "\"%s\" is neither the name of a host (without http://) nor "
                                               "an address or a network such as 10.0.0.0/8, with or without "
                                               ":PORT",
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
