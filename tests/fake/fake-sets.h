/* SPDX-License-Identifier: MIT */
#pragma once

/* Sets of packages in the fake launcher: real directories, real renames, and /env in a unit by a mount
 * namespace of its own (for which the test's user needs no privilege, but a kernel that allows it). */

#include <stdbool.h>

#include "fake-launcher.h"

void fake_sets_say_hello(const FakeScript *script, bool has_looked, WireHello *hello);

/* Whether the unit may start as far as its set goes. Makes the leaf. */
bool fake_sets_may_start(const FakeScript *script, const WireStart *start, bool is_leaf_in_use);

/* COMMIT, RETIRE, DROP. Returns 0 or -errno. */
int fake_sets_change(const FakeScript *script, const WireSet *set);

/* Whether a unit that was started so writes to the leaf of this name; is in the way of such a change. */
bool fake_sets_is_leaf_of(const WireStart *start, const char *environment);
bool fake_sets_is_used_by(const WireStart *start, const WireSet *set);

/* In the unit: what runs main.py. */
const char* fake_sets_interpreter(const FakeScript *script, const WireStart *start);

/* In the unit: puts its set at /env, and this process into the directory of that name. */
bool fake_sets_enter(const FakeScript *script, const WireStart *start, const char *directory);
