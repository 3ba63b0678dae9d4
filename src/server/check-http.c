/* SPDX-License-Identifier: MIT */

/* Checks of the sockets for HTTP, which an administrator switches on or not: nobody else would tell that one
 * of them does not listen, for the service runs without it. */

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h> /* S_IFSOCK */
#include <unistd.h>

#include "base/fd.h"
#include "base/macro.h"
#include "base/parse.h"
#include "base/strv.h"
#include "config.h"
#include "server/check.h"

typedef union Address {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
} Address;

/* "127.0.0.1:8080" or "[::1]:8080". */
static bool parse_address(const char *text, Address *ret, socklen_t *ret_n_bytes) {
        char host[INET6_ADDRSTRLEN + 2];
        const char *colon = strrchr(text, ':');
        uint64_t port;
        size_t n;

        if (!colon || (size_t) (colon - text) >= sizeof(host) || parse_uint64(colon + 1, &port) < 0 ||
            port > UINT16_MAX)
                return false;
        n = (size_t) (colon - text);
        memcpy(host, text, n);
        host[n] = 0;
        *ret = (Address) {};
        if (n > 2 && host[0] == '[' && host[n - 1] == ']') {
                host[n - 1] = 0;
                ret->in6.sin6_family = AF_INET6;
                ret->in6.sin6_port = htons((uint16_t) port);
                *ret_n_bytes = sizeof(ret->in6);
                return inet_pton(AF_INET6, host + 1, &ret->in6.sin6_addr) == 1;
        }
        ret->in.sin_family = AF_INET;
        ret->in.sin_port = htons((uint16_t) port);
        *ret_n_bytes = sizeof(ret->in);
        return inet_pton(AF_INET, host, &ret->in.sin_addr) == 1;
}

