/* SPDX-License-Identifier: MIT */
#pragma once

/* The runner inside a unit of the fake launcher. */

#include "fake-launcher.h"

/* In the forked child: becomes the unit's main process. */
void fake_runner_main(FakeBehaviour behaviour, const FakeScript *script, const WireStart *start,
                      const int fds[static _WIRE_FD_MAX]) __attribute__((__noreturn__));
