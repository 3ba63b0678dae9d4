/* SPDX-License-Identifier: MIT */
#pragma once

/* The parts of `mcp-exec check`. Each adds its items to the report. */

#include <stdbool.h>
#include <sys/types.h>

#include "base/settings.h"
#include "server/check-report.h"
#include "server/system-units.h"
#include "wire/wire.h"

typedef struct CheckContext {
        CheckReport report;
        const Settings *settings; /* with a mistake: the defaults */
        char *mistake;            /* in what settings are read from, as in the report; NULL: none */
        const char *socket_path, *launcher_socket_path;
        uid_t uid;
        char user_name[1024];    /* for sentences */
        char *user_word;         /* for command lines; NULL: this uid has no name that they could take */

        bool is_booted;          /* PID 1 is systemd */
        bool is_in_container;
        bool uses_system_service; /* it serves this user; otherwise the user's own manager has to do */
        bool has_user_manager;
        bool has_unit_remedy;    /* the service has one by which the units are repaired */
        bool is_socket_away;     /* as in SystemUnitsSymptoms */
        bool is_service_broken;  /* it answers and does not serve; perhaps for a mistake in its files */
        bool knows_launcher;     /* hello is valid */
        WireHello hello;
        SystemUnits units;
} CheckContext;

/* check-host.c: what the kernel and the init system offer. */
void check_init(CheckContext *c);
void check_version(CheckContext *c);
void check_cgroups(CheckContext *c);
void check_namespaces(CheckContext *c);
void check_seccomp(CheckContext *c);
void check_user_manager(CheckContext *c);

/* check-service.c: what of ours answers. */
int check_service(CheckContext *c, int *ret_fd); /* *ret_fd: connection to the system service, or -EBADF */
void check_launcher(CheckContext *c);
void check_run(CheckContext *c, int service_fd);
void check_packages(CheckContext *c);
void check_sets(CheckContext *c); /* whether programs can declare more of them */

/* check-http.c: the sockets for HTTP; nothing of one that nobody switched on. */
void check_http(CheckContext *c);

/* check-files.c: what the service reads. Its configuration comes first. With a mistake in it, which is in
 * the report then, *ret are the defaults. Returns 0 or -errno. */
int check_configuration(CheckContext *c, Settings **ret);
bool check_mistake_is_of_service(const CheckContext *c); /* rather than this user's */
void check_files(CheckContext *c);
