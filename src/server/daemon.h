/* SPDX-License-Identifier: MIT */
#pragma once

/* Daemon: what `stdio` and `serve` share. An engine, the tools over it and the MCP server over them, on one
 * event loop. Transports are the caller's. */

#include <stdbool.h>
#include <systemd/sd-event.h>

#include "base/macro.h"
#include "base/settings.h"
#include "exec/exec.h"
#include "exec/run-table.h"
#include "mcp/mcp.h"
#include "python/python.h"

typedef struct Daemon Daemon;

typedef struct DaemonParameters {
        sd_event *event;
        const Settings *settings;
        const char *launcher_socket_path; /* NULL: the user's own launcher, our child */
        const char *programs_directory;   /* those that prepare packages; NULL: the installed ones */
        const char *uv_path;              /* for our child; NULL: it reads its own settings */
        bool is_quiet;                    /* our child's log lines are not shown */
        const char *refusal;              /* why no call can be served, and what to do about it; else NULL */
        bool has_audit;                   /* write a journal record for each finished run */
        bool has_fd_store;                /* kept results survive us: fd-store.h */
        struct Principals *principals;    /* who may use what; NULL: everybody as the settings say */
        struct Metrics *metrics;          /* told of each finished run; may be NULL */
        /* Runs and waiting requests became none or stopped being none, or a kept result has expired. May be
         * NULL. */
        void (*on_idle_changed)(bool is_idle, void *userdata);
        void *userdata;
} DaemonParameters;

int daemon_new(const DaemonParameters *p, Daemon **ret);
Daemon* daemon_free(Daemon *d); /* every run is ended; free the transports first */
DEFINE_CLEANUP(Daemon*, daemon_free);

McpServer* daemon_server(const Daemon *d);
ExecEngine* daemon_engine(const Daemon *d);
RunTable* daemon_runs(const Daemon *d);
Python* daemon_python(const Daemon *d);

/* With MCP_EXEC_PYTHON set, asks the launcher which Python it runs, and calls on_ready when that is known
 * (or the launcher cannot be reached). Without the variable on_ready is called at once. Returns 0 or -errno.
 */
int daemon_prepare(Daemon *d, void (*on_ready)(void *userdata), void *userdata);
