/* SPDX-License-Identifier: MIT */
#pragma once

/* Unit: the daemon's side of one transient unit, from START to its death. Used for one program only.
 *
 *      STARTING --READY--> READY --unit_send_code()--> SENDING --all sent--> RUNNING
 *          \                 \                            \                    \
 *           +-----------------+---------- the end ---------+--------------------+--> DRAINING --> DEAD
 *
 * The end is FINISHED (the launcher's word that the unit is dead), REFUSED, or the loss of the launcher.
 * DEAD is reached when both pipes are drained as well: what the program wrote last is part of its result. */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "exec/code-frame.h"
#include "exec/collector.h"
#include "exec/control.h"
#include "exec/launcher-client.h"
#include "exec/list.h"
#include "wire/wire.h"

typedef enum UnitState {
        UNIT_STARTING,
        UNIT_READY,
        UNIT_SENDING,
        UNIT_RUNNING,
        UNIT_DRAINING,
        UNIT_DEAD,
} UnitState;

/* How the launcher's side ended. */
typedef enum UnitFate {
        UNIT_FATE_NONE,     /* not yet */
        UNIT_FATE_FINISHED, /* see Unit.finished */
        UNIT_FATE_REFUSED,  /* see Unit.refusal */
        UNIT_FATE_LOST,     /* the launcher is gone, and the unit with it */
} UnitFate;

/* Why a unit cannot be used, found on our side. */
typedef enum UnitFault {
        UNIT_FAULT_NONE,
        UNIT_FAULT_NOT_READY, /* the runner did not say READY in time */
        UNIT_FAULT_CHECK,     /* the runner found a wall missing: Unit.failed_check */
        UNIT_FAULT_PROTOCOL,  /* the runner said something else */
        UNIT_FAULT_CODE,      /* the runner did not take its code: the program has not run */
        UNIT_FAULT_OUTPUT,    /* a pipe cannot be read, or there is no memory for it */
} UnitFault;

typedef struct Unit Unit;

/* None of them may free the unit. */
typedef struct UnitHandlers {
        void (*on_ready)(Unit *u, void *userdata);
        void (*on_sent)(Unit *u, void *userdata);   /* it starts now; maybe from unit_send_code() */
        void (*on_output)(Unit *u, int stream, const void *data, size_t n_bytes, void *userdata);
        void (*on_flood)(Unit *u, void *userdata);
        void (*on_fault)(Unit *u, void *userdata);  /* see Unit.fault; the owner should stop the unit */
        void (*on_dead)(Unit *u, void *userdata);   /* nothing follows */
} UnitHandlers;

typedef struct UnitParameters {
        sd_event *event;
        LauncherClient *client;
        LauncherOrder order;     /* its environment is borrowed during unit_new() only */
        size_t max_output_bytes; /* kept of each stream */
        uint64_t ready_timeout_usec, dead_timeout_usec;
        bool is_user;            /* a user's manager: init reports the wait status on the control socket */
} UnitParameters;

struct Unit {
        UnitParameters parameters;
        LauncherJob job;
        UnitState state;
        UnitFate fate;
        UnitFault fault;
        uint32_t failed_check;
        bool is_stopped;         /* STOP was sent */
        bool is_code_lost;       /* thrown away unread, whatever is found afterwards */

        int control_fd;
        sd_event_source *control_source, *ready_source, *dead_source;
        ControlWord word;        /* its directory_fd shows the run's files as long as the unit exists here */
        CodeFrame frame;
        uint64_t sent_usec;      /* when the rest of the code was sent */
        Collector out, err;

        WireFinished finished;
        char *refusal;           /* reason and remedy */
        bool has_status;         /* init reported: */
        uint16_t status;
        char name[64];           /* the unit's name; empty before STARTED */

        const UnitHandlers *handlers;
        void *userdata;
        LIST_LINK(Unit) units;   /* the pool's */
        uint64_t expires_usec;   /* the pool's: when it has waited long enough */
};

/* Makes the fds and sends START. handlers are called from the event loop. Returns 0 or -errno. */
int unit_new(const UnitParameters *p, const UnitHandlers *handlers, void *userdata, Unit **ret);
Unit* unit_free(Unit *u);
DEFINE_CLEANUP(Unit*, unit_free);

void unit_set_handlers(Unit *u, const UnitHandlers *handlers, void *userdata);

/* Gives a READY unit its program; the request must stay until on_sent or the end. Returns 0 or -errno. */
int unit_send_code(Unit *u, const ExecRequest *q);

/* Gives a unit that is_settled smaller limits than it was started with. */
void unit_assign(Unit *u, const WireLimits *limits);
/* READY, and the launcher knows as well that it has started. */
bool unit_is_settled(const Unit *u);

/* Kills the whole cgroup. Harmless when repeated or when the unit is dead. */
void unit_stop(Unit *u);

/* Closes the reading ends: nobody wants the output any more. */
void unit_close_output(Unit *u);
