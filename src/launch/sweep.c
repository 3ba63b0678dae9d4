/* SPDX-License-Identifier: MIT */

/* Sweep: ends runs that an earlier launcher left behind. */

#include <signal.h>

#include "base/log.h"
#include "base/parse.h"
#include "base/random.h"
#include "base/strv.h"
#include "launch/bus.h"
#include "launch/job.h"
#include "launch/profile.h"
#include "launch/sweep.h"

static bool is_run_unit(const char *name) {
        char id[RANDOM_HEX_ID_CHARS + 1] = {};
        size_t n_prefix = strlen(UNIT_NAME_PREFIX);

        if (strlen(name) != n_prefix + RANDOM_HEX_ID_CHARS + strlen(UNIT_NAME_SUFFIX) ||
            strncmp(name, UNIT_NAME_PREFIX, n_prefix) != 0)
                return false;
        memcpy(id, name + n_prefix, RANDOM_HEX_ID_CHARS);
        return is_hex(id, RANDOM_HEX_ID_CHARS) &&
               streq(name + n_prefix + RANDOM_HEX_ID_CHARS, UNIT_NAME_SUFFIX);
}

static bool is_leftover(Manager *m, const char *path) {
        _cleanup_strv_ char **references = NULL;
        _cleanup_free_ char *slice = NULL;

        if (sd_bus_get_property_string(m->bus, MANAGER_NAME, path, SERVICE_INTERFACE, "Slice", NULL,
                                       &slice) < 0 ||
            sd_bus_get_property_strv(m->bus, MANAGER_NAME, path, UNIT_INTERFACE, "Refs", NULL, &references) <
                    0)
                return false; /* gone meanwhile */

        return streq(slice, SLICE_UNIT) && strv_length(references) == 0;
}

/* The answers are errors where there is nothing left to kill or to stop. Stopping also cancels a queued
 * restart. Not ResetFailedUnit: it would reset the start limit as well, which is what keeps a run from
 * being executed again; dead units without references go by themselves (CollectMode=). */
static void end_unit(Manager *m, const char *name) {
        (void) sd_bus_call_method(m->bus, MANAGER_NAME, MANAGER_PATH, MANAGER_INTERFACE, "KillUnit", NULL,
                                  NULL, "ssi", name, "all", (int32_t) SIGKILL);
        (void) sd_bus_call_method(m->bus, MANAGER_NAME, MANAGER_PATH, MANAGER_INTERFACE, "StopUnit", NULL,
                                  NULL, "ss", name, "replace");
}

int sweep_leftovers(Manager *m) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        const char *name, *path;
        unsigned n = 0;
        int r;

        assert(m);

        r = sd_bus_call_method(m->bus, MANAGER_NAME, MANAGER_PATH, MANAGER_INTERFACE, "ListUnitsByPatterns",
                               NULL, &reply, "asas", 0, 1, UNIT_NAME_PATTERN);
        if (r < 0)
                return r;
        r = sd_bus_message_enter_container(reply, 'a', "(ssssssouso)");
        if (r < 0)
                return r;
        while ((r = sd_bus_message_read(reply, "(ssssssouso)", &name, NULL, NULL, NULL, NULL, NULL, &path,
                                        NULL, NULL, NULL)) > 0)
                if (is_run_unit(name) && is_leftover(m, path)) {
                        end_unit(m, name);
                        n++;
                }
        if (n > 0)
                log_info("Ended %u sandbox%s of an earlier launcher: runs, or kept ready for one", n,
                         n == 1 ? "" : "es");
        return r;
}
