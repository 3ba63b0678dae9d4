/* SPDX-License-Identifier: MIT */
#pragma once

/* SystemUnits: what systemd says of the units of the system service, and the commands that make it serve
 * again. */

#include <stdbool.h>

/* Each socket right before its service. */
typedef enum SystemUnit {
        SYSTEM_UNIT_SOCKET,
        SYSTEM_UNIT_SERVICE,
        SYSTEM_UNIT_LAUNCHER_SOCKET,
        SYSTEM_UNIT_LAUNCHER_SERVICE,
        _SYSTEM_UNIT_NEEDED_MAX, /* without those before this nobody is served */
        SYSTEM_UNIT_HTTP_SOCKET = _SYSTEM_UNIT_NEEDED_MAX,
        SYSTEM_UNIT_PROXY_SOCKET,
        _SYSTEM_UNIT_MAX,
} SystemUnit;

/* systemd's own words; empty where it could not be asked. */
typedef struct SystemUnitState {
        char load[24], active[24], result[32], enabled[24];
        char listen[256]; /* of a socket: addresses, a line each */
} SystemUnitState;

typedef struct SystemUnits {
        bool is_known;
        SystemUnitState states[_SYSTEM_UNIT_MAX];
        char status[512]; /* what mcp-exec.service says of itself */
} SystemUnits;

/* What a caller found out by trying. */
typedef struct SystemUnitsSymptoms {
        bool is_socket_away;   /* nobody listens on mcp-exec.sock */
        bool is_launcher_away; /* the service, or root, cannot reach the launcher */
} SystemUnitsSymptoms;

/* Blocks. */
void system_units_read(SystemUnits *ret);

/* Text that `systemctl show` printed. */
void system_units_parse(SystemUnits *u, char *text);

const char* system_unit_name(SystemUnit unit);

/* Active, or on its way there or from there. */
bool system_unit_is_up(const SystemUnits *u, SystemUnit unit);

/* There is nothing of this name; not so where this user may not look. */
bool system_path_is_away(const char *path);

/* There is something of another type: S_IFSOCK, or S_IFDIR, which a link may lead to. */
bool system_path_is_taken(const char *path, unsigned type);

/* Somebody wants the socket to serve. Where this is so and it does not, that is the thing to repair. */
bool system_units_are_wanted(const SystemUnits *u);

/* Somebody has switched this on once: it is up, or should be, or was masked. */
bool system_unit_is_chosen(const SystemUnits *u, SystemUnit unit);

/* What makes the units serve again, as a command line for a shell wherever a command can do that; as_root
 * without "sudo". *ret, allocated: NULL where nothing is wrong with the units. Returns 0 or -ENOMEM. */
int system_units_repair(const SystemUnits *u, const SystemUnitsSymptoms *symptoms, bool as_root, char **ret);

/* What makes one of the sockets listen that are not needed, where all the others do as they should. */
int system_units_repair_http(const SystemUnits *u, SystemUnit unit, bool as_root, char **ret);

/* The same for somebody who got this code of system_socket_connect(); *ret is NULL, too, where the reason
 * that came with the code is all that can be said. units: borrowed, may be NULL. */
int system_units_remedy(const SystemUnits *units, int code, bool as_root, char **ret);
