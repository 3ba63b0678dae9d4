/* SPDX-License-Identifier: MIT */

/* A list, most recently used first. Rates are kept as the time at which the principal would have used up
 * nothing: each program moves it on by its share of a minute, and more than a minute ahead is too far. So a
 * rate may be used up in one burst, and there is nothing to count down. */

#include "server/principals.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/strv.h"
#include "base/timeutil.h"
#include "exec/exec.h"

/* Remembered at once. Whoever is forgotten gets a whole rate again, which takes a thousand others. */
#define USES_MAX 1024
/* Membership of a group may change without us. */
#define LOOKUP_USEC (60 * USEC_PER_SEC)
#define MINUTE_USEC (60 * USEC_PER_SEC)

typedef struct Use {
        char *principal;
        PrincipalLimits limits;
        uint64_t looked_up_usec; /* 0: not since the last reload */
        uint64_t spent_until_usec;
        struct Use *next;
} Use;

struct Principals {
        char *path;
        Access *access;
        Use *first;
};

static void use_free(Use *u) {
        free(u->principal);
        free(u);
}

int principals_new(const char *path, Principals **ret, char **reterr_message) {
        _cleanup_(principals_freep) Principals *p = NULL;
        int r;

        assert(ret);
        assert(reterr_message);

        p = calloc(1, sizeof(*p));
        if (!p)
                return -ENOMEM;
        r = str_copy(&p->path, path);
        if (r < 0)
                return r;
        r = path ? access_load(path, &p->access, reterr_message) :
                   access_parse("", "", &p->access, reterr_message);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(p);
        return 0;
}

Principals* principals_free(Principals *p) {
        if (!p)
                return NULL;
        while (p->first) {
                Use *u = p->first;

                p->first = u->next;
                use_free(u);
        }
        (void) access_free(p->access);
        free(p->path);
        free(p);
        return NULL;
}

const Access* principals_access(const Principals *p) {
        assert(p);
        return p->access;
}

int principals_reload(Principals *p, Access **ret_old, char **reterr_message) {
        Access *fresh = NULL;
        int r;

        assert(p);
        assert(ret_old);
        assert(reterr_message);

        if (p->path)
                r = access_load(p->path, &fresh, reterr_message);
        else
                r = access_parse("", "", &fresh, reterr_message);
        if (r < 0)
                return r;
        *ret_old = p->access;
        p->access = fresh;
        for (Use *u = p->first; u; u = u->next)
                u->looked_up_usec = 0;
        return 0;
}

/* Forgets the last one of a full list. */
static void make_room(Principals *p) {
        Use **last = &p->first;
        size_t n = 0;

        if (!p->first)
                return;
        for (; (*last)->next; last = &(*last)->next)
                n++;
        if (n + 1 >= USES_MAX) {
                use_free(*last);
                *last = NULL;
        }
}

/* The entry of a principal, at the head of the list. NULL without memory. */
static Use* find_use(Principals *p, const char *principal) {
        Use *u;

        for (Use **to = &p->first; *to; to = &(*to)->next)
                if (streq((*to)->principal, principal)) {
                        u = *to;
                        *to = u->next;
                        u->next = p->first;
                        p->first = u;
                        return u;
                }

        make_room(p);
        u = calloc(1, sizeof(*u));
        if (!u)
                return NULL;
        u->principal = strdup(principal);
        if (!u->principal) {
                free(u);
                return NULL;
        }
        u->next = p->first;
        p->first = u;
        return u;
}

/* Until when another program would have spent the rate;
 * *ret_wait_usec: what has to pass before it may run. */
static uint64_t spend(const Use *u, unsigned rate_per_minute, uint64_t now, uint64_t *ret_wait_usec) {
        uint64_t until;

        *ret_wait_usec = 0;
        if (rate_per_minute == 0)
                return u->spent_until_usec;
        until = MAX_OF(u->spent_until_usec, now) + MINUTE_USEC / rate_per_minute;
        if (until > now + MINUTE_USEC)
                *ret_wait_usec = until - now - MINUTE_USEC;
        return until;
}

static int refuse(uint64_t wait_usec, const char *who, const char *whose, unsigned rate_per_minute,
                  char **reterr_message) {
        (void) str_printf(reterr_message,
                          "The service is busy for %s: no more than %u programs a minute%s. Try again in "
                          "%" PRIu64 " seconds.",
                          who, rate_per_minute, whose, (wait_usec + USEC_PER_SEC - 1) / USEC_PER_SEC);
        return EXEC_E_BUSY;
}

/* Both rates have room, or neither is used. Returns 0, EXEC_E_BUSY or -ENOMEM. */
static int take_from_rates(Principals *p, Use *own, uint64_t now, char **reterr_message) {
        const PrincipalLimits *l = &own->limits;
        char name[PRINCIPAL_GROUP_CHARS_MAX + 3];
        uint64_t own_until, whole_until = 0, wait_usec;
        Use *whole = NULL;

        own_until = spend(own, l->own.rate_per_minute, now, &wait_usec);
        if (wait_usec > 0)
                return refuse(wait_usec, "you", "", l->own.rate_per_minute, reterr_message);
        if (l->group[0] && l->whole.rate_per_minute > 0) {
                /* No principal is called so. own was found right before, so it is not what makes room. */
                (void) snprintf(name, sizeof(name), "%s/*", l->group);
                whole = find_use(p, name);
                if (!whole)
                        return -ENOMEM;
                whole_until = spend(whole, l->whole.rate_per_minute, now, &wait_usec);
                if (wait_usec > 0)
                        return refuse(wait_usec, "this client", " of all its users",
                                      l->whole.rate_per_minute, reterr_message);
                whole->spent_until_usec = whole_until;
        }
        own->spent_until_usec = own_until;
        return 0;
}

int principals_admit(Principals *p, const char *principal, PrincipalLimits *ret, char **reterr_message) {
        uint64_t now = now_monotonic_usec();
        Use *u;
        int r;

        assert(p);
        assert(principal);
        assert(ret);
        assert(reterr_message);

        if (p->access->n_entries == 0) {
                *ret = (PrincipalLimits) {};
                return 0;
        }
        u = find_use(p, principal);
        if (!u)
                return -ENOMEM;
        if (u->looked_up_usec == 0 || now > u->looked_up_usec + LOOKUP_USEC) {
                access_limits(p->access, principal, &u->limits);
                u->looked_up_usec = now;
        }
        r = take_from_rates(p, u, now, reterr_message);
        if (r != 0)
                return r;
        *ret = u->limits;
        return 0;
}