/* Why nothing can listen there, as an errno; 0: it could, or that cannot be said. */
static int obstacle_at(const char *listen) {
        _cleanup_close_ int fd = -EBADF;
        const int yes = 1;
        socklen_t n_bytes;
        Address address;

        if (*listen == '/')
                return system_path_is_taken(listen, S_IFSOCK) ? ENOTSOCK : 0;
        if (!parse_address(listen, &address, &n_bytes))
                return 0;
        fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return 0;
        (void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
        if (bind(fd, &address.any, n_bytes) >= 0)
                return 0;
        return errno == EADDRINUSE || errno == EADDRNOTAVAIL ? errno : 0;
}

typedef struct Trouble {
        const char *what; /* follows the name of the unit */
        char *remedy;
        int obstacle;     /* what is in its way, as an errno */
        char where[256];
} Trouble;

/* The first of its addresses that has one. */
static void find_obstacle(const char *listen, Trouble *t) {
        char copy[sizeof(t->where)], *rest = copy, *address;

        (void) snprintf(copy, sizeof(copy), "%s", listen);
        while (t->obstacle == 0 && (address = strsep(&rest, "\n"))) {
                t->obstacle = obstacle_at(address);
                (void) snprintf(t->where, sizeof(t->where), "%s", address);
        }
}

/* Below /run/mcp-exec, and nothing in it that a shell would read as something else. */
static bool is_our_path(const char *path) {
        static const char ours[] = MCP_EXEC_RUNTIME_DIR "/", plain[] = "abcdefghijklmnopqrstuvwxyz-_.";
        size_t n = strlen(ours);

        return strncmp(path, ours, n) == 0 && path[n] && path[n] != '.' &&
               path[n + strspn(path + n, plain)] == 0;
}

static int name_remedy(const CheckContext *c, SystemUnit unit, Trouble *t) {
        const char *name = system_unit_name(unit), *sudo = c->uid == 0 ? "" : "sudo ";
        _cleanup_free_ char *command = NULL, *other = NULL;
        int r;

        r = system_units_repair(&c->units, &(SystemUnitsSymptoms) {}, c->uid == 0, &command);
        if (r < 0)
                return r;
        if (command && (c->has_unit_remedy || (c->uid == 0 && !c->knows_launcher)))
                return str_printf(&t->remedy, "First what is named for the service, then \"%smcp-exec "
                                  "check\" again.", sudo); /* one cause, one command */
        if (command)
                return str_printf(&t->remedy, "First \"%s\", then \"%smcp-exec check\" again.", command,
                                  sudo);
        r = system_units_repair_http(&c->units, unit, c->uid == 0, &command);
        if (r < 0)
                return r;
        if (t->obstacle == 0) {
                t->remedy = TAKE_PTR(command);
                return 0;
        }
        /* Only in our own directory it is clear that nobody else wants it there. */
        if (t->obstacle == ENOTSOCK && is_our_path(t->where))
                return str_printf(&t->remedy, "%smv -T %s %s.old && %s", sudo, t->where, t->where, command);
        r = str_printf(&other, "name another address (\"%ssystemctl edit %s\": [Socket], an empty "
                               "ListenStream= that drops this one, and your own)", sudo, name);
        if (r < 0)
                return r;
        if (t->obstacle == EADDRINUSE)
                return str_printf(&t->remedy, "Stop that program (\"%sss -ltnp\" shows it), or %s; then "
                                              "\"%s\".", sudo, other, command);
        if (t->obstacle == ENOTSOCK)
                return str_printf(&t->remedy, "Move it away, or %s; then \"%s\".", other, command);
        return str_printf(&t->remedy, "Give this machine the address, or %s; then \"%s\".", other,
                          command);
}

/* What is NULL where all is well. Returns 0 or -ENOMEM. */
static int find_trouble(const CheckContext *c, SystemUnit unit, Trouble *ret) {
        const SystemUnitState *s = &c->units.states[unit];
        const char *name = system_unit_name(unit), *sudo = c->uid == 0 ? "" : "sudo ";

        *ret = (Trouble) {};
        if (streq(s->load, "bad-setting") || streq(s->load, "error")) {
                ret->what = "has a mistake";
                return str_printf(&ret->remedy, "Correct it: \"systemctl status %s\" shows the mistake and "
                                  "\"systemctl cat %s\" the files. Then \"%ssystemctl daemon-reload\" and "
                                  "\"%smcp-exec check\" again.", name, name, sudo, sudo);
        }
        if (streq(s->load, "masked"))
                ret->what = system_unit_is_up(&c->units, unit) ? "listens, but is masked" : "is masked";
        else if (!system_unit_is_up(&c->units, unit)) {
                ret->what = streq(s->active, "failed") ? "has failed" : "is enabled, but was stopped";
                /* What uses the port of one that was stopped is the service, as long as it runs. */
                if (streq(s->active, "failed") || !system_unit_is_up(&c->units, SYSTEM_UNIT_SERVICE))
                        find_obstacle(s->listen, ret);
        } else if (*s->listen == '/' && !strchr(s->listen, '\n') && system_path_is_away(s->listen))
                ret->what = "is active, but its file is gone";
        else
                return 0;
        return name_remedy(c, unit, ret);
}

/* Who is no administrator can do nothing about it, and is served without. Masked and stopped it may be just
 * what the administrator wants. */
static void check_one(CheckContext *c, const char *name, SystemUnit unit) {
        const SystemUnitState *s = &c->units.states[unit];
        const char *unit_name = system_unit_name(unit);
        bool is_shut = streq(s->load, "masked") && !system_unit_is_up(&c->units, unit);
        Trouble t;

        if (!system_unit_is_chosen(&c->units, unit))
                return;
        if (find_trouble(c, unit, &t) < 0)
                check_report_break(&c->report, -ENOMEM);
        else if (!t.what)
                check_add(&c->report, CHECK_OK, name, NULL, "%s listens%s%s", unit_name,
                          *s->listen ? " on " : "", s->listen); /* blanks instead of new lines */
        else
                check_add(&c->report, c->uid == 0 && !is_shut ? CHECK_FAIL : CHECK_WARN, name, t.remedy,
                          "%s %s%s%s", unit_name, t.what,
                          t.obstacle == 0             ? "" :
                          t.obstacle == EADDRINUSE    ? ", for another program uses " :
                          t.obstacle == EADDRNOTAVAIL ? ", for this machine does not have the address " :
                                                        ", for something else is in the place of ",
                          t.obstacle == 0 ? "" : t.where);
        free(t.remedy);
}

void check_http(CheckContext *c) {
        assert(c);

        if (!c->units.is_known)
                return;
        check_one(c, "http", SYSTEM_UNIT_HTTP_SOCKET);
        check_one(c, "proxy", SYSTEM_UNIT_PROXY_SOCKET);
}
