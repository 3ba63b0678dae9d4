/* SPDX-License-Identifier: MIT */
#pragma once

/* Preparation: a set in the making, for all who need it. */

#include "python/internal.h"

typedef struct PreparationClient PreparationClient;
struct PreparationClient {
        void (*on_phase)(PreparationClient *c, const char *phase);
        /* The set is e and can be acquired; or NULL, and why. Never from within preparation_join(). */
        void (*on_prepared)(PreparationClient *c, SetEntry *e, char *const *warnings, ExecStatus status,
                            const char *message);
        const char *journal; /* during on_prepared() without a set: why, for the journal */
        Preparation *preparation;
        LIST_LINK(PreparationClient) clients;
};

typedef struct PreparationOrder {
        const char *request; /* the key */
        const char *principal; /* whose turn it takes: who asks first */
        const char *python, *version;
        char *const *requirements;
        const char *tool_uv;
} PreparationOrder;

int preparation_join(Python *p, const PreparationOrder *order, PreparationClient *c);
void preparation_leave(PreparationClient *c); /* the last one's leaving ends it */
void preparation_update(Python *p);
void preparation_done(Python *p);
