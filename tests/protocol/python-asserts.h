/* SPDX-License-Identifier: MIT */
#pragma once

/* What the tests of the room that prepares packages have in common, beside its rig. */

#include "python-rig.h"
#include "unit/test.h"

_unused_ static PythonRig *start(void) {
        PythonRig *r = python_rig_setup();

        python_rig_start(r);
        return r;
}

_unused_ static void assert_ran(const Run *run) {
        if (run->status != EXEC_OK)
                FAIL("status is %s: %s", exec_status_to_string(run->status), run->message);
        ASSERT_EQ_STR(run->out, "ran\n");
        ASSERT_EQ_UINT(run->n_done, 1);
}

_unused_ static void assert_clean(PythonRig *r, unsigned n_sets) {
        ASSERT_TRUE(python_rig_wait_idle(r));
        ASSERT_EQ_UINT(python_rig_n_sets(r), n_sets);
        ASSERT_EQ_UINT(python_rig_n_leaves(r), 0);
}

_unused_ static void set_limit(PythonRig *r, unsigned n_max) {
        r->rig->settings->packages.sets_max = n_max;
}
